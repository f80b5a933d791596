"""What the principal that signs in may do, as the brokers themselves say: nothing is tried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from evenkeel.domain.connection import Connection
from evenkeel.kafka.clients.config import client_config
from evenkeel.kafka.clients.failures import build_error, open_client, unwrap

CALL_SECONDS = 10.0
_BATCH = 500
"""Topics per request: answers of all topics at once may exceed what one response holds."""


@dataclass(frozen=True, slots=True)
class Privileges:
    """Operations by their Kafka names, such as `DescribeConfigs`."""

    cluster: frozenset[str] = frozenset()
    topics: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By topic; one that is not told is absent."""


def gather_privileges(connection: Connection, topics: Iterable[str], *, move: bool = False) -> Privileges:
    """Ask for the rights on the cluster and on `topics`.

    Args:
        connection: where and how.
        topics: names of existing topics.
        move: with the credentials for moves and topic changes.

    Raises:
        ConfigurationError: credentials are missing or refused.
        RetryableError: no answer in time.
    """
    admin = open_client(AdminClient, client_config(connection, move=move))
    limits = {"include_authorized_operations": True, "request_timeout": CALL_SECONDS}
    try:
        cluster = admin.describe_cluster(**limits).result(timeout=2 * CALL_SECONDS)
        found: dict[str, frozenset[str]] = {}
        names = sorted(topics)
        for start in range(0, len(names), _BATCH):
            asked = admin.describe_topics(TopicCollection(names[start : start + _BATCH]), **limits)
            for name, future in asked.items():
                operations = _topic_operations(future.result(timeout=2 * CALL_SECONDS))
                if operations is not None:
                    found[name] = operations
    except KafkaException as error:
        raise build_error(unwrap(error), "asking for the rights of this principal") from error
    return Privileges(_spell(cluster.authorized_operations or ()), found)


def _topic_operations(description: object) -> frozenset[str] | None:
    operations = getattr(description, "authorized_operations", None)
    return None if operations is None else _spell(operations)


def _spell(operations: Iterable[object]) -> frozenset[str]:
    """`DESCRIBE_CONFIGS` as `DescribeConfigs`, the way kafka-acls writes it."""
    return frozenset(getattr(one, "name", str(one)).title().replace("_", "") for one in operations)
