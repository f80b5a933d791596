"""What a simulated Kafka for moves is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenkeel.kafka.answers import DirAnswer, PartitionAnswer, TopicAnswer, TopicPartition


@dataclass
class SimBroker:
    """One broker; `dirs` path -> capacity."""

    dirs: dict[str, int]
    online: bool = True
    back_at: float = 0.0
    """When it came back last: in sync a little later."""
    foreign: dict[str, float] = field(default_factory=dict)
    """path -> bytes that are no replicas."""
    deleted: list[tuple[float, str, float]] = field(default_factory=list)
    rates: dict[str, int] = field(default_factory=dict)
    wishes: dict[TopicPartition, str] = field(default_factory=dict)
    """Directories for replicas that are not there yet; in memory only."""
    cordoned: set[str] = field(default_factory=set)


@dataclass
class SimPartition:
    """One partition. `copies` broker -> (path, bytes)."""

    replicas: list[int]
    size: float
    copies: dict[int, tuple[str, float]] = field(default_factory=dict)
    isr: set[int] = field(default_factory=set)
    leader: int | None = None
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)
    futures: dict[int, tuple[str, float]] = field(default_factory=dict)
    written: float = 0.0
    """Bytes per second that producers write."""


@dataclass
class SimTopic:
    """One topic."""

    id: str
    min_isr: int = 1
    partitions: list[SimPartition] = field(default_factory=list)
    lists: dict[str, list[str]] = field(default_factory=dict)


def describe_topic(name: str, topic: SimTopic) -> TopicAnswer:
    """Its metadata."""
    rows = tuple(
        PartitionAnswer(i, one.leader, tuple(one.replicas), tuple(sorted(one.isr)))
        for i, one in enumerate(topic.partitions)
    )
    return TopicAnswer(name, topic.id, internal=False, partitions=rows)


def list_dirs(
    broker: int, own: SimBroker, topics: Mapping[str, SimTopic], used: Mapping[tuple[int, str], float]
) -> tuple[DirAnswer, ...]:
    """What the broker tells of its directories."""
    held: dict[str, dict[TopicPartition, int]] = {path: {} for path in own.dirs}
    coming: dict[str, dict[TopicPartition, int]] = {path: {} for path in own.dirs}
    for name, topic in topics.items():
        for number, one in enumerate(topic.partitions):
            for rows, store in ((held, one.copies), (coming, one.futures)):
                if broker in store:
                    path, size = store[broker]
                    rows[path][name, number] = int(size)
    return tuple(
        DirAnswer(
            path,
            online=True,
            total_bytes=total,
            usable_bytes=max(0, int(total - used.get((broker, path), 0.0))),
            cordoned=path in own.cordoned,
            replica_bytes=held[path],
            future_bytes=coming[path],
        )
        for path, total in own.dirs.items()
    )
