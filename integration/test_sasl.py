from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource as AdminResource
from kafka.admin import ConfigResourceType
from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from kafka.structs import TopicPartition

from integration.kafka import rights
from integration.kafka.clients import await_topic, create_topic, produce, read_all, unique
from integration.kafka.cluster import KafkaCluster
from integration.processes import wait_until


@contextlib.contextmanager
def admin_of(cluster: KafkaCluster, user: str) -> Iterator[Any]:
    admin = KafkaAdminClient(**cluster.admin_config(user), request_timeout_ms=15000)
    try:
        yield admin
    finally:
        admin.close()


def topic_of(cluster: KafkaCluster, stem: str) -> str:
    return create_topic(cluster.client_config(), unique(stem), [[1, 2]])


def denied(error: pytest.ExceptionInfo[KafkaException]) -> bool:
    return bool(error.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED)


def test_a_dataset_writes_and_reads_its_own_topics_without_a_group(sasl_kafka: KafkaCluster) -> None:
    topic = topic_of(sasl_kafka, f"{rights.DATASET_PREFIX}data")
    config = sasl_kafka.client_config("dataset")
    produce({**config, "enable.idempotence": True}, topic, [b"a", b"b"], partition=0)
    assert [message.value() for message in read_all(config, topic)] == [b"a", b"b"]


def test_a_dataset_reads_routes_and_writes_heartbeats_and_not_the_reverse(sasl_kafka: KafkaCluster) -> None:
    own, config = sasl_kafka.client_config(), sasl_kafka.client_config("dataset")
    for topic in ("__evenkeel_routes", "__evenkeel_heartbeats"):
        with contextlib.suppress(KafkaException):  # another test of the shared cluster may have made it
            create_topic(own, topic, [[1, 2, 3]])
        produce(own, topic, [b"x"])
    assert read_all(config, "__evenkeel_routes")[-1].value() == b"x"
    produce(config, "__evenkeel_heartbeats", [b"beat"])
    with pytest.raises(KafkaException) as refused:
        produce(config, "__evenkeel_routes", [b"forged"])
    assert denied(refused)
    with pytest.raises(KafkaException) as refused:
        read_all(config, "__evenkeel_heartbeats")
    assert denied(refused)


def test_a_dataset_has_no_right_on_other_topics(sasl_kafka: KafkaCluster) -> None:
    topic = topic_of(sasl_kafka, "evenkeel-ffffffffffffffffffff-data")
    config = sasl_kafka.client_config("dataset")
    began = time.monotonic()
    with pytest.raises(KafkaException) as refused:
        produce(config, topic, [b"x"])
    assert denied(refused)
    assert time.monotonic() - began < 10
    with pytest.raises(KafkaException) as refused:
        read_all(config, topic)
    assert denied(refused)
    with pytest.raises(KafkaException) as refused:
        create_topic(config, unique(rights.DATASET_PREFIX), [[1]])
    assert denied(refused)


def test_observe_measures_everything(sasl_kafka: KafkaCluster) -> None:
    topic = topic_of(sasl_kafka, "measured")
    with admin_of(sasl_kafka, "observe") as admin:
        answers = admin.describe_log_dirs({topic: [0]}, brokers=[1, 2])
        assert [len(answer["log_dirs"]) for answer in answers] == [1, 1]
        assert admin.list_partition_reassignments() == {}
        assert admin.describe_configs([AdminResource(ConfigResourceType.TOPIC, topic)])
    described = AdminClient(sasl_kafka.client_config("observe"))
    assert topic in described.list_topics(timeout=30).topics
    broker = ConfigResource(ResourceType.BROKER, "1")
    assert "log.dirs" in described.describe_configs([broker])[broker].result(30)


def test_observe_makes_and_owns_only_evenkeels_topics(sasl_kafka: KafkaCluster) -> None:
    config = sasl_kafka.client_config("observe")
    control = create_topic(
        config, unique("__evenkeel_x"), [[1, 2, 3]], message_timestamp_type="LogAppendTime"
    )
    producer = Producer({**config, "transactional.id": unique("evenkeel-keeper")})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(control, b"claim")
    producer.commit_transaction(20)
    assert [message.value() for message in read_all(config, control)] == [b"claim"]
    journal = create_topic(config, unique("evenkeel-abcdefabcdefabcdefab-journal"), [[1, 2]])
    assert read_all(config, journal) == []
    with pytest.raises(KafkaException) as refused:
        create_topic(config, unique("orders"), [[1]])
    assert denied(refused)
    with pytest.raises(KafkaException) as refused:
        produce(config, topic_of(sasl_kafka, "orders"), [b"x"])
    assert denied(refused)


