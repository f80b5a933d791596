"""Tell a dead address from a wrong password: kafka-python cannot, librdkafka can within a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from evenkeel.domain.connection import Connection
from evenkeel.errors import ConfigurationError, RetryableError
from evenkeel.kafka.clients.config import client_config
from evenkeel.kafka.clients.failures import ErrorWatch, client_logger, unwrap
from evenkeel.reasons import Reason

TURN_SECONDS = 8.0
"""How long a turn of the keeper waits for an answer."""


def probe(
    connection: Connection,
    timeout: float = 10.0,
    *,
    move: bool = False,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Return when some broker answers and lets us in.

    Args:
        connection: where and how.
        timeout: seconds to wait for an answer.
        move: try the credentials for moves and topic changes.
        monotonic: the clock, seconds.

    Raises:
        ConfigurationError: files are missing (SECRET_MISSING) or Kafka refuses them (AUTHENTICATION_FAILED).
        RetryableError: nobody answers (BROKERS_UNREACHABLE).
    """
    addresses = ", ".join(connection.bootstrap_servers)
    watch = ErrorWatch()
    settings: dict[str, Any] = {**client_config(connection, move=move), "error_cb": watch}
    try:
        admin = AdminClient(settings, logger=client_logger)
    except KafkaException as error:
        # Such as certificates that are none; librdkafka names the setting and never its value.
        message = f"the client's settings are refused: {unwrap(error).str()}"
        raise ConfigurationError(message, reason=Reason.INVALID_SPEC) from error
    deadline = monotonic() + timeout
    while monotonic() < deadline:
        try:
            admin.list_topics(timeout=1.0)
        except KafkaException as error:
            admin.poll(0.1)  # serves the callback that tells why
            problem = watch.explain(unwrap(error), f"connecting to {addresses}")
            if isinstance(problem, ConfigurationError):
                raise problem from error
        else:
            return
    message = f"{addresses}: no broker answers within {timeout:g} s"
    raise RetryableError(message, reason=Reason.BROKERS_UNREACHABLE)
