"""The corpus of routing: generated clusters with inflow, each by a fixed seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from evenkeel.domain.snapshot import Broker, ClusterSnapshot, LogDir, Partition, Topic
from tests.support.snapshots import Shape, generate_snapshot

MESSAGE = 900 * 1024
TABLE_SECONDS = 15
FULLEST, ROOM = 0.74, 0.78
"""No volume begins above the first; all bytes together end below the second, so that `stop` has no say."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What is written to one topic while the case lasts."""

    topic: str
    steered: float
    """Bytes that routers write, before replication."""
    unsteered: Mapping[int, float]
    """Bytes that others write, by partition."""
    planned: bool
    """Known beforehand, as of an ingest; otherwise only its rate is."""
    retention_seconds: float | None = None
    """Bytes are deleted at this age; those that lie there at first are of all ages up to it. Such a case lasts two
    or three of them: within two it has to settle."""


@dataclass(frozen=True, slots=True)
class Case:
    """One cluster and what is written to it."""

    name: str
    seed: int
    snapshot: ClusterSnapshot
    flows: tuple[Flow, ...]
    tables: int
    """How many times 15 s it lasts."""
    features: tuple[str, ...]
    share: float
    """W / C."""

    @property
    def seconds(self) -> int:
        """How long it lasts; also the horizon of its topics."""
        return self.tables * TABLE_SECONDS


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a case is made from."""

    seed: int
    shape: Shape
    share: float
    flow: str
    """`planned`, `rate`, `retention` or `mixed`."""
    unsteered: float
    """Part of the inflow that does not come from routers."""
    joined: bool
    """The last broker has just come and holds next to nothing of other topics."""
    tables: int
    messages: int


SIZES = [(3, 12), (3, 24), (4, 24), (5, 40), (6, 60), (6, 300), (8, 96), (10, 200), (12, 300), (15, 450)]
LARGE = [(20, 1000), (24, 1200), (30, 2000), (40, 4000), (50, 10_000)]


FIRST_SEED = 40_000
"""Of the corpus that constants were chosen with; another one gives clusters that nothing was fitted to."""


def recipes(count: int = 210, large: int = 10, first_seed: int = FIRST_SEED) -> tuple[Recipe, ...]:
    """`count` recipes, of which `large` have 1,000 to 10,000 partitions. Every kind meets every other."""
    made = [_recipe(i, first_seed + i, SIZES[i % len(SIZES)], tables=12) for i in range(count - large)]
    far = range(9000, 9000 + large)
    return (*made, *(_recipe(i, first_seed + i, LARGE[i % len(LARGE)], tables=6) for i in far))


def _recipe(i: int, seed: int, size: tuple[int, int], *, tables: int) -> Recipe:
    random = np.random.default_rng(seed)
    brokers, partitions = size
    replication = int(random.integers(1, min(3, brokers - 1) + 1))
    topics = int(random.integers(2, 6)) if random.random() < 0.35 and partitions >= 24 else 1
    racks = int(random.choice([1, 1, replication, replication + 1]))
    shared = bool(random.random() < 0.12) and brokers % 2 == 0 and replication < brokers // 2
    shape = Shape(
        seed=seed,
        brokers=brokers,
        partitions=partitions,
        replication=replication,
        racks=racks if brokers % max(1, racks) == 0 else 1,
        dirs=1 if shared else int(random.choice([1, 1, 1, 2, 3])),
        shared=shared,
        unequal=bool(random.random() < 0.4) and not shared,  # a shared volume has one size
        sizes=str(random.choice(["lognormal", "zipf"])),
        leaderless=float(random.choice([0.0, 0.0, 0.0, 0.1, 0.2])),
        topics=topics,
    )
    most = min(0.3, 0.45 / replication)
    flow = ("planned", "planned", "rate", "retention", "mixed")[(i // 10 + i) % 5]
    return Recipe(
        seed=seed,
        shape=shape,
        share=float(np.exp(random.uniform(np.log(1e-4), np.log(most))))
        if i % 20
        else (1e-4, most)[i % 40 > 0],
        flow=flow,
        unsteered=0.5 if random.random() < 0.3 else 0.0,
        joined=bool(random.random() < 0.15) and not shared and flow != "retention",
        tables=tables * (2 if flow == "retention" else 1),
        messages=int(max(24 * 8 * 8, 250 * brokers)),
    )


def build_case(recipe: Recipe) -> Case:
    """The cluster, scaled so that what is written is `recipe.messages` messages."""
    shape = recipe.shape
    snapshot = generate_snapshot(shape)
    if recipe.joined:
        snapshot = _empty_last(snapshot)
    capacity = sum(total for total, _ in _volumes(snapshot).values())
    written = recipe.messages * MESSAGE
    scale = written / recipe.share / capacity
    whole = written * shape.replication / (1 - recipe.unsteered)
    snapshot = _scale(snapshot, scale, whole)
    random = np.random.default_rng(recipe.seed + 1)
    flows = tuple(_flows(random, recipe, snapshot, written))
    topics = tuple(
        Topic(flow.topic, retention_ms=int(flow.retention_seconds * 1000) if flow.retention_seconds else None)
        for flow in flows
    )
    return Case(
        name=f"{shape.brokers}x{shape.partitions}-{recipe.seed}",
        seed=recipe.seed,
        snapshot=replace(snapshot, topics=topics),
        flows=flows,
        tables=recipe.tables,
        features=_features(recipe),
        share=recipe.share,
    )


def _features(recipe: Recipe) -> tuple[str, ...]:
    shape = recipe.shape
    found = {
        f"RF {shape.replication}": True,
        shape.sizes: True,
        recipe.flow: True,
        "racks": shape.racks > 1,
        "unequal disks": shape.unequal,
        "JBOD": shape.dirs > 1,
        "shared volumes": shape.shared,
        "leaderless": shape.leaderless > 0,
        "several topics": shape.topics > 1,
        "half unsteered": recipe.unsteered > 0,
        "empty broker joined": recipe.joined,
        "1,000 partitions and more": shape.partitions >= 1000,
    }
    return tuple(name for name, holds in found.items() if holds)


def _volumes(snapshot: ClusterSnapshot) -> dict[str, tuple[int, int]]:
    """Total and used bytes of each volume."""
    return {
        entry.volume or f"{one.id}/{entry.path}": (
            entry.total_bytes or 0,
            (entry.total_bytes or 0) - (entry.usable_bytes or 0),
        )
        for one in snapshot.brokers
        for entry in one.log_dirs
    }


def _empty_last(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """The last broker's disks hold almost nothing; its partitions have come to it just now."""
    last = max(one.id for one in snapshot.brokers)

    def empty(entry: LogDir) -> LogDir:
        return replace(entry, usable_bytes=int((entry.total_bytes or 0) * 0.999))

    brokers = [
        replace(one, log_dirs=tuple(empty(entry) for entry in one.log_dirs)) if one.id == last else one
        for one in snapshot.brokers
    ]
    return replace(snapshot, brokers=tuple(brokers))


