"""Writing to the data topic through the router, with a bounded queue and a report for every message."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from evenkeel.domain.connection import Connection
from evenkeel.domain.job import Compression, DatasetRef, ProducerSettings
from evenkeel.errors import EvenkeelError, RetryableError
from evenkeel.ingest.headers import MessageIdentity
from evenkeel.kafka.clients.append import UnknownOutcomeError
from evenkeel.kafka.clients.config import client_config
from evenkeel.kafka.clients.failures import build_write_error, open_client, write_errors
from evenkeel.reasons import Reason

log = logging.getLogger(__name__)

QUEUE_KIB = 32 * 1024
"""Bytes that wait for brokers in one worker; bounds its memory together with one message being packed."""
SEND_SECONDS = 65.0
"""Longest wait for room in the queue: a little above message.timeout.ms, after which room comes anyway."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A message that Kafka has."""

    identity: MessageIdentity
    span: int
    partition: int
    offset: int
    length: int


class Outbox(Protocol):
    """Where a worker's messages go."""

    def wait_for_routes(self, plan_offset: int) -> bool:
        """Wait for the table that was made for the plan; False: it did not come in time."""

    def send(self, identity: MessageIdentity, span: int, value: bytes) -> None:
        """Queue a message, waiting for room."""

    def take(self) -> list[Acknowledged]:
        """What was acknowledged since the last call; raises UnknownOutcomeError for a failed one."""

    def flush(self) -> None:
        """Wait until every message has its report."""

    def drop(self) -> None:
        """Throw away the client and all that it has not written; the next `send` makes a new one."""


class KafkaOutbox:
    """The data topic of a dataset.

    Args:
        connection: how to reach the cluster.
        dataset: whose data topic.
        settings: of the ingest.
        worker: index of this worker: its place in the routers' schedule.
        make_producer: the router's Producer, or one with its interface and constructor.
    """

    def __init__(
        self,
        connection: Connection,
        dataset: DatasetRef,
        settings: ProducerSettings,
        worker: int,
        make_producer: Callable[..., Any],
    ) -> None:
        self._topic = dataset.data_topic
        self._wait_seconds = settings.routes_wait_seconds
        self._config = build_config(connection, dataset, settings, worker)
        self._make = make_producer
        self._producer: Any = None
        self._reports: list[Acknowledged | EvenkeelError] = []
        self._generation = 0

    def wait_for_routes(self, plan_offset: int) -> bool:
        """As Outbox."""
        return bool(self._open().wait_for_table(self._topic, plan_offset, float(self._wait_seconds)))

    def send(self, identity: MessageIdentity, span: int, value: bytes) -> None:
        """As Outbox.

        Raises:
            RetryableError: no room came.
        """
        producer, generation, length = self._open(), self._generation, len(value)

        def report(error: Any, message: Any) -> None:
            if generation == self._generation:
                self._reports.append(self._judge(error, message, identity, span, length))

        deadline = time.monotonic() + SEND_SECONDS
        while True:
            try:
                with write_errors(f"writing slice {identity.slice} to {self._topic}"):
                    producer.produce(self._topic, value, headers=identity.encode(), on_delivery=report)
                break
            except BufferError:
                producer.poll(0.1)
                if time.monotonic() > deadline:
                    message = f"writing to {self._topic}: no room in the queue for {SEND_SECONDS:g} s"
                    raise RetryableError(message, reason=Reason.BROKERS_UNREACHABLE) from None
        producer.poll(0)

    def take(self) -> list[Acknowledged]:
        """As Outbox."""
        if self._producer is not None:
            self._producer.poll(0)
        reports, self._reports = self._reports, []
        for report in reports:
            if isinstance(report, EvenkeelError):
                raise report
        return [report for report in reports if isinstance(report, Acknowledged)]

    def flush(self) -> None:
        """As Outbox.

        Raises:
            UnknownOutcomeError: a message still has no report.
        """
        if self._producer is not None and self._producer.flush(SEND_SECONDS) > 0:
            message = f"writing to {self._topic}: no delivery report within {SEND_SECONDS:g} s"
            raise UnknownOutcomeError(message, reason=Reason.BROKERS_UNREACHABLE)

    def drop(self) -> None:
        """As Outbox."""
        producer, self._producer = self._producer, None
        self._generation += 1
        self._reports = []
        if producer is not None:
            producer.purge(in_queue=True, in_flight=True, blocking=False)
            producer.flush(1)

    def _open(self) -> Any:
        if self._producer is None:
            self._producer = open_client(self._make, self._config)
        return self._producer

    def _judge(
        self, error: Any, message: Any, identity: MessageIdentity, span: int, length: int
    ) -> Acknowledged | EvenkeelError:
        doing = f"writing slice {identity.slice} record {identity.first} to {self._topic}"
        if error is not None:
            return build_write_error(error, doing)
        offset = message.offset()
        if offset is None or offset < 0:
            # librdkafka says success without an offset where a retry found the message already written.
            return UnknownOutcomeError(f"{doing}: no offset", reason=Reason.BROKERS_UNREACHABLE)
        return Acknowledged(identity, span, message.partition(), offset, length)


def build_config(
    connection: Connection, dataset: DatasetRef, settings: ProducerSettings, worker: int
) -> dict[str, Any]:
    """Settings of the router's producer, its own (`evenkeel.`) among them."""
    codecs = {Compression.NONE: "none", Compression.LZ4: "lz4", Compression.ZSTD: "zstd"}
    largest = settings.max_record_bytes + settings.message_bytes + 64 * 1024
    return {
        **client_config(connection),
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": codecs[settings.compression],
        "linger.ms": 5,
        "batch.size": max(1_000_000, settings.message_bytes),
        "message.max.bytes": largest,
        "message.timeout.ms": 60_000,
        "queue.buffering.max.kbytes": max(QUEUE_KIB, 2 * largest // 1024),
        "evenkeel.topics": dataset.data_topic,
        "evenkeel.phase": (worker + 0.5) / max(1, settings.workers),
    }
