"""Which replicas may move, and where to: rules of Kafka, of the policy, and of racks."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from evenkeel.domain.exchange import Policy
from evenkeel.domain.snapshot import ClusterSnapshot, Partition
from evenkeel.names import DATASET_TOPIC_PREFIX, INTERNAL_PREFIX
from evenkeel.planning.levels import Flags
from evenkeel.planning.space import Ints, Space

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica that may move."""

    partition: Partition
    broker: int
    volume: int | None
    """Where it lies; None: on a broker that is lost, or in a directory that Kafka has not told."""
    bytes: int
    """What has to be copied."""
    lasting: float
    """What it will take at the end of the horizon."""

    @property
    def key(self) -> Key:
        """Of its partition."""
        return self.partition.topic, self.partition.partition


@dataclass(frozen=True, slots=True)
class Seats:
    """Directories that take replicas: one row per broker and volume."""

    brokers: Ints
    racks: Ints
    volumes: Ints
    paths: tuple[str, ...]
    rack_of: Mapping[int, int]
    """Broker -> number of its rack; one without rack is a rack of its own."""
    several: frozenset[int]
    """Brokers with more than one volume, of which a move must name the directory."""

    def for_move(self, replica: Replica) -> Flags:
        """Seats that may take it: none of its partition there, no rack lost, another volume on its own broker."""
        replicas = replica.partition.replicas
        rest = {self.rack_of[one] for one in replicas if one != replica.broker}
        free = self._without(replicas)
        if self.rack_of[replica.broker] not in rest:
            for rack in rest:
                free &= self.racks != rack
        own = (self.brokers == replica.broker) & (
            self.volumes != (-1 if replica.volume is None else replica.volume)
        )
        return free | own if replica.volume is not None else free

    def for_addition(self, partition: Partition) -> Flags:
        """Seats for one replica more, in new racks where there are any."""
        free = self._without(partition.replicas)
        fresh = free.copy()
        for one in partition.replicas:
            fresh &= self.racks != self.rack_of[one]
        return fresh if bool(fresh.any()) else free

    def _without(self, brokers: Collection[int]) -> Flags:
        free = np.ones(len(self.brokers), dtype=bool)
        for one in brokers:
            free &= self.brokers != one
        return free


def find_seats(snapshot: ClusterSnapshot, space: Space, closed: Collection[int]) -> Seats:
    """Directories that are online and not cordoned, of brokers that are up and not in `closed`.

    Kafka itself would take a replica in a cordoned directory.
    """
    racks: dict[str, int] = {}
    rack_of = {
        broker.id: racks.setdefault(_rack_name(broker.id, broker.rack), len(racks))
        for broker in snapshot.brokers
    }
    rows: dict[tuple[int, int], str] = {}
    for broker in snapshot.brokers:
        if broker.fenced or not broker.online or broker.id in closed:
            continue
        for log_dir in broker.log_dirs:
            volume = space.index.get((broker.id, log_dir.path))
            if volume is not None and not log_dir.cordoned:
                rows.setdefault((broker.id, volume), log_dir.path)
    for partition in snapshot.partitions:
        for one in partition.replicas:
            if one not in rack_of:  # lost, and no longer listed: a rack that nobody else is in
                rack_of[one] = racks.setdefault(_rack_name(one, None), len(racks))
    brokers = np.array([broker for broker, _ in rows], dtype=np.int64)
    return Seats(
        brokers=brokers,
        racks=np.array([rack_of[broker] for broker, _ in rows], dtype=np.int64),
        volumes=np.array([volume for _, volume in rows], dtype=np.int64),
        paths=tuple(rows.values()),
        rack_of=rack_of,
        several=frozenset(broker.id for broker in snapshot.brokers if broker.id not in space.sole),
    )


def _rack_name(broker: int, rack: str | None) -> str:
    return f"broker {broker}" if rack is None else f"rack {rack}"


