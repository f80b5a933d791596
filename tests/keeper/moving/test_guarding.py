from __future__ import annotations

import pytest

from evenkeel.keeper.moving.run import RunState
from evenkeel.keeper.moving.settings import Control
from evenkeel.keeper.moving.steps import Place
from evenkeel.reasons import Reason
from tests.support.moving_kafka import GB, MB
from tests.support.moving_world import (
    T0,
    T1,
    World,
    assert_clean,
    build_kafka,
    build_local,
    build_world,
    one_move,
    reasons,
    two_batches,
    until_copying,
)


def test_a_move_whose_replicas_have_changed_is_not_made() -> None:
    world = two_batches()
    world.kafka.begin(T0, [2])
    world.kafka.tick(20)
    found = world.run()
    assert found.reason is Reason.PLAN_OUTDATED
    assert reasons(world) == {T0: Reason.PLAN_OUTDATED, T1: Reason.MOVED}
    assert world.kafka.partition(T0).replicas == [2]


def test_a_topic_that_was_made_again_is_not_moved() -> None:
    world = two_batches(with_ids=True)
    world.kafka.delete_topic("t")
    world.kafka.tick(1)
    world.kafka.add_topic("t", [[1], [1]], [MB, MB])
    world.run()
    assert reasons(world) == {T0: Reason.TOPIC_MISSING, T1: Reason.TOPIC_MISSING}
    assert not world.kafka.calls


def test_a_move_that_was_made_already_counts_as_made() -> None:
    world = two_batches()
    world.kafka.begin(T0, [3])
    world.kafka.tick(20)
    assert world.run().reason is Reason.MOVED


def test_a_conflicting_edit_is_left_to_who_made_it() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    until_copying(world)
    kafka.begin(T0, [2])
    world.run()
    assert reasons(world) == {T0: Reason.CONFLICT}
    assert kafka.partition(T0).replicas == [2]


def test_a_reassignment_that_others_cancelled_is_not_begun_again() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    until_copying(world)
    kafka.cancel(T0)
    world.run()
    assert reasons(world) == {T0: Reason.CONFLICT}


def test_no_batch_begins_while_others_move() -> None:
    kafka, move = one_move()
    kafka.add_topic("u", [[1]], [2 * GB])
    kafka.isolated = {2}
    kafka.begin(("u", 0), [2])
    world = build_world([move], kafka=kafka)
    world.run(lambda found: found.reason is Reason.FOREIGN_REASSIGNMENT)
    assert not kafka.calls
    kafka.isolated = set()
    assert world.run().reason is Reason.MOVED


def test_no_batch_begins_while_replicas_catch_up() -> None:
    kafka, move = one_move()
    kafka.add_topic("u", [[3, 2]], [MB])
    kafka.partition(("u", 0)).isr = {2}
    kafka.brokers[3].back_at = 100
    world = build_world([move], kafka=kafka)
    world.run(lambda found: found.reason is Reason.REPLICAS_OUT_OF_SYNC)
    assert not kafka.calls


def test_a_receiver_that_is_lost_for_long_costs_its_moves() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    until_copying(world)
    kafka.kill(3)
    began = kafka.now
    world.run(lambda _: not kafka.partition(T0).adding)
    assert 30 <= kafka.now - began <= 35
    kafka.revive(3)
    world.run()
    assert reasons(world) == {T0: Reason.BROKERS_UNREACHABLE}
    assert_clean(kafka)


def test_a_receiver_that_is_back_soon_goes_on() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    until_copying(world)
    kafka.kill(3)
    for _ in range(20):
        world.turn()
    kafka.revive(3)
    assert world.run().reason is Reason.MOVED


def test_a_receiver_that_others_fill_is_relieved() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    until_copying(world)
    kafka.brokers[3].foreign["/d0"] = 9.3 * GB
    world.run()
    assert reasons(world) == {T0: Reason.STORAGE_LOW}
    assert kafka.brokers[3].online
    assert_clean(kafka)


