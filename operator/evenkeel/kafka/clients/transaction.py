"""Records that only the owner can write: one transactional id per Kafka cluster fences a predecessor."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Producer

from evenkeel.domain.connection import Connection
from evenkeel.errors import ConfigurationError, EvenkeelError, FencedError, RetryableError
from evenkeel.kafka.clients.config import client_config
from evenkeel.reasons import Reason

_quiet = logging.getLogger("evenkeel.kafka.quiet.transactions")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False
_FENCED = (
    KafkaError._FENCED,  # noqa: SLF001 - public codes
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
)
_FORBIDDEN = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Write on TransactionalId evenkeel-*",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Write on Topic __evenkeel_*",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "IdempotentWrite on the Cluster",
}

Record = tuple[str, bytes, bytes | None]
"""Topic, value, key."""


class FencedAppender:
    """A transactional producer; the first call must be `initialise`."""

    def __init__(self, connection: Connection, transactional_id: str, *, timeout: float = 20.0) -> None:
        """Make the producer; nothing is sent yet.

        Raises:
            ConfigurationError: the files of the credentials are missing.
        """
        self._timeout = timeout
        self._producer = Producer(
            {
                **client_config(connection),
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 30_000,
                "message.timeout.ms": int(timeout * 1000),
                "linger.ms": 0,
                "enable.metrics.push": False,
            },
            logger=_quiet,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def initialise(self) -> None:
        """Become the one writer: every earlier one with this id is fenced from here on.

        Raises:
            RetryableError, ConfigurationError: as `append_all`.
        """
        try:
            self._producer.init_transactions(self._timeout)
        except KafkaException as error:
            raise _translate(error) from error

    def append(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        """One record as one transaction; errors as `append_all`."""
        self.append_all([(topic, value, key)])

    def append_all(self, records: Iterable[Record]) -> None:
        """Write records as one transaction, partition 0 of their topics; returns when it is committed.

        Raises:
            FencedError: somebody else has initialised this id since; never use this object again.
            ConfigurationError: a right is missing; the message names it.
            RetryableError: no answer in time; make a new object, or be fenced.
        """
        failed: list[KafkaError] = []
        try:
            self._producer.begin_transaction()
            for topic, value, key in records:
                self._producer.produce(
                    topic, value, key, partition=0, on_delivery=lambda error, _: failed.append(error)
                )
            self._producer.flush(self._timeout)
            errors = [error for error in failed if error is not None]
            if errors:
                raise KafkaException(errors[0])
            self._producer.commit_transaction(self._timeout)
        except KafkaException as error:
            self._abort(error)
            raise _translate(error) from error

    def close(self) -> None:
        """Let go without waiting; an open transaction is aborted by the next owner or by its timeout."""
        self._producer.purge()
        self._producer.poll(0)

    def _abort(self, error: KafkaException) -> None:
        if error.args[0].code() in _FENCED or error.args[0].fatal():
            return
        try:
            self._producer.abort_transaction(self._timeout)
        except KafkaException:
            logging.getLogger(__name__).warning("abort failed; the next initialise settles it")


def _translate(error: KafkaException) -> EvenkeelError:
    reason: KafkaError = error.args[0]
    if reason.code() in _FENCED:
        return FencedError("another keeper has taken over", reason=Reason.CLUSTER_OWNED_ELSEWHERE)
    if reason.code() in _FORBIDDEN:
        message = f"writing needs the right {_FORBIDDEN[reason.code()]}"
        return ConfigurationError(message, reason=Reason.AUTHORIZATION_MISSING)
    return RetryableError(f"writing: {reason.str()}", reason=Reason.BROKERS_UNREACHABLE)
