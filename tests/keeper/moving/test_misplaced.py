"""A replica that has landed in another directory of its broker is put where the plan wants it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evenkeel.errors import RetryableError
from evenkeel.kafka.wire import DIRECTORY_RATE
from evenkeel.keeper.moving.settings import Control
from evenkeel.keeper.moving.steps import Place
from evenkeel.reasons import Reason
from tests.support.moving_kafka import MB
from tests.support.moving_world import T0, World, assert_clean, each_crash, misplace

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


def stand_still_while_producers_write(world: World) -> None:
    world.kafka.partition(T0).written = MB / 10
    stand_still(world)


def cancel(world: World) -> None:
    world.want(control=Control.CANCEL)


def cancel_without_an_answer(world: World) -> None:
    world.kafka.refuse_places[T0] = RetryableError("no answer", reason=Reason.BROKERS_UNREACHABLE)
    cancel(world)
    world.turn()
    world.kafka.refuse_places.clear()


@pytest.mark.parametrize(
    "befall", [stand_still, stand_still_while_producers_write, cancel, cancel_without_an_answer]
)
def test_a_correction_that_is_given_up_ends_and_is_told(befall: Callable[[World], None]) -> None:
    world = misplace()
    befall(world)
    found = world.run(lambda found: found.state != "Running", seconds=400)
    one = world.kafka.partition(T0)
    assert (one.replicas, one.copies[3][0], one.futures) == ([3, 2], "/d0", {})
    assert found.message.endswith(NOTE)


def test_a_keeper_that_dies_while_it_gives_a_correction_up_is_gone_on_from() -> None:
    for number, world in each_crash(misplace):
        cancel(world)
        world.run()
        assert (world.kafka.partition(T0).futures, world.kafka.unthrottled) == ({}, {}), number
        assert_clean(world.kafka)
    assert number > 5


def test_a_correction_that_cannot_be_ended_is_left_after_a_while() -> None:
    world = misplace()
    world.kafka.refuse_places[T0] = RetryableError("no answer", reason=Reason.BROKERS_UNREACHABLE)
    world.want(control=Control.CANCEL, bytes_per_second=MB, patience_seconds=100.0)
    world.run(lambda found: found.state != "Running", seconds=120)
    assert world.kafka.partition(T0).futures


def test_a_correction_that_is_asked_for_late_is_not_left_alone() -> None:
    world = misplace()
    world.kafka.partition(T0).futures.clear()  # as if it had not been asked for yet
    world.kafka.delay = 4.0
    world.turn()
    world.want(control=Control.CANCEL)
    world.run()
    world.kafka.tick(10)
    assert (world.kafka.partition(T0).futures, world.kafka.unthrottled) == ({}, {})


def test_a_correction_goes_on_while_retention_deletes() -> None:
    world = misplace()
    world.want(bytes_per_second=MB, stall_seconds=100.0)
    world.turn(60)
    one = world.kafka.partition(T0)
    one.size = 400 * MB
    one.copies = {broker: (path, one.size) for broker, (path, _) in one.copies.items()}
    assert world.run().message == "all 1 moves done"
    assert one.copies[3][0] == "/d1"


@pytest.mark.parametrize("seconds", [3.0, 120.0])
def test_a_correction_goes_on_when_its_broker_is_back(seconds: float) -> None:
    world = misplace()
    world.kafka.kill(3)
    end = world.kafka.now + seconds
    world.run(lambda _: world.kafka.now >= end)
    world.kafka.revive(3)
    assert world.run().message == "all 1 moves done"
    assert (world.kafka.partition(T0).copies[3][0], world.kafka.unthrottled) == ("/d1", {})
    assert_clean(world.kafka)


def test_a_replica_whose_broker_stays_away_has_moved_and_the_end_says_what_is_not_known() -> None:
    world = misplace()
    world.kafka.kill(3)
    found = world.run(lambda found: found.state != "Running", seconds=700)
    assert found.reason is Reason.MOVED
    assert found.message.startswith("all 1 moves done; t-0 is on broker 3, which does not tell")
