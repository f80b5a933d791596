"""Appending to small logs (journal, manifest): every call waits until all in-sync replicas have it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from confluent_kafka import KafkaError, Message, Producer

from evenkeel.domain.connection import Connection
from evenkeel.errors import EvenkeelError, InputError
from evenkeel.kafka.clients.config import client_config
from evenkeel.kafka.clients.failures import (
    ErrorWatch,
    UnknownOutcomeError,
    build_write_error,
    open_client,
    write_errors,
)
from evenkeel.reasons import Reason

__all__ = ["Appender", "UnknownOutcomeError"]

TIMEOUT_MS = 60_000
"""message.timeout.ms. Below 30 s writes fail needlessly while a broker dies (facts: kafka-real, section 5)."""
RECORD_BYTES = 8 * 1024 * 1024 - 4096
"""Largest value: what the topics take (`kafka.topics.RECORD_BYTES`) less key, headers and framing."""
Headers = Sequence[tuple[str, bytes]]


class Appender:
    """An idempotent producer, acks=all, that waits for each call's records. Use by one thread.

    Args:
        connection: how to reach the cluster.
        compression: librdkafka's name of a codec, or None.
        overrides: further settings of librdkafka; dots as they are, by `**{"linger.ms": 0}`.
    """

    def __init__(self, connection: Connection, *, compression: str | None = None, **overrides: Any) -> None:
        self._watch = ErrorWatch()
        config = _appender_config(connection, compression) | overrides
        self._wait_seconds = float(config["message.timeout.ms"]) / 1000 + 5
        self._producer = open_client(Producer, {**config, "error_cb": self._watch})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | str | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> int:
        """Write one record, wait for it, return its offset.

        Raises:
            UnknownOutcomeError: it may be in the log; close this appender before finding out.
            RetryableError: it is not in the log.
            ConfigurationError: a right or the credentials are missing.
            InputError: it is larger than the topic takes.
        """
        return self.append_all(topic, [(value, key, headers)], partition=partition)[0]

    def append_all(
        self,
        topic: str,
        records: Iterable[tuple[bytes, bytes | str | None, Headers]],
        *,
        partition: int | None = None,
    ) -> list[int]:
        """Write (value, key, headers) in order with one wait for all; returns their offsets.

        Raises:
            As `append`; of several failures the first. Records after a failed one may be in the log.
        """
        results: list[_Result] = []
        for value, key, headers in records:
            result = _Result()
            results.append(result)
            self._produce(topic, value, key, headers, partition, result)
        self._wait(results)
        return [result.offset_or_raise(f"writing to {topic}", self._watch) for result in results]

    def close(self) -> None:
        """Drop what is queued and give the connections back; never waits for brokers."""
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        self._producer.flush(1)

    def _produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | str | None,
        headers: Headers,
        partition: int | None,
        result: _Result,
    ) -> None:
        if len(value) > RECORD_BYTES:
            message = f"writing to {topic}: a record has {len(value)} bytes, the limit is {RECORD_BYTES}"
            raise InputError(message, reason=Reason.RECORD_TOO_LARGE)
        where: dict[str, Any] = {} if partition is None else {"partition": partition}
        deadline = time.monotonic() + self._wait_seconds
        taken = False
        while not taken:
            try:
                with write_errors(f"writing to {topic}"):
                    self._producer.produce(
                        topic, value, key=key, headers=list(headers), on_delivery=result.note, **where
                    )
                taken = True
            except BufferError as error:  # a manifest may be larger than the queue
                if time.monotonic() > deadline:
                    message = f"writing to {topic}: no room in the queue for {self._wait_seconds:g} s"
                    raise UnknownOutcomeError(message, reason=Reason.BROKERS_UNREACHABLE) from error
                self._producer.poll(0.1)

    def _wait(self, results: Sequence[_Result], monotonic: Callable[[], float] = time.monotonic) -> None:
        deadline = monotonic() + self._wait_seconds
        for result in results:
            while not result.done and monotonic() < deadline:
                self._producer.poll(0.1)


class _Result:
    """The delivery report of one record, once it has come."""

    def __init__(self) -> None:
        self.done = False
        self._error: KafkaError | None = None
        self._offset: int | None = None

    def note(self, error: KafkaError | None, message: Message) -> None:
        self.done, self._error, self._offset = True, error, message.offset()

    def offset_or_raise(self, doing: str, watch: ErrorWatch) -> int:
        if self._error is not None:
            raise _explain(self._error, doing, watch)
        if not self.done or self._offset is None or self._offset < 0:
            message = f"{doing}: no delivery report with an offset came"
            raise UnknownOutcomeError(message, reason=Reason.BROKERS_UNREACHABLE)
        return self._offset


def _explain(error: KafkaError, doing: str, watch: ErrorWatch) -> EvenkeelError:
    cause = watch.explain(error, doing)
    if cause.reason is Reason.AUTHENTICATION_FAILED:
        return cause
    return build_write_error(error, doing)


def _appender_config(connection: Connection, compression: str | None) -> dict[str, Any]:
    return {
        **client_config(connection),
        "enable.idempotence": True,
        "acks": "all",
        "message.timeout.ms": TIMEOUT_MS,
        "linger.ms": 0,
        "compression.type": compression or "none",
        "message.max.bytes": 8 * 1024 * 1024,
        "queue.buffering.max.kbytes": 32 * 1024,
    }
