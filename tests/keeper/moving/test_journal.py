from __future__ import annotations

import pytest

from evenkeel.domain import codec
from evenkeel.domain.moves import Move, MoveKind
from evenkeel.domain.waits import Waits
from evenkeel.errors import DataError
from evenkeel.kafka.clients.reader import LogRecord
from evenkeel.keeper.moving.journal import find_run
from evenkeel.keeper.moving.run import MOVES_KEY, Ended, Flight, OwnEntry, OwnRate, Run, RunState
from evenkeel.reasons import Reason

MOVE = Move("t", 0, (1, 2), (3, 2), 10, "/a", MoveKind.BROKER, 3, 1, 1, None, 10, 1000)
RUN = Run(
    plan="p",
    name="n",
    state=RunState.CANCELLED,
    batch=3,
    flights=(Flight(MOVE, "id", seen=True, cancelled=Reason.STORAGE_LOW),),
    ended=(Ended("t", 1, Reason.MOVED, 5),),
    rates=(OwnRate(1, "leader.replication.throttled.rate", (5, 10)),),
    entries=(OwnEntry("t", "leader", "0:1"),),
    bytes_per_second=10,
    cancelling=Reason.MOVES_CANCELLED,
    finishing=True,
    reason=Reason.MOVES_CANCELLED,
    message="stopped",
    calm=Waits(2.5, 7.5),
)


def record(offset: int, key: bytes, value: str) -> LogRecord:
    return LogRecord(offset, key, value.encode(), {}, 0)


def test_a_run_is_read_as_it_was_written() -> None:
    assert codec.loads(Run, codec.dumps(RUN)) == RUN


def test_the_newest_run_counts_and_other_records_do_not() -> None:
    log = [
        record(0, MOVES_KEY, codec.dumps(Run("old"))),
        record(1, b"claim", "{}"),
        record(2, MOVES_KEY, codec.dumps(RUN)),
        record(3, b"claim", "not json"),
    ]
    assert find_run(log) == RUN
    assert find_run(log[1:2]) is None
    assert find_run([]) is None


def test_a_run_that_cannot_be_understood_stops_everything() -> None:
    log = [record(0, MOVES_KEY, codec.dumps(RUN)), record(7, MOVES_KEY, '{"batch":1}')]
    with pytest.raises(DataError, match=r"offset 7: Run\.plan: required"):
        find_run(log)


@pytest.mark.parametrize(
    ("run", "clean"),
    [
        (Run("p"), True),
        (Run("p", rates=RUN.rates), False),
        (Run("p", entries=RUN.entries), False),
        (Run("p", flights=RUN.flights), False),
    ],
)
def test_a_run_is_clean_when_nothing_of_it_is_in_kafka(run: Run, *, clean: bool) -> None:
    assert run.clean is clean
