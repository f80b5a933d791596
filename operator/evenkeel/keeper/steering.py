"""All that the keeper knows of routers, in one place for the cycle."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from evenkeel import names
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Fault, Policy, TopicRouting
from evenkeel.domain.table import RouteTable
from evenkeel.domain.waits import Waits
from evenkeel.errors import RetryableError
from evenkeel.keeper.growth import Growth
from evenkeel.keeper.heartbeat_log import HeartbeatLog
from evenkeel.keeper.heartbeats import WINDOW_MS, Steering, TopicSteering
from evenkeel.keeper.inflow import LEAST_RATE, PATIENCE_SECONDS, Inflow, InflowBook, SteeredTopic
from evenkeel.planning.retention import Horizons
from evenkeel.planning.tables import TableRate
from evenkeel.reasons import Reason

log = logging.getLogger(__name__)
SUBJECT = "heartbeats"
"""Of faults that routing does without."""
DOUBT_SUBJECT = "routers"
"""Of the fault that heartbeats come and are not believed."""
PATIENCE_INTERVALS = 8
"""Two minutes at the usual interval; a keeper that measures more often decides sooner."""

FARTHEST_AHEAD = 2.0
"""Routers' rates may be ahead of the measured growth by this factor: growth is that of the last measurement."""


class RouterWatch:
    """Heartbeats, and what follows from them together with growth. Used by one thread."""

    def __init__(self, wall_ms: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self._log = HeartbeatLog(wall_ms, monotonic)
        self._book = InflowBook()
        self._steering: Steering | None = None
        self._ingests: frozenset[str] = frozenset()

    def poll(self, connection: Connection, existing: Collection[str]) -> list[Fault]:
        """Read what has come, once the topic exists. Returns why it cannot be read, until it can.

        A broker that is away for a moment is none of the cluster's faults, for routing goes on without heartbeats; a
        right that is missing is.

        Raises:
            EvenkeelError: it cannot be read until somebody changes something.
        """
        if names.HEARTBEATS_TOPIC in existing:
            try:
                self._log.poll(connection)
            except RetryableError as error:
                log.warning("heartbeats not read why=%s", error.message)
        problem = self._log.problem
        if problem is None:
            return self._find_doubt()
        return [
            Fault(problem.reason, problem.message, SUBJECT if isinstance(problem, RetryableError) else "")
        ]

    def _find_doubt(self) -> list[Fault]:
        doubt = self._log.doubt()
        if not doubt:
            return []
        message = f"heartbeats of routers are not believed: {doubt}; what routers steer is as last known"
        return [Fault(Reason.MEASUREMENT_INCOMPLETE, message, DOUBT_SUBJECT)]

    def observe(
        self,
        growth: Growth,
        tables: Mapping[str, RouteTable],
        routed: Collection[str],
        policy: Policy,
        now_ms: int,
    ) -> None:
        """A measurement brought new rates: compare them with what routers say now."""
        self._steering = self._log.steering()
        patience = min(PATIENCE_SECONDS, PATIENCE_INTERVALS * float(policy.interval_seconds))
        self._book.observe(growth, self._steering, tables, routed, now_ms=now_ms, patience_seconds=patience)

    def inflow(self, routed: Collection[str], ingests: Mapping[str, int | None]) -> Inflow:
        """What a snapshot needs."""
        self._ingests = frozenset(ingests)
        return Inflow(
            routed=frozenset(routed),
            ingests=ingests,
            steered=self.steered(routed),
            unsteered=self._book.unsteered(),
            round_trips_ms=self._told.round_trips_ms,
        )

    def steered(self, topics: Collection[str]) -> dict[str, SteeredTopic]:
        """Steered shares of topics, for plan and report; producers of an ingest are ours and never few."""
        found = {topic: self._book.topic(topic) for topic in topics}
        for topic in self._ingests & found.keys():
            found[topic] = replace(found[topic], few=False, settled=True)
        return found

    def rates(self, growth: Growth) -> dict[str, TableRate]:
        """What tables tell routers of all of them together; topics without a live router are left out."""
        return {
            topic: _table_rate(told, growth.recent_rate(topic, WINDOW_MS))
            for topic, told in self._told.topics.items()
        }

    @property
    def waits(self) -> Waits:
        """How long producers wait for the slowest broker, by the newest measurement."""
        means, p99s = self._told.round_trips_ms.values(), self._told.p99s_ms.values()
        return Waits(max(means, default=None), max(p99s, default=None))

    @property
    def _told(self) -> Steering:
        """What routers said by the newest measurement; nothing where it is not known."""
        return self._steering or Steering()

    def forget(self) -> None:
        """Another cluster: nothing learned holds there."""
        self._log.close()
        self._book, self._steering = InflowBook(), None

    def close(self) -> None:
        """Give the connection back."""
        self._log.close()


def _table_rate(told: TopicSteering, whole: float | None) -> TableRate:
    """The rate that tables tell: no more than FARTHEST_AHEAD of what the topic really grew by.

    Else one router that lies would leave the others, who take parts of the budget by it, with nothing.
    """
    ratio, rate = _ratio(told, whole), told.bytes_per_second
    if whole is not None and whole >= LEAST_RATE and ratio:
        rate = min(rate, FARTHEST_AHEAD * whole / ratio)
    return TableRate(rate, ratio)


def _ratio(told: TopicSteering, whole: float | None) -> float | None:
    """On-disk bytes per router byte; where routers do not tell, at most what the topic grew by."""
    if told.ratio is not None or whole is None or told.bytes_per_second < LEAST_RATE or whole < LEAST_RATE:
        return told.ratio
    return min(1.0, whole / told.bytes_per_second)


def build_horizons(routed: Mapping[str, TopicRouting], growth: Growth, now_ms: int) -> Horizons:
    """How far ahead each topic is looked at: as declared, others as far as the farthest of them."""
    declared = {topic: float(routing.horizon_seconds) for topic, routing in routed.items()}
    return Horizons(
        default_seconds=max(declared.values(), default=Horizons().default_seconds),
        topics=declared,
        observed_seconds=float(growth.observed_seconds(now_ms)),
    )
