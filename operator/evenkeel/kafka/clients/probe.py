"""Tell a dead address from a wrong password: kafka-python cannot, librdkafka can within a second."""

from __future__ import annotations

import logging

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from evenkeel.domain.connection import Connection
from evenkeel.errors import ConfigurationError, RetryableError
from evenkeel.kafka.clients.config import client_config
from evenkeel.reasons import Reason

_quiet = logging.getLogger("evenkeel.kafka.quiet")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False
_REFUSALS = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED)  # noqa: SLF001 - public codes
_STEP = 0.25


def probe(connection: Connection, timeout: float = 10.0, *, move: bool = False) -> None:
    """Return when some broker answers and lets us in.

    Args:
        connection: where and how.
        timeout: seconds to wait for an answer.
        move: try the credentials for moves and topic changes.

    Raises:
        ConfigurationError: files are missing (SECRET_MISSING) or Kafka refuses them (AUTHENTICATION_FAILED).
        RetryableError: nobody answers (BROKERS_UNREACHABLE).
    """
    refused: list[str] = []
    addresses = ", ".join(connection.bootstrap_servers)

    def note(error: KafkaError) -> None:
        if error.code() in _REFUSALS:
            refused.append(error.str())

    admin = AdminClient({**client_config(connection, move=move), "error_cb": note}, logger=_quiet)
    attempts = max(1, round(timeout / 2))
    for _ in range(attempts):
        try:
            admin.list_topics(timeout=min(2.0, timeout))
        except KafkaException:
            admin.poll(_STEP)  # the callback that tells why is served here
        else:
            return
        if refused:
            message = f"{addresses}: Kafka refuses the credentials"
            raise ConfigurationError(message, reason=Reason.AUTHENTICATION_FAILED)
    message = f"{addresses}: no broker answers within {timeout:g} s"
    raise RetryableError(message, reason=Reason.BROKERS_UNREACHABLE)
