from __future__ import annotations

import pytest

from evenkeel.errors import FencedError, InputError
from evenkeel.keeper.moving.plan import approve_batches
from evenkeel.keeper.moving.settings import Control
from evenkeel.keeper.moving.steps import AddEntries, SetRate, Step
from evenkeel.reasons import Reason
from tests.support.moving_world import (
    T0,
    World,
    assert_clean,
    build_world,
    each_crash,
    one_move,
    two_batches,
    until_copying,
)


def test_a_keeper_without_anything_to_do_asks_nothing() -> None:
    world = two_batches()
    world.run()
    world.kafka.cut = True
    assert world.executor.turn(world.plan, world.settings).over
    world.kafka.cut = False
    world.restart()
    assert world.executor.turn(None, world.settings).over
    world.kafka.cut = True
    assert world.executor.turn(None, world.settings).over
    assert not world.executor.events


def test_a_cluster_that_never_had_a_plan_has_no_run() -> None:
    world = two_batches()
    found = world.executor.turn(None, world.settings)
    assert (found.plan, found.reason) == ("", Reason.NOTHING_TO_DO)
    assert world.journal.text is None


def test_a_keeper_that_dies_at_any_point_is_gone_on_from() -> None:
    for number, world in each_crash(two_batches):
        assert world.run().reason is Reason.MOVED, number
        assert not world.kafka.unthrottled, number
        assert_clean(world.kafka)
    assert number > 20


def copying() -> World:
    """`t-0` is on its way from 1 to 3, and may be cancelled."""
    kafka, move = one_move(min_isr=2)
    world = build_world([move], kafka=kafka)
    until_copying(world)
    return world


def test_a_keeper_that_dies_while_it_cancels_is_gone_on_from() -> None:
    for number, world in each_crash(copying):
        world.want(control=Control.CANCEL)
        assert world.run().reason is Reason.MOVES_CANCELLED, number
        assert world.kafka.partition(T0).replicas == [1, 2], number
        assert_clean(world.kafka)


def test_a_run_that_pauses_between_batches_is_written_again_each_hour() -> None:
    world = two_batches()
    until_copying(world)
    world.want(control=Control.PAUSE)
    world.run(lambda found: found.reason is Reason.PAUSED and found.clean)
    writes = world.journal.writes
    for _ in range(3):
        world.kafka.tick(2000)
        world.turn()
    assert world.journal.writes == writes + 1


def test_a_fenced_keeper_calls_nothing() -> None:
    world = two_batches()
    until_copying(world)
    old = world.executor
    world.restart()
    calls = len(world.kafka.calls)
    world.kafka.tick(60)
    with pytest.raises(FencedError):
        old.turn(world.plan, world.settings)
    assert len(world.kafka.calls) == calls


def test_a_keeper_that_stood_still_does_not_call() -> None:
    world = two_batches()
    world.kafka.after_call = lambda _: world.kafka.tick(30)
    world.turn()
    assert len([step for step in world.kafka.calls if isinstance(step, SetRate)]) == 2
    assert not any(isinstance(step, AddEntries) for step in world.kafka.calls)
    assert "between look, commit and call" in world.errors[-1].message


def test_a_plan_that_has_ended_does_not_run_again() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    world.run()
    kafka.begin(T0, [1])
    kafka.tick(30)
    calls = len(kafka.calls)
    world.restart()
    assert world.run().over
    assert len(kafka.calls) == calls


def test_a_plan_for_another_cluster_does_not_run() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    world.plan = approve_batches("plan", [[move]], cluster_id="other")
    with pytest.raises(InputError, match="for cluster other, this is sim"):
        world.executor.turn(world.plan, world.settings)
    assert not kafka.calls


def test_what_a_predecessor_asked_for_may_take_effect_yet() -> None:
    world = two_batches()

    def put_off(step: Step) -> None:
        if isinstance(step, AddEntries):
            world.kafka.delay = 4.0
            world.kafka.after_call = lambda _: None

    world.kafka.after_call = put_off
    world.run(lambda found: found.reason is Reason.BROKERS_UNREACHABLE)
    world.restart()
    world.want(control=Control.CANCEL)
    world.run()
    assert world.kafka.partition(T0).replicas == [1]
    assert_clean(world.kafka)


@pytest.mark.parametrize("dies", [False, True])
def test_a_throttle_that_is_set_late_is_taken_away(*, dies: bool) -> None:
    world = two_batches()
    world.kafka.delay = 5.0
    world.run(lambda _: bool(world.kafka.calls))
    if dies:
        world.restart()
    world.want(control=Control.CANCEL)
    assert world.run().over
    world.kafka.tick(10)
    assert_clean(world.kafka)
