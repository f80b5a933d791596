from __future__ import annotations

import numpy as np
import pytest

from evenkeel.planning.levels import Bounds, Goal, find_goal

INF = np.inf


def goal(
    capacity: list[float],
    total: float,
    *,
    floor: list[float] | None = None,
    ceiling: list[float] | None = None,
    group: list[int] | None = None,
    group_floor: list[float] | None = None,
    group_ceiling: list[float] | None = None,
) -> Goal:
    count = len(capacity)
    groups = group or list(range(count))
    racks = max(groups) + 1
    bounds = Bounds(
        floor=np.array(floor or [0.0] * count),
        ceiling=np.array(ceiling or [INF] * count),
        group=np.array(groups),
        group_floor=np.array(group_floor or [0.0] * racks),
        group_ceiling=np.array(group_ceiling or [INF] * racks),
    )
    return find_goal(np.array(capacity), total, bounds, 0.1)


def test_disks_are_to_be_equally_full_whatever_their_sizes() -> None:
    found = goal([100, 300], 200)
    assert found.level == pytest.approx([50, 150])
    assert found.low == pytest.approx([45, 135])
    assert found.high == pytest.approx([55, 165])
    assert found.in_play.all()


def test_what_cannot_leave_lowers_the_level_of_the_others() -> None:
    found = goal([100, 100, 100], 150, floor=[90, 0, 0])
    assert found.level == pytest.approx([30, 30, 30])
    assert found.in_play.tolist() == [False, True, True]
    assert found.high[0] == pytest.approx(93)
    assert found.deviation(np.array([90.0, 33.0, 27.0])) == pytest.approx(0.1)


def test_what_cannot_receive_raises_the_level_of_the_others() -> None:
    found = goal([100, 100, 100], 150, ceiling=[10, INF, INF])
    assert found.level[1:] == pytest.approx([70, 70])
    assert found.low[0] == 10
    assert found.in_play.tolist() == [False, True, True]


def test_a_rack_that_cannot_give_has_a_level_of_its_own() -> None:
    found = goal([100] * 4, 200, group=[0, 0, 1, 1], group_floor=[140, 0])
    assert found.level == pytest.approx([70, 70, 30, 30])
    assert found.in_play.all()


def test_a_rack_that_cannot_take_more_has_a_level_of_its_own() -> None:
    found = goal([100] * 4, 200, group=[0, 0, 1, 1], group_ceiling=[60, INF])
    assert found.level == pytest.approx([30, 30, 70, 70])


def test_the_worst_disk_is_the_one_furthest_outside() -> None:
    found = goal([100, 100, 100], 150)
    used = np.array([60.0, 70.0, 20.0])
    assert found.worst(used, ()) == (2, False)
    assert found.worst(used, {2}) == (1, True)
    assert found.worst(np.array([52.0, 50.0, 48.0]), ()) is None
    assert found.without_deficits().worst(used, ()) == (1, True)


def test_the_least_that_is_moved_is_surplus_or_lack() -> None:
    found = goal([100, 100, 100], 150)
    assert found.least_moved(np.array([90.0, 30.0, 30.0])) == pytest.approx(35)
    assert found.least_moved(np.array([65.0, 65.0, 20.0])) == pytest.approx(25)


def test_an_empty_cluster_does_not_deviate() -> None:
    assert goal([100, 100], 0).deviation(np.zeros(2)) == 0
