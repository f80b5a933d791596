"""What retention leaves of a topic's bytes, now and of what is still to come.

Kafka deletes whole segments: one goes when its newest record is too old, or when the log without it is still
as large as `retention.bytes`. Where segments begin is not told, so what whole segments leave is taken as its
mean, half a segment: a plan then stands still while segments come and go. Deleted files keep their space for
`file.delete.delay.ms`.

What is written and what expires must be looked at over the same time: bytes written within it that also
expire within it count neither as new nor as old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenkeel.domain.snapshot import Topic

DEFAULT_HORIZON_SECONDS = 86_400.0
DELETE_DELAY_MS = 60_000
"""Kafka's default of file.delete.delay.ms."""
LOOK_AHEAD = 1 / 3
"""Of the horizon. Each plan looks as far ahead as the one before, so that an imbalance shrinks by the factor e in
what is looked ahead: looking a whole horizon ahead a third of it is left at the horizon's end, so a twentieth."""
HALF = 0.5
"""Of a segment lies in a log beyond what retention asks for, on average over time."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Settings of a topic that decide when its bytes go."""

    age_ms: int | None = None
    """Age at which records may go; None: never."""
    limit_bytes: int | None = None
    """Bytes of a partition above which its oldest segments go; None: no limit."""
    segment_bytes: int = 0
    """0: not known, taken as infinitely fine."""
    segment_ms: int | None = None
    """Age at which a segment is closed although it is not full; None: never, or not known."""
    delete_delay_ms: int = 0
    """How long a deleted file keeps its space."""

    def segment_at(self, rate: float) -> float:
        """Bytes of a segment of a partition that grows by `rate` bytes per second."""
        if self.segment_ms is None or rate <= 0:
            return float(self.segment_bytes)
        return min(float(self.segment_bytes), rate * self.segment_ms / 1000)


@dataclass(frozen=True, slots=True)
class Log:
    """One partition as it lies on its leader's disk."""

    size: int
    """Bytes."""
    records: int
    """Offsets between its start and its end."""
    expired: int | None
    """Offsets from its start whose records are older than `retention` at the end of the time looked at; None:
    not known."""
    bytes_per_second: float | None = None
    """Its growth before retention; None: not known."""


@dataclass(frozen=True, slots=True)
class Horizons:
    """How far ahead the topics of a cluster are looked at."""

    default_seconds: float = DEFAULT_HORIZON_SECONDS
    topics: Mapping[str, float] = field(default_factory=dict)
    """Topic -> seconds, where a resource declares it."""
    observed_seconds: float | None = None
    """For how long the cluster was watched; None: as far ahead as wanted."""

    def seconds(self, topic: str, retention: Retention) -> float:
        """How far ahead `topic` is looked at, seconds."""
        wanted = self.topics.get(topic, self.default_seconds)
        return look_ahead_seconds(wanted, retention, self.observed_seconds)


def topic_retention(topic: Topic | None) -> Retention:
    """Retention of a topic of a snapshot; nothing goes where the settings are not known."""
    if topic is None or "delete" not in topic.cleanup_policy:
        return Retention()
    return Retention(
        age_ms=topic.retention_ms if topic.retention_ms is not None and topic.retention_ms >= 0 else None,
        limit_bytes=topic.retention_bytes
        if topic.retention_bytes is not None and topic.retention_bytes >= 0
        else None,
        segment_bytes=topic.segment_bytes or 0,
        segment_ms=topic.segment_ms,
        delete_delay_ms=topic.file_delete_delay_ms or 0,
    )


def look_ahead_seconds(horizon: float, retention: Retention, observed: float | None) -> float:
    """Time over which a topic's inflow and expiry are looked at.

    A third of the horizon, so that it is level at its end, but at least half the retention: with less, weights
    that answer to what expires would answer to their own echo. And no further ahead than was watched: with a
    rate of minutes and the expiry of a day a cluster in its steady state would seem to empty itself.
    """
    seconds = horizon * LOOK_AHEAD
    if retention.age_ms is not None:
        seconds = max(seconds, retention.age_ms / 2000)
    return seconds if observed is None else min(seconds, max(0.0, observed))


def kept_bytes(rate: float, seconds: float, retention: Retention, partitions: int) -> float:
    """Of what a topic takes in `seconds` at `rate` bytes per second, the bytes that lie there at their end."""
    written = rate * seconds
    if partitions <= 0:
        return written
    overhang = HALF * retention.segment_at(rate / partitions) * partitions
    if retention.age_ms is not None:
        written = min(written, rate * (retention.age_ms + retention.delete_delay_ms) / 1000 + overhang)
    if retention.limit_bytes is not None:
        written = min(written, retention.limit_bytes * partitions + overhang)
    return written


def expiry_cutoff_ms(now_ms: int, seconds: float, retention: Retention) -> int | None:
    """Records older than this have given their space back after `seconds`; None: none goes by age."""
    if retention.age_ms is None:
        return None
    return max(0, now_ms + round(seconds * 1000) - retention.age_ms - retention.delete_delay_ms)


def expiring_bytes(log: Log, retention: Retention, seconds: float) -> int | None:
    """Of the bytes that lie in `log` now, those that give their space back within `seconds`.

    None: its age limit is known, but not what it means for this log.
    """
    old = _too_old(log, retention, seconds)
    if old is None:
        return None
    return round(min(float(log.size), max(old, _too_many(log, retention, seconds))))


def _too_old(log: Log, retention: Retention, seconds: float) -> float | None:
    if retention.age_ms is None or log.records <= 0:
        return 0.0
    if log.expired is None:
        return None
    rate = log.bytes_per_second or 0.0
    segment = retention.segment_at(rate)
    active = log.size % segment if segment > 0 else 0.0
    if log.expired >= log.records:
        return log.size - (0.0 if _closes(active, log, retention, seconds) else active)
    gone = log.size * max(0, log.expired) / log.records
    return min(max(0.0, gone - HALF * segment), log.size - active)


def _closes(active: float, log: Log, retention: Retention, seconds: float) -> bool:
    """Whether also the segment that is being written is closed and grows too old within `seconds`."""
    rate = log.bytes_per_second
    if rate == 0.0:
        return True  # nobody writes: Kafka rolls the last segment once all of it is too old
    if rate is None or retention.age_ms is None:
        return False
    left = seconds - retention.age_ms / 1000
    by_time = retention.segment_ms is not None and left >= retention.segment_ms / 1000
    return by_time or active + rate * left >= retention.segment_bytes


def _too_many(log: Log, retention: Retention, seconds: float) -> float:
    """By how much the log will be above its limit, with what is written to it until then."""
    if retention.limit_bytes is None:
        return 0.0
    rate = log.bytes_per_second or 0.0
    coming = kept_bytes(rate, seconds, retention, 1)
    return max(0.0, log.size + coming - retention.limit_bytes - HALF * retention.segment_at(rate))
