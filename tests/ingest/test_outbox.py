from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from evenkeel.domain.connection import Connection
from evenkeel.errors import ConfigurationError, InputError
from evenkeel.ingest.headers import MessageIdentity
from evenkeel.ingest.outbox import KafkaOutbox
from evenkeel.kafka.clients.append import UnknownOutcomeError
from evenkeel.reasons import Reason
from tests.support.ingest import DATASET, build_settings

IDENTITY = MessageIdentity(DATASET.uid, "22" * 32, 3, 0, 0, 1, "33" * 32)


class BrokenProducer:
    """Takes nothing any more, and says so by `code`."""

    code = KafkaError._FATAL

    def __init__(self, config: dict[str, Any], logger: object) -> None:
        del config, logger

    def produce(self, *_: object, **__: object) -> None:
        raise KafkaException(KafkaError(self.code))

    def poll(self, timeout: float) -> int:
        del timeout
        return 0


def build_outbox(root: Path, make: Any) -> KafkaOutbox:
    return KafkaOutbox(Connection(("127.0.0.1:1",)), DATASET, build_settings(root), 0, make)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(KafkaError._FATAL, UnknownOutcomeError), (KafkaError.MSG_SIZE_TOO_LARGE, InputError)],
)
def test_a_producer_that_refuses_a_message_is_one_of_our_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    monkeypatch.setattr(BrokenProducer, "code", code)
    with pytest.raises(kind, match="writing slice 0"):
        build_outbox(tmp_path, BrokenProducer).send(IDENTITY, 1, b"value")


def test_settings_that_the_client_refuses_are_named(tmp_path: Path) -> None:
    def refuse(config: dict[str, Any], logger: object) -> None:
        del config, logger
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "no PEM"))

    with pytest.raises(ConfigurationError, match="no PEM") as caught:
        build_outbox(tmp_path, refuse).send(IDENTITY, 1, b"value")
    assert caught.value.reason is Reason.INVALID_SPEC
