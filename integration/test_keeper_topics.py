"""Topics that others change too, on real Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from evenkeel.domain.exchange import DesiredTopic
from evenkeel.reasons import Reason
from integration.kafka.clients import create_topic, unique
from integration.kafka.cluster import KafkaCluster
from integration.keeper import Keeper, build_desired, plain
from integration.processes import wait_until


@pytest.fixture(scope="module")
def keeper(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keeper]:
    with Keeper(tmp_path_factory.mktemp("keeper"), build_desired(plain(kafka))) as started:
        started.wait_claim()
        yield started


class Topic:
    """A topic of four partitions as somebody else made it, and what they do to it."""

    def __init__(self, kafka: KafkaCluster) -> None:
        self._admin = AdminClient(kafka.client_config())
        self.name = create_topic(kafka.client_config(), unique("foreign"), [[1, 2], [2, 3], [3, 1], [1, 3]])

    def get(self, key: str) -> str:
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.name)
        found = self._admin.describe_configs([resource])[resource].result(30)
        return str(found[key].value)

    def set(self, key: str, value: str) -> None:
        change = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.name, incremental_configs=[change])
        self._admin.incremental_alter_configs([resource])[resource].result(30)

    def await_value(self, key: str, value: str) -> None:
        wait_until(f"{key} {value}", lambda: self.get(key) == value, every=0.2)


@pytest.fixture
def topic(kafka: KafkaCluster) -> Topic:
    return Topic(kafka)


def told(keeper: Keeper, text: str) -> str:
    """The first sentence of drift that holds `text`."""
    found = keeper.wait(f"drift {text}", lambda one: any(text in line for line in one.topics[0].drift))
    return next(line for line in found.topics[0].drift if text in line)


def test_an_adopted_topic_is_changed_only_where_a_field_is_set(keeper: Keeper, topic: Topic) -> None:
    topic.set("retention.ms", "123456")
    keeper.want(topics=(DesiredTopic("o", topic.name),))
    report = keeper.wait("the topic", lambda one: one.topics[0].exists)
    assert (report.topics[0].partitions, report.topics[0].replication_factor) == (4, 2)
    assert report.topics[0].drift == ()
    assert topic.get("retention.ms") == "123456"
    keeper.want(topics=(DesiredTopic("o", topic.name, config={"segment.bytes": "1048576"}),))
    topic.await_value("segment.bytes", "1048576")
    assert topic.get("retention.ms") == "123456"
    assert set(report.hosts) == {1, 2, 3}


def test_a_setting_that_kafka_refuses_is_named_in_its_own_words(keeper: Keeper, topic: Topic) -> None:
    config = {"retention.ms": "soon", "segment.bytes": "2097152", "no.such.setting": "1"}
    keeper.want(topics=(DesiredTopic("o", topic.name, config=config),))
    fault = keeper.wait_fault(Reason.INVALID_SPEC, told="retention.ms")
    assert fault.subject == f"topic/{topic.name}"
    assert "Invalid value soon for configuration retention.ms" in fault.message
    assert "no.such.setting" in keeper.wait_fault(Reason.INVALID_SPEC, told="no.such.setting").message
    topic.await_value("segment.bytes", "2097152")
    assert "soon is declared" in told(keeper, "retention.ms")


def test_others_changes_are_set_back_and_told_until_it_is_a_fight(keeper: Keeper, topic: Topic) -> None:
    keeper.want(topics=(DesiredTopic("o", topic.name, config={"retention.ms": "3600000"}),))
    topic.await_value("retention.ms", "3600000")
    keeper.wait("agreement", lambda one: one.measured)
    for number, often in enumerate(("set back to 3600000", "2 times", "3 times"), 1):
        topic.set("retention.ms", str(number * 100_000))
        topic.await_value("retention.ms", "3600000")
        assert f"changed to {number * 100_000} by somebody else" in told(keeper, often)
    topic.set("retention.ms", "400000")
    fault = keeper.wait_fault(Reason.TOPIC_DRIFT)
    assert "is 400000, 3600000 is declared: somebody else changed it 4 times" in fault.message
    assert topic.get("retention.ms") == "400000"
    topic.set("retention.ms", "3600000")
    keeper.wait("peace", lambda one: not one.faults)
