from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import pytest

from evenkeel.domain.connection import Connection
from evenkeel.errors import InputError, RetryableError
from evenkeel.keeper import topic_actions
from evenkeel.keeper.topic_actions import apply_actions
from evenkeel.keeper.topics import DeleteTopic, SetConfig
from evenkeel.reasons import Reason

CONNECTION = Connection(("kafka:9092",))


class Kafka:
    """Takes all settings of a request or none, as brokers do."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.set: list[Mapping[str, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def alter_topic_config(self, name: str, config: Mapping[str, str]) -> None:
        if "retention.ms" in config:
            message = f"setting {', '.join(config)} of topic {name}: Kafka refuses: not a number of type LONG"
            raise InputError(message, reason=Reason.INVALID_SPEC)
        self.set.append(config)

    def delete_topic(self, name: str) -> None:
        raise RetryableError("nobody answers", reason=Reason.BROKERS_UNREACHABLE)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    one = Kafka()
    monkeypatch.setattr(topic_actions, "Admin", lambda *_, **__: one)
    return one


def test_a_setting_that_kafka_refuses_does_not_hold_up_the_others(kafka: Kafka) -> None:
    config = {"retention.ms": "soon", "segment.bytes": "1048576"}
    outcome = apply_actions(CONNECTION, [SetConfig("t", config, "topic/t")])
    assert kafka.set == [{"segment.bytes": "1048576"}]
    assert outcome.applied == [SetConfig("t", {"segment.bytes": "1048576"}, "topic/t")]
    ((action, fault),) = outcome.failed
    assert action == SetConfig("t", {"retention.ms": "soon"}, "topic/t")
    assert fault.message == "setting retention.ms of topic t: Kafka refuses: not a number of type LONG"
    assert fault.subject == "topic/t"


def test_an_action_that_fails_does_not_stop_the_others(kafka: Kafka) -> None:
    actions = [DeleteTopic("old", "topic/old"), SetConfig("t", {"segment.bytes": "9"}, "topic/t")]
    outcome = apply_actions(CONNECTION, actions)
    assert [fault.reason for fault in outcome.faults] == [Reason.BROKERS_UNREACHABLE]
    assert outcome.applied == actions[1:]
    assert kafka.set


def test_without_actions_kafka_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(topic_actions, "Admin")
    assert apply_actions(CONNECTION, []).applied == []
