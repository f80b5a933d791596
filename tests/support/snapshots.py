"""Builders of snapshots: small ones by hand, large uneven ones by a seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenkeel.domain.snapshot import Broker, ClusterSnapshot, Incoming, LogDir, Partition, Topic
from evenkeel.planning.placement import plan_assignments

MIB = 1024**2
GIB = 1024**3


def broker(
    number: int,
    total: int | None,
    used: int | None,
    *,
    rack: str | None = None,
    volume: str | None = None,
    online: bool = True,
) -> Broker:
    """A broker with one log dir."""
    usable = None if total is None or used is None else total - used
    log_dir = LogDir(path="/data", total_bytes=total, usable_bytes=usable, volume=volume)
    return Broker(id=number, rack=rack, online=online, log_dirs=(log_dir,))


def partitions_of(
    topic: str, assignments: Iterable[Sequence[int]], sizes: Sequence[int] | None = None
) -> tuple[Partition, ...]:
    """Partitions of a topic by their replicas; the first replica leads; sizes are bytes per replica."""
    return tuple(
        Partition(
            topic=topic,
            partition=number,
            leader=replicas[0],
            replicas=tuple(replicas),
            isr=tuple(replicas),
            replica_bytes=dict.fromkeys(replicas, sizes[number] if sizes else 0),
        )
        for number, replicas in enumerate(assignments)
    )


def cluster(
    brokers: Iterable[Broker],
    partitions: Iterable[Partition],
    incoming: Iterable[Incoming] = (),
    topics: Iterable[Topic] = (),
) -> ClusterSnapshot:
    return ClusterSnapshot(
        brokers=tuple(brokers), partitions=tuple(partitions), incoming=tuple(incoming), topics=tuple(topics)
    )


def demo_snapshot(planned: int = 130 * MIB) -> ClusterSnapshot:
    """The demo: 4 unequal disks, uneven ballast of RF 2, an empty topic of 24 partitions, one ingest planned.

    Broker i lacks or holds ballast so that the disks stand at 60, 45, 30 and 15 %.
    """
    totals = [512 * MIB, 768 * MIB, 1024 * MIB, 1024 * MIB]
    used = [int(total * fill) for total, fill in zip(totals, (0.60, 0.45, 0.30, 0.15), strict=True)]
    brokers = [broker(i, total, size) for i, (total, size) in enumerate(zip(totals, used, strict=True))]
    # Shares of ballast per pair of brokers that give these levels, in MiB.
    pairs = {(0, 1): 164, (0, 2): 102, (0, 3): 40, (1, 2): 120, (1, 3): 60, (2, 3): 50}
    ballast: list[tuple[int, int]] = []
    sizes: list[int] = []
    for pair, size in pairs.items():
        ballast += [pair, (pair[1], pair[0])]
        sizes += [size * MIB // 2] * 2
    assignments = plan_assignments(brokers, 24, 2)
    return cluster(
        brokers,
        (*partitions_of("ballast", ballast, sizes), *partitions_of("clipart", assignments)),
        (Incoming(topic="clipart", planned_bytes=planned),),
        (Topic(name="ballast"), Topic(name="clipart", segment_bytes=16 * MIB)),
    )


@dataclass(frozen=True, slots=True)
class Shape:
    """What a generated snapshot looks like."""

    seed: int
    brokers: int = 5
    partitions: int = 100
    replication: int = 2
    racks: int = 1
    dirs: int = 1
    shared: bool = False
    """Pairs of brokers share one volume."""
    unequal: bool = False
    sizes: str = "lognormal"
    leaderless: float = 0.0
    topics: int = 1
    steerable: float = 0.1
    """W of all topics as a share of the free space, before replication."""
    planned: bool = True


SHAPES: tuple[Shape, ...] = tuple(
    Shape(seed=100 + i, **kind)  # type: ignore[arg-type]
    for i, kind in enumerate(
        [
            {"brokers": 3, "partitions": 12, "replication": 1},
            {"brokers": 3, "partitions": 24, "replication": 2, "unequal": True},
            {"brokers": 4, "partitions": 24, "replication": 2, "unequal": True, "steerable": 0.05},
            {"brokers": 4, "partitions": 16, "replication": 3},
            {"brokers": 5, "partitions": 40, "replication": 2, "sizes": "zipf"},
            {"brokers": 5, "partitions": 40, "replication": 3, "racks": 2},
            {"brokers": 6, "partitions": 60, "replication": 3, "racks": 3, "unequal": True},
            {"brokers": 6, "partitions": 60, "replication": 2, "dirs": 2},
            {"brokers": 6, "partitions": 60, "replication": 2, "dirs": 3, "unequal": True},
            {"brokers": 6, "partitions": 48, "replication": 2, "shared": True},
            {"brokers": 8, "partitions": 96, "replication": 3, "shared": True, "racks": 4},
            {"brokers": 8, "partitions": 64, "replication": 1, "leaderless": 0.2},
            {"brokers": 8, "partitions": 128, "replication": 2, "leaderless": 0.1, "unequal": True},
            {"brokers": 8, "partitions": 128, "replication": 3, "topics": 3},
            {"brokers": 10, "partitions": 200, "replication": 2, "topics": 4, "unequal": True},
            {"brokers": 10, "partitions": 200, "replication": 3, "racks": 5, "sizes": "zipf"},
            {"brokers": 10, "partitions": 100, "replication": 2, "steerable": 0.02},
            {"brokers": 10, "partitions": 100, "replication": 2, "steerable": 0.35},
            {"brokers": 12, "partitions": 300, "replication": 3, "dirs": 2, "racks": 3},
            {"brokers": 12, "partitions": 300, "replication": 2, "planned": False},
            {"brokers": 5, "partitions": 50, "replication": 2, "planned": False, "unequal": True},
            {"brokers": 4, "partitions": 24, "replication": 2, "planned": False, "steerable": 0.001},
            {"brokers": 15, "partitions": 450, "replication": 3, "topics": 5, "planned": False},
            {"brokers": 20, "partitions": 1000, "replication": 3, "racks": 4, "unequal": True},
            {"brokers": 20, "partitions": 1000, "replication": 2, "dirs": 2, "sizes": "zipf"},
            {"brokers": 24, "partitions": 1200, "replication": 3, "topics": 6, "leaderless": 0.05},
            {"brokers": 30, "partitions": 2000, "replication": 3, "racks": 3, "steerable": 0.3},
            {"brokers": 40, "partitions": 4000, "replication": 2, "unequal": True, "topics": 2},
            {"brokers": 50, "partitions": 9000, "replication": 3, "racks": 5, "dirs": 2},
            {"brokers": 50, "partitions": 9000, "replication": 3, "unequal": True, "topics": 3},
        ]
    )
)


def generate_snapshot(shape: Shape) -> ClusterSnapshot:
    """An uneven cluster: replicas at random, sizes heavy-tailed, disks filled to 20 to 80 %."""
    random = np.random.default_rng(shape.seed)
    count = shape.partitions
    if shape.sizes == "zipf":
        weights = 1.0 / np.arange(1, count + 1) ** 0.9
        random.shuffle(weights)
    else:
        weights = random.lognormal(0.0, 1.2, count)
    assignments = [_replicas(random, shape) for _ in range(count)]
    dirs = [{one: int(random.integers(shape.dirs)) for one in replicas} for replicas in assignments]
    load: dict[tuple[int, int], float] = {}
    for replicas, place, weight in zip(assignments, dirs, weights, strict=True):
        for one in replicas:
            load[one, place[one]] = load.get((one, place[one]), 0.0) + float(weight)
    scale = 40 * GIB / max(1e-9, float(np.mean(list(load.values()))))
    brokers = _brokers(random, shape, {key: value * scale for key, value in load.items()})
    partitions = _partitions(random, shape, assignments, dirs, np.asarray(weights * scale, dtype=np.float64))
    free = sum(log_dir.usable_bytes or 0 for one in brokers for log_dir in one.log_dirs)
    if shape.shared:
        free //= 2
    return cluster(brokers, partitions, _incoming(random, shape, free))


def _replicas(random: np.random.Generator, shape: Shape) -> tuple[int, ...]:
    """Random brokers, racks taking turns as far as there are several."""
    order = [int(one) for one in random.permutation(shape.brokers)]
    if shape.racks > 1:
        seen: dict[int, int] = {}
        turn = {}
        for one in order:
            turn[one] = seen.get(one % shape.racks, 0)
            seen[one % shape.racks] = turn[one] + 1
        order.sort(key=turn.__getitem__)
    return tuple(order[: shape.replication])


def _brokers(
    random: np.random.Generator, shape: Shape, load: Mapping[tuple[int, int], float]
) -> list[Broker]:
    def used(number: int) -> float:
        return max(load.get((number, part), GIB) for part in range(shape.dirs))

    fill = float(random.uniform(0.55, 0.8))
    largest = max(used(number) for number in range(shape.brokers)) / fill * (2 if shape.shared else 1)
    result = []
    for number in range(shape.brokers):
        log_dirs = []
        for part in range(shape.dirs):
            total = int(largest * (random.choice([1.0, 1.5, 2.0]) if shape.unequal else 1.0))
            size = load.get((number, part), 0.0)
            volume = None
            if shape.shared:
                volume = f"shared{number // 2}"
                size = load.get((number // 2 * 2, part), 0.0) + load.get((number // 2 * 2 + 1, part), 0.0)
            log_dirs.append(LogDir(f"/d{part}", total, total - int(size), volume=volume))
        result.append(Broker(number, rack=f"r{number % shape.racks}", log_dirs=tuple(log_dirs)))
    return result


def _partitions(
    random: np.random.Generator,
    shape: Shape,
    assignments: list[tuple[int, ...]],
    dirs: list[dict[int, int]],
    sizes: NDArray[np.float64],
) -> list[Partition]:
    numbers = [0] * shape.topics
    result = []
    for i, (replicas, place) in enumerate(zip(assignments, dirs, strict=True)):
        topic = i % shape.topics
        result.append(
            Partition(
                topic=f"t{topic}",
                partition=numbers[topic],
                leader=None if random.random() < shape.leaderless else replicas[0],
                replicas=replicas,
                isr=replicas,
                replica_bytes=dict.fromkeys(replicas, int(sizes[i])),
                replica_dirs={one: f"/d{part}" for one, part in place.items()},
            )
        )
        numbers[topic] += 1
    return result


def _incoming(random: np.random.Generator, shape: Shape, free: int) -> list[Incoming]:
    parts = random.dirichlet(np.full(shape.topics, 3.0)) * shape.steerable * free
    result = []
    for topic, size in enumerate(parts.tolist()):
        if shape.planned:
            result.append(Incoming(f"t{topic}", planned_bytes=int(size)))
        else:
            result.append(Incoming(f"t{topic}", bytes_per_second=size / 86_400))
    return result
