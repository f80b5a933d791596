"""What Kafka's administration answers, as frozen values. None is unknown, never zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TopicPartition = tuple[str, int]
"""Topic name and partition number."""


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """A broker as the controller knows it."""

    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool
    """Registered and not heard from: dead or starting."""


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """Identity and brokers of the cluster."""

    cluster_id: str
    brokers: tuple[BrokerAnswer, ...]


@dataclass(frozen=True, slots=True)
class DirAnswer:
    """One log directory of a broker with the replicas on it."""

    path: str
    online: bool
    total_bytes: int | None
    usable_bytes: int | None
    cordoned: bool = False
    replica_bytes: Mapping[TopicPartition, int] = field(default_factory=dict)
    future_bytes: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Copies that move between directories of this broker."""


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """One partition of the metadata."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicAnswer:
    """One topic of the metadata; topics without the right Describe are missing there without a word."""

    name: str
    topic_id: str
    """As Kafka writes it (`domain.topic_id`)."""
    internal: bool
    partitions: tuple[PartitionAnswer, ...]


@dataclass(frozen=True, slots=True)
class ReassignmentAnswer:
    """A partition that is on its way to other brokers."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OffsetSpan:
    """The readable part of a partition's log: [start, end)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class BrokerRates:
    """Throttles of one broker, bytes per second by name of the setting."""

    own: Mapping[str, int] = field(default_factory=dict)
    """Set for this very broker."""
    inherited: Mapping[str, int] = field(default_factory=dict)
    """From the cluster's defaults or the broker's file: in force where there is no own one."""
