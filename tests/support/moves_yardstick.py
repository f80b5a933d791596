"""What a plan of moves comes to, worked out a second time and apart from the planner, by plain loops."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from evenkeel.domain.moves import Batch, Move, MoveKind
from evenkeel.domain.snapshot import ClusterSnapshot, Partition

Place = tuple[int, str]


class Disks:
    """Bytes by directory (each a volume of its own)."""

    def __init__(self, snapshot: ClusterSnapshot, away: Collection[int] = ()) -> None:
        self.total: dict[Place, int] = {}
        self.used: dict[Place, float] = {}
        for broker in snapshot.brokers:
            for entry in broker.log_dirs:
                if entry.total_bytes is not None and entry.usable_bytes is not None:
                    self.total[broker.id, entry.path] = entry.total_bytes
                    self.used[broker.id, entry.path] = entry.total_bytes - entry.usable_bytes
        self.away = set(away)
        self.counted = [place for place in self.total if place[0] not in self.away]

    def first(self, broker: int) -> str:
        """Its only directory."""
        paths = [path for one, path in self.total if one == broker]
        assert len(paths) == 1
        return paths[0]

    def place(self, partition: Partition, broker: int) -> Place:
        """Where a replica lies."""
        return broker, partition.replica_dirs.get(broker) or self.first(broker)

    def mean(self) -> float:
        """Of the directories that count."""
        used = sum(self.used[place] for place in self.counted)
        return used / sum(self.total[place] for place in self.counted)

    def deviation(self, mean: float | None = None) -> float:
        """Of the directories that count, from their mean."""
        even = self.mean() if mean is None else mean
        return max(abs(self.used[place] / self.total[place] / even - 1) for place in self.counted)

    def fill(self) -> float:
        """Of the fullest directory that counts."""
        return max(self.used[place] / self.total[place] for place in self.counted)


def apply_moves(snapshot: ClusterSnapshot, disks: Disks, moves: Sequence[Move]) -> None:
    """Bytes after all of them."""
    parts = {(one.topic, one.partition): one for one in snapshot.partitions}
    for move in moves:
        partition = parts[move.topic, move.partition]
        if move.copied_to is not None:
            disks.used[move.copied_to, move.target_dir or disks.first(move.copied_to)] += move.bytes
        gone = set(move.source) - set(move.target)
        if move.kind is MoveKind.DIRECTORY and move.copied_to is not None:
            gone = {move.copied_to}
        for broker in gone:
            if any(one == broker for one, _ in disks.total):
                disks.used[disks.place(partition, broker)] -= partition.replica_bytes.get(broker, 0)


def play_batches(snapshot: ClusterSnapshot, batches: Sequence[Batch], delay: float = 60.0) -> float:
    """Highest fill of a volume that is written to, second by second of the batch order, deletions `delay` late."""
    disks, clock, highest = Disks(snapshot), 0.0, 0.0
    parts = {(one.topic, one.partition): one for one in snapshot.partitions}
    going: list[tuple[float, Place, int]] = []
    for batch in batches:
        for due, place, size in list(going):
            if due <= clock:
                disks.used[place] -= size
                going.remove((due, place, size))
        written: set[Place] = set()
        for move in batch.moves:
            if move.copied_to is not None:
                place = move.copied_to, move.target_dir or disks.first(move.copied_to)
                disks.used[place] += move.bytes
                written.add(place)
        clock += batch.seconds
        for move in batch.moves:
            partition = parts[move.topic, move.partition]
            broker = move.freed_on
            if broker is not None and broker in partition.replica_bytes:
                place = disks.place(partition, broker)
                going.append((clock + delay, place, partition.replica_bytes[broker]))
        highest = max([highest, *(disks.used[place] / disks.total[place] for place in written)])
    return highest


def lower_bound(
    snapshot: ClusterSnapshot, tolerance: float, drain: Collection[int] = (), lost: int = 0
) -> float:
    """Bytes that any plan moves that ends within the band: what is emptied, and surplus or lack beyond it.

    `lost`: bytes of replicas that are copied anew.
    """
    disks = Disks(snapshot, drain)
    emptied = sum(
        one.replica_bytes.get(b, 0) for one in snapshot.partitions for b in drain if b in one.replicas
    )
    whole = sum(disks.total[place] for place in disks.counted)
    mean = (sum(disks.used[place] for place in disks.counted) + emptied + lost) / whole
    out = into = 0.0
    for place in disks.counted:
        even = mean * disks.total[place]
        out += max(0.0, disks.used[place] - even * (1 + tolerance))
        into += max(0.0, even * (1 - tolerance) - disks.used[place])
    return emptied + lost + max(out, into - emptied - lost, 0.0)


def lost_bytes(snapshot: ClusterSnapshot, drain: Collection[int]) -> int:
    """Of replicas on brokers that are lost: they are copied anew, where a leader is left."""
    return sum(
        max(one.replica_bytes.values(), default=0)
        for one in snapshot.partitions
        for b in drain
        if b in one.replicas and b not in one.replica_bytes and one.leader is not None
    )


def count_rack_losses(snapshot: ClusterSnapshot, moves: Sequence[Move]) -> int:
    """Moves after which a partition is in fewer racks."""
    rack = {one.id: one.rack if one.rack is not None else f"b{one.id}" for one in snapshot.brokers}
    return sum(
        len({rack[b] for b in move.target}) < len({rack[b] for b in move.source})
        for move in moves
        if move.kind is not MoveKind.REMOVE
    )


def is_fine(snapshot: ClusterSnapshot, tolerance: float, drain: Collection[int] = ()) -> bool:
    """Whether a band of `tolerance` is wider than any replica, and within what racks and brokers can hold."""
    disks = Disks(snapshot, drain)
    lost = lost_bytes(snapshot, drain)
    emptied = sum(
        one.replica_bytes.get(b, 0) for one in snapshot.partitions for b in drain if b in one.replicas
    )
    whole = sum(disks.total[place] for place in disks.counted)
    mean = (sum(disks.used[place] for place in disks.counted) + emptied + lost) / whole
    sizes = [size for one in snapshot.partitions for size in one.replica_bytes.values()]
    if max(sizes) > tolerance * mean * min(disks.total[place] for place in disks.counted):
        return False
    rack = {one.id: one.rack if one.rack is not None else f"b{one.id}" for one in snapshot.brokers}
    logical = sum(max(one.replica_bytes.values(), default=0) for one in snapshot.partitions)
    held = dict.fromkeys(disks.counted, 0.0)
    for one in snapshot.partitions:
        for b in one.replicas:
            if b in one.replica_bytes and b not in disks.away:
                held[disks.place(one, b)] += one.replica_bytes[b]
    for group in ({rack[b] for b, _ in disks.counted}, {b for b, _ in disks.counted}):
        for name in group:
            places = [place for place in disks.counted if name in (rack[place[0]], place[0])]
            even = mean * sum(disks.total[place] for place in places)
            foreign = sum(disks.used[place] - held[place] for place in places)
            if foreign + logical < even * (1 - tolerance):
                return False
    racks = {rack[b] for b, _ in disks.counted}
    counts = {len(one.replicas) for one in snapshot.partitions}
    for name in racks if counts == {len(racks)} else ():
        places = [place for place in disks.counted if rack[place[0]] == name]
        even = mean * sum(disks.total[place] for place in places)
        foreign = sum(disks.used[place] - held[place] for place in places)
        if foreign + logical > even * (1 + tolerance):
            return False
    return all(
        disks.used[place] - held[place] < mean * disks.total[place] * (1 + tolerance)
        for place in disks.counted
    )


def snapshot_after(snapshot: ClusterSnapshot, moves: Sequence[Move]) -> ClusterSnapshot:
    """The cluster once these moves have ended, deletions too."""
    disks = Disks(snapshot)
    apply_moves(snapshot, disks, moves)
    by_key = {(move.topic, move.partition): move for move in moves}
    brokers = tuple(
        replace(
            one,
            log_dirs=tuple(
                replace(entry, usable_bytes=(entry.total_bytes or 0) - int(disks.used[one.id, entry.path]))
                if (one.id, entry.path) in disks.used
                else entry
                for entry in one.log_dirs
            ),
        )
        for one in snapshot.brokers
    )
    partitions = tuple(
        _moved(one, by_key[one.topic, one.partition]) if (one.topic, one.partition) in by_key else one
        for one in snapshot.partitions
    )
    return replace(snapshot, brokers=brokers, partitions=partitions)


def _moved(partition: Partition, move: Move) -> Partition:
    sizes = {b: partition.replica_bytes.get(b, move.bytes) for b in move.target}
    dirs = {b: path for b, path in partition.replica_dirs.items() if b in move.target}
    if move.copied_to is not None and move.target_dir is not None:
        dirs[move.copied_to] = move.target_dir
    isr = tuple(b for b in move.target if b in partition.isr or b == move.copied_to)
    return replace(
        partition,
        leader=partition.leader if partition.leader in move.target else move.target[0],
        replicas=move.target,
        isr=isr,
        replica_bytes=sizes,
        replica_dirs=dirs,
    )
