"""A level cluster whose disks jitter: weights must neither follow the jitter nor leave partitions out."""

from __future__ import annotations

import random

import numpy as np

from evenkeel.domain.exchange import Policy, TopicRouting
from evenkeel.domain.snapshot import Incoming, Topic
from evenkeel.keeper.noise import FillNoise
from evenkeel.planning.routing import plan_routes
from tests.support.snapshots import GIB, broker, cluster, partitions_of

BROKERS, PARTITIONS, TOTAL = 6, 24, 500 * GIB
NOISE = 0.002
ASSIGNMENTS = [(p % BROKERS, (p + 1 + p // BROKERS) % BROKERS) for p in range(PARTITIONS)]


def test_on_a_level_cluster_traffic_stays_where_it_is() -> None:
    source, noise, before = random.Random(3), FillNoise(), None
    for turn in range(60):
        disks = [broker(i, TOTAL, round(TOTAL * (0.5 + source.gauss(0, NOISE)))) for i in range(BROKERS)]
        parts = partitions_of("t", ASSIGNMENTS, [GIB] * PARTITIONS)
        now = cluster(disks, parts, [Incoming("t", 1e6, observed_seconds=3600)], [Topic("t")])
        noise.observe(now)
        if turn < 40:
            continue
        betas = noise.betas(now, ["t"])
        plan = plan_routes(noise.steady(now), {"t": TopicRouting()}, Policy(), betas=betas)
        weights = np.array(plan.topics["t"].weights)
        assert np.exp(-(weights * np.log(weights)).sum()) / PARTITIONS >= 0.95
        if before is not None:
            assert abs(weights - before).sum() / 2 <= 0.05
        before = weights
