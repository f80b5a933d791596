"""Small Kafka clients of tests: make a topic, fill it, read it back. Free of Evenkeel's own code."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

Config = Mapping[str, Any]


def unique(stem: str) -> str:
    """A topic name that no other test of a shared cluster has."""
    return f"{stem}-{secrets.token_hex(4)}"


def create_topic(config: Config, name: str, assignments: Sequence[Sequence[int]], **topic_config: str) -> str:
    """A topic whose partition i lives on the brokers `assignments[i]`, the preferred leader first.

    Dots of configuration names are written as underscores. Returns the name.

    Raises:
        KafkaException: the cluster refuses it.
    """
    topic = NewTopic(
        name,
        len(assignments),
        replica_assignment=[list(row) for row in assignments],
        config={key.replace("_", "."): value for key, value in topic_config.items()},
    )
    admin = AdminClient(dict(config))  # kept: a client that is collected takes its answers with it
    admin.create_topics([topic])[name].result(timeout=15)
    return name


def delete_topic(config: Config, name: str) -> None:
    """Delete a topic.

    Raises:
        KafkaException: the cluster refuses.
    """
    admin = AdminClient(dict(config))
    admin.delete_topics([name])[name].result(timeout=15)


def remake_topic(
    config: Config,
    name: str,
    assignments: Sequence[Sequence[int]],
    *,
    seconds: float = 30,
    **topic_config: str,
) -> None:
    """Delete a topic and make it again, empty.

    Raises:
        KafkaException: the old one is not gone within `seconds`.
    """
    delete_topic(config, name)
    deadline = time.monotonic() + seconds
    made = False
    while not made:
        try:
            create_topic(config, name, assignments, **topic_config)
            made = True
        except KafkaException:
            if time.monotonic() > deadline:
                raise


def grow_topic(config: Config, name: str, partitions: int) -> None:
    """Let a topic have `partitions` partitions.

    Raises:
        KafkaException: the cluster refuses.
    """
    admin = AdminClient(dict(config))
    admin.create_partitions([NewPartitions(name, partitions)])[name].result(timeout=15)


def produce(
    config: Config,
    topic: str,
    values: Iterable[bytes],
    *,
    partition: int = -1,
    key: bytes | None = None,
    seconds: float = 30,
) -> int:
    """Write every value under the same key, acknowledged by all in-sync replicas -> how many.

    Raises:
        KafkaException: a delivery failed (the first error), or not all were confirmed in time.
    """
    failures: list[KafkaError] = []
    producer = Producer({"linger.ms": 5, **config})
    count = 0

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    for value in values:
        while True:
            try:
                producer.produce(topic, value, key, partition=partition, on_delivery=note)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
        count += 1
    left = producer.flush(seconds)
    if failures or left:
        raise KafkaException(failures[0] if failures else KafkaError(KafkaError._MSG_TIMED_OUT))
    return count


def read_all(config: Config, topic: str, *, committed: bool = True, seconds: float = 30) -> list[Message]:
    """Every record that is in the topic now, by partition and offset; no consumer group is used.

    Raises:
        KafkaException: the topic is unknown or may not be read, or the end is not reached in time.
    """
    consumer = Consumer(
        {
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            **config,
        }
    )
    deadline = time.monotonic() + seconds
    try:
        bounds = {
            partition: _find_bounds(consumer, TopicPartition(topic, partition), deadline)
            for partition in _describe_partitions(consumer, topic)
        }
        found = _drain(consumer, topic, bounds, deadline)
    finally:
        consumer.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def _describe_partitions(consumer: Consumer, topic: str) -> list[int]:
    described = consumer.list_topics(topic, timeout=10).topics[topic]
    if described.error is not None:
        raise KafkaException(described.error)
    return list(described.partitions)


def _find_bounds(consumer: Consumer, place: TopicPartition, deadline: float) -> tuple[int, int]:
    """First offset that is there, and the one after the last."""
    while True:
        try:
            bounds = consumer.get_watermark_offsets(place, timeout=5)
        except KafkaException:  # the partition is new, or its leader changes
            bounds = None
            if time.monotonic() > deadline:
                raise
        if bounds is not None:
            return int(bounds[0]), int(bounds[1])
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no bounds of {place}"))


def _drain(
    consumer: Consumer, topic: str, bounds: Mapping[int, tuple[int, int]], deadline: float
) -> list[Message]:
    """Records within the bounds.

    librdkafka tells of an end only when a fetch comes back empty, which never happens where somebody writes
    all the time; a record behind the last one is an end too. Where markers of transactions come last there is
    no such record, and the empty fetch tells.
    """
    places = {partition: found for partition, found in bounds.items() if found[0] < found[1]}
    consumer.assign([TopicPartition(topic, partition, first) for partition, (first, _) in places.items()])
    found: list[Message] = []
    open_partitions = set(places)
    while open_partitions:
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no end of {sorted(open_partitions)}"))
        message = consumer.poll(0.5)
        if message is None:
            continue
        error = message.error()
        partition, offset = int(message.partition() or 0), int(message.offset() or 0)
        if error is None:
            end = bounds[partition][1]
            if offset < end:
                found.append(message)
            if offset >= end - 1:
                open_partitions.discard(partition)
        elif error.code() == KafkaError._PARTITION_EOF:
            if offset >= bounds[partition][1]:
                open_partitions.discard(partition)
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            # librdkafka asks for the group's coordinator even where partitions are assigned by hand;
            # without a right on the group it says so and reads on.
            raise KafkaException(error)
    return found
