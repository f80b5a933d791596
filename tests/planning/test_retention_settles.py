"""A topic whose bytes come and go, planned again and again: weights must come to rest."""

from __future__ import annotations

import pytest

from evenkeel.domain.exchange import Policy, TopicRouting
from evenkeel.domain.snapshot import Topic
from evenkeel.planning.retention import Horizons
from evenkeel.planning.routing import plan_routes
from tests.support.aging import AgingCluster
from tests.support.snapshots import GIB, MIB

CAPACITY = [100 * GIB] * 4
BALLAST = [45 * GIB, 30 * GIB, 20 * GIB, 20 * GIB]
PARTITIONS = 8
STEPS = 24
"""Plans per retention period."""
SHARE = 0.2
"""Of all capacity taken by the topic in its steady state."""


@pytest.mark.parametrize("hours", [1, 24, 168])
def test_a_retention_bound_topic_settles_within_two_retention_periods(hours: int) -> None:
    """Retention shorter than, as long as, and longer than the horizon of a day; the keeper starts anew."""
    age = hours * 3600.0
    rate, step = SHARE * sum(CAPACITY) / age, age / STEPS
    topic = Topic("t", retention_ms=round(age * 1000), segment_bytes=256 * MIB, file_delete_delay_ms=60_000)
    cluster = AgingCluster(topic, CAPACITY, BALLAST, [number % 4 for number in range(PARTITIONS)])
    weights: tuple[float, ...] = (1 / PARTITIONS,) * PARTITIONS
    for _ in range(2 * STEPS):
        cluster.step(step, rate, weights)
    began, history = cluster.now_ms, []
    for _ in range(round(2.5 * STEPS)):
        horizons = Horizons(observed_seconds=(cluster.now_ms - began) / 1000)
        found = plan_routes(
            cluster.snapshot(rate, weights, horizons), {"t": TopicRouting()}, Policy()
        ).topics["t"]
        weights = found.weights
        cluster.step(step, rate, weights)
        history.append((weights, found.optimal_max_fill, max(cluster.fills())))
    settled = history[2 * STEPS :]
    for partition in range(PARTITIONS):
        seen = [weights[partition] for weights, _, _ in settled]
        assert max(seen) - min(seen) < 0.05 / PARTITIONS
    # A log is a step and half a segment longer than its retention.
    final = sum(BALLAST) / sum(CAPACITY) + SHARE * (1 + 1 / STEPS)
    for _, optimal, fullest in settled:
        assert optimal == pytest.approx(final, abs=0.01)
        assert fullest < final + 0.02