def _scale(snapshot: ClusterSnapshot, factor: float, coming: float) -> ClusterSnapshot:
    """Other sizes, the same proportions; less used where it would not leave room for what is coming."""
    volumes = _volumes(snapshot)
    capacity = factor * sum(total for total, _ in volumes.values())
    used = factor * sum(size for _, size in volumes.values())
    fullest = max(size / total for total, size in volumes.values())
    shrink = max(0.05, min(1.0, FULLEST / fullest, (ROOM * capacity - coming) / used))

    def disk(entry: LogDir) -> LogDir:
        total, usable = entry.total_bytes or 0, entry.usable_bytes or 0
        new = max(1, int(total * factor))
        return replace(entry, total_bytes=new, usable_bytes=new - int((total - usable) * factor * shrink))

    def resized(one: Partition) -> Partition:
        sizes = {broker: int(size * factor * shrink) for broker, size in one.replica_bytes.items()}
        return replace(one, replica_bytes=sizes)

    def refilled(one: Broker) -> Broker:
        return replace(one, log_dirs=tuple(disk(entry) for entry in one.log_dirs))

    return replace(
        snapshot,
        brokers=tuple(refilled(one) for one in snapshot.brokers),
        partitions=tuple(resized(one) for one in snapshot.partitions),
    )


def _flows(
    random: np.random.Generator, recipe: Recipe, snapshot: ClusterSnapshot, written: float
) -> list[Flow]:
    shape, seconds = recipe.shape, recipe.tables * TABLE_SECONDS
    parts = random.dirichlet(np.full(shape.topics, 3.0)) * written
    result = []
    for t, size in enumerate(parts.tolist()):
        partitions = [one for one in snapshot.partitions if one.topic == f"t{t}"]
        led = [one.partition for one in partitions if one.leader is not None]
        keys = random.lognormal(0.0, 0.7, len(led))
        unsteered = size * recipe.unsteered / (1 - recipe.unsteered) * keys / keys.sum()
        kind = recipe.flow if recipe.flow != "mixed" else ("planned", "rate")[t % 2]
        retention = seconds * float(random.choice([1 / 3, 0.5])) if kind == "retention" else None
        result.append(
            Flow(
                topic=f"t{t}",
                steered=size,
                unsteered=dict(zip(led, unsteered.tolist(), strict=True)) if recipe.unsteered else {},
                planned=kind == "planned",
                retention_seconds=retention,
            )
        )
    return result
