from __future__ import annotations

from dataclasses import replace

import pytest

from evenkeel.domain.snapshot import ClusterSnapshot, Incoming, Topic
from evenkeel.planning.forecast import FARTHEST_DAYS, forecast_days
from tests.support.snapshots import GIB, broker, cluster, partitions_of

DAY = 86_400.0
HERE = (0, "/data")


def snapshot(
    rate: float | None,
    topic: Topic = Topic("t"),  # noqa: B008 - frozen
    *,
    size: int = 0,
    used: int = 40 * GIB,
    incoming: Incoming | None = None,
) -> ClusterSnapshot:
    """One topic of one partition on broker 0 of 100 GiB; `rate` in bytes per day."""
    told = Incoming("t", None if rate is None else rate / DAY, observed_seconds=86_400)
    (part,) = partitions_of("t", [(0,)], [size])
    part = replace(part, bytes_per_second=None if rate is None else rate / DAY)
    return cluster(
        [broker(0, 100 * GIB, used), broker(1, 100 * GIB, used)], [part], [incoming or told], [topic]
    )


@pytest.mark.parametrize(
    ("rate", "days"),
    [
        (0.0, None),
        (None, None),
        (10 * GIB, 6),
        (11 * GIB, 6),
        (60 * GIB, 1),
        (600 * GIB, 1),
        (60 * GIB / 365, 365),
        (60 * GIB / 366, None),
    ],
)
def test_an_even_rate_fills_the_rest(rate: float | None, days: int | None) -> None:
    assert forecast_days(snapshot(rate)) == {HERE: days, (1, "/data"): None}


def test_a_full_volume_is_full_now() -> None:
    assert forecast_days(snapshot(0.0, used=100 * GIB))[HERE] == 0


@pytest.mark.parametrize(
    ("retention_days", "days"),
    [(3, None), (5, None), (7, 6), (30, 6)],
)
def test_retention_ends_growth(retention_days: int, days: int | None) -> None:
    topic = Topic("t", retention_ms=int(retention_days * DAY * 1000))
    assert forecast_days(snapshot(10 * GIB, topic))[HERE] == days


def test_a_topic_in_its_steady_state_does_not_grow() -> None:
    topic = Topic("t", retention_ms=int(2 * DAY * 1000))
    assert forecast_days(snapshot(20 * GIB, topic, size=40 * GIB, used=99 * GIB))[HERE] is None


def test_retention_by_size_ends_growth() -> None:
    assert forecast_days(snapshot(10 * GIB, Topic("t", retention_bytes=50 * GIB)))[HERE] is None
    assert forecast_days(snapshot(10 * GIB, Topic("t", retention_bytes=70 * GIB)))[HERE] == 6


def test_what_shrinks_makes_room_for_what_grows() -> None:
    one = snapshot(0.0, Topic("t", retention_ms=int(10 * DAY * 1000)), size=40 * GIB)
    (other,) = partitions_of("u", [(0,)], [0])
    other = replace(other, bytes_per_second=10 * GIB / DAY)
    told = Incoming("u", 10 * GIB / DAY, observed_seconds=86_400)
    both = replace(
        one,
        partitions=(*one.partitions, other),
        incoming=(*one.incoming, told),
        topics=(*one.topics, Topic("u")),
    )
    # 60 GiB free and 4 GiB a day freed for ten days, against 10 GiB a day.
    assert forecast_days(both)[HERE] == 10


def test_replicas_count_everywhere() -> None:
    one = snapshot(30 * GIB)
    spread = replace(one.partitions[0], replicas=(0, 1))
    assert forecast_days(replace(one, partitions=(spread,))) == {HERE: 2, (1, "/data"): 2}


def test_planned_bytes_come_at_once() -> None:
    planned = Incoming("t", 0.0, planned_bytes=70 * GIB)
    assert forecast_days(snapshot(0.0, incoming=planned))[HERE] == 0


@pytest.mark.parametrize("planned", [0, 5 * GIB])
def test_an_ingest_is_not_taken_to_go_on_at_its_rate(planned: int) -> None:
    told = Incoming("t", 0.0, planned)
    assert forecast_days(snapshot(500 * GIB, incoming=told))[HERE] is None


def test_rates_of_minutes_are_not_extrapolated_over_days() -> None:
    brief = Incoming("t", 60 * GIB / DAY, observed_seconds=60)
    assert forecast_days(snapshot(60 * GIB, incoming=brief))[HERE] is None


def test_a_year_is_the_end() -> None:
    assert FARTHEST_DAYS == 365
    assert forecast_days(snapshot(1.0))[HERE] is None
