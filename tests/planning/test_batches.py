from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenkeel.domain.moves import Move, MoveKind
from evenkeel.planning.batches import BATCH_SECONDS, plan_batches
from evenkeel.planning.peak import highest_fill
from evenkeel.planning.space import Space, build_space
from tests.support.snapshots import broker, cluster

MB = 10**6
THROTTLE = 10 * MB


def space(brokers: int = 4) -> Space:
    return build_space(cluster([broker(i, 10_000 * MB, 1000 * MB) for i in range(brokers)], []))


def move(number: int, source: int, target: int, size: int, *, leader: int | None = None) -> Move:
    return Move(
        topic="t",
        partition=number,
        source=(source,),
        target=(target,),
        bytes=size,
        copied_to=target,
        copied_from=source if leader is None else leader,
        freed_on=source,
        freed_bytes=size,
    )


def test_each_broker_copies_for_at_most_a_minute_per_batch() -> None:
    moves = [move(i, 0, 1, 100 * MB) for i in range(15)]
    batches = plan_batches(moves, THROTTLE, space(), space().used)
    assert [len(batch.moves) for batch in batches] == [6, 6, 3]
    assert [batch.seconds for batch in batches] == [60, 60, 30]
    assert [batch.number for batch in batches] == [0, 1, 2]
    assert sum(batch.bytes for batch in batches) == 1500 * MB


def test_the_leader_sends_whichever_replica_goes() -> None:
    moves = [move(i, i, 3, 300 * MB, leader=0) for i in range(3)]
    batches = plan_batches(moves, 2 * THROTTLE, space(), space().used)
    assert [batch.seconds for batch in batches] == [45]
    moves = [replace(one, copied_to=1 + i) for i, one in enumerate(moves)]
    assert [batch.seconds for batch in plan_batches(moves, THROTTLE, space(), space().used)] == [60, 30]


def test_pairs_of_other_brokers_run_beside_each_other() -> None:
    moves = [move(0, 0, 1, 600 * MB), move(1, 2, 3, 600 * MB)]
    assert len(plan_batches(moves, THROTTLE, space(), space().used)) == 1


def test_a_giant_begins_a_batch_of_its_own_and_only_other_brokers_copy_beside_it() -> None:
    moves = [move(0, 0, 1, 2000 * MB), move(1, 0, 1, 10 * MB), move(2, 2, 3, 1500 * MB)]
    batches = plan_batches(moves, THROTTLE, space(), space().used)
    assert [[one.partition for one in batch.moves] for batch in batches] == [[0, 2], [1]]
    assert batches[0].seconds == 200
    assert batches[1].seconds <= BATCH_SECONDS


def test_directories_of_a_broker_share_one_pace() -> None:
    inside = replace(move(0, 0, 0, 400 * MB), kind=MoveKind.DIRECTORY)
    batches = plan_batches([inside, move(1, 0, 1, 400 * MB)], THROTTLE, space(), space().used)
    assert [batch.seconds for batch in batches] == [40]


def test_deleted_bytes_lie_there_until_the_delay_is_over() -> None:
    there = space(3)
    start = np.array([8000.0 * MB, 1000.0 * MB, 1000.0 * MB])
    out, back = move(0, 0, 1, 600 * MB), move(1, 2, 0, 600 * MB)
    batches = [
        replace(batch, number=i)
        for i, batch in enumerate(
            (
                *plan_batches([out], THROTTLE, there, start),
                *plan_batches([back], THROTTLE, there, start),
            )
        )
    ]
    assert highest_fill(there, start, batches) == pytest.approx(0.86)
    quick = [
        replace(batch, moves=tuple(replace(one, freed_after_ms=0) for one in batch.moves))
        for batch in batches
    ]
    assert highest_fill(there, start, quick) == pytest.approx(0.80)


def test_peaks_are_of_the_volumes_that_receive() -> None:
    batches = plan_batches([move(0, 0, 1, 500 * MB)], THROTTLE, space(), space().used)
    assert [(peak.volume, peak.bytes, peak.fill) for peak in batches[0].peaks] == [
        ("1:/data", 1500 * MB, 0.15)
    ]


def test_nothing_to_copy_takes_no_time() -> None:
    gone = Move("t", 0, (0, 1), (0,), 0, kind=MoveKind.REMOVE, freed_on=1, freed_bytes=5)
    batches = plan_batches([gone], THROTTLE, space(), space().used)
    assert [(batch.seconds, batch.peaks) for batch in batches] == [(0.0, ())]