def test_a_batch_waits_until_deleted_bytes_are_gone() -> None:
    kafka, move = one_move()
    kafka.brokers[3].deleted.append((60.0, "/d0", 8.4 * GB))
    world = build_world([move], kafka=kafka)
    world.run(lambda found: found.reason is Reason.STORAGE_LOW)
    assert world.run().reason is Reason.MOVED
    assert kafka.now > 60


def test_a_cordoned_directory_is_refused() -> None:
    kafka, move = one_move()
    kafka.brokers[3].cordoned.add("/d0")
    world = build_world([move], kafka=kafka)
    assert world.run().reason is Reason.PLAN_OUTDATED
    assert not kafka.calls


def test_a_copy_that_does_not_grow_is_cancelled() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    until_copying(world)
    kafka.isolated = {3}
    world.run()
    assert reasons(world) == {T0: Reason.MOVE_STALLED}
    assert_clean(kafka)


def test_no_batch_begins_while_its_sender_does_not_tell_its_throttles() -> None:
    kafka, move = one_move()
    kafka.blind.add(1)
    world = build_world([move], kafka=kafka)
    found = world.run(lambda found: found.reason is Reason.MEASUREMENT_INCOMPLETE, seconds=10)
    assert "broker 1 does not tell its throttles" in found.message
    kafka.blind.clear()
    assert world.run().reason is Reason.MOVED


def test_a_sender_that_falls_silent_before_its_move_begins_costs_it_in_the_end() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    world.turn()
    assert world.journaled.flights
    kafka.blind.add(1)
    world.run(lambda found: found.state is not RunState.RUNNING)
    assert reasons(world) == {T0: Reason.MEASUREMENT_INCOMPLETE}
    assert not kafka.partition(T0).adding


def lose_source_disk() -> World:
    """A move between directories whose source fails after it was journaled and before it has begun."""
    kafka = build_kafka(dirs=2)
    kafka.add_topic("t", [[1]], [100 * MB])
    world = build_world([build_local(kafka, T0, 1, "/d1")], kafka=kafka)
    world.turn()
    assert world.journaled.flights
    assert not any(isinstance(step, Place) for step in kafka.calls)
    kafka.partition(T0).copies.clear()
    kafka.partition(T0).isr.clear()
    return world


def test_a_replica_whose_disk_fails_before_its_move_does_not_keep_the_run_open() -> None:
    world = lose_source_disk()
    world.run()
    assert reasons(world) == {T0: Reason.MOVE_STALLED}
    assert_clean(world.kafka)


def test_what_holds_a_replica_that_is_nowhere_is_told() -> None:
    world = lose_source_disk()
    held = world.run(lambda found: found.reason is Reason.MOVE_HELD)
    assert "t-0 (MoveStalled): broker 1 does not tell where it lies" in held.message


def test_a_move_that_waited_for_long_to_begin_has_its_time_to_grow() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    world.turn()
    world.want(control=Control.PAUSE)
    for _ in range(400):
        world.turn()
    assert not kafka.partition(T0).adding
    kafka.isolated = {3}
    world.want(control=Control.RUN)
    for _ in range(10):
        world.turn()
    kafka.isolated = set()
    assert world.run().reason is Reason.MOVED


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_ends_its_moves(*, again: bool) -> None:
    world = two_batches()
    until_copying(world)
    world.kafka.delete_topic("t")
    if again:
        world.kafka.tick(1)
        world.kafka.add_topic("t", [[1], [1]], [MB, MB])
    world.run()
    assert reasons(world)[T0] is Reason.TOPIC_MISSING
    assert_clean(world.kafka)


def test_a_directory_that_is_not_there_is_refused() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    del kafka.brokers[3].dirs["/d0"]
    assert world.run().reason is Reason.PLAN_OUTDATED
    assert not kafka.calls
