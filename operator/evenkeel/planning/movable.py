"""Which replicas may move, and where to: rules of Kafka, of the policy, and of racks."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass

from evenkeel.domain.exchange import Policy
from evenkeel.domain.snapshot import ClusterSnapshot, Partition
from evenkeel.names import DATASET_TOPIC_PREFIX, INTERNAL_PREFIX
from evenkeel.planning.space import Space

NEAREST = 40
"""So many replicas closest in size are tried for each step."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica that may move."""

    partition: Partition
    broker: int
    bytes: int


class Movable:
    """All replicas that may move, by volume and size. A partition moves at most once in a plan."""

    def __init__(
        self, replicas: list[Replica], by_volume: dict[int, list[int]], racks: dict[int, str], open_: set[int]
    ) -> None:
        self.replicas = replicas
        self._racks = racks
        self._open = open_
        self._gone: set[tuple[str, int]] = set()
        self._by_volume = {
            volume: sorted(indices, key=lambda i: (replicas[i].bytes, i))
            for volume, indices in by_volume.items()
        }
        self._sizes = {
            volume: [replicas[i].bytes for i in indices] for volume, indices in self._by_volume.items()
        }

    def nearest(self, volume: int, size: float) -> Iterator[int]:
        """Replicas on the volume, those first whose size is closest to `size`, at most NEAREST."""
        indices, sizes = self._by_volume.get(volume, []), self._sizes.get(volume, [])
        right = bisect.bisect_left(sizes, size)
        left = right - 1
        found = 0
        while found < NEAREST and (left >= 0 or right < len(sizes)):
            if left < 0 or (right < len(sizes) and sizes[right] - size <= size - sizes[left]):
                index, right = indices[right], right + 1
            else:
                index, left = indices[left], left - 1
            if self._key(index) not in self._gone:
                found += 1
                yield index

    def destination(self, index: int, brokers: tuple[int, ...]) -> int | None:
        """Which of these brokers may take the replica: none that has one, and no rack is lost."""
        replica = self.replicas[index]
        replicas = replica.partition.replicas
        rest = {self._rack(one) for one in replicas if one != replica.broker}
        needed = len(rest | {self._rack(replica.broker)})
        for broker in brokers:
            if broker in self._open and broker not in replicas and len(rest | {self._rack(broker)}) >= needed:
                return broker
        return None

    def use(self, index: int) -> None:
        """The partition has moved."""
        self._gone.add(self._key(index))

    def _rack(self, broker: int) -> str:
        return self._racks.get(broker, f"broker {broker}")

    def _key(self, index: int) -> tuple[str, int]:
        partition = self.replicas[index].partition
        return partition.topic, partition.partition


def gather_movable(snapshot: ClusterSnapshot, space: Space, policy: Policy) -> Movable:
    """Replicas of healthy, settled partitions of topics that are neither internal nor excluded."""
    excluded = set(policy.exclude_topics) | {topic.name for topic in snapshot.topics if topic.internal}
    replicas: list[Replica] = []
    by_volume: dict[int, list[int]] = {}
    for partition in sorted(snapshot.partitions, key=lambda one: (one.topic, one.partition)):
        if partition.topic in excluded or partition.topic.startswith((INTERNAL_PREFIX, DATASET_TOPIC_PREFIX)):
            continue
        if not _settled(partition):
            continue
        for broker in partition.replicas:
            volume = space.locate(partition, broker)
            size = partition.replica_bytes.get(broker)
            if volume is not None and size:
                by_volume.setdefault(volume, []).append(len(replicas))
                replicas.append(Replica(partition, broker, size))
    return Movable(replicas, by_volume, _racks(snapshot), _open_brokers(snapshot, space))


def _settled(partition: Partition) -> bool:
    """No move runs, there is a leader, and the ISR is whole (an empty one was not measured)."""
    whole = not partition.isr or set(partition.isr) == set(partition.replicas)
    under_way = partition.adding or partition.removing or partition.future_dirs
    return whole and partition.leader is not None and not under_way


def _racks(snapshot: ClusterSnapshot) -> dict[int, str]:
    return {broker.id: f"rack {broker.rack}" for broker in snapshot.brokers if broker.rack is not None}


def _open_brokers(snapshot: ClusterSnapshot, space: Space) -> set[int]:
    """Brokers that are up and have a directory that is not cordoned (Kafka itself would take it)."""
    up = {broker.id for broker in snapshot.brokers if broker.online and not broker.fenced}
    fresh = {broker for volume in space.volumes if not volume.cordoned for broker in volume.brokers}
    return up & fresh
