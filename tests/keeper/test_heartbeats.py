from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.domain import codec
from evenkeel.domain.heartbeat import BrokerHeartbeat, RouteMode, RouterHeartbeat, TopicHeartbeat
from evenkeel.keeper import heartbeats
from evenkeel.keeper.heartbeats import HeartbeatBook, Steering, TopicSteering, read_heartbeat

NOW = 1_800_000_000_000
MODE = RouteMode.TABLE


def beat(
    router: str, sent: int, wire: int | None = None, mode: RouteMode = MODE, clock_ms: int | None = None
) -> bytes:
    topic = TopicHeartbeat(sent, mode, 1, 1, wire)
    return codec.dumps(RouterHeartbeat(router, {"t": topic}, clock_ms=clock_ms)).encode()


def book(*records: tuple[int, bytes], now: int = NOW) -> HeartbeatBook:
    """Records by their age in seconds."""
    made = HeartbeatBook()
    for age, value in records:
        made.note(value, now - age * 1000, now)
    return made


def told(*records: tuple[int, bytes]) -> TopicSteering:
    return book(*records).summarise(NOW).topics["t"]


def test_rates_are_growth_of_counters_over_the_newest_minute() -> None:
    found = told(
        (60, beat("a", 1000)),
        (30, beat("a", 31_000)),
        (0, beat("a", 61_000)),
        (10, beat("b", 0)),
        (0, beat("b", 5000)),
    )
    assert found.bytes_per_second == pytest.approx(1000 + 500)
    assert (found.routers, found.fallback, found.by_table) == (2, 0, 1.0)


def test_older_growth_is_forgotten() -> None:
    assert told(
        (110, beat("a", 0)), (70, beat("a", 10_000)), (60, beat("a", 10_000)), (0, beat("a", 10_000))
    ) == (TopicSteering(0.0, None, None, 1))


def test_a_router_that_vanished_stops_counting() -> None:
    found = book((50, beat("a", 0)), (25, beat("a", 9000))).summarise(NOW)
    assert found == Steering()


def test_a_counter_that_begins_anew_is_no_negative_rate() -> None:
    assert told((30, beat("a", 90_000)), (10, beat("a", 100)), (0, beat("a", 200))).bytes_per_second == 10.0


def test_one_record_tells_no_rate() -> None:
    assert told((0, beat("a", 5000))).bytes_per_second == 0.0


def test_records_that_arrive_late_and_at_once_tell_the_rate_of_the_routers_own_clock() -> None:
    """The heartbeats topic was made while they waited."""
    records = [
        (6, beat("a", sent, clock_ms=at)) for at, sent in ((5000, 1), (10_000, 50_001), (15_000, 100_001))
    ]
    assert told(*records).bytes_per_second == 10_000
    assert told(*records, (1, beat("a", 150_001, clock_ms=20_000))).bytes_per_second == 10_000


def test_a_clock_that_begins_anew_is_another_process() -> None:
    records = ((10, 900_000, 5), (5, 1000, 10), (0, 6000, 20))
    found = told(*((age, beat("a", sent, clock_ms=clock_ms)) for age, clock_ms, sent in records))
    assert found.bytes_per_second == 2.0


def test_bytes_on_the_wire_give_the_on_disk_ratio() -> None:
    found = told(
        (10, beat("a", 0, 0)), (0, beat("a", 10_000, 2500)), (10, beat("b", 0)), (0, beat("b", 10_000))
    )
    assert found.ratio == 0.25
    assert found.wire_bytes_per_second == pytest.approx(250 + 250)


def test_the_last_known_ratio_is_kept() -> None:
    made = book((50, beat("a", 0, 0)), (45, beat("a", 10_000, 2500)))
    made.summarise(NOW - 40_000)
    for age, sent in ((10, 0), (0, 10_000)):
        made.note(beat("b", sent), NOW - age * 1000, NOW)
    found = made.summarise(NOW).topics["t"]
    assert found.ratio == 0.25
    assert found.wire_bytes_per_second == pytest.approx(250)


def test_ratios_of_topics_not_heard_of_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "MOST_RATIOS", 2)
    made = HeartbeatBook()
    for topic in ("t", "u", "v"):
        for age in (10, 0):
            sent = {topic: TopicHeartbeat((20 - age) * 100, MODE, 1, 1, (20 - age) * 50)}
            made.note(codec.dumps(RouterHeartbeat(topic, sent)).encode(), NOW - age * 1000, NOW)
    made.summarise(NOW)
    assert list(made._ratios) == ["u", "v"]


