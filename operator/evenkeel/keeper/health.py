"""Metrics of the keeper."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client import Counter as Total

from evenkeel.domain.exchange import Report, RoutesReport
from evenkeel.reasons import Reason


class Metrics:
    """What the last report says, and how long turns take."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._told: set[Reason] = set()

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"evenkeel_{name}", text, labels, registry=self.registry)

        self._total = gauge("volume_total_bytes", "Size of a log directory's file system", "broker", "path")
        self._used = gauge("volume_used_bytes", "Used bytes, within a percent of its size", "broker", "path")
        self._fullest = gauge("max_fill_ratio", "Fill of the fullest volume, 0 to 1")
        self._deviation = gauge("deviation_ratio", "Largest distance of a volume's fill from the mean")
        self._measured = gauge("measured", "1 while the newest measurement is young enough")
        self._claim = gauge("claim_held", "1 while this keeper owns the Kafka cluster")
        self._faults = gauge("faults", "Things that are wrong now", "reason")
        self._active = gauge("routes_active", "1 while a topic is routed", "topic")
        self._epoch = gauge("routes_epoch", "Epoch of the newest weights of a topic", "topic")
        self._drops = Total(
            "evenkeel_score_drops",
            "How often a score did not count for a topic",
            ("score", "reason"),
            registry=self.registry,
        )
        self._fill = gauge(
            "routes_max_fill_ratio",
            "Fill of the fullest volume at the end of the horizon: predicted, optimal, uncapped, uniform",
            "topic",
            "kind",
        )
        self._regret = gauge(
            "routes_regret_ratio", "Predicted fill of the fullest volume above the optimum", "topic"
        )
        self._steered = gauge("routes_steered_ratio", "Share of a topic's inflow that routers steer", "topic")
        self._full = gauge(
            "volume_full_days", "Days until a volume is full, if that is within a year", "broker", "path"
        )
        self.cycle_seconds = gauge("cycle_seconds", "Length of the last turn")

    def count_drops(self, drops: Mapping[tuple[str, Reason], int]) -> None:
        """Add scores that were dropped, (score, reason) -> how often since the last time."""
        for (score, reason), count in drops.items():
            self._drops.labels(score, reason.value).inc(count)

    def show(self, report: Report) -> None:
        """Set all values from a report; unknown volumes have no series, unknown fills are NaN."""
        for family in (self._total, self._used, self._full, *self._of_routes):
            family.clear()
        for volume in report.volumes:
            labels = (str(volume.broker), volume.path)
            if volume.total_bytes is not None:
                self._total.labels(*labels).set(volume.total_bytes)
            if volume.used_bytes is not None:
                self._used.labels(*labels).set(volume.used_bytes)
            if volume.full_in_days is not None:
                self._full.labels(*labels).set(volume.full_in_days)
        self._fullest.set(_ratio(report.max_fill_permille))
        self._deviation.set(_ratio(report.deviation_permille))
        self._measured.set(report.measured)
        self._claim.set(report.claim is not None and report.claim.held)
        counts = Counter(fault.reason for fault in report.faults)
        self._told |= counts.keys()
        for reason in self._told:
            self._faults.labels(reason.value).set(counts.get(reason, 0))
        for topic in report.topics:
            if topic.routes is not None:
                self._show_routes(topic.name, topic.routes)

    @property
    def _of_routes(self) -> tuple[Gauge, ...]:
        return (self._active, self._epoch, self._fill, self._regret, self._steered)

    def _show_routes(self, topic: str, routes: RoutesReport) -> None:
        self._active.labels(topic).set(routes.active)
        self._epoch.labels(topic).set(routes.epoch)
        fills = {
            "predicted": routes.predicted_max_fill_permille,
            "optimal": routes.optimal_max_fill_permille,
            "uncapped": routes.uncapped_max_fill_permille,
            "uniform": routes.uniform_max_fill_permille,
        }
        for kind, fill in fills.items():
            if fill is not None:
                self._fill.labels(topic, kind).set(fill / 1000)
        predicted, optimal = fills["predicted"], fills["optimal"]
        if predicted is not None and optimal is not None:
            self._regret.labels(topic).set((predicted - optimal) / 1000)
        if routes.steered_percent is not None:
            self._steered.labels(topic).set(routes.steered_percent / 100)


def _ratio(permille: int | None) -> float:
    """A fraction; NaN where it is not known, for 0 would calm every alert."""
    return math.nan if permille is None else permille / 1000
