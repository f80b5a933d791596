from __future__ import annotations

from typing import Any

import pytest

from evenkeel.controller.places import BrokerPod, BrokerPodsFound
from evenkeel.domain.exchange import TopicReport
from tests.support.world import World, own, ready_world, report_all, settle, topic

EXISTS = TopicReport("events", exists=True, topic_id="id-1", partitions=6, replication_factor=2)


def kafka_topic(
    name: str = "events", *, managed: str = "", label: str = "strimzi", **parts: Any
) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "strimzi"}
    if label:
        meta["labels"] = {"strimzi.io/cluster": label}
    if managed:
        meta["annotations"] = {"strimzi.io/managed": managed}
    return {"apiVersion": "kafka.strimzi.io/v1beta2", "kind": "KafkaTopic", "metadata": meta, **parts}


def world_with(*items: dict[str, Any], **spec: Any) -> World:
    world = ready_world(topic("events", **spec))
    for item in items:
        world.add(item)
    settle(world)
    world.report(topics=(EXISTS,))
    settle(world)
    return world


def test_topic_of_strimzi_is_routed_and_not_changed() -> None:
    world = world_with(kafka_topic())
    assert world.condition("BalancedTopic", "events") == ("True", "ManagedElsewhere")
    assert "KafkaTopic strimzi/events" in world.message("BalancedTopic", "events")
    (told,) = world.desired().topics
    assert (told.name, told.create) == ("events", False)
    status = (world.get("BalancedTopic", "events") or {})["status"]
    assert status["managedBy"] == "strimzi/events"


def test_what_is_set_beside_strimzi_is_not_applied_and_said() -> None:
    world = world_with(kafka_topic(), partitions=9, config=[{"name": "retention.ms", "value": "1"}])
    assert world.condition("BalancedTopic", "events") == ("False", "ManagedElsewhere")
    assert world.condition("BalancedTopic", "events", "Stalled")[0] == "True"
    assert "remove partitions, config from spec" in world.message("BalancedTopic", "events")
    (told,) = world.desired().topics
    assert (told.partitions, told.config) == (None, {})


@pytest.mark.parametrize(
    "item",
    [
        kafka_topic(managed="false"),
        kafka_topic(label=""),
        kafka_topic("other"),
        kafka_topic(spec={"topicName": "another"}),
        kafka_topic(status={"topicId": "id-of-another-kafka"}),
    ],
    ids=["unmanaged", "without cluster", "other name", "other topic", "other Kafka"],
)
def test_other_kafka_topics_do_not_matter(item: dict[str, Any]) -> None:
    world = world_with(item, partitions=6)
    assert world.condition("BalancedTopic", "events") == ("True", "Ready")
    assert world.desired().topics[0].partitions == 6


def test_topic_name_goes_before_the_name_of_the_object() -> None:
    world = world_with(kafka_topic("events-of-today", spec={"topicName": "events"}))
    assert world.condition("BalancedTopic", "events") == ("True", "ManagedElsewhere")


@pytest.mark.parametrize(
    ("address", "managed"),
    [
        ("strimzi-kafka-bootstrap.strimzi.svc:9092", True),
        ("strimzi-broker-0.strimzi-kafka-brokers.strimzi.svc.cluster.local:9092", True),
        ("other-kafka-bootstrap:9092", False),
        ("10.0.0.1:9092", True),
    ],
)
def test_services_of_strimzi_tell_which_kafka_it_is(address: str, managed: bool) -> None:  # noqa: FBT001 - a table
    world = ready_world(topic("events"))
    world.change("BalancedCluster", "kafka", spec={"bootstrapServers": [address]})
    world.add(kafka_topic())
    settle(world)
    assert world.desired().topics[0].create is not managed


def test_the_same_id_is_the_same_kafka_whatever_its_address_looks_like() -> None:
    world = ready_world(topic("events"))
    world.report(topics=(EXISTS,))
    settle(world)
    world.change(
        "BalancedCluster", "kafka", spec={"bootstrapServers": ["prod-kafka-bootstrap.example.com:9092"]}
    )
    world.add(kafka_topic(status={"topicId": "id-1"}))
    settle(world)
    assert world.desired().topics[0].create is False


def test_topic_is_ours_again_when_the_kafka_topic_goes() -> None:
    world = world_with(kafka_topic(), partitions=9)
    item = world.store.get("KafkaTopic", "strimzi", "events")
    assert item is not None
    world.store.take_dirty()
    world.store.put("DELETED", item)
    assert {str(key) for key in world.store.take_dirty()} == {
        "BalancedTopic/data/events",
        "BalancedCluster/data/kafka",
    }
    settle(world)
    assert world.desired().topics[0].partitions == 9
    report_all(world)
    settle(world)
    assert world.condition("BalancedTopic", "events") == ("True", "Ready")
    assert "managedBy" not in (world.get("BalancedTopic", "events") or {})["status"]


def test_topic_that_strimzi_has_not_made_yet_is_waited_for() -> None:
    world = world_with(kafka_topic())
    world.report(topics=(TopicReport("events", exists=False),))
    settle(world)
    assert world.condition("BalancedTopic", "events") == ("False", "TopicMissing")
    assert "KafkaTopic strimzi/events" in world.message("BalancedTopic", "events")


def test_topic_of_strimzi_outlives_a_balanced_topic_that_would_delete_it() -> None:
    world = world_with(kafka_topic(), deletionPolicy="Delete")
    meta = {"deletionTimestamp": "2026-01-02T00:00:00Z", "finalizers": ["evenkeel.dev/cleanup"]}
    finalizers = world.plan("BalancedTopic", "events").patches[0].body
    assert not isinstance(finalizers, tuple)
    meta["finalizers"] = finalizers["metadata"]["finalizers"]
    world.change("BalancedTopic", "events", metadata=meta)
    world.run("BalancedCluster", "kafka")
    assert world.desired().deletions == ()
    (patch,) = world.plan("BalancedTopic", "events").patches
    assert not isinstance(patch.body, tuple)
    assert patch.body["metadata"]["finalizers"] == []


def test_brokers_of_a_cluster_are_told_with_node_and_volume() -> None:
    world = ready_world()
    spec = {
        "bootstrapServers": ["kafka:9092"],
        "brokers": {"matchLabels": {"app": "kafka"}, "idFrom": "PodIndex"},
    }
    world.change("BalancedCluster", "kafka", spec=spec)
    found = BrokerPodsFound((BrokerPod("kafka-0", "data", "node-a"),))
    world.add({**own("BrokerPods", "kafka", {}), "found": found})
    world.report(hosts={0: "kafka-0", 1: "kafka-1"})
    world.run("BalancedCluster", "kafka")
    assert [(one.broker, one.node) for one in world.desired().places] == [(0, "node-a")]
    report_all(world)
    world.report(hosts={0: "kafka-0", 1: "kafka-1"})
    world.run("BalancedCluster", "kafka")
    assert "spec.brokers is that of broker 1" in world.message("BalancedCluster", "kafka")