class Movable:
    """Replicas that may still move, by volume and size. A partition moves at most once in a plan."""

    def __init__(self, replicas: list[Replica]) -> None:
        self.replicas = replicas
        self._by_volume: dict[int, list[tuple[float, int]]] = {}
        self._of_partition: dict[Key, list[int]] = {}
        for index, replica in enumerate(replicas):
            if replica.volume is not None:
                self._by_volume.setdefault(replica.volume, []).append((replica.lasting, index))
            self._of_partition.setdefault(replica.key, []).append(index)
        for rows in self._by_volume.values():
            rows.sort()

    def copy(self) -> Movable:
        """The same, to try something on."""
        result = Movable([])
        result.replicas = self.replicas
        result._by_volume = {volume: rows.copy() for volume, rows in self._by_volume.items()}
        result._of_partition = dict(self._of_partition)
        return result

    def at_most(self, volume: int, size: float) -> Iterator[int]:
        """Replicas on the volume that last no more than `size`, the largest first."""
        rows = self._by_volume.get(volume, [])
        for i in range(bisect.bisect_right(rows, (size, len(self.replicas))) - 1, -1, -1):
            yield rows[i][1]

    def above(self, volume: int, size: float) -> Iterator[int]:
        """Replicas on the volume that last more than `size`, the smallest first."""
        rows = self._by_volume.get(volume, [])
        for i in range(bisect.bisect_right(rows, (size, len(self.replicas))), len(rows)):
            yield rows[i][1]

    def on_brokers(self, brokers: Collection[int]) -> list[int]:
        """Replicas there, the largest first."""
        found = [
            i
            for i, replica in enumerate(self.replicas)
            if replica.broker in brokers and self.is_free(replica.key)
        ]
        return sorted(found, key=lambda i: (-self.replicas[i].bytes, i))

    def remaining(self) -> list[int]:
        """Replicas of all partitions that have not moved, those of no bytes left out."""
        return sorted(index for rows in self._by_volume.values() for _, index in rows)

    def use(self, key: Key) -> None:
        """The partition moves: none of its replicas may any more."""
        for index in self._of_partition.pop(key, []):
            replica = self.replicas[index]
            if replica.volume is not None:
                rows = self._by_volume[replica.volume]
                at = bisect.bisect_left(rows, (replica.lasting, index))
                if at < len(rows) and rows[at][1] == index:
                    del rows[at]

    def is_free(self, key: Key) -> bool:
        """Whether the partition may move and has not."""
        return key in self._of_partition


def gather_movable(
    snapshot: ClusterSnapshot,
    space: Space,
    policy: Policy,
    drain: Collection[int] = (),
    growth: Callable[[Partition], float] | None = None,
) -> list[Replica]:
    """Replicas of healthy, settled partitions of topics that are neither internal nor excluded.

    Args:
        snapshot: what was measured.
        space: its volumes.
        policy: `exclude_topics`.
        drain: brokers to be emptied; a partition that lacks only those in its ISR counts as healthy.
        growth: bytes by which each replica of a partition changes until the end of the horizon.
    """
    excluded = set(policy.exclude_topics) | {topic.name for topic in snapshot.topics if topic.internal}
    replicas: list[Replica] = []
    for partition in sorted(snapshot.partitions, key=lambda one: (one.topic, one.partition)):
        if (
            is_ours_or_internal(partition.topic)
            or partition.topic in excluded
            or not is_settled(partition, drain)
        ):
            continue
        change = growth(partition) if growth is not None else 0.0
        sizes = partition.replica_bytes
        for broker in partition.replicas:
            volume = space.locate(partition, broker)
            size = sizes.get(broker)
            if broker in drain:
                size = max(sizes.values(), default=0) if size is None else size
            elif volume is None:
                continue
            if size is not None:
                replicas.append(Replica(partition, broker, volume, size, max(0.0, size + change)))
    return replicas


def is_ours_or_internal(topic: str) -> bool:
    """Topics that are never moved, whatever the policy says."""
    return topic.startswith((INTERNAL_PREFIX, DATASET_TOPIC_PREFIX))


def is_settled(partition: Partition, drain: Collection[int] = ()) -> bool:
    """No move runs, there is a leader, and the ISR is whole (an empty one was not measured).

    Of brokers to be emptied none has to be in sync.
    """
    if partition.leader is None or partition.adding or partition.removing or partition.future_dirs:
        return False
    if not partition.isr:
        return True
    here = set(partition.isr)
    return here <= set(partition.replicas) and set(partition.replicas) - set(drain) <= here
