"""What retention will free of each partition: the measured facts, put before the model of `planning.retention`."""

from __future__ import annotations

from evenkeel.domain.snapshot import Topic
from evenkeel.kafka.answers import OffsetSpan, TopicPartition
from evenkeel.keeper.growth import Growth
from evenkeel.keeper.measurement import Measurement
from evenkeel.planning.retention import Horizons, Log, Retention, expiring_bytes, topic_retention


class Expiry:
    """Expiring bytes of one measurement.

    Args:
        measurement: the answers, those about offsets by time included.
        growth: rates and what was deleted just now.
        topics: settings of the topics, as far as they are known.
        horizons: how far ahead the measurement looked.
    """

    def __init__(
        self, measurement: Measurement, growth: Growth, topics: tuple[Topic, ...], horizons: Horizons
    ) -> None:
        self._measurement = measurement
        self._growth = growth
        self._horizons = horizons
        self._retentions = {
            topic.name: topic_retention(topic)
            for topic in topics
            if measurement.configs.get(topic.name) is not None
        }

    def of(self, key: TopicPartition, span: OffsetSpan | None, size: int | None) -> int | None:
        """Bytes of each replica that give their space back within the topic's horizon; None: not known.

        What was deleted within file.delete.delay.ms is among them: the disk still counts it as used.
        """
        retention = self._retentions.get(key[0])
        if retention is None or span is None or size is None:
            return None
        log = Log(size, span.end - span.start, self._expired(key, span, retention), self._rate(key))
        found = expiring_bytes(log, retention, self._horizons.seconds(key[0], retention))
        if found is None:
            return None
        now_ms = self._measurement.taken_at_ms
        return found + self._growth.deleted_bytes(key, now_ms, retention.delete_delay_ms)

    def _rate(self, key: TopicPartition) -> float | None:
        return self._growth.partition_rate(key)

    def _expired(self, key: TopicPartition, span: OffsetSpan, retention: Retention) -> int | None:
        if span.end <= span.start or retention.age_ms is None:
            return 0
        if key not in self._measurement.kept_from:
            return None
        kept = self._measurement.kept_from[key]
        return (span.end if kept is None else min(max(kept, span.start), span.end)) - span.start
