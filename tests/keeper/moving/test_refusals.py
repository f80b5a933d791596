"""What becomes of moves that Kafka refuses."""

from __future__ import annotations

from evenkeel.errors import InputError, RetryableError
from evenkeel.keeper.moving.steps import Place
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
)

REFUSAL = InputError("policy", reason=Reason.INVALID_SPEC)
UNREADY = RetryableError("not now", reason=Reason.BROKERS_UNREACHABLE)


def test_what_kafka_refuses_for_good_ends_and_is_told() -> None:
    kafka, move = one_move()
    kafka.refuse = REFUSAL
    world = build_world([move], kafka=kafka)
    world.run(lambda found: found.reason is Reason.INVALID_SPEC)
    world.run()
    assert reasons(world) == {T0: Reason.INVALID_SPEC}
    assert_clean(kafka)


def test_what_kafka_refuses_for_now_is_tried_again() -> None:
    kafka, move = one_move()
    kafka.refuse = RetryableError("no controller", reason=Reason.BROKERS_UNREACHABLE)
    world = build_world([move], kafka=kafka)
    world.run(lambda found: found.reason is Reason.BROKERS_UNREACHABLE)
    kafka.refuse = None
    assert world.run().reason is Reason.MOVED


def refuse_place() -> World:
    """`t-0` goes to a directory that broker 3 refuses, `t-1` to the same one, which it takes."""
    kafka = build_kafka(dirs=2)
    kafka.add_topic("t", [[1], [1]], [100 * MB, 100 * MB])
    kafka.refuse_places[T0] = REFUSAL
    return build_world([build_move(kafka, key, [3], target_dir="/d1") for key in (T0, T1)], kafka=kafka)


def test_a_directory_that_a_broker_refuses_for_good_costs_that_move_alone() -> None:
    world = refuse_place()
    world.run()
    assert reasons(world) == {T0: Reason.INVALID_SPEC, T1: Reason.MOVED}
    assert_clean(world.kafka)


def test_a_move_between_directories_that_is_refused_for_good_ends() -> None:
    kafka = build_kafka(dirs=2)
    kafka.add_topic("t", [[1]], [100 * MB])
    kafka.refuse_places[T0] = REFUSAL
    world = build_world([build_local(kafka, T0, 1, "/d1")], kafka=kafka)
    world.run()
    assert reasons(world) == {T0: Reason.INVALID_SPEC}
    assert len([step for step in kafka.calls if isinstance(step, Place)]) == 1


def test_a_directory_that_is_refused_for_now_is_asked_for_again() -> None:
    world = refuse_place()
    world.kafka.refuse_places[T0] = UNREADY
    world.run(lambda found: found.reason is Reason.BROKERS_UNREACHABLE)
    world.kafka.refuse_places.clear()
    assert world.run().reason is Reason.MOVED
    assert world.kafka.partition(T0).copies[3][0] == "/d1"


def test_a_replica_in_another_directory_whose_correction_is_refused_for_good_has_moved() -> None:
    world = refuse_place()
    kafka = world.kafka
    kafka.refuse_places.clear()

    def forget(_: object) -> None:
        kafka.brokers[3].wishes.pop(T0, None)

    kafka.after_call = forget
    world.run(lambda found: bool(kafka.partition(T0).adding))
    kafka.refuse_places[T0] = REFUSAL
    assert world.run(seconds=120).reason is Reason.MOVED
    assert kafka.partition(T0).copies[3][0] == "/d0"
