from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from evenkeel.domain.exchange import BrokerPlace, Fault
from evenkeel.errors import RetryableError
from evenkeel.kafka.answers import DirAnswer
from evenkeel.keeper.measurement import Measurement
from evenkeel.keeper.shared_volumes import EVIDENCE, MOST_PAIRS, SharedVolumes, tolerance_bytes
from evenkeel.reasons import Reason
from tests.support.measurements import MIB, build_measurement

TOTAL = 1000 * MIB
Sizes = tuple[int, int]
"""MiB of replicas on brokers 1 and 2."""


def separate(sizes: Sizes) -> Sizes:
    """MiB that are free on two disks of their own."""
    return 900 - sizes[0], 900 - sizes[1]


def shared(sizes: Sizes) -> Sizes:
    """MiB that are free on one disk."""
    return 900 - sum(sizes), 900 - sum(sizes)


def measure(sizes: Sizes, free: Sizes, totals: Sizes = (TOTAL, TOTAL)) -> Measurement:
    dirs = {
        broker: (
            DirAnswer(
                "/data",
                online=True,
                total_bytes=totals[broker - 1],
                usable_bytes=free[broker - 1] * MIB,
                replica_bytes={("t", broker): sizes[broker - 1] * MIB},
            ),
        )
        for broker in (1, 2)
    }
    return dataclasses.replace(build_measurement(), dirs=dirs)


def watch(
    course: list[Sizes], disk: Callable[[Sizes], Sizes], places: list[BrokerPlace] | None = None
) -> list[Fault]:
    """Faults after the last of several measurements."""
    volumes, found = SharedVolumes(), []
    for sizes in course:
        found = volumes.observe(measure(sizes, disk(sizes)), places or [])
    return found


def rising(first: int, second: int, count: int = EVIDENCE + 1) -> list[Sizes]:
    return [(10 + first * number, 10 + second * number) for number in range(count)]


def test_one_disk_under_two_directories_is_suspected() -> None:
    (fault,) = watch(rising(20, 5), shared)
    assert (fault.reason, fault.subject) == (Reason.SHARED_VOLUME_SUSPECTED, "broker/1")
    assert "/data of broker 1, /data of broker 2" in fault.message


def test_it_is_said_only_after_repeated_evidence() -> None:
    assert watch(rising(20, 5, EVIDENCE), shared) == []


@pytest.mark.parametrize(
    ("course", "disk"),
    [
        ([(0, 0)] * 9, separate),  # fresh and empty
        (rising(20, 20, 9), separate),  # a mirror: the same data on both
        (rising(20, 5, 9), separate),
        (rising(20, 20, 9), shared),  # cannot be told apart from a mirror by its bytes alone
    ],
)
def test_disks_that_may_be_separate_are_not_suspected(
    course: list[Sizes], disk: Callable[[Sizes], Sizes]
) -> None:
    assert watch(course, disk) == []


def test_deleted_data_that_still_takes_space_is_no_evidence() -> None:
    """Two mirrored disks; retention deletes on the first and the space comes back later."""
    volumes = SharedVolumes()
    for number in range(9):
        grown = 40 * number
        sizes = (grown - 30 * number, grown)  # 30 MiB deleted on broker 1 each time, not yet freed
        measurement = measure(sizes, (900 - grown, 900 - grown))
        first = measurement.dirs[1]
        assert isinstance(first, tuple)
        moved = dataclasses.replace(first[0], replica_bytes={("t", number): sizes[0] * MIB})
        dirs = {**measurement.dirs, 1: (moved,)}
        assert volumes.observe(dataclasses.replace(measurement, dirs=dirs), []) == []


def test_hundreds_of_empty_disks_cost_no_more_than_some_thousand_pairs() -> None:
    volumes = SharedVolumes()
    entries = tuple(
        DirAnswer(f"/data/{number}", online=True, total_bytes=TOTAL, usable_bytes=TOTAL)
        for number in range(300)
    )
    for _ in range(2):
        assert volumes.observe(dataclasses.replace(build_measurement(), dirs={1: entries}), []) == []
    assert len(volumes._pairs) == MOST_PAIRS


def test_disks_that_drift_apart_are_cleared() -> None:
    volumes = SharedVolumes()
    for sizes in rising(20, 5):
        found = volumes.observe(measure(sizes, shared(sizes)), [])
    assert found
    assert volumes.observe(measure((100, 100), (700, 650)), []) == []


def test_a_broker_that_is_silent_for_a_moment_keeps_the_evidence() -> None:
    volumes = SharedVolumes()
    for sizes in rising(20, 5):
        volumes.observe(measure(sizes, shared(sizes)), [])
    measurement = measure((100, 30), shared((100, 30)))
    silent = dataclasses.replace(measurement, dirs={**measurement.dirs, 2: RetryableError("no answer")})
    assert volumes.observe(silent, [])


def test_volumes_that_the_operator_knows_are_not_suspected() -> None:
    places = [BrokerPlace(1, volumes={"/data": "a"}), BrokerPlace(2, volumes={"/data": "b"})]
    assert watch(rising(20, 5), shared, places) == []


def test_other_sizes_are_other_disks() -> None:
    volumes = SharedVolumes()
    for sizes in rising(20, 5, 9):
        found = volumes.observe(measure(sizes, shared(sizes), (TOTAL, TOTAL + 1)), [])
    assert found == []


def test_space_that_somebody_else_frees_starts_the_count_anew() -> None:
    volumes, found = SharedVolumes(), list[Fault]()
    for number, sizes in enumerate(rising(20, 5, EVIDENCE + 3)):
        free = shared(sizes)[0] + (200 if number >= 2 else 0)
        found = volumes.observe(measure(sizes, (free, free)), [])
    assert found


def test_the_tolerance_grows_with_the_disk() -> None:
    assert tolerance_bytes(MIB) == MIB
    assert tolerance_bytes(4000 * MIB) == 2 * MIB
