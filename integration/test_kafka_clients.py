"""Reading by offset and appending, against real brokers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from evenkeel.domain.connection import Connection, Protocol, SaslMechanism
from evenkeel.errors import ConfigurationError, DataError, InputError, RetryableError
from evenkeel.kafka.clients.append import Appender
from evenkeel.kafka.clients.identity import identify_topic, wait_for_topic
from evenkeel.kafka.clients.reader import PartitionReader
from evenkeel.kafka.manifests import ManifestWriter, read_manifest
from evenkeel.reasons import Reason
from integration.kafka import rights
from integration.kafka.clients import create_topic, delete_topic, unique
from integration.kafka.cluster import KafkaCluster
from integration.processes import wait_until


def connect(cluster: KafkaCluster) -> Connection:
    return Connection(tuple(cluster.bootstrap.split(",")))


@pytest.fixture
def topic(kafka: KafkaCluster) -> str:
    name = create_topic(kafka.client_config(), unique("clients"), [[1, 2], [2, 3]], retention_ms="-1")
    wait_for_topic(connect(kafka), name, 30)
    return name


def test_records_come_back_with_all_that_was_appended(kafka: KafkaCluster, topic: str) -> None:
    with Appender(connect(kafka)) as appender:
        assert appender.append(topic, b"one", key="k", headers=[("h", b"\x00")], partition=1) == 0
        assert appender.append_all(topic, [(b"two", None, ()), (b"", b"e", ())], partition=1) == [1, 2]
    with PartitionReader(connect(kafka), topic, 1) as reader:
        assert reader.bounds() == (0, 3)
        first, second, third = reader.read(0)
        assert (first.offset, first.key, first.value, dict(first.headers)) == (
            0,
            b"k",
            b"one",
            {"h": b"\x00"},
        )
        assert (second.key, second.value, third.value) == (None, b"two", b"")
        assert [record.offset for record in reader.read(1, 2)] == [1]
        assert [record.offset for record in reader.read(2)] == [2]
        assert list(reader.read(3)) == []


def test_a_tail_follows_the_log(kafka: KafkaCluster, topic: str) -> None:
    with PartitionReader(connect(kafka), topic, 0) as reader, Appender(connect(kafka)) as appender:
        tail = reader.tail(0)
        assert tail.poll(0.1) == []
        for number in range(5):
            appender.append(topic, b"%d" % number, partition=0)
        seen: list[bytes] = []
        wait_until("five records", lambda: [seen.extend(r.value for r in tail.poll(0.2)), len(seen) == 5][1])
        assert seen == [b"0", b"1", b"2", b"3", b"4"]


def test_offsets_that_are_gone_are_an_error_never_other_records(kafka: KafkaCluster, topic: str) -> None:
    with Appender(connect(kafka)) as appender:
        appender.append_all(topic, [(b"%d" % n, None, ()) for n in range(10)], partition=0)
    admin = AdminClient(kafka.client_config())
    wanted = TopicPartition(topic, 0, 6)
    admin.delete_records([wanted])[wanted].result(60)
    with PartitionReader(connect(kafka), topic, 0) as reader:
        assert reader.bounds() == (6, 10)
        assert [record.offset for record in reader.read(6)] == [6, 7, 8, 9]
        with pytest.raises(DataError) as caught:
            list(reader.read(2, 10))
        assert caught.value.reason is Reason.DATA_LOST
        with pytest.raises(DataError):
            list(reader.read(50, 60))


def test_a_topic_that_is_made_again_has_another_id(kafka: KafkaCluster, topic: str) -> None:
    before = identify_topic(connect(kafka), topic)
    assert before.partitions == 2
    delete_topic(kafka.client_config(), topic)
    wait_until("the topic's end", lambda: missing(kafka, topic))
    create_topic(kafka.client_config(), topic, [[1]])
    after = wait_for_topic(connect(kafka), topic, 30)
    assert (after.cluster_id, after.partitions) == (before.cluster_id, 1)
    assert after.topic_id != before.topic_id


def missing(cluster: KafkaCluster, topic: str) -> bool:
    try:
        identify_topic(connect(cluster), topic)
    except RetryableError as error:
        return error.reason is Reason.TOPIC_MISSING
    return False


def test_a_record_that_is_too_large_is_surely_not_there(kafka: KafkaCluster, topic: str) -> None:
    with Appender(connect(kafka)) as appender:
        with pytest.raises(InputError) as caught:
            appender.append(topic, os.urandom(2_000_000), partition=0)
        assert caught.value.reason is Reason.RECORD_TOO_LARGE
        assert appender.append(topic, b"small", partition=0) == 0


def test_a_dead_address_is_said_in_time() -> None:
    with pytest.raises(RetryableError) as caught:
        identify_topic(Connection(("127.0.0.1:1",)), "t", timeout=2)
    assert caught.value.reason is Reason.BROKERS_UNREACHABLE
    with PartitionReader(Connection(("127.0.0.1:1",)), "t") as reader:
        with pytest.raises(RetryableError) as caught:
            reader.bounds(timeout=2)
        assert caught.value.reason is Reason.BROKERS_UNREACHABLE


def test_a_large_manifest_travels_in_chunks(kafka: KafkaCluster, topic: str) -> None:
    content, location = os.urandom(3_000_000), os.urandom(700_000)
    with Appender(connect(kafka)) as appender:
        digest = ManifestWriter(appender, topic, "w").write(content, location)
    assert read_manifest(connect(kafka), topic, digest) == (content, location)
    with pytest.raises(DataError, match="no complete manifest"):
        read_manifest(connect(kafka), topic, "00" * 32)


def log_in(cluster: KafkaCluster, folder: Path, user: str, password: str) -> Connection:
    folder.mkdir(exist_ok=True)
    (folder / "username").write_text(user)
    (folder / "password").write_text(password)
    return Connection(
        tuple(cluster.bootstrap.split(",")),
        Protocol.SASL_PLAINTEXT,
        SaslMechanism.SCRAM_SHA_512,
        credentials_path=str(folder),
    )


@pytest.mark.parametrize(
    ("user", "password", "reason"),
    [
        ("dataset", "wrong", Reason.AUTHENTICATION_FAILED),
        ("nobody", "nobody-secret", Reason.AUTHORIZATION_MISSING),
    ],
)
def test_a_refusal_names_its_kind(
    sasl_kafka: KafkaCluster, tmp_path: Path, user: str, password: str, reason: Reason
) -> None:
    name = create_topic(sasl_kafka.client_config(), unique(rights.DATASET_PREFIX), [[1]])
    connection = log_in(sasl_kafka, tmp_path / "secret", user, password)
    with pytest.raises(ConfigurationError) as caught:
        identify_topic(connection, name)
    assert caught.value.reason is reason
    with PartitionReader(connection, name) as reader, pytest.raises(ConfigurationError) as caught:
        reader.bounds()
    assert caught.value.reason is reason
    with Appender(connection, **{"message.timeout.ms": 5000}) as appender:
        with pytest.raises(ConfigurationError) as caught:
            appender.append(name, b"x", partition=0)
        assert caught.value.reason is reason


def test_the_dataset_principal_may_do_all_that_an_ingest_does(
    sasl_kafka: KafkaCluster, tmp_path: Path
) -> None:
    name = create_topic(sasl_kafka.client_config(), unique(rights.DATASET_PREFIX), [[1]])
    connection = log_in(sasl_kafka, tmp_path / "secret", "dataset", "dataset-secret")
    assert wait_for_topic(connection, name, 30).partitions == 1
    with Appender(connection) as appender:
        assert appender.append(name, b"x", partition=0) == 0
    with PartitionReader(connection, name) as reader:
        assert [record.value for record in reader.read(0)] == [b"x"]
