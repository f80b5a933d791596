from __future__ import annotations

from collections.abc import Mapping

import pytest

from evenkeel.domain.table import RouteTable
from evenkeel.kafka.answers import PartitionAnswer, TopicAnswer
from evenkeel.keeper.growth import Growth
from evenkeel.keeper.heartbeats import Steering, TopicSteering
from evenkeel.keeper.inflow import Inflow, InflowBook, SteeredTopic, build_incoming
from tests.support.measurements import build_measurement

RATE = 10_000.0


class FakeGrowth(Growth):
    """Rates as wanted instead of history."""

    def __init__(self, *rates: float | None) -> None:
        super().__init__()
        self.rates = rates

    def recent_rate(self, topic: str, window_ms: int) -> float | None:
        known = [rate for rate in self.rates if rate is not None]
        return sum(known) if len(known) == len(self.rates) and known else None

    def newest_rates(self, topic: str) -> tuple[float | None, ...]:
        return self.rates


def steering(rate: float, **more: float) -> Steering:
    return Steering({"t": TopicSteering(rate, rate, None, 1, **more)})  # type: ignore[arg-type]


class Watch:
    """A book that is told a share again and again."""

    def __init__(self) -> None:
        self.book = InflowBook()
        self.seconds = 0

    def go_on(
        self,
        percent: float | None,
        seconds: int,
        rates: tuple[float | None, ...] = (RATE,),
        tables: Mapping[str, RouteTable] | None = None,
    ) -> SteeredTopic:
        whole = sum(rate or 0.0 for rate in rates)
        for _ in range(0, seconds, 15):
            told = None if percent is None else steering(whole * percent / 100)
            self.book.observe(FakeGrowth(*rates), told, tables or {}, ["t"], now_ms=self.seconds * 1000)
            self.seconds += 15
        return self.book.topic("t")


def test_the_share_is_steered_by_whole_rate() -> None:
    assert Watch().go_on(40, 300) == SteeredTopic(40, few=False, settled=True)


def test_shares_are_smoothed() -> None:
    watch = Watch()
    watch.go_on(80, 300)
    assert watch.go_on(0, 15).percent == pytest.approx(80 * 0.61, abs=1)
    assert watch.go_on(0, 300).percent == 0


def test_a_topic_that_begins_to_be_written_is_not_nobodys_before_routers_can_have_told() -> None:
    book = InflowBook()
    for second in (0, 5, 10):
        book.observe(FakeGrowth(RATE, 0.0), steering(0.0), {}, ["t"], now_ms=second * 1000)
        assert book.topic("t") == SteeredTopic()
        assert not book.unsteered()
    book.observe(FakeGrowth(RATE, 0.0), steering(RATE), {}, ["t"], now_ms=15_000)
    assert book.topic("t").percent == 100


def test_routers_that_tell_everything_at_once_are_believed_at_once() -> None:
    book = InflowBook()
    for second in (0, 5):
        book.observe(FakeGrowth(RATE), steering(RATE), {}, ["t"], now_ms=second * 1000)
    assert book.topic("t").percent == 100


def test_few_are_said_to_be_only_after_two_minutes_of_inflow() -> None:
    watch = Watch()
    assert watch.go_on(0, 120) == SteeredTopic(0, few=False, settled=False)
    assert watch.go_on(0, 30) == SteeredTopic(0, few=True, settled=True)


def test_between_19_and_21_percent_nothing_flaps() -> None:
    watch = Watch()
    said = [
        watch.go_on(percent, 60).few
        for percent in (30, 30, 21, 19, 21, 19, 15, 21, 24, 19, 30, 30, 21, 21, 21)
    ]
    assert [now for now, before in zip(said, [False, *said], strict=False) if now != before] == [True, False]


