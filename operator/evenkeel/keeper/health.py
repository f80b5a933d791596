"""Metrics of the keeper."""

from __future__ import annotations

from collections import Counter

from prometheus_client import CollectorRegistry, Gauge

from evenkeel.domain.exchange import Report
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
        self.cycle_seconds = gauge("cycle_seconds", "Length of the last turn")

    def show(self, report: Report) -> None:
        """Set all values from a report; unknown volumes have no series."""
        for family in (self._total, self._used, self._active, self._epoch):
            family.clear()
        for volume in report.volumes:
            labels = (str(volume.broker), volume.path)
            if volume.total_bytes is not None:
                self._total.labels(*labels).set(volume.total_bytes)
            if volume.used_bytes is not None:
                self._used.labels(*labels).set(volume.used_bytes)
        self._fullest.set((report.max_fill_permille or 0) / 1000)
        self._deviation.set((report.deviation_permille or 0) / 1000)
        self._measured.set(report.measured)
        self._claim.set(report.claim is not None and report.claim.held)
        counts = Counter(fault.reason for fault in report.faults)
        self._told |= counts.keys()
        for reason in self._told:
            self._faults.labels(reason.value).set(counts.get(reason, 0))
        for topic in report.topics:
            if topic.routes is not None:
                self._active.labels(topic.name).set(topic.routes.active)
                self._epoch.labels(topic.name).set(topic.routes.epoch)
