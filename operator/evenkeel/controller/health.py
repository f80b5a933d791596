"""Metrics of the operator."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from evenkeel.controller.store import Object
from evenkeel.domain.moves import PlanState
from evenkeel.reasons import ConditionType, Reason

_SHOWN = (ConditionType.READY, ConditionType.ROUTES_ACTIVE)


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
        self.topics = Gauge(
            "evenkeel_topics", "BalancedTopics by the reason of a condition", ["condition", "reason"],
            registry=self.registry,
        )  # fmt: skip
        self.regret = Gauge(
            "evenkeel_routes_worst_regret_ratio",
            "Largest distance of a topic's predicted fill from the optimum",
            registry=self.registry,
        )
        self.steered = Gauge(
            "evenkeel_routes_least_steered_ratio",
            "Smallest share of a routed topic's inflow that routers steer; 1 where none is known",
            registry=self.registry,
        )
        self.dropped_scores = Gauge(
            "evenkeel_scores_dropped",
            "Scores of routed topics that did not count in the newest cycle",
            ["reason"],
            registry=self.registry,
        )
        self.plans = Gauge(
            "evenkeel_rebalance_plans",
            "RebalancePlans by where they stand and why",
            ["state", "reason"],
            registry=self.registry,
        )
        self.plan_bytes_left = Gauge(
            "evenkeel_rebalance_bytes_left",
            "Bytes that plans under way have still to copy",
            registry=self.registry,
        )
        self.objects = Gauge("evenkeel_objects", "Objects in the store", ["kind"], registry=self.registry)

    def show_topics(self, items: Iterable[Object]) -> None:
        """Sum up what the status of all BalancedTopics says."""
        statuses = [item.get("status") or {} for item in items]
        reasons = Tally(
            (one["type"], one["reason"])
            for status in statuses
            for one in status.get("conditions") or ()
            if one["type"] in _SHOWN
        )
        self.topics.clear()
        for (kind, reason), count in reasons.items():
            self.topics.labels(kind, reason).set(count)
        routes = [status["routes"] for status in statuses if status.get("routes")]
        self.regret.set(max((_regret(one) for one in routes), default=0.0))
        self.steered.set(min((one.get("steeredPercent", 100) / 100 for one in routes), default=1.0))
        dropped = Tally(
            score["reason"]
            for one in routes
            for score in one.get("scores") or ()
            if score["reason"] != Reason.ROUTED.value
        )
        self.dropped_scores.clear()
        for reason, count in dropped.items():
            self.dropped_scores.labels(reason).set(count)

    def show_plans(self, items: Iterable[Object]) -> None:
        """Count all RebalancePlans, and what those that have begun have still to do."""
        statuses = [item.get("status") or {} for item in items]
        counts = Tally((str(status.get("state", "")), _ready_reason(status)) for status in statuses)
        self.plans.clear()
        for (state, reason), count in counts.items():
            self.plans.labels(state, reason).set(count)
        begun = [one for one in statuses if one.get("state") in (PlanState.RUNNING, PlanState.PAUSED)]
        self.plan_bytes_left.set(sum(max(0, one.get("bytes", 0) - one.get("bytesDone", 0)) for one in begun))


def _ready_reason(status: Object) -> str:
    ready = (one for one in status.get("conditions") or () if one["type"] == ConditionType.READY)
    return next((str(one["reason"]) for one in ready), "")


def _regret(routes: dict[str, Any]) -> float:
    """A fraction of capacity; 0 where one of the two is not known."""
    predicted, optimal = routes.get("predictedMaxFillPermille"), routes.get("optimalMaxFillPermille")
    return 0.0 if predicted is None or optimal is None else (predicted - optimal) / 1000