def test_without_inflow_or_heartbeats_nothing_is_known_and_nothing_changes() -> None:
    assert Watch().go_on(50, 300, rates=(0.0,)) == SteeredTopic()
    assert Watch().go_on(None, 300) == SteeredTopic()
    assert Watch().go_on(50, 300, rates=(None,)) == SteeredTopic()
    watch = Watch()
    watch.go_on(0, 300)
    assert watch.go_on(0, 300, rates=(0.0,)).few
    assert watch.go_on(None, 300).few


def test_more_than_everything_is_everything() -> None:
    assert Watch().go_on(250, 60).percent == 100


def table(*weights: int) -> RouteTable:
    return RouteTable("t", 1, 1, 0, weights)


def test_what_routers_brought_is_taken_off_each_partition_by_its_weight() -> None:
    watch = Watch()
    tables = {"t": table(600_000, 400_000)}
    # Half is steered: 6000 and 4000; the rest comes to the second partition alone.
    watch.go_on(50, 300, rates=(6000.0, 14_000.0), tables=tables)
    assert watch.book.unsteered() == {("t", 0): pytest.approx(0.0), ("t", 1): pytest.approx(10_000.0)}


def test_without_a_table_routers_write_evenly() -> None:
    watch = Watch()
    watch.go_on(50, 300, rates=(5000.0, 15_000.0))
    assert watch.book.unsteered() == {("t", 0): pytest.approx(0.0), ("t", 1): pytest.approx(10_000.0)}


def test_routers_in_fallback_write_evenly() -> None:
    book = InflowBook()
    for number in range(10):
        told = steering(10_000.0, by_table=0.0)
        tables = {"t": table(1_000_000, 0)}
        book.observe(FakeGrowth(5000.0, 5000.0), told, tables, ["t"], now_ms=number * 15_000)
    assert book.unsteered() == {("t", 0): 0.0, ("t", 1): 0.0}


def test_jitter_of_single_intervals_does_not_become_unsteered_inflow() -> None:
    book = InflowBook()
    for number in range(40):
        rates = (20_000.0, 0.0) if number % 2 else (0.0, 20_000.0)
        book.observe(FakeGrowth(*rates), steering(20_000.0), {}, ["t"], now_ms=number * 15_000)
    assert sum(book.unsteered().values()) < 1000.0


def test_a_table_of_another_partition_count_says_nothing() -> None:
    watch = Watch()
    watch.go_on(50, 60, rates=(1e4, 1e4), tables={"t": table(1_000_000)})
    assert watch.book.unsteered() == {}


def test_topics_that_are_not_watched_any_more_are_forgotten() -> None:
    watch = Watch()
    watch.go_on(50, 60)
    watch.book.observe(FakeGrowth(RATE), steering(1.0), {}, [], now_ms=1_000_000)
    assert watch.book.topic("t") == SteeredTopic()
    assert watch.book.unsteered() == {}


@pytest.mark.parametrize(
    ("known", "percent"), [(SteeredTopic(), 100), (SteeredTopic(37), 37), (SteeredTopic(0, few=True), 1)]
)
def test_a_declared_topic_keeps_a_share_so_that_its_table_stays(known: SteeredTopic, percent: int) -> None:
    measurement = build_measurement()
    (incoming,) = build_incoming(measurement, Growth(), Inflow(frozenset({"t"}), steered={"t": known}))
    assert incoming.steered_percent == percent


def test_producers_of_an_ingest_are_all_ours() -> None:
    inflow = Inflow(frozenset({"t"}), ingests={"t": 5}, steered={"t": SteeredTopic(3, few=True)})
    (incoming,) = build_incoming(build_measurement(), Growth(), inflow)
    assert (incoming.planned_bytes, incoming.steered_percent) == (5, 100)


def test_internal_topics_have_no_inflow() -> None:
    row = PartitionAnswer(0, 1, (1,), (1,))
    topics = {name: TopicAnswer(name, "id", internal=False, partitions=(row,)) for name in ("__own", "t")}
    measurement = build_measurement()
    object.__setattr__(measurement, "topics", topics)
    assert [one.topic for one in build_incoming(measurement, Growth(), Inflow())] == ["t"]
