"""What one look at Kafka shows, as far as a run of moves needs it. What is missing is unknown, never empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from evenkeel.domain.waits import Waits
from evenkeel.kafka.answers import (
    BrokerRates,
    DirAnswer,
    PartitionAnswer,
    ReassignmentAnswer,
    TopicAnswer,
    TopicPartition,
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a look has to cover beyond reassignments and metadata."""

    topics: frozenset[str] = frozenset()
    brokers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Observation:
    """One look. Reassignments are asked for before metadata: a broker's metadata may be late, never early."""

    at: float
    """Monotonic clock, seconds."""
    cluster_id: str
    online: frozenset[int]
    reassignments: Mapping[TopicPartition, ReassignmentAnswer]
    topics: Mapping[str, TopicAnswer]
    """All topics that may be seen."""
    min_isr: Mapping[str, int] = field(default_factory=dict)
    lists: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Topic -> `leader`, `follower` -> its throttled replicas, as far as set on the topic itself."""
    dirs: Mapping[int, tuple[DirAnswer, ...]] = field(default_factory=dict)
    """Of brokers that were asked and answered."""
    rates: Mapping[int, BrokerRates] = field(default_factory=dict)
    """Of brokers that were asked and answered."""
    waits: Waits | None = None
    """How long producers wait; None: nobody tells."""

    metadata_version: int | None = None
    """Level of Kafka's feature of this name; None: there is none, or nobody asked."""

    def partition(self, key: TopicPartition) -> PartitionAnswer | None:
        """Metadata of a partition; None where it is not there."""
        topic = self.topics.get(key[0])
        if topic is None:
            return None
        rows, number = topic.partitions, key[1]
        if number < len(rows) and rows[number].partition == number:  # as good as always
            return rows[number]
        return next((one for one in rows if one.partition == number), None)

    def replica_dir(self, broker: int, key: TopicPartition) -> DirAnswer | None:
        """Directory of a replica, where the broker told."""
        return next((one for one in self.dirs.get(broker, ()) if key in one.replica_bytes), None)

    def future_dir(self, broker: int, key: TopicPartition) -> DirAnswer | None:
        """Directory that a replica is on its way to on its own broker."""
        return next((one for one in self.dirs.get(broker, ()) if key in one.future_bytes), None)

    def futures(self) -> Iterator[tuple[int, DirAnswer, TopicPartition]]:
        """Replicas on their way to another directory of their broker: broker, that directory, partition."""
        for broker, places in self.dirs.items():
            for place in places:
                for key in place.future_bytes:
                    yield broker, place, key

    def find_dir(self, broker: int, path: str) -> DirAnswer | None:
        """A directory by its path."""
        return next((one for one in self.dirs.get(broker, ()) if one.path == path), None)

    def replica_bytes(self, broker: int, key: TopicPartition) -> int | None:
        """Size of a replica; None: not told."""
        found = self.replica_dir(broker, key)
        return None if found is None else found.replica_bytes[key]
