from __future__ import annotations

import dataclasses

import pytest

from evenkeel.errors import EvenkeelError, RetryableError
from evenkeel.kafka.answers import OffsetSpan, PartitionAnswer, ReassignmentAnswer
from evenkeel.keeper.last_known import KEPT_INTERVALS, LastKnown
from evenkeel.keeper.measurement import Measurement
from evenkeel.reasons import Reason
from tests.support.measurements import CONFIG, build_measurement

INTERVAL = 15.0
LIMIT_MS = int(KEPT_INTERVALS * INTERVAL * 1000)
SILENT: EvenkeelError = RetryableError("no answer", reason=Reason.BROKERS_UNREACHABLE)
KEY = ("t", 0)


def after(first: Measurement, second: Measurement) -> Measurement:
    known = LastKnown()
    known.complete(first, INTERVAL)
    return known.complete(second, INTERVAL)


def test_a_whole_measurement_stays_as_it_is() -> None:
    measurement = build_measurement()
    assert LastKnown().complete(measurement, INTERVAL) == measurement


@pytest.mark.parametrize(
    ("age_ms", "kept"), [(1, True), (LIMIT_MS, True), (LIMIT_MS + 1, False), (-1, False)]
)
def test_a_silent_broker_has_what_it_said_last_for_a_while(age_ms: int, *, kept: bool) -> None:
    first = build_measurement(taken_at_ms=100_000)
    found = after(first, build_measurement(taken_at_ms=100_000 + age_ms, dirs={2: SILENT}))
    assert found.kept_dirs == ({2: 100_000} if kept else {})
    assert found.dirs[2] == (first.dirs[2] if kept else SILENT)


def test_what_was_never_said_stays_unknown() -> None:
    found = LastKnown().complete(build_measurement(dirs={2: SILENT}), INTERVAL)
    assert found.dirs[2] is SILENT
    assert found.kept_dirs == {}


def test_a_broker_that_is_down_keeps_its_last_sizes_too() -> None:
    found = after(build_measurement(), build_measurement(taken_at_ms=1000, fenced=(2,)))
    assert found.kept_dirs == {2: 0}


def test_answers_that_come_again_take_over() -> None:
    known = LastKnown()
    known.complete(build_measurement(), INTERVAL)
    known.complete(build_measurement(taken_at_ms=1000, dirs={2: SILENT}), INTERVAL)
    back = build_measurement(taken_at_ms=2000, replica_bytes={2: 5})
    assert known.complete(back, INTERVAL) == back
    found = known.complete(build_measurement(taken_at_ms=3000, dirs={2: SILENT}), INTERVAL)
    assert found.kept_dirs == {2: 2000}


def test_a_broker_that_left_the_cluster_is_forgotten() -> None:
    known = LastKnown()
    known.complete(build_measurement(), INTERVAL)
    whole = build_measurement(taken_at_ms=1000)
    smaller = dataclasses.replace(
        whole,
        cluster=dataclasses.replace(
            whole.cluster, brokers=tuple(one for one in whole.cluster.brokers if one.id != 2)
        ),
        dirs={broker: answer for broker, answer in whole.dirs.items() if broker != 2},
    )
    assert known.complete(smaller, INTERVAL) == smaller
    again = known.complete(build_measurement(taken_at_ms=2000, dirs={2: SILENT}), INTERVAL)
    assert again.kept_dirs == {}


def test_offsets_of_a_silent_leader_are_kept_with_what_expires() -> None:
    first = build_measurement(kept_from={KEY: 25})
    found = after(first, build_measurement(taken_at_ms=1000, offsets={1: SILENT}))
    assert found.spans() == {KEY: OffsetSpan(0, 100)}
    assert (found.kept_offsets, found.kept_from) == ({1: 0}, {KEY: 25})


def test_offsets_of_a_partition_that_moved_to_another_leader_are_not() -> None:
    second = build_measurement(taken_at_ms=1000, offsets={1: SILENT, 2: {KEY: OffsetSpan(0, 120)}})
    row = PartitionAnswer(0, 2, (1, 2), (2,))
    topic = dataclasses.replace(second.topics["t"], partitions=(row,))
    found = after(build_measurement(), dataclasses.replace(second, topics={"t": topic}))
    assert found.spans() == {KEY: OffsetSpan(0, 120)}


def test_settings_that_could_not_be_asked_for_are_those_of_before() -> None:
    found = after(build_measurement(), build_measurement(taken_at_ms=1000, configs={"t": None}))
    assert found.configs == {"t": CONFIG}


def test_moves_under_way_are_remembered() -> None:
    moving = {KEY: ReassignmentAnswer((1, 2, 3), adding=(3,), removing=(2,))}
    second = dataclasses.replace(build_measurement(taken_at_ms=1000), reassignments=SILENT)
    assert after(build_measurement(reassignments=moving), second).reassignments == moving
