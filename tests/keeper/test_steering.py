from __future__ import annotations

from typing import Any

import pytest

from evenkeel import names
from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Fault, Policy, TopicRouting
from evenkeel.domain.heartbeat import BrokerHeartbeat, RouteMode, RouterHeartbeat, TopicHeartbeat
from evenkeel.domain.waits import Waits
from evenkeel.errors import ConfigurationError, EvenkeelError, RetryableError
from evenkeel.kafka.clients.reader import LogRecord
from evenkeel.keeper import heartbeat_log
from evenkeel.keeper.assembly import assemble
from evenkeel.keeper.growth import Growth
from evenkeel.keeper.heartbeat_log import HeartbeatLog
from evenkeel.keeper.steering import RouterWatch, build_horizons
from evenkeel.reasons import Reason
from tests.support.measurements import MIB, build_measurement

NOW = 1_800_000_000_000
HERE = Connection(("k:1",))


class FakeReader:
    """The heartbeats topic in memory; the newest instance is the one in use."""

    records: list[LogRecord] = []  # noqa: RUF012 - set by each test
    problem: EvenkeelError | None = None
    opened = 0

    def __init__(self, connection: Connection, topic: str) -> None:
        assert topic == names.HEARTBEATS_TOPIC
        type(self).opened += 1
        self._next = 0

    def bounds(self, timeout: float) -> tuple[int, int]:
        if self.problem is not None:
            raise self.problem
        return 0, len(self.records)

    def offset_at(self, time_ms: int, timeout: float) -> int:
        return next((one.offset for one in self.records if one.timestamp_ms >= time_ms), len(self.records))

    def tail(self, first: int) -> FakeReader:
        self._next = first
        return self

    def poll(self, timeout: float = 0.0, most: int = 2) -> list[LogRecord]:
        found = self.records[self._next : self._next + most]
        self._next += len(found)
        return found

    def close(self) -> None:
        pass


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> type[FakeReader]:
    class Reader(FakeReader):
        records: list[LogRecord] = []  # noqa: RUF012

    monkeypatch.setattr(heartbeat_log, "PartitionReader", Reader)
    return Reader


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def wall_ms(self) -> int:
        return NOW + round(self.seconds * 1000)

    def __call__(self) -> float:
        return self.seconds


def add(topic: type[FakeReader], router: str, sent: int, at_seconds: float, **more: Any) -> None:
    beat = RouterHeartbeat(
        router,
        {"t": TopicHeartbeat(sent, RouteMode.TABLE, **more)},
        {1: BrokerHeartbeat(12.0, 500, 40.0), 2: BrokerHeartbeat(3.0, 9)},
    )
    at_ms = NOW + round(at_seconds * 1000)
    topic.records.append(LogRecord(len(topic.records), None, codec.dumps(beat).encode(), {}, at_ms))


def test_the_last_two_minutes_are_read_at_the_start(topic: type[FakeReader]) -> None:
    for at, sent in ((-600, 0), (-100, 5000), (-30, 10_000), (0, 40_000)):
        add(topic, "a", sent, at)
    log = HeartbeatLog(Clock().wall_ms, Clock())
    assert log.steering() is None
    log.poll(HERE)
    steering = log.steering()
    assert steering is not None
    assert steering.topics["t"].bytes_per_second == pytest.approx(35_000 / 100)


def test_while_the_topic_cannot_be_read_nothing_is_known_and_it_is_said(topic: type[FakeReader]) -> None:
    clock = Clock()
    watch, there = RouterWatch(clock.wall_ms, clock), {names.HEARTBEATS_TOPIC}
    topic.problem = RetryableError("no answer", reason=Reason.BROKERS_UNREACHABLE)
    for _ in range(2):
        assert watch.poll(HERE, there) == [Fault(Reason.BROKERS_UNREACHABLE, "no answer", "heartbeats")]
    assert topic.opened == 1
    topic.problem, clock.seconds = None, 6.0
    assert watch.poll(HERE, there) == []
    assert topic.opened == 2


def test_a_right_to_read_heartbeats_that_is_missing_is_the_clusters_fault(topic: type[FakeReader]) -> None:
    clock = Clock()
    watch, there = RouterWatch(clock.wall_ms, clock), {names.HEARTBEATS_TOPIC}
    topic.problem = ConfigurationError("needs Read", reason=Reason.AUTHORIZATION_MISSING)
    with pytest.raises(ConfigurationError, match="needs Read"):
        watch.poll(HERE, there)
    assert watch.poll(HERE, there) == [Fault(Reason.AUTHORIZATION_MISSING, "needs Read")]


def test_another_cluster_begins_anew(topic: type[FakeReader]) -> None:
    add(topic, "a", 1, 0)
    log = HeartbeatLog(Clock().wall_ms, Clock())
    log.poll(HERE)
    topic.records.clear()
    log.poll(Connection(("k:2",)))
    steering = log.steering()
    assert steering is not None
    assert steering.routers == 0