def test_modes_tell_how_far_bytes_follow_the_weights() -> None:
    records = []
    for router, mode in (("a", RouteMode.TABLE), ("b", RouteMode.DEFAULT), ("c", RouteMode.MIXED)):
        records += [(10, beat(router, 0, mode=mode)), (0, beat(router, 100, mode=mode))]
    found = told(*records)
    assert found.fallback == 1
    assert found.by_table == pytest.approx(0.5)


def test_round_trips_are_the_median_of_the_routers_that_wrote() -> None:
    made = HeartbeatBook()
    for router, time, requests in (("a", 10.0, 30), ("b", 12.0, 10), ("c", 7.0, 0), ("liar", 9e4, 10_000)):
        brokers = {3: BrokerHeartbeat(time, requests)}
        made.note(codec.dumps(RouterHeartbeat(router, {}, brokers)).encode(), NOW, NOW)
    assert made.summarise(NOW).round_trips_ms == {3: 12.0}


def test_round_trips_of_one_router_are_the_mean_of_the_minute() -> None:
    made = HeartbeatBook()
    for age, time in ((20, 30.0), (15, 20.0), (10, 30.0), (5, 20.0), (0, 10.0)):
        value = codec.dumps(RouterHeartbeat("a", {}, {1: BrokerHeartbeat(time, 1)})).encode()
        made.note(value, NOW - age * 1000, NOW)
    assert made.summarise(NOW).round_trips_ms == {1: 22.0}


def test_percentiles_are_the_median_of_the_routers_that_tell_them() -> None:
    made = HeartbeatBook()
    told = {"a": (30.0, 90.0, 40.0), "b": (50.0,), "java": (None,), "c": (20.0, None)}
    for router, p99s in told.items():
        for age, p99 in enumerate(p99s):
            beat = RouterHeartbeat(router, {}, {3: BrokerHeartbeat(5.0, 200, p99)})
            made.note(codec.dumps(beat).encode(), NOW - 10_000 + age * 5000, NOW)
    assert made.summarise(NOW).p99s_ms == {3: 40.0}


def test_round_trips_older_than_a_minute_are_forgotten() -> None:
    made = HeartbeatBook()
    for age, time in ((70, 1000.0), (0, 10.0)):
        value = codec.dumps(RouterHeartbeat("a", {}, {1: BrokerHeartbeat(time, 1)})).encode()
        made.note(value, NOW - age * 1000, NOW)
    assert made.summarise(NOW).round_trips_ms == {1: 10.0}


def raw(**changes: Any) -> bytes:
    topics = {"t": {"bytes": 1, "mode": "Table"}}
    return json.dumps({"router": "a", "topics": topics, **changes}).encode()


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        raw(router=""),
        raw(router="x" * 300),
        raw(topics={"t": {"bytes": -1, "mode": "Table"}}),
        raw(topics={"t": {"bytes": 1 << 70, "mode": "Table"}}),
        raw(topics={"t": {"bytes": 1, "mode": "Table", "wireBytes": -5}}),
        raw(topics={"t": {"bytes": 1.5, "mode": "Table"}}),
        raw(topics={"t": {"bytes": True, "mode": "Table"}}),
        raw(topics={"t" * 300: {"bytes": 1, "mode": "Table"}}),
        raw(topics={f"t{i}": {"bytes": 1, "mode": "Table"} for i in range(2001)}),
        raw(topics={"t": {"bytes": 1, "mode": "Sideways"}}),
        raw(clockMs=-1),
        raw(clockMs=1 << 70),
        raw(brokers={"1": {"roundTripMs": float("nan"), "requests": 1}}),
        raw(brokers={"1": {"roundTripMs": float("inf"), "requests": 1}}),
        raw(brokers={"1": {"roundTripMs": -1, "requests": 1}}),
        raw(brokers={"1": {"roundTripMs": 1, "requests": 1 << 40}}),
        raw(brokers={"1": {"roundTripMs": 1, "requests": 1, "p99Ms": float("nan")}}),
        raw(brokers={"1": {"roundTripMs": 1, "requests": 1, "p99Ms": -1}}),
        raw(brokers={"1": {"roundTripMs": 1, "requests": 1, "p99Ms": 1e9}}),
        raw(brokers={"-1": {"roundTripMs": 1, "requests": 1}}),
        raw(brokers={"x": {"roundTripMs": 1, "requests": 1}}),
        b" " * (heartbeats.LARGEST_RECORD + 1),
    ],
)
def test_what_cannot_be_true_is_passed_over(value: bytes) -> None:
    made = HeartbeatBook()
    made.note(value, NOW, NOW)
    assert (made.summarise(NOW), made.refused) == (Steering(), 1)


