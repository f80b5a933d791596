"""The background thread with clients of our own making."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from evenkeel.domain import codec
from evenkeel.domain.table import RouteTable
from evenkeel.router import follower
from evenkeel.router.follower import Follower
from evenkeel.router.settings import Settings
from evenkeel.router.state import RouterState


class FakeConsumer:
    """Knows one topic of `partitions` partitions."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    def list_topics(self, topic: str, timeout: float) -> Any:
        del timeout
        found = {number: SimpleNamespace(leader=1) for number in range(self.partitions)}
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=found)})


def build_message(weights: tuple[int, ...], epoch: int) -> Any:
    value = codec.dumps(RouteTable("t", 1, epoch, int(time.time() * 1000), weights)).encode()
    return SimpleNamespace(error=lambda: None, key=lambda: b"t", value=lambda: value)


def test_a_table_for_a_topic_that_grew_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "LEADERS_SECONDS", 0.0)
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