def test_observe_may_not_move(sasl_kafka: KafkaCluster) -> None:
    topic = topic_of(sasl_kafka, "still")
    with admin_of(sasl_kafka, "observe") as admin, pytest.raises(ClusterAuthorizationFailedError):
        admin.alter_partition_reassignments({TopicPartition(topic, 0): [2, 3]})


def test_move_moves_throttles_and_creates(sasl_kafka: KafkaCluster) -> None:
    topic = create_topic(sasl_kafka.client_config("move"), unique("moved"), [[1, 2]])
    partition = TopicPartition(topic, 0)
    with admin_of(sasl_kafka, "move") as admin:
        rate = {"leader.replication.throttled.rate": "20000000"}
        broker = AdminResource(ConfigResourceType.BROKER, "3", rate)
        assert admin.alter_configs([broker], raise_on_unknown=False) == {"broker": {"3": "OK"}}
        assert admin.alter_partition_reassignments({partition: [2, 3]}) == {partition: None}
        wait_until("the move", lambda: admin.list_partition_reassignments() == {})
        admin.create_partitions({topic: {"count": 2, "assignments": [[3, 1]]}})
    await_topic(sasl_kafka.client_config("move"), topic, 2)
    found = (
        AdminClient(sasl_kafka.client_config("move")).list_topics(topic, timeout=30).topics[topic].partitions
    )
    assert sorted(found[0].replicas) == [2, 3]
    assert len(found) == 2


def test_without_rights_answers_are_empty_or_refused(sasl_kafka: KafkaCluster) -> None:
    topic = topic_of(sasl_kafka, "hidden")
    with admin_of(sasl_kafka, "nobody") as admin:
        (answer,) = admin.describe_log_dirs({}, brokers=[1])
        # No error names the missing right: an empty list has to be read as unknown.
        assert answer["log_dirs"] == []
        with pytest.raises(ClusterAuthorizationFailedError):
            admin.list_partition_reassignments()
        with pytest.raises(TopicAuthorizationFailedError):
            admin.create_topics({unique("mine"): {"assignments": {0: [1]}}})
    assert topic not in AdminClient(sasl_kafka.client_config("nobody")).list_topics(timeout=30).topics


def test_a_granted_right_works_and_a_revoked_one_no_more(sasl_kafka: KafkaCluster) -> None:
    own, config = sasl_kafka.client_config(), sasl_kafka.client_config("nobody")
    granted = rights.dataset_rights("nobody", "granted-")
    rights.grant(own, granted)
    # After the grant: a broker that knows the topic knows the right, they come in one log.
    topic = topic_of(sasl_kafka, "granted")
    produce(config, topic, [b"x"])
    rights.revoke(own, granted)
    wait_until("the refusal", lambda: refuses(config, topic))


def refuses(config: dict[str, Any], topic: str) -> bool:
    try:
        produce(config, topic, [b"x"])
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED)
    return False


def test_a_wrong_password_is_named_by_confluent_kafka_within_seconds(sasl_kafka: KafkaCluster) -> None:
    errors: list[KafkaError] = []
    config: dict[str, Any] = sasl_kafka.client_config("observe", password="wrong")
    config["error_cb"] = errors.append
    admin = AdminClient(config)

    def named() -> bool:
        admin.poll(0.1)
        return any(error.code() == KafkaError._AUTHENTICATION for error in errors)

    wait_until("the authentication error", named, seconds=10)
    with pytest.raises(KafkaException) as failed:
        admin.list_topics(timeout=2)
    assert failed.value.args[0].code() == KafkaError._TRANSPORT


def test_a_wrong_password_looks_like_a_dead_address_to_kafka_python(sasl_kafka: KafkaCluster) -> None:
    with pytest.raises(KafkaTimeoutError, match="Unable to bootstrap"):
        KafkaAdminClient(**sasl_kafka.admin_config("observe", password="wrong"), bootstrap_timeout_ms=3000)
