"""The background thread with clients of our own making."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from evenkeel.domain import codec
from evenkeel.domain.table import RouteTable
from evenkeel.router import follower, leaders
from evenkeel.router.follower import Follower
from evenkeel.router.settings import Settings
from evenkeel.router.state import RouterState


class FakeConsumer:
    """Knows one topic of `partitions` partitions, or of none."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.problem: KafkaException | None = None
        self.asked = 0

    def poll(self, timeout: float) -> None:
        del timeout

    def list_topics(self, topic: str, timeout: float) -> Any:
        del timeout
        self.asked += 1
        if self.problem is not None:
            raise self.problem
        if not self.partitions:
            gone = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            return SimpleNamespace(topics={topic: SimpleNamespace(error=gone, partitions={})})
        found = {number: SimpleNamespace(leader=1) for number in range(self.partitions)}
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=found)})


def build_message(weights: tuple[int, ...], epoch: int, age_ms: int = 0) -> Any:
    """The record at the offset `epoch`."""
    value = codec.dumps(RouteTable("t", 1, epoch, int(time.time() * 1000) - age_ms, weights)).encode()
    return SimpleNamespace(error=lambda: None, key=lambda: b"t", value=lambda: value, offset=lambda: epoch)


def test_a_table_for_a_topic_that_grew_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "LEADERS_SECONDS", 0.0)
    state = RouterState("me", Settings())
    thread, consumer = Follower(state, {}), FakeConsumer(2)
    assert thread._take(consumer, build_message((500_000, 500_000), 1))  # type: ignore[arg-type]
    wide = build_message((250_000,) * 4, 2)
    assert not thread._take(consumer, wide)  # type: ignore[arg-type]
    consumer.partitions = 4
    assert thread._take(consumer, wide)  # type: ignore[arg-type]
    assert len(state.store.tables()["t"].weights) == 4


def test_heartbeats_that_cannot_be_sent_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError._CRIT_SYS_RESOURCE))

    monkeypatch.setattr(follower, "PlainProducer", refuse)
    state = RouterState("me", Settings(topics=("t",), heartbeat_ms=1))
    Follower(state, {})._tick(None, fresh=False)
    assert state.heartbeats_failed == 1


def test_the_thread_outlives_whatever_happens_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead, it would leave the last table in force for ever."""
    monkeypatch.setattr(follower, "RETRY_SECONDS", 0.001)
    state = RouterState("me", Settings(topics=("t",)))

    def fail(*_: object) -> None:
        raise OverflowError

    monkeypatch.setattr(state, "refresh", fail)
    thread = Follower(state, {"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    monkeypatch.setattr(thread, "_follow", fail)
    thread.start()
    deadline = time.monotonic() + 10
    while state.read_errors < 4 and time.monotonic() < deadline:
        thread.join(0.01)
    assert thread.is_alive()
    assert state.read_errors >= 4
    thread.stop()
    assert not thread.is_alive()


def test_a_topic_that_is_not_there_is_not_routed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made anew with fewer partitions, it would fail records in their delivery reports."""
    monkeypatch.setattr(leaders, "LEADERS_SECONDS", 0.0)
    monkeypatch.setattr(follower, "REFRESH_SECONDS", 0.0)
    state = RouterState("me", Settings(heartbeat_ms=0))
    thread, consumer = Follower(state, {}), FakeConsumer(2)
    thread._take(consumer, build_message((500_000, 500_000), 1))  # type: ignore[arg-type]
    state.open_lane("t").sent = 1
    for partitions, routed in ((2, True), (0, False), (2, True)):
        consumer.partitions = partitions
        thread._tick(consumer, fresh=False)  # type: ignore[arg-type]
        assert state.runs["t"].routed is routed


def test_only_topics_in_use_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "LEADERS_SECONDS", 0.0)
    state = RouterState("me", Settings(heartbeat_ms=0))
    thread, consumer = Follower(state, {}), FakeConsumer(2)
    thread._take(consumer, build_message((500_000, 500_000), 1))  # type: ignore[arg-type]
    for _ in range(3):
        thread._tick(consumer, fresh=False)  # type: ignore[arg-type]
    assert consumer.asked == 1
    state.runs["t"].sent = 1
    thread._tick(consumer, fresh=False)  # type: ignore[arg-type]
    assert consumer.asked == 2


HOUR_MS = 3_600_000


def test_a_table_that_is_too_old_when_it_comes_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    state = RouterState("me", Settings(heartbeat_ms=0))
    thread, consumer = Follower(state, {}), FakeConsumer(2)
    for epoch in range(3):
        thread._take(consumer, build_message((500_000, 500_000), epoch, HOUR_MS))  # type: ignore[arg-type]
        thread._tick(consumer, fresh=True)  # type: ignore[arg-type]
    assert "table of t was 3600 s old when it came, its limit is 600 s" in state.stats().last_problem
    assert "clocks of this host and of the keeper" in state.stats().last_problem
    assert len(caplog.records) == 1
    assert state.read_errors == 0


def test_clocks_that_differ_again_after_a_late_table_was_withdrawn_are_told_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state = RouterState("me", Settings(heartbeat_ms=0))
    thread, consumer = Follower(state, {}), FakeConsumer(2)
    withdrawal = build_message((500_000, 500_000), 1)
    withdrawal.value = lambda: None
    late = [build_message((500_000, 500_000), epoch, HOUR_MS) for epoch in (0, 2)]
    for message in (late[0], withdrawal, late[1]):
        thread._take(consumer, message)  # type: ignore[arg-type]
        thread._tick(consumer, fresh=True)  # type: ignore[arg-type]
    assert len(caplog.records) == 2


def test_a_table_that_comes_in_time_is_no_problem() -> None:
    state = RouterState("me", Settings(heartbeat_ms=0))
    thread, consumer = Follower(state, {}), FakeConsumer(2)
    thread._arrivals.live_from = 5
    for epoch, age_ms in ((1, HOUR_MS), (4, HOUR_MS), (5, 0)):  # two of them lay there already
        thread._take(consumer, build_message((500_000, 500_000), epoch, age_ms))  # type: ignore[arg-type]
        thread._tick(consumer, fresh=True)  # type: ignore[arg-type]
    assert state.stats().last_problem == ""


def test_without_a_routes_topic_one_client_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "RETRY_SECONDS", 0.0)
    state = RouterState("me", Settings(heartbeat_ms=0))
    thread, consumer = Follower(state, {}), FakeConsumer(0)

    def poll(_: float) -> None:
        if consumer.asked == 3:
            thread.release()

    monkeypatch.setattr(consumer, "poll", poll)
    thread._follow(consumer)  # type: ignore[arg-type]
    assert (consumer.asked, state.read_errors) == (3, 3)


def test_a_process_without_room_for_a_thread_gets_a_plain_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Follower) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Follower, "start", refuse)
    state = RouterState("me", Settings())
    thread = Follower(state, {})
    thread.begin()
    thread.stop()
    assert "new thread" in state.last_problem


def test_the_end_of_the_interpreter_waits_for_all_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def work(thread: Follower, _: object) -> None:
        begun.set()
        thread._ended.wait(30)

    monkeypatch.setattr(Follower, "_follow", work)
    thread = Follower(RouterState("me", Settings()), {"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    thread.begin()
    assert begun.wait(10)
    follower._end_all()
    thread.join(10)
    assert not thread.is_alive()
