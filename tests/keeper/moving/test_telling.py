"""Why moves were not carried out: in the run's last sentence and in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from evenkeel.errors import InputError
from evenkeel.keeper.moving.run import NOTE_CHARS, Ended, Run, RunState, end_move, end_run
from evenkeel.keeper.moving.settings import Control, MoveSettings
from evenkeel.reasons import Reason
from tests.support.moving_kafka import GB, MB
from tests.support.moving_world import (
    T0,
    World,
    build_kafka,
    build_move,
    build_world,
    one_move,
    until_copying,
)


def lose_receiver(world: World) -> None:
    world.kafka.kill(3)


def fill_receiver(world: World) -> None:
    world.kafka.brokers[3].foreign["/d0"] = 9.3 * GB


def stall(world: World) -> None:
    world.kafka.isolated = {3}


def edit(world: World) -> None:
    world.kafka.begin(T0, [2])


def delete(world: World) -> None:
    world.kafka.delete_topic("t")


@pytest.mark.parametrize(
    ("befall", "told"),
    [
        (lose_receiver, "t-0: broker 3 was away for 30 s"),
        (fill_receiver, "t-0: the log directory on broker 3 is offline or would fill above 92.5 %"),
        (stall, "t-0: the copy on broker 3 did not grow for 300 s"),
        (edit, "t-0: lies on [2, 1], not on its way from [1] to [3]: somebody else changed it"),
        (delete, "t-0: is not there any more, or was made again"),
    ],
)
def test_a_move_that_ends_under_way_says_why(befall: Callable[[World], None], told: str) -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    until_copying(world)
    befall(world)
    world.run(lambda found: found.state is not RunState.RUNNING)
    assert world.journaled.ended[0].note == told
    assert told in world.journaled.message


def test_a_move_that_may_not_begin_says_why() -> None:
    kafka, move = one_move()
    kafka.kill(3)
    world = build_world([move], kafka=kafka, settings=MoveSettings(patience_seconds=30))
    assert world.run().message.endswith("not moved: 1 BrokersUnreachable; t-0: broker 3 is away")


def test_a_move_that_kafka_refuses_says_what_kafka_said() -> None:
    kafka, move = one_move()
    kafka.refuse = InputError("moving t-0: policy 17", reason=Reason.INVALID_SPEC)
    assert build_world([move], kafka=kafka).run().message.endswith("; moving t-0: policy 17")


def test_what_the_user_cancelled_needs_no_reason() -> None:
    kafka, move = one_move(min_isr=2)
    world = build_world([move], kafka=kafka)
    until_copying(world)
    world.want(control=Control.CANCEL)
    assert world.run().message == "stopped: 0 moves done, the rest did not run"


def test_each_move_that_was_not_carried_out_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    kafka = build_kafka()
    kafka.add_topic("t", [[1]] * 5, [MB] * 5)
    moves = [build_move(kafka, ("t", number), [3]) for number in range(5)]
    kafka.brokers[3].cordoned.add("/d0")
    world = build_world(moves, kafka=kafka)
    with caplog.at_level(logging.WARNING):
        found = world.run()
        world.restart()
        world.run()
    told = [row.message for row in caplog.records if "not carried out" in row.message]
    assert len(told) == len(set(told)) == 5
    assert "t-4" not in found.message, "three are named"
    assert found.message.endswith("t-2: /d0 of broker 3 is cordoned and 2 more")


def test_the_last_sentence_is_bounded() -> None:
    _, move = one_move()
    ended = [end_move(move, Reason.MOVE_STALLED, "x" * 5000) for _ in range(100)]
    message = end_run(Run("p", ended=tuple(ended)), RunState.FINISHED).message
    assert len(ended[0].note) == NOTE_CHARS
    assert len(message) < 1000
    assert message.endswith("... and 97 more")


def test_an_end_is_told_with_the_partition_once() -> None:
    _, move = one_move()
    assert end_move(move, Reason.CONFLICT, "t-0 lies elsewhere") == Ended(
        "t", 0, Reason.CONFLICT, 0, "t-0 lies elsewhere"
    )
