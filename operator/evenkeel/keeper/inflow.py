"""What is written to each topic, and how much of it routers steer.

A topic's rate is the growth of its offsets, whoever writes. The steered part is what routers say they write
(heartbeats), in on-disk bytes. Both are means over the newest minute, so that their ratio holds also for
traffic in bursts.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from statistics import fmean

from evenkeel import names
from evenkeel.domain.snapshot import Incoming
from evenkeel.domain.table import WEIGHT_SCALE, RouteTable
from evenkeel.kafka.answers import TopicPartition
from evenkeel.keeper.growth import OBSERVATIONS, Growth
from evenkeel.keeper.heartbeats import WINDOW_MS, Steering, TopicSteering
from evenkeel.keeper.measurement import Measurement
from evenkeel.planning.inflow import FEW_PERCENT

ENOUGH_PERCENT = 25
"""From this share on, above FEW_PERCENT, weights are said to decide again: no flapping in between."""
PATIENCE_SECONDS = 120.0
"""Inflow must have been seen for so long before routed producers are called few: they have just started."""
SMOOTHING_SECONDS = 30.0
HEARD_SECONDS = 15.0
"""Routers tell a rate with their second heartbeat, 10 s after their first record: sooner the inflow of a topic
that begins to be written would seem to be nobody's, and with the smoothing so for a minute (seen on real brokers:
a level cluster was unlevelled again for inflow that never came)."""
LEAST_RATE = 1024.0
"""Bytes per second below which nothing is concluded from a topic's inflow."""


@dataclass(frozen=True, slots=True)
class SteeredTopic:
    """What part of a topic's inflow comes from routers."""

    percent: int | None = None
    """None: not known: no heartbeats could be read, or no inflow was seen yet."""
    few: bool = False
    """Less than FEW_PERCENT, for a while."""
    settled: bool = False
    """Inflow was seen for long enough to say so."""


@dataclass(frozen=True, slots=True)
class Inflow:
    """What we know about coming writes that Kafka cannot tell."""

    routed: frozenset[str] = frozenset()
    """Topics whose producers may be steered."""
    ingests: Mapping[str, int | None] = field(default_factory=dict)
    """Data topic -> bytes that its ingest has still to write (0: sealed); None: no plan yet."""
    steered: Mapping[str, SteeredTopic] = field(default_factory=dict)
    unsteered: Mapping[TopicPartition, float] = field(default_factory=dict)
    """On-disk bytes per second that come from others than routers, where that is known apart."""
    round_trips_ms: Mapping[int, float] = field(default_factory=dict)
    """broker -> round trip of Produce requests, the median of what routers saw."""


def build_incoming(measurement: Measurement, growth: Growth, inflow: Inflow) -> tuple[Incoming, ...]:
    """Expected writes of every topic that is not internal."""
    return tuple(
        _topic_inflow(name, growth, inflow)
        for name, topic in sorted(measurement.topics.items())
        if not topic.internal and not name.startswith(names.INTERNAL_PREFIX)
    )


def _topic_inflow(name: str, growth: Growth, inflow: Inflow) -> Incoming:
    if name in inflow.ingests:
        planned = inflow.ingests[name]
        # The remaining planned bytes of an ingest are all that comes: no rate beside them. Its producers are ours.
        percent = 100 if name in inflow.routed else 0
        return Incoming(name, 0.0 if planned is not None else None, planned, percent)
    rate = growth.topic_rate(name)
    observed = growth.observed_seconds() if rate is not None else None
    return Incoming(name, rate, None, _percent(name, inflow), observed)


def _percent(name: str, inflow: Inflow) -> int:
    """Never 0 for a topic that is to be routed.

    Its table must stay: routers that start would not find one, would not be counted, and it stayed at 0.
    """
    if name not in inflow.routed:
        return 0
    known = inflow.steered.get(name, SteeredTopic()).percent
    return 100 if known is None else max(1, known)


