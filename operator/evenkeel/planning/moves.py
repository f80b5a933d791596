"""Which replicas to move so that the volumes are level: best fit from surplus to deficit (design section 6).

Pure and deterministic. Nothing is executed here. The planner is careful with space: a source keeps its
bytes until long after the copy (deleted files lie for file.delete.delay.ms), so the peak of a volume counts
everything that comes and nothing that goes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from evenkeel.domain import codec
from evenkeel.domain.exchange import Policy
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.planning.levels import Band, Levels, find_band
from evenkeel.planning.movable import Movable, gather_movable
from evenkeel.planning.space import Space, build_space, copied_bytes
from evenkeel.reasons import Reason

MOST_MOVES = 512
"""A plan has at most so many moves; the next one goes on from there."""
IMPROVEMENT = 0.9
"""A move that ends outside the band must bring the worse end at least this much closer."""


@dataclass(frozen=True, slots=True)
class Move:
    """One replica to another broker; its place in the list, and so its rank as leader, stays."""

    topic: str
    partition: int
    source: tuple[int, ...]
    """Replicas before."""
    target: tuple[int, ...]
    """Replicas after."""
    bytes: int
    target_dir: str | None = None
    """Log directory on the new broker, where it has several."""


@dataclass(frozen=True, slots=True)
class MovesPlan:
    """Fills and deviations are fractions; deviation = max over volumes of |fill / mean fill - 1|."""

    reason: Reason
    message: str
    hash: str = ""
    """Over snapshot, policy and moves; empty where nothing was planned."""
    moves: tuple[Move, ...] = ()
    bytes: int = 0
    lower_bound_bytes: int = 0
    """Less than this no plan can move to the same end."""
    deviation_before: float | None = None
    deviation_after: float | None = None
    peak_fill: float | None = None


def plan_moves(snapshot: ClusterSnapshot, policy: Policy) -> MovesPlan:
    """Moves that bring every volume within `leave_percent` of the mean fill, if it is beyond `enter_percent`.

    Raises:
        InputError: the snapshot holds an impossible value.
    """
    space = build_space(snapshot)
    if space.unknown or not space.volumes:
        missing = ", ".join(space.unknown[:3]) or "any volume"
        return MovesPlan(Reason.SNAPSHOT_INCOMPLETE, f"not measured: {missing}")
    levels = Levels(space.capacity, inbound_levels(snapshot, space))
    before = levels.deviation()
    band = find_band(levels, policy.leave_percent / 100)
    bound = band.lower_bound()
    if before <= policy.enter_percent / 100:
        what = f"the fullest or emptiest volume deviates by {before:.1%}; moves begin above {policy.enter_percent} %"
        return MovesPlan(
            Reason.BELOW_THRESHOLD,
            what,
            deviation_before=before,
            deviation_after=before,
            peak_fill=levels.peak(),
        )
    movable = gather_movable(snapshot, space, policy)
    moves = _Search(space, levels, band, movable, policy.max_fill_percent / 100).run()
    return _finish(snapshot, policy, moves, levels, before, bound)


def inbound_levels(snapshot: ClusterSnapshot, space: Space) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Bytes used now and still to come by moves that run already."""
    result = space.used
    for partition in snapshot.partitions:
        whole = max(partition.replica_bytes.values(), default=0)
        for broker in partition.adding:
            if (volume := space.locate(partition, broker)) is not None:
                result[volume] += max(0, whole - partition.replica_bytes.get(broker, 0))
        for volume, size in copied_bytes(space, partition):
            result[volume] += max(0, size)  # what is freed at the end is still there meanwhile
    return result


