"""Clusters to measure on: disks, what lies on them, the topic that is written, and how much."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from evenkeel.domain.snapshot import Broker, ClusterSnapshot, LogDir, Partition
from integration.kafka.disks import MIB
from integration.kafka.settings import BrokerSpec

Assignment = tuple[int, ...]
"""Brokers of a partition, the leader first."""


@dataclass(frozen=True, slots=True)
class DiskLayout:
    """One disk of a broker."""

    mib: int
    fill: float
    """Share of the disk that is in use before the measured topic is written."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One cluster and one topic on it. Brokers are numbered from 1, each in a rack of its own."""

    name: str
    title: str
    brokers: tuple[tuple[DiskLayout, ...], ...]
    assignments: tuple[Assignment, ...]
    write_percent: float
    """Bytes on all disks together that are written, in percent of all capacity."""

    @property
    def replication(self) -> int:
        """Copies of each record."""
        return len(self.assignments[0])

    @property
    def capacity(self) -> int:
        """Bytes of all disks."""
        return sum(disk.mib for disks in self.brokers for disk in disks) * MIB

    @property
    def write_bytes(self) -> int:
        """Bytes that producers write, before replication."""
        return int(self.capacity * self.write_percent / 100 / self.replication)

    def broker_specs(self) -> list[BrokerSpec]:
        """The same for the integration cluster."""
        return [
            BrokerSpec(number, disks=tuple(disk.mib for disk in disks))
            for number, disks in enumerate(self.brokers, 1)
        ]

    def expected_snapshot(self, topic: str = "data") -> ClusterSnapshot:
        """What a measurement will find, by the nominal sizes; each partition on its broker's emptiest disk."""
        placed = [[0] * len(disks) for disks in self.brokers]
        partitions = []
        for number, replicas in enumerate(self.assignments):
            dirs = {}
            for broker in replicas:
                counts = placed[broker - 1]
                index = counts.index(min(counts))  # Kafka: the directory with the fewest logs
                counts[index] += 1
                dirs[broker] = f"/{broker}/{index}"
            partitions.append(Partition(topic, number, replicas[0], replicas, replicas, replica_dirs=dirs))
        brokers = tuple(
            Broker(
                number,
                f"rack{number}",
                log_dirs=tuple(
                    LogDir(f"/{number}/{index}", disk.mib * MIB, int(disk.mib * MIB * (1 - disk.fill)))
                    for index, disk in enumerate(disks)
                ),
            )
            for number, disks in enumerate(self.brokers, 1)
        )
        return ClusterSnapshot(brokers=brokers, partitions=tuple(partitions), incoming=())


def single(sizes: Sequence[int], fills: Sequence[float]) -> tuple[tuple[DiskLayout, ...], ...]:
    """Brokers with one disk each."""
    return tuple((DiskLayout(mib, fill),) for mib, fill in zip(sizes, fills, strict=True))


def spread(leaders: Sequence[int], replication: int, seed: int) -> tuple[Assignment, ...]:
    """Partitions of which broker b leads `leaders[b - 1]`; followers drawn at random, as reassignments leave them."""
    rng = random.Random(seed)
    brokers = range(1, len(leaders) + 1)
    rows = []
    for leader, count in zip(brokers, leaders, strict=True):
        others = [broker for broker in brokers if broker != leader]
        rows += [(leader, *rng.sample(others, replication - 1)) for _ in range(count)]
    rng.shuffle(rows)
    return tuple(rows)


SPACE = (
    Layout(
        "equal-rf1",
        "4 equal disks, filled unevenly, RF 1",
        single([320] * 4, [0.55, 0.40, 0.30, 0.15]),
        spread([5, 5, 5, 5], 1, 1),
        20,
    ),
    Layout(
        "unequal-rf1",
        "4 unequal disks, RF 1",
        single([192, 256, 384, 512], [0.25, 0.25, 0.25, 0.25]),
        spread([5, 5, 5, 5], 1, 2),
        25,
    ),
    Layout(
        "skewed-counts-rf1",
        "5 equal disks, partitions 10:6:4:2:2, RF 1",
        single([256] * 5, [0.30] * 5),
        spread([10, 6, 4, 2, 2], 1, 3),
        20,
    ),
    Layout(
        "equal-rf2",
        "4 equal disks, filled unevenly, RF 2",
        single([320] * 4, [0.60, 0.45, 0.25, 0.20]),
        spread([6, 6, 6, 6], 2, 4),
        22,
    ),
    Layout(
        "unequal-rf2",
        "5 unequal disks, RF 2",
        single([192, 256, 256, 384, 512], [0.35, 0.30, 0.25, 0.25, 0.20]),
        spread([5, 5, 5, 5, 5], 2, 5),
        25,
    ),
    Layout(
        "equal-rf3",
        "6 equal disks, filled unevenly, RF 3",
        single([256] * 6, [0.60, 0.50, 0.35, 0.30, 0.25, 0.15]),
        spread([5] * 6, 3, 6),
        22,
    ),
    Layout(
        "unequal-rf3",
        "6 unequal disks, RF 3",
        single([192, 192, 256, 256, 384, 512], [0.40, 0.30, 0.30, 0.25, 0.25, 0.25]),
        spread([5] * 6, 3, 7),
        25,
    ),
    Layout(
        "jbod-rf2",
        "4 brokers with 2 disks each, filled unevenly, RF 2",
        (
            (DiskLayout(160, 0.55), DiskLayout(256, 0.30)),
            (DiskLayout(160, 0.40), DiskLayout(256, 0.25)),
            (DiskLayout(160, 0.30), DiskLayout(256, 0.45)),
            (DiskLayout(160, 0.15), DiskLayout(256, 0.20)),
        ),
        spread([8, 8, 8, 8], 2, 8),
        22,
    ),
    Layout(
        "joined-rf2",
        "5 equal disks, the fifth broker joined empty, RF 2",
        single([320] * 5, [0.45, 0.45, 0.45, 0.45, 0.0]),
        # The old partitions know the old brokers only; eight were added with the new one.
        (*spread([4, 4, 4, 4], 2, 9), *((5, b) for b in (1, 2, 3, 4)), *((b, 5) for b in (1, 2, 3, 4))),
        32,
    ),
)
"""Layouts of experiment 1."""

OVERFLOW = Layout(
    "overflow-rf1",
    "2 small and 2 large disks, RF 1: equal shares fill the small ones",
    single([192, 192, 448, 448], [0.40, 0.40, 0.30, 0.30]),
    spread([4, 4, 4, 4], 1, 10),
    42,
)
"""Where default partitioning ends a broker."""

HEALING = (
    Layout(
        "healing-rf1",
        "4 equal disks, one of them 16 % of its size fuller than the emptiest, RF 1",
        single([448] * 4, [0.36, 0.30, 0.26, 0.20]),
        spread([5, 5, 5, 5], 1, 11),
        25,
    ),
    Layout(
        "healing-rf2",
        "5 unequal disks, RF 2",
        single([256, 256, 320, 448, 512], [0.34, 0.28, 0.26, 0.24, 0.22]),
        spread([6, 6, 6, 6, 6], 2, 12),
        25,
    ),
)
"""Layouts of experiment 3; `write_percent` is what is written at most."""
