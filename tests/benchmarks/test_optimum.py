from __future__ import annotations

import numpy as np
import pytest

from benchmarks.harness.layouts import HEALING, OVERFLOW, SPACE, Layout, single, spread
from benchmarks.harness.optimum import build_problem, deviation, least_bytes, least_fill, uniform_fill
from evenkeel.domain.exchange import Policy, TopicRouting
from evenkeel.domain.snapshot import ClusterSnapshot, Incoming
from evenkeel.planning.routing import plan_routes
from integration.kafka.disks import MIB

TWO = Layout("two", "two disks", single([100, 100], [0.5, 0.3]), ((1,), (2,)), 10)


def with_plan(layout: Layout) -> ClusterSnapshot:
    found = layout.expected_snapshot()
    incoming = (Incoming("data", planned_bytes=layout.write_bytes),)
    return ClusterSnapshot(brokers=found.brokers, partitions=found.partitions, incoming=incoming)


def test_two_disks_by_hand() -> None:
    problem = build_problem(TWO.expected_snapshot(), "data")
    assert uniform_fill(problem, 20 * MIB) == pytest.approx(0.6)
    # At least 0.1/P of 20 MiB goes to the fuller disk.
    assert least_fill(problem, 20 * MIB) == pytest.approx(0.51)


def test_fewest_bytes_by_hand() -> None:
    problem = build_problem(TWO.expected_snapshot(), "data")
    # x to the emptier disk, x/19 to the fuller one (its least share): level is 30 + x = 50 + x/19.
    needed = 20 / (1 - 1 / 19) * (1 + 1 / 19)
    assert least_bytes(problem, 0.0) / MIB == pytest.approx(needed, rel=1e-3)
    assert least_bytes(problem, 0.25) == pytest.approx(0, abs=1)


@pytest.mark.parametrize("layout", [*SPACE, OVERFLOW], ids=lambda layout: layout.name)
def test_the_optimum_is_the_planners(layout: Layout) -> None:
    snapshot = with_plan(layout)
    planned = plan_routes(snapshot, {"data": TopicRouting()}, Policy(max_fill_percent=100)).topics["data"]
    problem = build_problem(snapshot, "data")
    assert least_fill(problem, layout.write_bytes) == pytest.approx(planned.optimal_max_fill, abs=1e-4)
    assert uniform_fill(problem, layout.write_bytes) == pytest.approx(planned.uniform_max_fill, abs=1e-4)


@pytest.mark.parametrize("layout", HEALING, ids=lambda layout: layout.name)
def test_fewest_bytes_are_enough_and_no_less_is(layout: Layout) -> None:
    problem = build_problem(layout.expected_snapshot(), "data")
    size = least_bytes(problem, 0.03)
    assert 0 < size < layout.write_bytes / 2
    with_more = build_problem(layout.expected_snapshot(), "data")
    assert least_bytes(with_more, 0.02) > size


def test_a_broker_without_partitions_can_never_be_levelled() -> None:
    layout = Layout("cut", "", single([100, 100, 100], [0.5, 0.5, 0.0]), ((1,), (2,)), 10)
    problem = build_problem(layout.expected_snapshot(), "data")
    with pytest.raises(ValueError, match="no routing within the caps"):
        least_bytes(problem, 0.03)


def test_deviation_is_of_the_clusters_mean() -> None:
    assert deviation(np.array([50.0, 30.0]), np.array([100.0, 100.0])) == pytest.approx(0.25)
    assert deviation(np.array([50.0, 100.0]), np.array([100.0, 200.0])) == 0


@pytest.mark.parametrize("layout", SPACE, ids=lambda layout: layout.name)
def test_every_layout_has_something_to_recover_and_room_for_all_arms(layout: Layout) -> None:
    problem = build_problem(layout.expected_snapshot(), "data")
    uniform, optimum = uniform_fill(problem, layout.write_bytes), least_fill(problem, layout.write_bytes)
    assert uniform < 0.92
    assert uniform - optimum > 0.08


def test_equal_shares_overflow_where_they_should_and_the_optimum_does_not() -> None:
    problem = build_problem(OVERFLOW.expected_snapshot(), "data")
    assert uniform_fill(problem, OVERFLOW.write_bytes) > 1.05
    assert least_fill(problem, OVERFLOW.write_bytes) < 0.85


def test_disks_of_a_run_fit_the_budget() -> None:
    assert all(layout.capacity <= 2048 * MIB for layout in (*SPACE, OVERFLOW, *HEALING))


def test_followers_are_other_brokers_and_the_seed_decides() -> None:
    rows = spread([3, 2, 1], 2, 7)
    assert sorted(row[0] for row in rows) == [1, 1, 1, 2, 2, 3]
    assert all(len(set(row)) == 2 for row in rows)
    assert rows == spread([3, 2, 1], 2, 7)
    assert rows != spread([3, 2, 1], 2, 8)
