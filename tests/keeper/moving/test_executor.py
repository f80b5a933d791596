from __future__ import annotations

import pytest

from evenkeel.keeper.moving.plan import approve_batches
from evenkeel.keeper.moving.run import RunState
from evenkeel.keeper.moving.settings import Control
from evenkeel.keeper.moving.steps import Place, Reassign, Step
from evenkeel.reasons import Reason
from tests.support.moving_kafka import MB
from tests.support.moving_world import (
    T0,
    T1,
    World,
    assert_clean,
    build_kafka,
    build_local,
    build_move,
    build_world,
    one_move,
    reasons,
    two_batches,
    until_copying,
)


def test_a_batch_begins_when_the_one_before_has_ended() -> None:
    world = two_batches()
    until_copying(world)
    assert not world.kafka.partition(T1).adding
    world.run()
    assert [world.kafka.partition(key).replicas for key in (T0, T1)] == [[3], [3]]


def test_the_directory_is_chosen_before_the_replica_is_there() -> None:
    kafka = build_kafka(dirs=2)
    kafka.add_topic("t", [[1]], [100 * MB])
    world = build_world([build_move(kafka, T0, [3], target_dir="/d1")], kafka=kafka)
    assert world.run().reason is Reason.MOVED
    assert kafka.partition(T0).copies[3][0] == "/d1"
    kinds = [type(step) for step in kafka.calls]
    assert kinds.index(Place) < kinds.index(Reassign)


def test_a_directory_that_a_restart_forgot_is_mended() -> None:
    kafka = build_kafka(dirs=2)
    kafka.add_topic("t", [[1]], [100 * MB])
    world = build_world([build_move(kafka, T0, [3], target_dir="/d1")], kafka=kafka)

    def forget(step: Step) -> None:
        if isinstance(step, Place):
            kafka.brokers[3].wishes.clear()
            kafka.after_call = lambda _: None

    kafka.after_call = forget
    assert world.run().reason is Reason.MOVED
    assert kafka.partition(T0).copies[3][0] == "/d1"
    assert_clean(kafka)


def lose_target_dir(partitions: int) -> World:
    """A receiver that is restarted without the planned disk while it copies."""
    kafka = build_kafka(dirs=2)
    kafka.add_topic("t", [[1]] * partitions, [100 * MB] * partitions)
    keys = [("t", number) for number in range(partitions)]
    for key in keys:
        kafka.partition(key).written = 0.1 * MB
    world = build_world([build_move(kafka, key, [3], target_dir="/d1") for key in keys], kafka=kafka)
    until_copying(world)
    del kafka.brokers[3].dirs["/d1"]
    for key in keys:
        kafka.partition(key).copies[3] = ("/d0", 0.0)
    return world


def test_a_directory_that_is_not_there_any_more_is_not_waited_for() -> None:
    world = lose_target_dir(1)
    found = world.run(seconds=120)
    assert found.reason is Reason.MOVED
    gone = "t-0 is on broker 3, which has no log directory /d1 any more"
    assert found.message == f"all 1 moves done; {gone}"
    assert_clean(world.kafka)


def test_directories_that_are_not_there_are_told_of_three_moves_at_most() -> None:
    assert lose_target_dir(5).run(seconds=240).message.endswith("any more and 2 more")


def test_a_move_between_directories_is_no_reassignment() -> None:
    kafka = build_kafka(dirs=2)
    kafka.add_topic("t", [[1]], [100 * MB])
    world = build_world([build_local(kafka, T0, 1, "/d1")], kafka=kafka)
    found = world.run()
    assert (found.reason, found.bytes_done) == (Reason.MOVED, 100 * MB)
    assert kafka.partition(T0).copies == {1: ("/d1", 100 * MB)}
    assert not any(isinstance(step, Reassign) for step in kafka.calls)
    assert_clean(kafka)


def test_replicas_are_added_and_taken_away() -> None:
    kafka = build_kafka()
    kafka.add_topic("t", [[1], [1, 2]], [50 * MB, 50 * MB])
    moves = [build_move(kafka, T0, [1, 3]), build_move(kafka, T1, [1])]
    world = build_world(moves, kafka=kafka)
    assert world.run().reason is Reason.MOVED
    assert [kafka.partition(key).replicas for key in (T0, T1)] == [[1, 3], [1]]
    assert not kafka.unthrottled, "Kafka shows the target of an addition from its first byte on"


@pytest.mark.parametrize("at", ["copying", "before"])
def test_cancelling_takes_back_what_runs(at: str) -> None:
    kafka, move = one_move(min_isr=2)
    world = build_world([move], kafka=kafka)
    if at == "copying":
        until_copying(world)
    world.want(control=Control.CANCEL)
    found = world.run()
    assert (found.reason, found.state) == (Reason.MOVES_CANCELLED, RunState.CANCELLED)
    assert kafka.partition(T0).replicas == [1, 2], "in the old order"
    assert_clean(kafka)


def test_an_addition_that_was_cancelled_is_not_told_as_moved_by_late_metadata() -> None:
    kafka = build_kafka()
    kafka.add_topic("t", [[1]], [300 * MB])
    world = build_world([build_move(kafka, T0, [1, 3])], kafka=kafka)
    until_copying(world)
    kafka.late = kafka.describe()
    world.want(control=Control.CANCEL)
    for _ in range(8):
        world.turn()
    kafka.late = None
    world.run()
    assert kafka.partition(T0).replicas == [1]
    assert reasons(world) == {T0: Reason.MOVES_CANCELLED}


def test_what_cannot_be_cancelled_without_harm_is_held() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    until_copying(world)
    kafka.kill(1)
    world.want(control=Control.CANCEL)
    world.run(lambda found: found.reason is Reason.MOVE_HELD)
    assert kafka.partition(T0).adding == [3]
    kafka.revive(1)
    assert world.run().over
    assert_clean(kafka)


def test_finishing_ends_after_the_batch() -> None:
    world = two_batches()
    until_copying(world)
    world.want(control=Control.FINISH)
    assert world.run().reason is Reason.MOVES_CANCELLED
    assert [world.kafka.partition(key).replicas for key in (T0, T1)] == [[3], [1]]


def test_a_pause_holds_the_next_batch_and_nothing_else() -> None:
    world = two_batches()
    until_copying(world)
    world.want(control=Control.PAUSE)
    world.run(lambda found: found.reason is Reason.PAUSED)
    assert world.kafka.partition(T0).replicas == [3]
    world.want(control=Control.RUN)
    assert world.run().reason is Reason.MOVED


def test_a_plan_that_is_not_approved_any_more_is_cancelled() -> None:
    kafka, move = one_move(min_isr=2)
    world = build_world([move], kafka=kafka)
    until_copying(world)
    world.plan = approve_batches("other", [])
    world.run(lambda _: kafka.partition(T0).replicas == [1, 2])
    world.run(lambda found: found.plan == world.plan.id and found.over)
    assert_clean(kafka)


def test_progress_and_events_tell_start_quarters_and_end() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    told = []
    while not world.seen or not world.seen[-1].over:
        world.turn()
        told += [event.message for event in world.executor.events]
    assert told == [
        "plan plan: 1 moves, 300000000 bytes, 1 batches",
        "plan plan: 25 percent",
        "plan plan: 50 percent",
        "plan plan: 75 percent",
        "all 1 moves done",
    ]
    shares = [found.percent for found in world.seen]
    assert shares == sorted(shares)
    etas = [found.eta_seconds for found in world.seen if found.eta_seconds is not None]
    assert etas
    assert all(eta <= 25 for eta in etas)
