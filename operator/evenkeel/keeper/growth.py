"""How fast topics grow, from what successive measurements say.

Growth is new offsets times bytes per record, so that neither retention nor replica catch-up counts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from evenkeel.kafka.answers import OffsetSpan, PartitionAnswer, TopicAnswer, TopicPartition
from evenkeel.keeper.measurement import Measurement

OBSERVATIONS = 40
"""Rates kept per partition; their median is the rate."""
SHORTEST_SECONDS = 5.0
"""Measurements closer together are not compared: a rate over less is noise."""
SILENT_STRETCHES = 3
"""For so many comparisons the median stands in for a partition whose leader does not tell; then its topic's rate is
not known (as long as `last_known` keeps answers)."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What a topic took between two measurements."""

    end_ms: int
    seconds: float
    size: float


@dataclass(slots=True)
class Growth:
    """History of rates, bytes per second on disk before replication."""

    _last_ms: int | None = None
    _first_ms: int | None = None
    _ends: dict[TopicPartition, int] = field(default_factory=dict)
    _partitions: dict[TopicPartition, deque[float]] = field(default_factory=dict)
    _topics: dict[str, deque[float]] = field(default_factory=dict)
    _stretches: dict[str, deque[_Stretch]] = field(default_factory=dict)
    _newest: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    _silent: dict[TopicPartition, int] = field(default_factory=dict)
    _starts: dict[TopicPartition, int] = field(default_factory=dict)
    _deleted: dict[TopicPartition, deque[tuple[int, float]]] = field(default_factory=dict)

    def observe(self, measurement: Measurement) -> bool:
        """Add a measurement; too soon after the last one it changes nothing. Returns whether there are new rates."""
        spans = measurement.spans()
        if self._last_ms is None or measurement.taken_at_ms < self._last_ms:
            # At first, and when the clock was set back: it would take as long until rates are told again.
            self._first_ms = measurement.taken_at_ms
            self._stretches.clear()
            self._deleted.clear()
            fresh = False
        else:
            seconds = (measurement.taken_at_ms - self._last_ms) / 1000
            if seconds < SHORTEST_SECONDS:
                return False
            self._compare(measurement, spans, seconds)
            fresh = True
        self._last_ms = measurement.taken_at_ms
        self._ends = {key: span.end for key, span in spans.items()}
        self._starts = {key: span.start for key, span in spans.items()}
        return fresh

    def partition_rate(self, key: TopicPartition) -> float | None:
        """Median rate of a partition; None: no history."""
        rates = self._partitions.get(key)
        return median(rates) if rates else None

    def topic_rate(self, topic: str) -> float | None:
        """Median rate of a whole topic; None: no history."""
        rates = self._topics.get(topic)
        return median(rates) if rates else None

    def recent_rate(self, topic: str, window_ms: int) -> float | None:
        """Mean rate of a whole topic over the newest `window_ms`, one stretch at least; None: no history."""
        found = self._stretches.get(topic)
        if not found or self._last_ms is None:
            return None
        recent = [one for one in found if one.end_ms > self._last_ms - window_ms] or [found[-1]]
        return sum(one.size for one in recent) / sum(one.seconds for one in recent)

    def newest_rates(self, topic: str) -> tuple[float | None, ...]:
        """Rates of partitions 0..P-1 between the last two measurements; empty: none, None: not known."""
        return self._newest.get(topic, ())

    def deleted_bytes(self, key: TopicPartition, now_ms: int, delay_ms: int) -> int:
        """Bytes of a replica that retention deleted within `delay_ms`: they still take space."""
        found = self._deleted.get(key, ())
        return round(sum(size for at_ms, size in found if at_ms > now_ms - delay_ms))

    def observed_seconds(self, now_ms: int | None = None) -> int:
        """How long has been watched, until `now_ms` if given: a rate says nothing beyond as much time ahead."""
        if self._last_ms is None or self._first_ms is None:
            return 0
        return max(0, (self._last_ms if now_ms is None else now_ms) - self._first_ms) // 1000

    def _compare(
        self, measurement: Measurement, spans: dict[TopicPartition, OffsetSpan], seconds: float
    ) -> None:
        sizes, now_ms = leader_bytes(measurement), measurement.taken_at_ms
        self._newest.clear()
        for name, topic in measurement.topics.items():
            rates: list[float | None] = []
            for entry in topic.partitions:
                key = (name, entry.partition)
                rate = self._rate(key, spans.get(key), sizes.get(key), seconds)
                rates.append(rate)
                if rate is not None:
                    self._partitions.setdefault(key, deque(maxlen=OBSERVATIONS)).append(rate)
                self._note_deleted(key, spans.get(key), sizes.get(key), now_ms)
            self._newest[name] = tuple(rates)
            self._note_topic(topic, rates, seconds, now_ms)
        self._forget(measurement)

    def _note_topic(self, topic: TopicAnswer, rates: list[float | None], seconds: float, now_ms: int) -> None:
        told = any(rate is not None for rate in rates)
        known = [
            self._complete(topic.name, entry, rate)
            for entry, rate in zip(topic.partitions, rates, strict=True)
        ]
        whole = [rate for rate in known if rate is not None]
        if told and len(whole) == len(known):
            self._topics.setdefault(topic.name, deque(maxlen=OBSERVATIONS)).append(sum(whole))
            stretches = self._stretches.setdefault(topic.name, deque(maxlen=OBSERVATIONS))
            stretches.append(_Stretch(now_ms, seconds, sum(whole) * seconds))

    def _complete(self, topic: str, entry: PartitionAnswer, rate: float | None) -> float | None:
        """The rate, or what stands in for it: a partition that is down must not hide what its topic takes."""
        key = (topic, entry.partition)
        if rate is not None or entry.leader is None:
            self._silent.pop(key, None)
            return rate or 0.0  # nothing can be written where nobody leads
        self._silent[key] = self._silent.get(key, 0) + 1
        return self.partition_rate(key) if self._silent[key] <= SILENT_STRETCHES else None

    def _note_deleted(
        self, key: TopicPartition, span: OffsetSpan | None, size: int | None, now_ms: int
    ) -> None:
        before = self._starts.get(key)
        if before is None or span is None or size is None or not before < span.start < span.end:
            return
        gone = (span.start - before) * size / (span.end - span.start)
        self._deleted.setdefault(key, deque(maxlen=OBSERVATIONS)).append((now_ms, gone))

    def _forget(self, measurement: Measurement) -> None:
        for name in self._topics.keys() - measurement.topics.keys():
            del self._topics[name]
            self._stretches.pop(name, None)
        for book in (self._partitions, self._deleted, self._silent):
            for key in [key for key in book if key[0] not in measurement.topics]:
                del book[key]

    def _rate(
        self, key: TopicPartition, span: OffsetSpan | None, size: int | None, seconds: float
    ) -> float | None:
        before = self._ends.get(key)
        if before is None or span is None or size is None or span.end < before:
            return None
        if span.end == before:
            return 0.0
        records = span.end - span.start
        return (span.end - before) * (size / records) / seconds if records > 0 else None


def leader_bytes(measurement: Measurement) -> dict[TopicPartition, int]:
    """Bytes of each partition on its leader's disk, where both are known."""
    sizes = broker_bytes(measurement)
    found: dict[TopicPartition, int] = {}
    for name, topic in measurement.topics.items():
        for entry in topic.partitions:
            key = (name, entry.partition)
            if entry.leader is not None and (size := sizes.get(entry.leader, {}).get(key)) is not None:
                found[key] = size
    return found


def broker_bytes(measurement: Measurement) -> dict[int, dict[TopicPartition, int]]:
    """Broker -> partition -> bytes on disk, of the brokers that answered."""
    found: dict[int, dict[TopicPartition, int]] = {}
    for broker, answer in measurement.dirs.items():
        if isinstance(answer, tuple):
            sizes = found.setdefault(broker, {})
            for directory in answer:
                sizes.update(directory.replica_bytes)
    return found
