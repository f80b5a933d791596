"""Plan, table and schedule together: what several workers of the demo's ingest do to its disks."""

from __future__ import annotations

import random

import pytest

from evenkeel.domain.exchange import Policy, TopicRouting
from evenkeel.domain.table import WEIGHT_SCALE
from evenkeel.planning.routing import plan_routes
from evenkeel.planning.tables import build_table
from evenkeel.router.runs import TopicRun
from tests.support.snapshots import MIB, demo_snapshot

MESSAGE = 900 * 1024


def fullest_after(weights: tuple[int, ...], phases: list[float], seed: int) -> float:
    """Fill of the fullest disk once workers at these phases wrote 130 MiB in messages of uneven size."""
    source = random.Random(seed)
    snapshot = demo_snapshot()
    places = [p.replicas for p in snapshot.partitions if p.topic == "clipart"]
    disks = [one.log_dirs[0] for one in snapshot.brokers]
    total = [disk.total_bytes or 0 for disk in disks]
    load = [disk_total - (disk.usable_bytes or 0) for disk, disk_total in zip(disks, total, strict=True)]
    workers = [TopicRun(phase) for phase in phases]
    for worker in workers:
        worker.follow([weight / WEIGHT_SCALE for weight in weights])
    left = 130 * MIB
    while left > 0:
        worker, size = source.choice(workers), int(MESSAGE * source.uniform(0.85, 1.0))
        worker.sent += size
        partition = worker.turn(size) if worker.sent > worker.limit else worker.partition
        for one in places[partition]:
            load[one] += size
        left -= size
    return max(size / whole for size, whole in zip(load, total, strict=True))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("even", [True, False], ids=["even phases", "random phases"])
def test_demo_ingest_ends_near_the_optimum(count: int, *, even: bool) -> None:
    plan = plan_routes(demo_snapshot(), {"clipart": TopicRouting()}, Policy())
    routes = plan.topics["clipart"]
    assert routes.optimal_max_fill is not None
    assert routes.uniform_max_fill is not None
    weights = build_table(plan, "clipart", 1, 1, 0).weights
    source = random.Random(count)
    for seed in range(10):
        phases = [(i + 0.5) / count if even else source.random() for i in range(count)]
        regret = fullest_after(weights, phases, seed) - routes.optimal_max_fill
        assert regret <= 0.02
        assert regret <= 0.1 * (routes.uniform_max_fill - routes.optimal_max_fill)