def _finish(
    snapshot: ClusterSnapshot,
    policy: Policy,
    moves: tuple[Move, ...],
    levels: Levels,
    before: float,
    bound: int,
) -> MovesPlan:
    after = levels.deviation()
    if not moves:
        what = f"a volume deviates by {before:.1%}, and no replica may move that would help"
        return MovesPlan(
            Reason.NO_FEASIBLE_MOVE,
            what,
            lower_bound_bytes=bound,
            deviation_before=before,
            deviation_after=before,
            peak_fill=levels.peak(),
        )
    text = "".join(codec.dumps(value) for value in (snapshot, policy, moves))
    total = sum(move.bytes for move in moves)
    return MovesPlan(
        reason=Reason.MOVES_PLANNED,
        message=f"{len(moves)} moves of {total} bytes bring the deviation from {before:.1%} to {after:.1%}",
        hash=hashlib.sha256(text.encode()).hexdigest(),
        moves=moves,
        bytes=total,
        lower_bound_bytes=bound,
        deviation_before=before,
        deviation_after=after,
        peak_fill=levels.peak(),
    )


class _Search:
    """Greedy search: the worst volume first, and for it the replica that fits best."""

    def __init__(self, space: Space, levels: Levels, band: Band, movable: Movable, highest: float) -> None:
        self._space = space
        self._levels = levels
        self._band = band
        self._movable = movable
        self._highest = highest
        self._moves: list[Move] = []
        self._stuck: set[int] = set()

    def run(self) -> tuple[Move, ...]:
        while len(self._moves) < MOST_MOVES:
            worst = self._band.worst(self._levels, self._stuck)
            if worst is None:
                break
            volume, above = worst
            step = self._relieve(volume) if above else self._fill(volume)
            if step is None:
                self._stuck.add(volume)
            else:
                self._take(*step)
                self._stuck.clear()
        return tuple(self._moves)

    def _relieve(self, source: int) -> tuple[int, int, int] | None:
        """The replica on `source` whose size is closest to its surplus, and where it fits."""
        need = self._band.surplus(self._levels, source)
        return self._best(need, [source], self._band.receivers(self._levels))

    def _fill(self, target: int) -> tuple[int, int, int] | None:
        """A replica for a volume that is too empty, from one that is above the mean."""
        need = self._band.deficit(self._levels, target)
        return self._best(need, self._band.givers(self._levels), [target])

    def _best(self, need: float, sources: list[int], targets: list[int]) -> tuple[int, int, int] | None:
        """(replica index, source, target) with the least |size - need|, ties by order.

        First such that both ends stay in the band; where replicas are too large for that, such that
        neither end is afterwards as far outside as the worse of them is now.
        """
        for fits in (self._stays_level, self._improves):
            for source in sources:
                for index in self._movable.nearest(source, need):
                    for target in targets:
                        if target != source and fits(index, source, target) and self._may(index, target):
                            return index, source, target
        return None

    def _stays_level(self, index: int, source: int, target: int) -> bool:
        size = self._movable.replicas[index].bytes
        return size <= self._band.room(self._levels, target) and size <= self._band.spare(
            self._levels, source
        )

    def _improves(self, index: int, source: int, target: int) -> bool:
        size = self._movable.replicas[index].bytes
        band, levels = self._band, self._levels
        now = max(band.outside(levels, source), band.outside(levels, target))
        then = max(band.outside(levels, source, -size), band.outside(levels, target, size))
        return then < IMPROVEMENT * now

    def _may(self, index: int, target: int) -> bool:
        size = self._movable.replicas[index].bytes
        if self._levels.peak_with(target, size) > self._highest:
            return False
        return self._movable.destination(index, self._space.volumes[target].brokers) is not None

    def _take(self, index: int, source: int, target: int) -> None:
        volume = self._space.volumes[target]
        replica = self._movable.replicas[index]
        broker = self._movable.destination(index, volume.brokers)
        assert broker is not None
        partition = replica.partition
        after = tuple(broker if one == replica.broker else one for one in partition.replicas)
        several = broker not in self._space.sole
        path = next(path for one, path in volume.dirs if one == broker)
        self._moves.append(
            Move(
                topic=partition.topic,
                partition=partition.partition,
                source=partition.replicas,
                target=after,
                bytes=replica.bytes,
                target_dir=path if several else None,
            )
        )
        self._levels.move(source, target, replica.bytes)
        self._movable.use(index)
