from __future__ import annotations

import dataclasses

import pytest

from evenkeel.domain.exchange import Fault
from evenkeel.errors import ConfigurationError, EvenkeelError, RetryableError
from evenkeel.keeper.faults import RECENT_SECONDS, FaultBook, Recent, measurement_faults
from evenkeel.reasons import Reason
from tests.support.measurements import build_measurement

LATE = Fault(Reason.ROUTES_LATE, "late")


def fail_as_expected() -> None:
    raise ConfigurationError("no secret", reason=Reason.SECRET_MISSING)


def fail_by_a_bug() -> None:
    raise KeyError("password")


def test_one_step_that_fails_hides_no_other() -> None:
    book = FaultBook()
    assert book.run("routes", lambda: [LATE])
    assert not book.run("claim", fail_as_expected)
    assert book.all() == (LATE, Fault(Reason.SECRET_MISSING, "no secret"))
    assert book.run("claim", lambda: None)
    assert book.all() == (LATE,)


def test_a_bug_is_a_fault_without_its_values(caplog: pytest.LogCaptureFixture) -> None:
    book = FaultBook()
    assert not book.run("moves", fail_by_a_bug)
    (fault,) = book.all()
    assert fault.reason is Reason.INTERNAL_ERROR
    assert "moves: KeyError" in fault.message
    assert "password" not in fault.message
    assert "step failed step=moves" in caplog.text


def test_a_whole_measurement_has_no_faults() -> None:
    assert measurement_faults(build_measurement()) == []


def test_what_is_missing_is_named_in_words_that_stay_the_same() -> None:
    found = [
        measurement_faults(
            build_measurement(fenced=(3,), dirs={2: RetryableError(text, reason=Reason.BROKERS_UNREACHABLE)})
        )
        for text in ("refused", "no answer within 8 s")
    ]
    assert found[0] == found[1]
    assert [(fault.reason, fault.subject) for fault in found[0]] == [
        (Reason.MEASUREMENT_INCOMPLETE, "broker/3"),
        (Reason.BROKERS_UNREACHABLE, "broker/2"),
    ]


def test_a_missing_right_keeps_its_sentence() -> None:
    error = ConfigurationError("needs Describe", reason=Reason.AUTHORIZATION_MISSING)
    (fault,) = measurement_faults(build_measurement(dirs={1: error}))
    assert (fault.reason, fault.message) == (Reason.AUTHORIZATION_MISSING, "needs Describe")


def test_settings_that_nobody_may_see_are_a_missing_right() -> None:
    (fault,) = measurement_faults(build_measurement(configs={"t": None}))
    assert "DescribeConfigs" in fault.message


def test_settings_that_did_not_come_in_time_are_no_missing_right() -> None:
    late = RetryableError("describing topic settings: no answer in time", reason=Reason.BROKERS_UNREACHABLE)
    measurement = dataclasses.replace(build_measurement(configs={"t": None}), configs_error=late)
    (fault,) = measurement_faults(measurement)
    assert (fault.reason, fault.subject) == (Reason.BROKERS_UNREACHABLE, "broker/any")
    assert fault.message == "describing topic settings: no broker answers in time"


def test_reassignments_that_no_broker_tells_are_not_the_clusters_end() -> None:
    late = RetryableError("listing reassignments: x", reason=Reason.BROKERS_UNREACHABLE)
    (fault,) = measurement_faults(dataclasses.replace(build_measurement(), reassignments=late))
    assert (fault.subject, fault.message) == (
        "broker/any", "listing reassignments: no broker answers in time"
    )  # fmt: skip


def test_a_mended_fault_is_told_for_a_while() -> None:
    now = [100.0]
    recent = Recent(lambda: now[0])
    recent.note([LATE])
    now[0] += RECENT_SECONDS - 1
    assert recent.recent() == (LATE,)
    now[0] += 2
    assert recent.recent() == ()


def test_last_known_sizes_in_use_are_said() -> None:
    measurement = build_measurement(dirs={2: RetryableError("no", reason=Reason.BROKERS_UNREACHABLE)})
    (fault,) = measurement_faults(measurement, kept=[2])
    assert "what it said last is used for 3 intervals" in fault.message


def test_a_broker_that_answers_nothing_is_one_fault() -> None:
    silent: EvenkeelError = RetryableError("no answer", reason=Reason.BROKERS_UNREACHABLE)
    found = measurement_faults(build_measurement(dirs={1: silent}, offsets={1: silent}))
    assert [fault.subject for fault in found] == ["broker/1"]


def test_a_right_that_is_missing_for_throttles_is_said_once() -> None:
    refused = ConfigurationError("throttles of broker 1 needs", reason=Reason.AUTHORIZATION_MISSING)
    measurement = dataclasses.replace(build_measurement(), throttles={1: refused, 2: refused})
    (fault,) = measurement_faults(measurement)
    assert "DescribeConfigs on the Cluster" in fault.message
