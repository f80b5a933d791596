"""What one measurement of a Kafka cluster found. The JSON form is the contract of the offline tools.

Sizes are bytes, times milliseconds since the epoch. What could not be measured is None and its path is
listed in `ClusterSnapshot.unknown`; unknown is never zero and never empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log directory of a broker."""

    path: str
    total_bytes: int | None = None
    """Size of its file system; None: unknown or offline."""
    usable_bytes: int | None = None
    """Free bytes of its file system; used = total - usable, which includes deleted files that still lie there."""
    online: bool = True
    cordoned: bool = False
    volume: str | None = None
    """Name of the volume that holds it; directories with one name share their space. None: a volume of its own."""


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker."""

    id: int
    rack: str | None = None
    host: str | None = None
    node: str | None = None
    """Kubernetes node, where the operator knows it."""
    online: bool = True
    fenced: bool = False
    log_dirs: tuple[LogDir, ...] = ()
    load: Mapping[str, float] = field(default_factory=dict)
    measured_at_ms: int | None = None
    """When it told its log directories, where that was in an earlier measurement; None: in this one, or never."""


@dataclass(frozen=True, slots=True)
class Topic:
    """Settings of a topic that decide what may be routed or moved."""

    name: str
    internal: bool = False
    cleanup_policy: str = "delete"
    retention_ms: int | None = None
    retention_bytes: int | None = None
    segment_bytes: int | None = None
    segment_ms: int | None = None
    file_delete_delay_ms: int | None = None
    """How long deleted segments keep their space."""
    min_isr: int | None = None
    remote_storage: bool = False
    throttled_replicas: Mapping[str, str] = field(default_factory=dict)
    """`leader`, `follower` -> replicas whose copying is throttled, as Kafka writes them: `0:1,1:2` or `*`."""
    topic_id: str | None = None
    """As Kafka writes it: a topic that is made again under its name has another."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition and the bytes of its replicas."""

    topic: str
    partition: int
    leader: int | None
    """None: no leader, nothing can be written."""
    replicas: tuple[int, ...]
    """Brokers in preference order, adding ones included."""
    isr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    replica_bytes: Mapping[int, int] = field(default_factory=dict)
    """broker -> bytes on its disk."""
    replica_dirs: Mapping[int, str] = field(default_factory=dict)
    """broker -> path of the log directory; absent where a broker has one directory."""
    adding_bytes: int | None = None
    future_dirs: Mapping[int, str] = field(default_factory=dict)
    """broker -> path of the log directory of the same broker that the replica is being moved to."""
    future_bytes: Mapping[int, int] = field(default_factory=dict)
    """broker -> bytes copied there so far; not in `replica_bytes`, which is what lies in the directory of now."""
    log_start: int | None = None
    end: int | None = None
    offsets_at_ms: int | None = None
    """When its leader told `log_start` and `end`, where that was in an earlier measurement."""
    bytes_per_second: float | None = None
    """On-disk growth before retention and replication, by whomever."""
    unsteered_bytes_per_second: float | None = None
    """The part of it that does not come from routers; None: not known apart."""
    expiring_bytes: int | None = None
    """Bytes that retention will delete within the routing horizon, deleted ones that still lie there included."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """What is expected to be written to a topic."""

    topic: str
    bytes_per_second: float | None = None
    """On-disk bytes per second before replication; None: unknown, not guessed."""
    planned_bytes: int | None = None
    """On-disk bytes, before replication, that a running ingest has still to write."""
    steered_percent: int = 100
    """Share of the inflow that comes from routers and is not keyed."""
    observed_seconds: int | None = None
    """For how long the rate was watched: it is extrapolated no further ahead. None: as far as wanted."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """A replication throttle found on the cluster."""

    broker: int
    bytes_per_second: int
    role: str = "leader"
    """Which side of the copying it slows down: `leader` (sending) or `follower` (receiving)."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """One measurement, enough to plan routes and moves without talking to anybody."""

    brokers: tuple[Broker, ...]
    partitions: tuple[Partition, ...]
    incoming: tuple[Incoming, ...]
    topics: tuple[Topic, ...] = ()
    schema_version: int = 1
    taken_at_ms: int = 0
    cluster_id: str | None = None
    throttles: tuple[Throttle, ...] = ()
    unknown: tuple[str, ...] = ()
    """Paths of what could not be measured, such as `brokers[3].logDirs`."""

    def group_partitions(self, topics: Iterable[str]) -> dict[str, list[Partition]]:
        """Topic -> its partitions as they stand here, for these topics; empty for one without any."""
        grouped: dict[str, list[Partition]] = {topic: [] for topic in topics}
        for partition in self.partitions:
            if partition.topic in grouped:
                grouped[partition.topic].append(partition)
        return grouped
