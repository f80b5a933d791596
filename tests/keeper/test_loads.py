from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Self

import pytest

from evenkeel.domain.exchange import LoadSource
from evenkeel.domain.loads import CPU, DEFAULT_QUERIES, DISK_UTILISATION, Sample
from evenkeel.domain.snapshot import Broker, ClusterSnapshot
from evenkeel.errors import EvenkeelError, InputError, RetryableError
from evenkeel.keeper import loads as module
from evenkeel.keeper.loads import Loads
from evenkeel.reasons import Reason

SOURCE = LoadSource("http://prometheus:9090")
SNAPSHOT = ClusterSnapshot(
    brokers=(Broker(id=1, node="a"), Broker(id=2, node="b")), partitions=(), incoming=()
)


class Server:
    """Stands in for the client: answers by expression, or fails, or waits."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[Sample, ...] | EvenkeelError] = {}
        self.asked: list[str] = []
        self.go = threading.Event()
        self.go.set()

    def __call__(self, _url: str, _timeout: float) -> Server:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def query(self, expression: str) -> tuple[Sample, ...]:
        self.go.wait(10)
        self.asked.append(expression)
        found = self.answers.get(expression, ())
        if isinstance(found, EvenkeelError):
            raise found
        return found


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    monkeypatch.setattr(module, "PrometheusClient", found)
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def loads(server: Server, clock: Clock) -> Iterator[Loads]:
    made = Loads(wall_seconds=clock, monotonic=clock)
    yield made
    server.go.set()
    made.close()


def turn(loads: Loads, server: Server, source: LoadSource | None = SOURCE) -> ClusterSnapshot:
    """Two turns with all questions of the first one answered in between."""
    loads.add_to(SNAPSHOT, source, 15)
    assert loads._asked is not None
    loads._asked.exception(10)
    return loads.add_to(SNAPSHOT, source, 15)


def cpu(values: dict[str, float], at: float = 1000.0) -> tuple[Sample, ...]:
    return tuple(Sample({"node": node}, value, at) for node, value in values.items())


def test_nothing_is_asked_without_a_source(loads: Loads, server: Server) -> None:
    assert loads.add_to(SNAPSHOT, None, 15) is SNAPSHOT
    assert server.asked == []
    assert loads.faults() == ()


def test_loads_are_there_a_turn_later(loads: Loads, server: Server) -> None:
    server.answers[DEFAULT_QUERIES[CPU]] = cpu({"a": 0.5, "b": 0.25})
    found = turn(loads, server)
    assert [broker.load for broker in found.brokers] == [{CPU: 0.5}, {CPU: 0.25}]


def test_a_server_that_hangs_delays_nothing(loads: Loads, server: Server) -> None:
    server.go.clear()
    for _ in range(3):
        assert loads.add_to(SNAPSHOT, SOURCE, 15) is SNAPSHOT
    assert server.asked == []


def test_what_is_refused_is_said_once_per_load_and_cause(loads: Loads, server: Server) -> None:
    server.answers[DEFAULT_QUERIES[CPU]] = cpu({"a": -1.0, "b": -2.0})
    turn(loads, server)
    (fault,) = (fault for fault in loads.faults() if fault.message.startswith(CPU))
    assert fault.reason is Reason.SERIES_REFUSED
    assert fault.message == "cpu of 2 brokers (1, 2) is not used: negative"


def test_a_query_that_is_refused_leaves_the_others(loads: Loads, server: Server) -> None:
    server.answers[DEFAULT_QUERIES[CPU]] = InputError("parse error", reason=Reason.PROMETHEUS_QUERY_REFUSED)
    server.answers[DEFAULT_QUERIES[DISK_UTILISATION]] = cpu({"a": 0.5, "b": 0.5})
    found = turn(loads, server)
    assert found.brokers[0].load == {DISK_UTILISATION: 0.5}
    assert Reason.PROMETHEUS_QUERY_REFUSED in {fault.reason for fault in loads.faults()}


def test_old_loads_are_used_for_a_while_when_the_server_is_gone(
    loads: Loads, server: Server, clock: Clock
) -> None:
    server.answers[DEFAULT_QUERIES[CPU]] = cpu({"a": 0.5, "b": 0.25})
    turn(loads, server)
    gone = RetryableError("no answer", reason=Reason.PROMETHEUS_UNREACHABLE)
    server.answers = dict.fromkeys(DEFAULT_QUERIES.values(), gone)
    turn(loads, server)  # the question put in the turn before was answered still
    found = turn(loads, server)
    assert found.brokers[0].load == {CPU: 0.5}
    assert [fault.reason for fault in loads.faults()] == [Reason.PROMETHEUS_UNREACHABLE]
    clock.now += 61
    assert turn(loads, server).brokers[0].load == {}


def test_queries_can_be_replaced_and_switched_off(loads: Loads, server: Server) -> None:
    queries = {**dict.fromkeys(DEFAULT_QUERIES, ""), CPU: "mine"}
    server.answers["mine"] = cpu({"a": 0.5, "b": 0.5})
    turn(loads, server, LoadSource(SOURCE.url, queries))
    assert set(server.asked) == {"mine"}


def test_the_age_of_a_sample_is_taken_when_it_comes(loads: Loads, server: Server, clock: Clock) -> None:
    """With an interval of five minutes it is used five minutes later."""
    server.answers[DEFAULT_QUERIES[CPU]] = cpu({"a": 0.5, "b": 0.25})
    loads.add_to(SNAPSHOT, SOURCE, 300)
    assert loads._asked is not None
    loads._asked.exception(10)
    clock.now += 301
    assert loads.add_to(SNAPSHOT, SOURCE, 300).brokers[0].load == {CPU: 0.5}
    assert not [fault for fault in loads.faults() if fault.message.startswith(CPU)]


def test_until_the_first_answer_nothing_is_said_to_be_known(loads: Loads, server: Server) -> None:
    server.answers = dict.fromkeys(DEFAULT_QUERIES.values(), cpu({"a": 0.5, "b": 0.5}))
    loads.add_to(SNAPSHOT, SOURCE, 15)
    assert [fault.reason for fault in loads.faults()] == [Reason.PENDING]
    turn(loads, server)
    assert loads.faults() == ()


def test_another_cluster_gets_no_loads_of_the_last_one(loads: Loads, server: Server) -> None:
    server.answers[DEFAULT_QUERIES[CPU]] = cpu({"a": 0.5, "b": 0.25})
    turn(loads, server)
    loads.forget()
    assert loads.add_to(SNAPSHOT, SOURCE, 15).brokers[0].load == {}


def test_a_server_that_never_ends_its_answer_is_said(loads: Loads, server: Server, clock: Clock) -> None:
    server.go.clear()
    loads.add_to(SNAPSHOT, SOURCE, 15)
    clock.now += 61
    loads.add_to(SNAPSHOT, SOURCE, 15)
    assert [fault.reason for fault in loads.faults()] == [Reason.PROMETHEUS_UNREACHABLE]


def test_a_bug_in_the_background_costs_the_loads_only(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(module, "PrometheusClient", fail)
    for _ in range(2):
        loads.add_to(SNAPSHOT, SOURCE, 15)
        assert loads._asked is not None
        loads._asked.exception(10)
    assert loads.add_to(SNAPSHOT, SOURCE, 15) is SNAPSHOT
    (fault,) = loads.faults()
    assert (fault.reason, fault.subject) == (Reason.INTERNAL_ERROR, "prometheus")
    assert "secret" not in fault.message


def test_what_stays_refused_is_logged_once(
    loads: Loads, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    server.answers[DEFAULT_QUERIES[CPU]] = cpu({"a": -1.0, "b": 0.5})
    for _ in range(3):
        turn(loads, server)
    assert caplog.text.count("load refused load=cpu broker=1 why=negative: -1") == 1


def test_another_source_starts_with_nothing(loads: Loads, server: Server) -> None:
    server.answers[DEFAULT_QUERIES[CPU]] = cpu({"a": 0.5, "b": 0.25})
    turn(loads, server)
    assert loads.add_to(SNAPSHOT, LoadSource("http://other:9090"), 15).brokers[0].load == {}
