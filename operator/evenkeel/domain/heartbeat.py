"""What a router tells the keeper, as a record of the heartbeats topic: key = router, value = this as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class RouteMode(StrEnum):
    """How a router chooses partitions of a topic just now."""

    TABLE = "Table"
    """By the weights of the table in force."""
    MIXED = "Mixed"
    """By weights mixed towards uniform, since the table is past its time or budget."""
    DEFAULT = "Default"
    """By the client's own partitioner: there is no table, or it is far too old."""


@dataclass(frozen=True, slots=True)
class TopicHeartbeat:
    """What one router did with one topic."""

    bytes: int
    """Sum of the values that were routed since the router started, before replication and compression."""
    mode: RouteMode
    owner_epoch: int = 0
    epoch: int = 0
    """Of the table in force; 0: none."""
    wire_bytes: int | None = None
    """Of `bytes`, what they took on the wire (compressed, before replication); None: not known.
    Divided by `bytes` it is the on-disk ratio of this producer."""


@dataclass(frozen=True, slots=True)
class BrokerHeartbeat:
    """How one broker answered one router lately."""

    round_trip_ms: float
    """Mean round trip of Produce requests over about the last 10 s, milliseconds."""
    requests: int
    """How many were seen in that time: the weight of the mean."""
    p99_ms: float | None = None
    """Their 99th percentile; None: not told, as there were too few or the client knows none."""


@dataclass(frozen=True, slots=True)
class RouterHeartbeat:
    """Bytes of one router by topic; counters only grow while the router lives."""

    router: str
    """Unique per process and Producer."""
    topics: Mapping[str, TopicHeartbeat] = field(default_factory=dict)
    brokers: Mapping[int, BrokerHeartbeat] = field(default_factory=dict)
    clock_ms: int | None = None
    """When the counters were read, milliseconds of a clock that is never set back, from any start. The first
    records wait for the topic to be made and arrive at once: their brokers' times would tell several times the rate.
    None: not told, those are all there is."""
    schema_version: int = 1
