"""Metrics of the operator."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """Metrics of this process in a registry of their own; labels never hold object names."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.writes = Counter(
            "evenkeel_writes", "Writes to the API server", ["verb", "kind"], registry=self.registry
        )
        self.reconciles = Counter(
            "evenkeel_reconciles", "Reconciled objects", ["kind", "outcome"], registry=self.registry
        )
        self.reconcile_seconds = Histogram(
            "evenkeel_reconcile_seconds",
            "Time to plan and write one object",
            ["kind"],
            registry=self.registry,
        )
        self.restarts = Counter(
            "evenkeel_watch_restarts",
            "Times the watch of our kinds was started again",
            registry=self.registry,
        )
        self.repairs = Counter(
            "evenkeel_relist_repairs", "Changes that only a relist found", registry=self.registry
        )
        self.leader = Gauge("evenkeel_leader", "1 while this process leads", registry=self.registry)
        self.dirty = Gauge(
            "evenkeel_dirty_objects", "Objects that wait to be reconciled", registry=self.registry
        )
        self.objects = Gauge("evenkeel_objects", "Objects in the store", ["kind"], registry=self.registry)
