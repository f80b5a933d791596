"""Small Kafka clients of tests: make a topic, fill it, read it back. Free of Evenkeel's own code."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

Config = Mapping[str, Any]
ANSWER_SECONDS = 30
"""For an answer, and until every broker knows what it was about."""
OPEN_SECONDS = 10.0
"""A transaction still without its markers after that is taken as one that stays open; a busy machine takes seconds."""
AGAIN_SECONDS = 0.1
"""Between two questions to a broker: each takes a connection of its own."""
_READ_ON = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._TIMED_OUT, KafkaError._TRANSPORT})
"""What librdkafka says and reads on: it asks for the group's coordinator even where partitions are assigned by hand,
without a right on the group or in vain; of a broker that is away it tells and connects again."""
_PASSING = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)


def unique(stem: str) -> str:
    """A topic name that no other test of a shared cluster has."""
    return f"{stem}-{secrets.token_hex(4)}"


def create_topic(config: Config, name: str, assignments: Sequence[Sequence[int]], **topic_config: str) -> str:
    """A topic whose partition i lives on the brokers `assignments[i]`, the preferred leader first.

    Dots of configuration names are written as underscores. Returns the name once every broker knows it.

    Raises:
        KafkaException: the cluster refuses it, or a broker does not learn of it in time.
    """
    _request_topic(config, name, assignments, topic_config)
    await_topic(config, name, len(assignments))
    return name


def delete_topic(config: Config, name: str) -> None:
    """Delete a topic.

    Raises:
        KafkaException: the cluster refuses.
    """
    admin = AdminClient(dict(config))
    _await_answer(admin.delete_topics([name])[name], f"deletion of {name}")


def remake_topic(
    config: Config,
    name: str,
    assignments: Sequence[Sequence[int]],
    *,
    seconds: float = 30,
    **topic_config: str,
) -> None:
    """Delete a topic and make it again at once, empty; returns when every broker knows the new one.

    Raises:
        KafkaException: the old one is not gone within `seconds`, or a broker does not learn of it in time.
    """
    delete_topic(config, name)
    deadline = time.monotonic() + seconds
    made = False
    while not made:
        try:
            _request_topic(config, name, assignments, topic_config)
            made = True
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(AGAIN_SECONDS)
    # Old and new look alike; brokers learn of changes in their order, and so of this one last.
    last = create_topic(config, unique("remade"), assignments[:1])
    delete_topic(config, last)


def grow_topic(config: Config, name: str, partitions: int) -> None:
    """Let a topic have `partitions` partitions; returns when every broker knows them.

    Raises:
        KafkaException: the cluster refuses, or a broker does not learn of it in time.
    """
    admin = AdminClient(dict(config))
    _await_answer(admin.create_partitions([NewPartitions(name, partitions)])[name], f"partitions of {name}")
    await_topic(config, name, partitions)


def await_topic(config: Config, name: str, partitions: int) -> None:
    """Wait until each address of `bootstrap.servers` tells of a topic with this number of partitions.

    Brokers learn of a change one after the other, and a client asks any of them.

    Raises:
        KafkaException: one does not within ANSWER_SECONDS.
    """
    deadline = time.monotonic() + ANSWER_SECONDS
    for address in str(config["bootstrap.servers"]).split(","):
        while not _knows({**config, "bootstrap.servers": address}, name, partitions):
            if time.monotonic() > deadline:
                raise _late(f"{address} does not know {name} with {partitions} partitions")
            time.sleep(AGAIN_SECONDS)


def _knows(config: Config, name: str, partitions: int) -> bool:
    """As the one broker of `config` says; a client that has not asked before is connected to no other."""
    try:
        found = AdminClient(dict(config)).list_topics(timeout=5).topics.get(name)
    except KafkaException:
        return False
    return found is not None and found.error is None and len(found.partitions) == partitions


def _request_topic(
    config: Config, name: str, assignments: Sequence[Sequence[int]], topic_config: Mapping[str, str]
) -> None:
    topic = NewTopic(
        name,
        len(assignments),
        replica_assignment=[list(row) for row in assignments],
        config={key.replace("_", "."): value for key, value in topic_config.items()},
    )
    admin = AdminClient(dict(config))  # kept: a client that is collected takes its answers with it
    _await_answer(admin.create_topics([topic])[name], f"creation of {name}")


def _await_answer(answer: Future[Any], what: str) -> None:
    try:
        answer.result(timeout=ANSWER_SECONDS)
    except TimeoutError as error:
        raise _late(f"no answer about the {what}") from error


def _late(what: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, what))


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

    With `committed`, those of transactions that are committed. One that has just ended is read as such: its
    markers may come after the answer to its producer. One that stays open costs OPEN_SECONDS.

    Raises:
        KafkaException: the topic is unknown or may not be read, or the end is not reached in time.
    """
    deadline = time.monotonic() + seconds
    bounds = _find_all_bounds(config, topic, deadline)
    consumer = _consume(config, committed=committed)
    try:
        found = _drain(consumer, topic, bounds, deadline)
    finally:
        consumer.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def _consume(config: Config, *, committed: bool) -> Consumer:
    return Consumer(
        {
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            **config,
        }
    )


