from __future__ import annotations

import dataclasses

import pytest

from evenkeel.domain.exchange import BrokerPlace
from evenkeel.errors import RetryableError
from evenkeel.kafka.answers import DirAnswer
from evenkeel.keeper.measurement import Measurement
from evenkeel.keeper.places import believe_places
from evenkeel.reasons import Reason
from tests.support.measurements import build_measurement

PLACES = (BrokerPlace(1, "node-a", {"/data": "v", "/log": "w"}), BrokerPlace(2, "node-a", {"/data": "v"}))


def measure(first: int | None, second: int | None) -> Measurement:
    dirs = {
        broker: (DirAnswer("/data", online=True, total_bytes=total, usable_bytes=total and total // 2),)
        for broker, total in ((1, first), (2, second))
    }
    return dataclasses.replace(build_measurement(), dirs=dirs)


@pytest.mark.parametrize("sizes", [(100, 100), (100, None), (None, None)])
def test_directories_that_may_share_a_volume_do(sizes: tuple[int | None, int | None]) -> None:
    assert believe_places(PLACES, measure(*sizes)) == (PLACES, [])


def test_a_broker_that_does_not_answer_contradicts_nothing() -> None:
    silent = RetryableError("no answer", reason=Reason.BROKERS_UNREACHABLE)
    measurement = dataclasses.replace(measure(100, 100), dirs={1: silent, 2: silent})
    assert believe_places(PLACES, measurement) == (PLACES, [])


def test_directories_of_other_sizes_are_planned_apart() -> None:
    places, (fault,) = believe_places(PLACES, measure(100, 101))
    assert places == (BrokerPlace(1, "node-a", {"/log": "w"}), BrokerPlace(2, "node-a", {}))
    assert (fault.reason, fault.subject) == (Reason.MEASUREMENT_INCOMPLETE, "volume/v")
    assert "/data of broker 1 and /data of broker 2 lie on volume v" in fault.message
