from __future__ import annotations

from dataclasses import replace

from evenkeel.errors import EvenkeelError, RetryableError
from evenkeel.kafka.answers import OffsetSpan, PartitionAnswer
from evenkeel.keeper.growth import SILENT_STRETCHES, Growth
from evenkeel.keeper.measurement import Measurement
from tests.support.measurements import MIB, build_measurement

KEY = ("t", 0)
SILENT: EvenkeelError = RetryableError("no answer")


def measured(start: int, end: int, seconds: int, size: int | None = None) -> Measurement:
    """Records of 1 MiB / 100 bytes each, unless the size is given."""
    held = (end - start) * MIB // 100 if size is None else size
    return build_measurement(
        taken_at_ms=seconds * 1000,
        replica_bytes={1: held, 2: held},
        offsets={1: {KEY: OffsetSpan(start, end)}},
    )


def observed(*measurements: Measurement) -> Growth:
    growth = Growth()
    for one in measurements:
        growth.observe(one)
    return growth


def test_it_says_whether_there_are_new_rates() -> None:
    growth = Growth()
    assert [
        growth.observe(measured(0, end, seconds)) for end, seconds in ((10, 0), (20, 2), (30, 15), (40, 10))
    ] == [
        False,
        False,
        True,
        False,
    ]


def test_the_recent_rate_is_a_mean_over_the_window() -> None:
    growth = observed(
        *(measured(0, 100 + end, 15 * i) for i, end in enumerate((0, 900, 900, 900, 900, 1200)))
    )
    assert growth.recent_rate("t", 60_000) == (300 * MIB / 100) / 60
    assert growth.topic_rate("t") == 0.0


def test_one_stretch_that_is_longer_than_the_window_counts() -> None:
    growth = observed(measured(0, 100, 0), measured(0, 400, 300))
    assert growth.recent_rate("t", 60_000) == MIB / 100
    assert growth.recent_rate("other", 60_000) is None


def test_newest_rates_are_those_of_the_last_stretch() -> None:
    growth = observed(measured(0, 100, 0), measured(0, 200, 10), measured(0, 200, 20))
    assert growth.newest_rates("t") == (0.0,)
    assert growth.newest_rates("other") == ()


def of_two(end: int, seconds: int, *, leader: int | None, told: bool = True) -> Measurement:
    """As `measured`, with a second partition that broker 2 leads, or `leader`; broker 2 may be silent."""
    one = measured(0, end, seconds)
    rows = (*one.topics["t"].partitions, PartitionAnswer(1, leader, (2, 3), (2, 3)))
    second = {2: {("t", 1): OffsetSpan(0, end)} if told else SILENT} if leader is not None else {}
    dirs = {**one.dirs, 2: (replace(one.dirs[2][0], replica_bytes={("t", 1): end * MIB // 100}),)}
    return replace(
        one,
        topics={"t": replace(one.topics["t"], partitions=rows)},
        offsets={**one.offsets, **second},
        dirs=dirs if told else one.dirs,
    )


def test_a_partition_without_a_leader_takes_nothing_and_hides_nothing() -> None:
    growth = observed(of_two(100, 0, leader=None), of_two(200, 10, leader=None))
    assert growth.topic_rate("t") == growth.recent_rate("t", 60_000) == 10 * MIB / 100
    assert growth.newest_rates("t") == (10 * MIB / 100, None)
    assert growth.partition_rate(("t", 1)) is None


def test_a_leader_that_is_silent_counts_with_its_median_for_a_while() -> None:
    growth = observed(of_two(100, 0, leader=2), of_two(200, 10, leader=2))
    for number in range(2, 2 + SILENT_STRETCHES):
        growth.observe(of_two(100 + 100 * number, 10 * number, leader=2, told=False))
        assert growth.recent_rate("t", 10_000) == 2 * 10 * MIB / 100
    growth.observe(of_two(3000, 100, leader=2, told=False))
    assert growth.recent_rate("t", 10_000) == 2 * 10 * MIB / 100


def test_a_topic_of_which_nobody_tells_has_no_rate() -> None:
    growth = observed(measured(0, 100, 0), replace(measured(0, 100, 10), offsets={1: SILENT}))
    assert growth.topic_rate("t") is None


def test_deleted_bytes_stay_for_a_while() -> None:
    growth = observed(measured(0, 100, 0), measured(40, 100, 15), measured(40, 100, 30))
    assert growth.deleted_bytes(KEY, 30_000, 60_000) == 40 * (60 * MIB // 100) // 60
    assert growth.deleted_bytes(KEY, 75_000, 60_000) == 0
    assert growth.deleted_bytes(("t", 1), 30_000, 60_000) == 0


def test_a_topic_made_anew_deleted_nothing() -> None:
    assert observed(measured(50, 100, 0), measured(0, 10, 15)).deleted_bytes(KEY, 15_000, 60_000) == 0


def test_watched_time_goes_on_until_now() -> None:
    growth = observed(measured(0, 100, 0), measured(0, 100, 60))
    assert (growth.observed_seconds(), growth.observed_seconds(75_000)) == (60, 75)
    assert Growth().observed_seconds(75_000) == 0