def watched(topic: type[FakeReader], sent: int, **more: Any) -> tuple[RouterWatch, Growth]:
    """Half a minute of a topic that grows by 1 MiB in it, of which a router says that it wrote `sent`."""
    clock, growth = Clock(), Growth()
    watch = RouterWatch(clock.wall_ms, clock)
    for number, at in enumerate((0, 15, 30)):
        clock.seconds = at
        scaled = {name: value * number // 2 for name, value in more.items()}
        add(topic, "a", sent * number // 2, at, **scaled)
        watch.poll(HERE, {names.HEARTBEATS_TOPIC})
        measurement = build_measurement(end=100 + 50 * number, taken_at_ms=clock.wall_ms())
        if growth.observe(measurement):
            watch.observe(growth, {}, ["t"], Policy(), clock.wall_ms())
    return watch, growth


def test_shares_round_trips_and_rates_reach_the_snapshot(topic: type[FakeReader]) -> None:
    watch, growth = watched(topic, 200_000)
    measurement = build_measurement(taken_at_ms=NOW + 30_000)
    snapshot = assemble(measurement, growth, inflow=watch.inflow(["t"], {}))
    rate = growth.recent_rate("t", 60_000)
    assert rate is not None
    (incoming,) = snapshot.incoming
    assert incoming.steered_percent == pytest.approx(100 * 200_000 / 30 / rate, abs=2)
    assert {broker.id: dict(broker.load) for broker in snapshot.brokers} == {
        1: {"roundTripMs": 12.0},
        2: {"roundTripMs": 3.0},
        3: {},
    }
    assert watch.waits == Waits(12.0, 40.0)
    apart = snapshot.partitions[0].unsteered_bytes_per_second
    assert apart is not None
    assert 0.5 * (rate - 200_000 / 30) < apart < rate
    assert watch.rates(growth)["t"].bytes_per_second == pytest.approx(200_000 / 30)


def test_the_ratio_is_what_routers_tell_or_at_most_what_the_topic_grew_by(topic: type[FakeReader]) -> None:
    watch, growth = watched(topic, 10 * MIB)
    bound = watch.rates(growth)["t"].ratio
    rate = growth.recent_rate("t", 60_000)
    assert rate is not None
    assert bound == pytest.approx(rate / (10 * MIB / 30))
    topic.records.clear()
    watch, growth = watched(topic, 1_000_000, wire_bytes=250_000)
    assert watch.rates(growth)["t"].ratio == 0.25


def test_a_router_that_lies_does_not_take_the_budget_of_the_others(topic: type[FakeReader]) -> None:
    watch, growth = watched(topic, 1 << 40, wire_bytes=1 << 39)
    rate = growth.recent_rate("t", 60_000)
    assert rate is not None
    assert watch.rates(growth)["t"].bytes_per_second == pytest.approx(2 * rate / 0.5)


def test_producers_of_an_ingest_are_never_few(topic: type[FakeReader]) -> None:
    watch, growth = watched(topic, 0)
    for at in range(45, 200, 15):
        add(topic, "a", 0, at)
        later = build_measurement(end=200 + at, taken_at_ms=NOW + at * 1000)
        if growth.observe(later):
            watch.observe(growth, {}, ["t"], Policy(), NOW + at * 1000)
    assert watch.steered(["t"])["t"].few
    watch.inflow(["t"], {"t": None})
    assert not watch.steered(["t"])["t"].few


def test_without_the_topic_nothing_is_read(topic: type[FakeReader]) -> None:
    watch = RouterWatch(Clock().wall_ms, Clock())
    watch.poll(HERE, {"t"})
    assert topic.opened == 0
    assert watch.rates(Growth()) == {}
    assert watch.inflow(["t"], {}).round_trips_ms == {}
    assert watch.waits == Waits()


def test_horizons_are_declared_ones_as_far_as_was_watched() -> None:
    growth = Growth()
    growth.observe(build_measurement(taken_at_ms=NOW))
    routed = {"t": TopicRouting(horizon_seconds=600), "u": TopicRouting(horizon_seconds=6000)}
    horizons = build_horizons(routed, growth, NOW + 90_000)
    assert (horizons.topics["t"], horizons.default_seconds, horizons.observed_seconds) == (
        600.0,
        6000.0,
        90.0,
    )
    assert build_horizons({}, growth, NOW).default_seconds == 86_400.0


def test_heartbeats_that_are_not_believed_are_told_but_not_those_of_routers_that_ended_before(
    topic: type[FakeReader],
) -> None:
    clock = Clock()
    watch = RouterWatch(clock.wall_ms, clock)
    add(topic, "a", 1, -60)
    assert watch.poll(HERE, {names.HEARTBEATS_TOPIC}) == []
    clock.seconds = 100.0
    add(topic, "a", 2, -60)  # an hour or a minute: not of now
    (fault,) = watch.poll(HERE, {names.HEARTBEATS_TOPIC})
    assert (fault.reason, fault.subject) == (Reason.MEASUREMENT_INCOMPLETE, "routers")
    assert "clocks of keeper and brokers differ" in fault.message
    add(topic, "a", 3, 100)
    assert watch.poll(HERE, {names.HEARTBEATS_TOPIC}) == []