@dataclass(slots=True)
class _Share:
    """The steered share of one topic as it goes on."""

    value: float | None = None
    seconds: float = 0.0
    """For how long inflow was seen."""
    few: bool = False
    settled: bool = False

    def note(self, share: float, seconds: float, patience: float) -> None:
        if self.value is None and share < 1.0 and self.seconds + seconds < HEARD_SECONDS:
            self.seconds += seconds
            return
        part = 1.0 - math.exp(-seconds / SMOOTHING_SECONDS)
        self.value = share if self.value is None else self.value + part * (share - self.value)
        self.seconds += seconds
        self.settled = self.seconds >= patience
        percent = 100 * self.value
        if self.few:
            self.few = percent < ENOUGH_PERCENT
        else:
            self.few = percent < FEW_PERCENT and self.settled


class InflowBook:
    """History of steered shares. Used by one thread."""

    def __init__(self) -> None:
        self._last_ms: int | None = None
        self._shares: dict[str, _Share] = {}
        self._unsteered: dict[TopicPartition, deque[float]] = {}

    def observe(
        self,
        growth: Growth,
        steering: Steering | None,
        tables: Mapping[str, RouteTable],
        topics: Collection[str],
        *,
        now_ms: int,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Compare what grew with what routers wrote.

        Args:
            growth: with the newest measurement.
            steering: what the heartbeats of the newest minute say; None: they could not be read.
            tables: those in force: steered bytes are on the partitions by their weights.
            topics: those to watch; others are forgotten.
            now_ms: when the measurement was taken.
            patience_seconds: how long inflow must be seen before routed producers are called few.
        """
        seconds = 0.0 if self._last_ms is None else max(0.0, (now_ms - self._last_ms) / 1000)
        self._last_ms = now_ms
        self._forget(topics)
        if steering is None:
            return
        for topic in topics:
            whole = growth.recent_rate(topic, WINDOW_MS)
            told = steering.topics.get(topic, TopicSteering())
            if whole is not None and whole >= LEAST_RATE and seconds > 0:
                share = min(1.0, told.disk_rate(whole) / whole)
                known = self._shares.setdefault(topic, _Share())
                known.note(share, seconds, patience_seconds)
                if known.value is not None:
                    self._note_partitions(topic, growth, told, told.disk_rate(whole), tables.get(topic))

    def topic(self, name: str) -> SteeredTopic:
        """What is known of a topic."""
        share = self._shares.get(name)
        if share is None or share.value is None:
            return SteeredTopic()
        return SteeredTopic(round(100 * share.value), share.few, share.settled)

    def unsteered(self) -> dict[TopicPartition, float]:
        """Mean rates of what routers did not bring, of the newest observations."""
        return {key: max(0.0, fmean(rates)) for key, rates in self._unsteered.items()}

    def _forget(self, topics: Collection[str]) -> None:
        for name in self._shares.keys() - set(topics):
            del self._shares[name]
        for key in [key for key in self._unsteered if key[0] not in self._shares]:
            del self._unsteered[key]

    def _note_partitions(
        self, topic: str, growth: Growth, told: TopicSteering, steered: float, table: RouteTable | None
    ) -> None:
        """Growth of each partition less the steered bytes that its weight gave it.

        Single differences may be negative (a router fills one partition at a time): they are not clipped, so
        that their mean stays unbiased.
        """
        rates = growth.newest_rates(topic)
        count = len(rates)
        if not count or (table is not None and len(table.weights) != count):
            return
        for partition, rate in enumerate(rates):
            if rate is None:
                continue
            weight = table.weights[partition] / WEIGHT_SCALE if table is not None else 1 / count
            expected = told.by_table * weight + (1 - told.by_table) / count
            history = self._unsteered.setdefault((topic, partition), deque(maxlen=OBSERVATIONS))
            history.append(rate - steered * expected)
