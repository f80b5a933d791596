"""Appender and PartitionReader with a client of our own making; the real ones are in integration/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from evenkeel.domain.connection import Connection
from evenkeel.errors import InputError, RetryableError
from evenkeel.kafka.clients.append import Appender
from evenkeel.kafka.clients.reader import PartitionReader
from evenkeel.reasons import Reason

NOWHERE = Connection(("127.0.0.1:1",))


class FakeMessage:
    """A record, or what the client says instead of one."""

    def __init__(self, offset: int, code: int | None = None) -> None:
        self._offset, self._code = offset, code

    def error(self) -> KafkaError | None:
        return None if self._code is None else KafkaError(self._code)

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return b"value"

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 0


class FakeConsumer:
    """Gives its messages once."""

    def __init__(self, *messages: FakeMessage) -> None:
        self._messages = list(messages)

    def assign(self, places: object) -> None:
        del places

    def consume(self, most: int, timeout: float) -> list[FakeMessage]:
        del most, timeout
        messages, self._messages = self._messages, []
        return messages

    def close(self) -> None:
        pass


class SmallProducer:
    """Takes two messages at once; delivers them when polled."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[object, FakeMessage], None]] = []
        self._offset = 0

    def produce(self, _: str, __: bytes, *, on_delivery: Callable[..., None], **___: Any) -> None:
        if len(self._waiting) == 2:
            raise BufferError
        self._waiting.append(on_delivery)

    def poll(self, timeout: float) -> int:
        del timeout
        for report in self._waiting:
            report(None, FakeMessage(self._offset))
            self._offset += 1
        self._waiting = []
        return 0

    def purge(self, **_: object) -> None:
        pass

    def flush(self, timeout: float) -> int:
        del timeout
        return 0


def test_records_that_came_before_an_error_are_not_lost_with_it() -> None:
    with PartitionReader(NOWHERE, "t") as reader:
        reader._consumer.close()
        code = KafkaError.UNKNOWN_TOPIC_OR_PART
        messages = FakeMessage(0), FakeMessage(1), FakeMessage(2, code), FakeMessage(2)
        reader._consumer = cast("Consumer", FakeConsumer(*messages))
        tail = reader.tail(0)
        assert [record.offset for record in tail.poll()] == [0, 1, 2]
        with pytest.raises(RetryableError) as caught:
            tail.poll()
        assert caught.value.reason is Reason.TOPIC_MISSING
        assert tail.poll() == []


def test_more_records_than_the_queue_holds_wait_for_room() -> None:
    with Appender(NOWHERE) as appender:
        appender._producer = cast("Producer", SmallProducer())
        records = [(b"%d" % number, None, ()) for number in range(5)]
        assert appender.append_all("t", records, partition=0) == [0, 1, 2, 3, 4]


def test_a_record_that_the_topic_would_not_take_is_refused_with_its_size() -> None:
    with (
        Appender(NOWHERE) as appender,
        pytest.raises(InputError, match="8388608 bytes, the limit is") as refused,
    ):
        appender.append("journal", bytes(8 * 1024 * 1024))
    assert refused.value.reason is Reason.RECORD_TOO_LARGE
