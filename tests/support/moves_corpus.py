"""The corpus of moves: generated clusters that are out of balance, each by a fixed seed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenkeel.domain.snapshot import Broker, ClusterSnapshot, LogDir, Partition, Topic
from evenkeel.planning.moves_plan import MovesRequest
from tests.support.snapshots import GIB

Place = tuple[int, str]
EVENTS = ("", "", "", "", "", "", "drain", "broker lost", "topic deleted", "broker joined")


@dataclass(frozen=True, slots=True)
class MovesShape:
    """What a cluster looks like."""

    seed: int
    brokers: int
    partitions: int
    replication: int
    racks: int
    """0: brokers have none."""
    dirs: int
    unequal: bool
    sizes: str
    """`lognormal`, `zipf` or `even`."""
    giant: bool
    """One partition holds a tenth of all bytes."""
    foreign: bool
    """Bytes that are no replicas lie on some volumes."""
    event: str
    skew: float
    """Standard deviation of the logarithm of how often brokers and directories were chosen."""
    fill: float
    """Mean, of the whole cluster."""


@dataclass(frozen=True, slots=True)
class MovesCase:
    """One cluster, and what is asked for."""

    name: str
    snapshot: ClusterSnapshot
    request: MovesRequest
    features: tuple[str, ...]
    replication: int


SIZES = [
    *[(3, 8), (4, 120), (5, 30), (3, 300), (4, 400), (5, 500), (6, 300), (6, 900), (8, 400), (9, 1200)],
    *[(10, 1000), (12, 800), (12, 2400), (15, 1500), (20, 3000)],
]
"""Brokers and partitions."""


FIRST_SEED = 70_000
"""Of the corpus that the planner was built with; another one gives clusters that nothing was fitted to."""


def draw_shape(number: int, first_seed: int = FIRST_SEED) -> MovesShape:
    """The shape of one case, by its number. Every kind meets every other."""
    random = np.random.default_rng(first_seed + number)
    brokers, partitions = SIZES[number % len(SIZES)]
    replication = 1 + number // len(SIZES) % 3
    event = str(EVENTS[number % len(EVENTS)]) if brokers > 4 else ""
    usable = brokers - (event in {"drain", "broker lost"})
    replication = min(replication, usable - 1)
    racks = int(random.choice([0, 0, replication, replication + 1]))
    return MovesShape(
        seed=first_seed + number,
        brokers=brokers,
        partitions=partitions,
        replication=replication,
        racks=racks if racks > 1 and brokers % racks == 0 and not (event and racks == replication) else 0,
        dirs=int(random.choice([1, 1, 1, 2, 3])) if partitions >= 100 else 1,
        unequal=bool(random.random() < 0.45),
        sizes=str(random.choice(["lognormal", "lognormal", "lognormal", "zipf", "even"])),
        giant=bool(random.random() < 0.12),
        foreign=bool(random.random() < 0.2),
        event=event,
        skew=float(random.uniform(0.15, 0.6)),
        fill=float(random.uniform(0.3, 0.62)),
    )


def build_moves_case(shape: MovesShape) -> MovesCase:
    """Replicas where chance put them, then disks around them."""
    random = np.random.default_rng(shape.seed)
    weights = _weights(random, shape)
    totals = _totals(random, shape)
    prone = random.lognormal(0.0, shape.skew, shape.brokers)
    if shape.event == "broker joined":
        prone[-1] = 1e-9
    prone *= np.array([sum(totals[b]) for b in range(shape.brokers)]) if random.random() < 0.5 else 1.0
    likes = [random.lognormal(0.0, shape.skew, shape.dirs) for _ in range(shape.brokers)]
    rows = []
    for _ in range(shape.partitions):
        replicas = _replicas(random, shape, prone)
        rows.append({b: int(random.choice(shape.dirs, p=likes[b] / likes[b].sum())) for b in replicas})
    load = {(b, d): 0.0 for b in range(shape.brokers) for d in range(shape.dirs)}
    for row, weight in zip(rows, weights, strict=True):
        for place in row.items():
            load[place] += float(weight)
    extra = {
        place: float(random.uniform(0.1, 0.5)) if shape.foreign and random.random() < 0.3 else 0.0
        for place in load
    }
    scale = _scale(shape, totals, load, extra)
    snapshot = _snapshot(shape, rows, weights * scale, totals, extra, {k: v * scale for k, v in load.items()})
    snapshot, request = _happen(random, shape, snapshot)
    return MovesCase(
        name=f"{shape.brokers}x{shape.partitions}x{shape.replication}-{shape.seed}",
        snapshot=snapshot,
        request=request,
        features=_features(shape),
        replication=shape.replication,
    )


def _weights(random: np.random.Generator, shape: MovesShape) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if shape.sizes == "zipf":
        weights = 1.0 / np.arange(1, shape.partitions + 1) ** 0.9
        random.shuffle(weights)
    elif shape.sizes == "even":
        weights = random.uniform(0.9, 1.1, shape.partitions)
    else:
        weights = random.lognormal(0.0, random.choice([0.4, 0.7, 1.2]), shape.partitions)
    if shape.giant:
        weights[int(random.integers(shape.partitions))] = weights.sum() / 10
    return np.asarray(weights, dtype=np.float64)


def _totals(random: np.random.Generator, shape: MovesShape) -> list[list[int]]:
    """Disk sizes by broker; each rack has the same ones, as people build them."""
    choices = [1000, 1500, 2000] if shape.unequal else [1000]
    per_rack = shape.brokers // shape.racks if shape.racks else shape.brokers
    kinds = [[int(random.choice(choices)) * GIB for _ in range(shape.dirs)] for _ in range(per_rack)]
    return [kinds[b // shape.racks if shape.racks else b] for b in range(shape.brokers)]


def _replicas(
    random: np.random.Generator, shape: MovesShape, prone: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> list[int]:
    """By chance, brokers weighted; racks take turns."""
    left = prone.copy()
    chosen: list[int] = []
    racks: set[int] = set()
    for _ in range(shape.replication):
        some = left.copy()
        if shape.racks:
            taken = [b for b in range(shape.brokers) if b % shape.racks in racks]
            if len(racks) < shape.racks:
                some[taken] = 0.0
        one = int(random.choice(shape.brokers, p=some / some.sum()))
        chosen.append(one)
        left[one] = 0.0
        racks.add(one % shape.racks if shape.racks else one)
    return chosen


def _scale(
    shape: MovesShape,
    totals: list[list[int]],
    load: dict[tuple[int, int], float],
    extra: dict[tuple[int, int], float],
) -> float:
    """Bytes per unit of weight: the wanted mean fill, but no disk above 84 %."""
    whole = sum(sum(one) for one in totals)
    foreign = sum(0.3 * extra[b, d] * totals[b][d] for b, d in load)
    wanted = max(0.1 * whole, shape.fill * whole - foreign) / max(1e-9, sum(load.values()))
    fits = min(
        (0.84 * totals[b][d] - 0.3 * extra[b, d] * totals[b][d]) / size
        for (b, d), size in load.items()
        if size > 0
    )
    return min(wanted, fits)


def _snapshot(
    shape: MovesShape,
    rows: list[dict[int, int]],
    sizes: np.ndarray[tuple[int], np.dtype[np.float64]],
    totals: list[list[int]],
    extra: dict[tuple[int, int], float],
    load: dict[tuple[int, int], float],
) -> ClusterSnapshot:
    topics = max(1, shape.partitions // 60)
    numbers = [0] * topics
    partitions = []
    for i, (row, size) in enumerate(zip(rows, sizes.tolist(), strict=True)):
        replicas = tuple(row)
        partitions.append(
            Partition(
                topic=f"t{i % topics}",
                partition=numbers[i % topics],
                leader=replicas[0],
                replicas=replicas,
                isr=replicas,
                replica_bytes=dict.fromkeys(replicas, int(size)),
                replica_dirs={b: f"/d{d}" for b, d in row.items()} if shape.dirs > 1 else {},
            )
        )
        numbers[i % topics] += 1
    brokers = []
    for b in range(shape.brokers):
        log_dirs = []
        for d in range(shape.dirs):
            used = int(load[b, d] + 0.3 * extra[b, d] * totals[b][d])
            log_dirs.append(LogDir(f"/d{d}", totals[b][d], totals[b][d] - used))
        rack = f"r{b % shape.racks}" if shape.racks else None
        brokers.append(Broker(b, rack=rack, log_dirs=tuple(log_dirs)))
    return ClusterSnapshot(
        brokers=tuple(brokers),
        partitions=tuple(partitions),
        incoming=(),
        topics=tuple(Topic(f"t{t}", min_isr=max(1, shape.replication - 1)) for t in range(topics)),
    )


def _happen(
    random: np.random.Generator, shape: MovesShape, snapshot: ClusterSnapshot
) -> tuple[ClusterSnapshot, MovesRequest]:
    victim = int(random.integers(shape.brokers))
    if shape.event == "drain":
        return snapshot, MovesRequest(drain=(victim,), most_moves=100_000)
    if shape.event == "broker lost":
        return lose_broker(snapshot, victim), MovesRequest(drain=(victim,), most_moves=100_000)
    if shape.event == "topic deleted":
        names = sorted({partition.topic for partition in snapshot.partitions})
        if len(names) > 1:
            snapshot = delete_topic(
                snapshot, names[int(random.integers(len(names)))], freed=random.random() < 0.5
            )
    return snapshot, MovesRequest(most_moves=100_000)


def lose_broker(snapshot: ClusterSnapshot, lost: int) -> ClusterSnapshot:
    """It is away: its sizes are not known, its replicas not in sync, and others lead."""
    brokers = [
        replace(one, online=False, fenced=True, log_dirs=()) if one.id == lost else one
        for one in snapshot.brokers
    ]
    partitions = []
    for one in snapshot.partitions:
        isr = tuple(b for b in one.isr if b != lost)
        sizes = {b: size for b, size in one.replica_bytes.items() if b != lost}
        dirs = {b: path for b, path in one.replica_dirs.items() if b != lost}
        leader = one.leader if one.leader != lost else (isr[0] if isr else None)
        partitions.append(replace(one, isr=isr, leader=leader, replica_bytes=sizes, replica_dirs=dirs))
    return replace(snapshot, brokers=tuple(brokers), partitions=tuple(partitions))


def delete_topic(snapshot: ClusterSnapshot, topic: str, *, freed: bool) -> ClusterSnapshot:
    """Its partitions are gone; its bytes too if `freed`, else they lie there until the delay is over."""
    gone: dict[Place, int] = {}
    for one in snapshot.partitions:
        if one.topic == topic and freed:
            for broker, size in one.replica_bytes.items():
                place = broker, one.replica_dirs.get(broker, "/d0")
                gone[place] = gone.get(place, 0) + size
    brokers = [
        replace(
            one,
            log_dirs=tuple(
                replace(entry, usable_bytes=(entry.usable_bytes or 0) + gone.get((one.id, entry.path), 0))
                for entry in one.log_dirs
            ),
        )
        for one in snapshot.brokers
    ]
    kept = tuple(one for one in snapshot.partitions if one.topic != topic)
    return replace(snapshot, brokers=tuple(brokers), partitions=kept)


def _features(shape: MovesShape) -> tuple[str, ...]:
    found = {
        f"RF {shape.replication}": True,
        shape.sizes: True,
        "racks": shape.racks > 1,
        "racks = RF": shape.racks == shape.replication,
        "unequal disks": shape.unequal,
        "JBOD": shape.dirs > 1,
        "giant partition": shape.giant,
        "foreign bytes": shape.foreign,
        shape.event: bool(shape.event),
    }
    return tuple(name for name, holds in found.items() if holds)


def small_case(number: int) -> MovesCase:
    """At most 8 partitions on 3 to 6 brokers."""
    brokers = 3 + number % 4
    racks = [0, 0, 2, 3][number % 4]
    shape = replace(
        draw_shape(number),
        brokers=brokers,
        partitions=4 + number % 5,
        replication=min(brokers - 1, 1 + number % 3 if number % 4 else 1 + number % 2),
        racks=racks if racks and brokers % racks == 0 else 0,
        dirs=1 + (number % 7 == 0),
        event="",
        foreign=number % 3 == 0,
    )
    return build_moves_case(shape)
