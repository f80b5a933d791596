from __future__ import annotations

from typing import Any

from evenkeel.controller.health import Metrics


def item(reason: str, **routes: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "reason": "Ready"}, {"type": "RoutesActive", "reason": reason}]
    return {"status": {"conditions": conditions, **({"routes": routes} if routes else {})}}


def shown(*items: dict[str, Any]) -> dict[str, float]:
    metrics = Metrics()
    metrics.show_topics([item("Compacted"), {"metadata": {}}])
    metrics.show_topics(items)
    return {
        f"{sample.name}{sorted(sample.labels.values())}": sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if family.name.startswith(("evenkeel_topics", "evenkeel_routes", "evenkeel_scores"))
    }


def test_topics_are_counted_and_the_worst_is_shown_without_names() -> None:
    scores = [{"name": "Storage", "reason": "Routed"}, {"name": "NodeLoad", "reason": "ScoreFailed"}]
    found = shown(
        item("Routed", predictedMaxFillPermille=610, optimalMaxFillPermille=600, steeredPercent=80),
        item("Routed", predictedMaxFillPermille=640, optimalMaxFillPermille=600, scores=scores),
        item("NotSteered"),
    )
    assert found == {
        "evenkeel_topics['Ready', 'Ready']": 3,
        "evenkeel_topics['Routed', 'RoutesActive']": 2,
        "evenkeel_topics['NotSteered', 'RoutesActive']": 1,
        "evenkeel_routes_worst_regret_ratio[]": 0.04,
        "evenkeel_routes_least_steered_ratio[]": 0.8,
        "evenkeel_scores_dropped['ScoreFailed']": 1,
    }


def test_without_routes_nothing_is_wrong() -> None:
    assert shown() == {"evenkeel_routes_worst_regret_ratio[]": 0, "evenkeel_routes_least_steered_ratio[]": 1}


def plan(state: str, reason: str, **status: Any) -> dict[str, Any]:
    return {"status": {"state": state, "conditions": [{"type": "Ready", "reason": reason}], **status}}


def test_plans_are_counted_and_what_is_left_is_summed() -> None:
    metrics = Metrics()
    metrics.show_plans([plan("Proposed", "PlanPending", bytes=500)])
    metrics.show_plans(
        [
            {"metadata": {}},
            plan("Running", "Moving", bytes=1000, bytesDone=400),
            plan("Paused", "Paused", bytes=100, bytesDone=100),
            plan("Finished", "Moved", bytes=1000),
            plan("Finished", "Moved", bytes=1000),
        ]
    )
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if family.name.startswith("evenkeel_rebalance")
    }
    assert found == {
        ("evenkeel_rebalance_plans", "", ""): 1,
        ("evenkeel_rebalance_plans", "Running", "Moving"): 1,
        ("evenkeel_rebalance_plans", "Paused", "Paused"): 1,
        ("evenkeel_rebalance_plans", "Finished", "Moved"): 2,
        ("evenkeel_rebalance_bytes_left",): 600,
    }
