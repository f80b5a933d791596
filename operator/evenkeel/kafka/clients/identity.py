"""Which cluster and which topic a name stands for today."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from evenkeel.domain.connection import Connection
from evenkeel.domain.topic_id import plain_topic_id
from evenkeel.errors import RetryableError
from evenkeel.kafka.clients.config import client_config
from evenkeel.kafka.clients.failures import ErrorWatch, open_client, unwrap

AGAIN_SECONDS = 0.5
"""Between two questions: each takes connections of its own."""


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """A topic of a cluster; a topic that is made again under the same name has another id."""

    cluster_id: str
    topic_id: str
    partitions: int


def identify_topic(connection: Connection, topic: str, timeout: float = 10.0) -> TopicIdentity:
    """Ask Kafka for ids and partition count; needs no right but Describe on the topic.

    Raises:
        RetryableError: TOPIC_MISSING, or no answer within `timeout` seconds.
        ConfigurationError: a right or the credentials are missing.
    """
    watch = ErrorWatch()
    config: dict[str, Any] = {**client_config(connection), "error_cb": watch}
    admin = open_client(AdminClient, config)
    try:
        future = admin.describe_topics(TopicCollection([topic]), request_timeout=timeout)[topic]
        deadline = time.monotonic() + timeout
        while not future.done() and time.monotonic() < deadline and not watch.refused:
            admin.poll(0.1)  # the cause of a failure comes by the callback, which only this serves
        described = future.result(0)
        cluster_id = admin.list_topics(topic, timeout=timeout).cluster_id
    except KafkaException as error:
        raise watch.explain(unwrap(error), f"describing topic {topic}") from error
    except TimeoutError as error:
        late = KafkaError(KafkaError._TIMED_OUT, "no answer")  # noqa: SLF001
        raise watch.explain(late, f"describing topic {topic}") from error
    return TopicIdentity(str(cluster_id), plain_topic_id(str(described.topic_id)), len(described.partitions))


def wait_for_topic(
    connection: Connection, topic: str, timeout: float, monotonic: Callable[[], float] = time.monotonic
) -> TopicIdentity:
    """The same, asking again until `timeout` seconds are over: brokers learn of a new topic one by one."""
    deadline = monotonic() + timeout
    while True:
        try:
            return identify_topic(connection, topic)
        except RetryableError:
            if monotonic() > deadline:
                raise
            threading.Event().wait(AGAIN_SECONDS)
