"""Moves that put replicas of lost brokers elsewhere: nothing that is in sync is given up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evenkeel.domain.moves import Move
from evenkeel.keeper.moving.settings import MoveSettings
from evenkeel.reasons import Reason
from tests.support.moving_kafka import MB, MovingKafka
from tests.support.moving_world import (
    T0,
    T1,
    assert_clean,
    build_kafka,
    build_move,
    build_world,
    reasons,
    until_copying,
)

PATIENT = MoveSettings(patience_seconds=60)


def lose_replicas(*lost: int, target: list[int]) -> tuple[MovingKafka, Move]:
    """Six brokers, `t-0` on as many of them as `target` has, with min ISR 2; those that are lost never come back."""
    kafka = build_kafka(brokers=6)
    kafka.add_topic("t", [list(range(1, len(target) + 1))], [100 * MB], 2)
    move = build_move(kafka, T0, target)
    for broker in lost:
        kafka.kill(broker)
    return kafka, replace(move, copied_from=kafka.partition(T0).leader)


def test_a_partition_below_min_isr_gets_a_replica_for_the_one_that_is_lost() -> None:
    kafka, move = lose_replicas(2, target=[1, 3])
    world = build_world([move], kafka=kafka, settings=PATIENT)
    assert world.run().reason is Reason.MOVED
    assert kafka.partition(T0).isr == {1, 3}
    assert_clean(kafka)


def test_a_replica_that_stays_on_another_lost_broker_is_not_waited_for() -> None:
    kafka, move = lose_replicas(1, 2, target=[4, 2, 3])
    world = build_world([move], kafka=kafka, settings=PATIENT)
    assert world.run().reason is Reason.MOVED
    assert kafka.partition(T0).isr == {3, 4}


@pytest.mark.parametrize("version", [29, None])
def test_where_kafka_would_not_complete_it_a_replica_on_a_lost_broker_is_waited_for(
    version: int | None,
) -> None:
    kafka, move = lose_replicas(1, 2, target=[4, 2, 3])
    kafka.metadata_version = version
    world = build_world([move], kafka=kafka, settings=PATIENT)
    world.run()
    assert reasons(world) == {T0: Reason.REPLICAS_OUT_OF_SYNC}
    assert not kafka.calls


def test_a_replica_that_lags_and_is_alive_is_waited_for() -> None:
    kafka, move = lose_replicas(1, target=[4, 2, 3])
    kafka.isolated = {2}
    kafka.partition(T0).isr.discard(2)
    kafka.partition(T0).copies[2] = ("/d0", 0.0)
    kafka.partition(T0).leader = 3
    world = build_world([move], kafka=kafka, settings=PATIENT)
    world.run(lambda found: found.reason is Reason.REPLICAS_OUT_OF_SYNC)
    for _ in range(30):
        world.turn()
    assert not kafka.calls


def test_a_replica_in_sync_is_not_given_up_while_another_is_lost() -> None:
    kafka, move = lose_replicas(2, target=[4, 2, 3])
    world = build_world([move], kafka=kafka, settings=PATIENT)
    world.run()
    assert reasons(world) == {T0: Reason.REPLICAS_OUT_OF_SYNC}
    assert not kafka.calls


def test_a_replica_is_added_beside_one_that_is_lost() -> None:
    kafka, _ = lose_replicas(2, target=[1, 2])
    added = build_move(kafka, T0, [1, 2, 3])
    world = build_world([added], kafka=kafka, settings=PATIENT)
    assert world.run().reason is Reason.MOVED
    assert kafka.partition(T0).isr == {1, 3}


def test_a_receiver_that_is_lost_too_costs_the_move_though_min_isr_is_not_reached() -> None:
    kafka, move = lose_replicas(2, target=[1, 3])
    world = build_world([move], kafka=kafka, settings=PATIENT)
    until_copying(world)
    kafka.kill(3)
    world.run(lambda _: not kafka.partition(T0).adding, seconds=60)
    assert kafka.partition(T0).isr == {1}
    assert not kafka.harms


def test_a_partition_below_min_isr_keeps_its_copy_while_the_receiver_lives() -> None:
    kafka, move = lose_replicas(2, target=[1, 3])
    world = build_world([move], kafka=kafka, settings=PATIENT)
    until_copying(world)
    world.plan = None  # type: ignore[assignment]
    assert world.run(lambda found: found.reason is Reason.MOVE_HELD)
    assert kafka.partition(T0).adding == [3]


def build_split() -> tuple[MovingKafka, list[Move]]:
    """A batch of two moves, of which the second waits: its partition has lost a replica that stays."""
    kafka = build_kafka(brokers=6)
    kafka.add_topic("t", [[1, 2], [4, 5]], [100 * MB, 100 * MB])
    moves = [build_move(kafka, T0, [3, 2]), build_move(kafka, T1, [6, 5])]
    kafka.kill(5)
    return kafka, moves


def test_moves_begin_while_another_of_their_batch_waits() -> None:
    kafka, moves = build_split()
    world = build_world(moves, kafka=kafka, settings=MoveSettings(patience_seconds=600))
    world.run(lambda _: kafka.partition(T0).replicas == [3, 2], seconds=60)


def test_what_waited_has_its_turn_before_the_next_batch() -> None:
    kafka, moves = build_split()
    kafka.add_topic("u", [[1, 2]], [100 * MB])
    world = build_world(moves, [build_move(kafka, ("u", 0), [3, 2])], kafka=kafka)
    world.run(lambda _: kafka.partition(T0).replicas == [3, 2], seconds=60)
    for _ in range(30):
        world.turn()
    assert kafka.partition(("u", 0)).replicas == [1, 2]
    kafka.revive(5)
    assert world.run().reason is Reason.MOVED
    ended = [(one.topic, one.partition) for one in world.journaled.ended]
    assert ended == [T0, T1, ("u", 0)]


def test_what_waits_in_vain_ends_and_the_next_batch_begins() -> None:
    kafka, moves = build_split()
    kafka.add_topic("u", [[1, 2]], [100 * MB])
    world = build_world(moves, [build_move(kafka, ("u", 0), [3, 2])], kafka=kafka, settings=PATIENT)
    world.run()
    assert reasons(world) == {
        T0: Reason.MOVED,
        T1: Reason.REPLICAS_OUT_OF_SYNC,
        ("u", 0): Reason.MOVED,
    }


def test_a_wait_of_a_moment_does_not_part_a_batch() -> None:
    kafka, moves = build_split()
    world = build_world(moves, kafka=kafka)
    for _ in range(5):
        world.turn()
    assert not kafka.calls
    kafka.revive(5)
    world.run(lambda found: found.bytes_done > 0)
    assert all(kafka.partition(key).adding for key in (T0, T1))
