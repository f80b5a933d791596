"""What a router tells about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenkeel.domain.heartbeat import RouteMode
from evenkeel.router.store import TableCounts


@dataclass(frozen=True, slots=True)
class TopicStats:
    """One topic."""

    mode: RouteMode
    bytes: int
    """Values without key and partition since the start."""
    runs: int
    mix: float
    """How far the table is mixed towards uniform, 0 to 1."""
    owner_epoch: int = 0
    epoch: int = 0
    wire_ratio: float | None = None
    """Bytes on the wire per byte of keys and values, compressed; None: the client has not said."""
    budget_share: float | None = None
    """Part of the table's byte budget that is this router's; None: no table, or no rate yet."""


@dataclass(frozen=True, slots=True)
class RouterStats:
    """One Producer."""

    router: str
    topics: Mapping[str, TopicStats] = field(default_factory=dict)
    tables: TableCounts = field(default_factory=TableCounts)
    read_errors: int = 0
    heartbeats_sent: int = 0
    heartbeats_failed: int = 0
    last_problem: str = ""