def _find_all_bounds(config: Config, topic: str, deadline: float) -> dict[int, tuple[int, int]]:
    """By partition. Of all records: read_committed takes the first open transaction as the end."""
    consumer = _consume(config, committed=False)
    try:
        return {
            partition: _find_bounds(consumer, TopicPartition(topic, partition), deadline)
            for partition in _describe_partitions(consumer, topic, deadline)
        }
    finally:
        consumer.close()


def _describe_partitions(consumer: Consumer, topic: str, deadline: float) -> list[int]:
    """Asked again where no answer comes, or one of a broker that has not learned of the topic yet."""
    while True:
        try:
            return _ask_partitions(consumer, topic)
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                raise
            time.sleep(AGAIN_SECONDS)


def _ask_partitions(consumer: Consumer, topic: str) -> list[int]:
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
            time.sleep(AGAIN_SECONDS)
        if bounds is not None:
            return int(bounds[0]), int(bounds[1])
        if time.monotonic() > deadline:
            raise _late(f"no bounds of {place}")


class _Rest:
    """What is still to be read: partitions that were not read to their end.

    librdkafka tells of an end only when a fetch comes back empty, which never happens where somebody writes
    all the time; a record behind the last one is an end too. Where markers of transactions come last there is
    no such record, and the empty fetch tells. It comes below the end where a transaction is open: either its
    markers are on their way, or nothing follows for as long as OPEN_SECONDS.
    """

    def __init__(self, bounds: Mapping[int, tuple[int, int]]) -> None:
        self.ends = {partition: end for partition, (first, end) in bounds.items() if first < end}
        self._stopped: dict[int, float] = {}

    def take(self, message: Message) -> bool:
        """Note how far a partition was read -> whether the message is a record that was asked for."""
        partition, offset = int(message.partition() or 0), int(message.offset() or 0)
        error = message.error()
        end = self.ends.get(partition, 0)
        if error is None:
            self._stopped.pop(partition, None)
            self._reach(partition, offset + 1)
        elif error.code() == KafkaError._PARTITION_EOF:
            self._stopped[partition] = time.monotonic()
            self._reach(partition, offset)
        elif error.code() not in _READ_ON:
            raise KafkaException(error)
        return error is None and offset < end

    def _reach(self, partition: int, offset: int) -> None:
        if offset >= self.ends.get(partition, offset):
            self.ends.pop(partition, None)

    def drop_open(self) -> None:
        """Leave partitions where nothing has followed an empty fetch for long."""
        for partition, since in self._stopped.items():
            if time.monotonic() - since > OPEN_SECONDS:
                self.ends.pop(partition, None)


def _drain(
    consumer: Consumer, topic: str, bounds: Mapping[int, tuple[int, int]], deadline: float
) -> list[Message]:
    """Records within the bounds."""
    rest = _Rest(bounds)
    consumer.assign([TopicPartition(topic, partition, bounds[partition][0]) for partition in rest.ends])
    found: list[Message] = []
    while rest.ends:
        if time.monotonic() > deadline:
            raise _late(f"no end of {sorted(rest.ends)}")
        message = consumer.poll(0.5)
        if message is not None and rest.take(message):
            found.append(message)
        rest.drop_open()
    return found
