from __future__ import annotations

import math

import aiohttp
import pytest

from evenkeel.domain.exchange import ClaimReport, Fault, Report, RoutesReport, TopicReport, VolumeReport
from evenkeel.keeper.health import Metrics
from evenkeel.process.health import HealthServer
from evenkeel.reasons import Reason

REPORT = Report(
    desired_version="v",
    claim=ClaimReport(held=True),
    measured=True,
    volumes=(VolumeReport(1, "/data", 100, 40), VolumeReport(2, "/data", None, None)),
    max_fill_permille=400,
    faults=(Fault(Reason.TOPIC_MISSING, "a"), Fault(Reason.TOPIC_MISSING, "b")),
    topics=(TopicReport("t", exists=True, routes=RoutesReport(True, Reason.ROUTED, "", epoch=7)),),
)


async def fetch(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


async def test_probes_and_metrics_are_served() -> None:
    metrics = Metrics()
    server = HealthServer(metrics.registry, healthy=lambda: True, ready=lambda: False)
    await server.start(0)
    try:
        metrics.show(REPORT)
        assert (await fetch(server.port, "/healthz"))[0] == 200
        assert (await fetch(server.port, "/readyz"))[0] == 503
        text = (await fetch(server.port, "/metrics"))[1]
    finally:
        await server.close()
    assert 'evenkeel_volume_used_bytes{broker="1",path="/data"} 40.0' in text
    assert 'broker="2"' not in text
    assert 'evenkeel_faults{reason="TopicMissing"} 2.0' in text
    assert 'evenkeel_routes_epoch{topic="t"} 7.0' in text
    assert "evenkeel_max_fill_ratio 0.4" in text


def test_a_fault_that_is_gone_counts_zero() -> None:
    metrics = Metrics()
    metrics.show(REPORT)
    metrics.show(Report(desired_version="v"))
    value = metrics.registry.get_sample_value("evenkeel_faults", {"reason": "TopicMissing"})
    assert value == 0
    assert metrics.registry.get_sample_value("evenkeel_claim_held") == 0


@pytest.mark.parametrize("seen", [1, 2])
def test_showing_again_changes_nothing(seen: int) -> None:
    metrics = Metrics()
    for _ in range(seen):
        metrics.show(REPORT)
    assert metrics.registry.get_sample_value("evenkeel_faults", {"reason": "TopicMissing"}) == 2


def test_dropped_scores_are_counted_by_score_and_reason() -> None:
    metrics = Metrics()
    for _ in range(2):
        metrics.count_drops({("Moon", Reason.SCORE_UNKNOWN): 2, ("Own", Reason.SCORE_TIMED_OUT): 1})

    def value(score: str, reason: str) -> float | None:
        labels = {"score": score, "reason": reason}
        return metrics.registry.get_sample_value("evenkeel_score_drops_total", labels)

    assert value("Moon", "ScoreUnknown") == 4
    assert value("Own", "ScoreTimedOut") == 2


def test_fills_regret_and_steered_share_have_no_label_but_the_topic() -> None:
    metrics = Metrics()
    routes = RoutesReport(
        True,
        Reason.ROUTED,
        "",
        predicted_max_fill_permille=610,
        optimal_max_fill_permille=600,
        steered_percent=80,
    )
    volume = VolumeReport(1, "/data", 100, 40, full_in_days=12)
    metrics.show(Report("v", topics=(TopicReport("t", exists=True, routes=routes),), volumes=(volume,)))

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"evenkeel_{name}", labels)

    assert value("routes_max_fill_ratio", topic="t", kind="predicted") == 0.61
    assert value("routes_max_fill_ratio", topic="t", kind="uniform") is None
    assert value("routes_regret_ratio", topic="t") == 0.01
    assert value("routes_steered_ratio", topic="t") == 0.8
    assert value("volume_full_days", broker="1", path="/data") == 12
    metrics.show(Report("v"))
    assert value("routes_regret_ratio", topic="t") is None


def test_no_series_is_of_a_partition() -> None:
    """A cluster may have 10,000: series grow with volumes and declared topics."""
    metrics = Metrics()
    metrics.show(REPORT)
    labels = {name for family in metrics.registry.collect() for row in family.samples for name in row.labels}
    assert labels <= {"broker", "path", "topic", "kind", "reason", "score"}


def test_an_unknown_fill_is_not_an_empty_disk() -> None:
    metrics = Metrics()
    metrics.show(Report(desired_version="v"))
    for name in ("evenkeel_max_fill_ratio", "evenkeel_deviation_ratio"):
        value = metrics.registry.get_sample_value(name)
        assert value is not None
        assert math.isnan(value)
