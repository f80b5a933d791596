"""How fast topics grow, from what successive measurements say.

Growth is new offsets times bytes per record, so that neither retention nor replica catch-up counts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from evenkeel.kafka.answers import OffsetSpan, TopicPartition
from evenkeel.keeper.measurement import Measurement

OBSERVATIONS = 40
"""Rates kept per partition; their median is the rate."""
SHORTEST_SECONDS = 5.0
"""Measurements closer together are not compared: a rate over less is noise."""


@dataclass(slots=True)
class Growth:
    """History of rates, bytes per second on disk before replication."""

    _last_ms: int | None = None
    _first_ms: int | None = None
    _ends: dict[TopicPartition, int] = field(default_factory=dict)
    _partitions: dict[TopicPartition, deque[float]] = field(default_factory=dict)
    _topics: dict[str, deque[float]] = field(default_factory=dict)

    def observe(self, measurement: Measurement) -> None:
        """Add a measurement; too soon after the last one it changes nothing."""
        spans = measurement.spans()
        if self._last_ms is None or measurement.taken_at_ms < self._last_ms:
            # At first, and when the clock was set back: it would take as long until rates are told again.
            self._first_ms = measurement.taken_at_ms
        else:
            seconds = (measurement.taken_at_ms - self._last_ms) / 1000
            if seconds < SHORTEST_SECONDS:
                return
            self._compare(measurement, spans, seconds)
        self._last_ms = measurement.taken_at_ms
        self._ends = {key: span.end for key, span in spans.items()}

    def partition_rate(self, key: TopicPartition) -> float | None:
        """Median rate of a partition; None: no history."""
        rates = self._partitions.get(key)
        return median(rates) if rates else None

    def topic_rate(self, topic: str) -> float | None:
        """Median rate of a whole topic; None: no history."""
        rates = self._topics.get(topic)
        return median(rates) if rates else None

    def observed_seconds(self) -> int:
        """How long has been watched: a rate says nothing beyond as much time ahead."""
        if self._last_ms is None or self._first_ms is None:
            return 0
        return (self._last_ms - self._first_ms) // 1000

    def _compare(
        self, measurement: Measurement, spans: dict[TopicPartition, OffsetSpan], seconds: float
    ) -> None:
        sizes = leader_bytes(measurement)
        for name, topic in measurement.topics.items():
            rates = []
            for entry in topic.partitions:
                key = (name, entry.partition)
                rate = self._rate(key, spans.get(key), sizes.get(key), seconds)
                if rate is not None:
                    self._partitions.setdefault(key, deque(maxlen=OBSERVATIONS)).append(rate)
                    rates.append(rate)
            if rates and len(rates) == len(topic.partitions):
                self._topics.setdefault(name, deque(maxlen=OBSERVATIONS)).append(sum(rates))
        gone = self._topics.keys() - measurement.topics.keys()
        for name in gone:
            del self._topics[name]
        for key in [key for key in self._partitions if key[0] not in measurement.topics]:
            del self._partitions[key]

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
    sizes = replica_bytes(measurement)
    return {
        (name, entry.partition): sizes[name, entry.partition][entry.leader]
        for name, topic in measurement.topics.items()
        for entry in topic.partitions
        if entry.leader is not None and entry.leader in sizes.get((name, entry.partition), {})
    }


def replica_bytes(measurement: Measurement) -> dict[TopicPartition, dict[int, int]]:
    """Partition -> broker -> bytes on disk, of the brokers that answered."""
    found: dict[TopicPartition, dict[int, int]] = {}
    for broker, answer in measurement.dirs.items():
        if isinstance(answer, tuple):
            for directory in answer:
                for key, size in directory.replica_bytes.items():
                    found.setdefault(key, {})[broker] = size
    return found