def test_the_future_is_passed_over_and_clocks_may_differ_a_little() -> None:
    made = HeartbeatBook()
    made.note(beat("a", 1), NOW + 60_000, NOW)
    made.note(beat("b", 1), NOW + 2000, NOW)
    assert (made.summarise(NOW).routers, made.refused) == (1, 1)


def test_a_number_beyond_all_floats_is_passed_over() -> None:
    text = '{"router":"a","brokers":{"1":{"roundTripMs":1' + "0" * 400 + ',"requests":1}}}'
    assert read_heartbeat(text.encode()) is None


@pytest.mark.parametrize("age", [-3600, 30, 3600])
def test_where_clocks_differ_nothing_is_known_rather_than_that_nobody_lives(age: int) -> None:
    found = book((age, beat("a", 1)))
    assert found.summarise(NOW).routers == 0
    assert "clocks" in found.doubt(NOW)
    assert not found.doubt(NOW + heartbeats.WINDOW_MS)
    assert not book((age, beat("a", 1)), (0, beat("b", 1))).doubt(NOW)
    assert not HeartbeatBook().doubt(NOW)


def test_without_room_nothing_is_known_but_who_has_room_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "MOST_SERIES", 1)
    found = book((10, beat("a", 0)), (0, beat("a", 5000)))
    assert not found.doubt(NOW)
    found.note(beat("b", 0), NOW, NOW)
    assert "more of them than are kept" in found.doubt(NOW)
    assert found.summarise(NOW).topics["t"].bytes_per_second == 500.0


def test_a_rate_that_no_machine_has_counts_as_none() -> None:
    assert told((10, beat("a", 0)), (0, beat("a", 1 << 61))).bytes_per_second == 0.0


def test_routers_are_bounded_and_vanished_ones_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "MOST_ROUTERS", 2)
    made = book((70, beat("old", 1)), (0, beat("a", 1)))
    made.note(beat("b", 1), NOW, NOW)
    made.note(beat("c", 1), NOW, NOW)
    assert (made.summarise(NOW).routers, made.refused) == (2, 1)


def test_topics_of_all_routers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "MOST_SERIES", 3)
    made = HeartbeatBook()
    for number in range(5):
        made.note(beat(f"r{number}", 1), NOW, NOW)
    assert (made.summarise(NOW).routers, made.refused) == (3, 2)


def test_many_records_of_one_router_take_bounded_room() -> None:
    made = HeartbeatBook()
    for number in range(10_000):
        made.note(beat("a", number), NOW - 60_000 + number * 6, NOW)
    samples = made._routers["a"].topics["t"]
    assert len(samples) < 30
    assert made.summarise(NOW).topics["t"].bytes_per_second == pytest.approx(10_000 / 60, rel=0.01)


def test_steered_bytes_are_never_more_than_what_a_topic_grew_by() -> None:
    assert TopicSteering(100.0, None).disk_rate(40.0) == 40.0
    assert TopicSteering(100.0, 30.0).disk_rate(40.0) == 30.0


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(value: bytes) -> None:
    assert read_heartbeat(value) is None or read_heartbeat(value) == read_heartbeat(value)


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 1 << 62), st.integers(0, 1 << 62)), max_size=30)
)
def test_no_order_of_records_gives_a_rate_that_cannot_be(records: list[tuple[int, int, int]]) -> None:
    made = book(*((age, beat("a", sent, wire)) for age, sent, wire in records))
    for found in made.summarise(NOW).topics.values():
        assert 0 <= found.bytes_per_second <= heartbeats.LARGEST_RATE
        assert found.ratio is None or 0 < found.ratio <= heartbeats.LARGEST_RATIO
        assert found.wire_bytes_per_second is None or found.wire_bytes_per_second >= 0
