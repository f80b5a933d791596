"""Records that only the owner can write: one transactional id per Kafka cluster fences a predecessor."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Producer

from evenkeel.domain.connection import Connection
from evenkeel.errors import ConfigurationError, EvenkeelError
from evenkeel.kafka.clients.config import client_config
from evenkeel.kafka.clients.failures import ErrorWatch, client_logger, unwrap
from evenkeel.reasons import Reason

_RIGHTS = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Write on TransactionalId evenkeel-*",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Write on Topic __evenkeel_*",
}

Record = tuple[str, bytes | None, bytes | None]
"""Topic, value, key. A value of None has a compacted topic forget the key."""


class FencedAppender:
    """A transactional producer; the first call must be `initialise`.

    After an error it is of no more use: close it and make a new one, whose `initialise` aborts what is open.
    """

    def __init__(self, connection: Connection, transactional_id: str, *, timeout: float = 20.0) -> None:
        """Make the producer; nothing is sent yet.

        Raises:
            ConfigurationError: the files of the credentials are missing.
        """
        self._timeout = timeout
        self._watch = ErrorWatch()
        self._producer = Producer(
            {
                **client_config(connection),
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 30_000,
                "message.timeout.ms": int(timeout * 1000),
                "linger.ms": 0,
                "enable.metrics.push": False,
                "error_cb": self._watch,
            },
            logger=client_logger,
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
            raise self._translate(error) from error

    def append(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        """One record as one transaction; errors as `append_all`."""
        self.append_all([(topic, value, key)])

    def append_all(self, records: Iterable[Record]) -> None:
        """Write records as one transaction, partition 0 of their topics; returns when it is committed.

        Raises:
            FencedError: somebody else has initialised this id since; never use this object again.
            ConfigurationError: a right is missing; the message names it.
            RetryableError: no answer in time; the records may be in the log all the same.
        """
        try:
            self._producer.begin_transaction()
            # No delivery callbacks: a fenced client raises while it serves them, which Python cannot carry.
            # A record that fails makes the commit fail.
            for topic, value, key in records:
                self._producer.produce(topic, value, key, partition=0)
            self._producer.commit_transaction(self._timeout)
        except KafkaException as error:
            raise self._translate(error) from error

    def close(self) -> None:
        """Let go without waiting; an open transaction is aborted by the next owner or by its timeout."""
        with contextlib.suppress(KafkaException):  # a fenced client raises again whatever it is asked
            self._producer.purge()

    def _translate(self, error: KafkaException) -> EvenkeelError:
        inner = unwrap(error)
        if inner.code() in _RIGHTS:
            message = f"writing needs the right {_RIGHTS[inner.code()]}"
            return ConfigurationError(message, reason=Reason.AUTHORIZATION_MISSING)
        return self._watch.explain(inner, "writing as the owner of the cluster")
