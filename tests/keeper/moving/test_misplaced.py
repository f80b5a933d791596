"""A replica that has landed in another directory of its broker is put where the plan wants it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evenkeel.kafka.wire import DIRECTORY_RATE
from evenkeel.keeper.moving.settings import Control
from evenkeel.keeper.moving.steps import Place
from evenkeel.reasons import Reason
from tests.support.moving_kafka import MB
from tests.support.moving_world import T0, World, assert_clean, misplace

NOTE = "t-0 is on broker 3 in /d0, not /d1"


def test_a_correction_may_take_longer_than_a_copy_may_stand_still() -> None:
    world = misplace()
    world.want(bytes_per_second=MB, stall_seconds=100.0)
    found = world.run()
    assert (found.reason, found.message) == (Reason.MOVED, "all 1 moves done")
    assert world.kafka.now > 800, "900 MB at 1 MB/s"
    assert world.kafka.partition(T0).copies[3][0] == "/d1"
    assert_clean(world.kafka)


def test_a_correction_that_runs_is_not_asked_for_again() -> None:
    world = misplace()
    asked = len([step for step in world.kafka.calls if isinstance(step, Place)])
    world.run()
    assert len([step for step in world.kafka.calls if isinstance(step, Place)]) == asked


def stand_still(world: World) -> None:
    world.kafka.brokers[3].rates[DIRECTORY_RATE] = 0


def cancel(world: World) -> None:
    world.want(control=Control.CANCEL)


@pytest.mark.parametrize("befall", [stand_still, cancel])
def test_a_correction_that_is_given_up_ends_and_is_told(befall: Callable[[World], None]) -> None:
    world = misplace()
    befall(world)
    found = world.run(lambda found: found.state != "Running", seconds=400)
    one = world.kafka.partition(T0)
    assert (one.replicas, one.copies[3][0], one.futures) == ([3, 2], "/d0", {})
    assert found.message.endswith(NOTE)
