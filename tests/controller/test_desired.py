from __future__ import annotations

from evenkeel import names
from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.controller.desired import build_desired
from tests.support.world import World, cluster, dataset, namespace_object, ready_world, topic


def test_same_facts_give_the_same_version_whatever_the_order() -> None:
    entries = [{"name": "retention.ms", "value": "1"}, {"name": "cleanup.policy", "value": "delete"}]
    first = ready_world(topic("b", "b"), topic("a", "a", config=entries), dataset("x"), dataset("y"))
    second = ready_world(dataset("y"), dataset("x"), topic("a", "a", config=entries[::-1]), topic("b", "b"))
    assert first.desired() == second.desired()
    assert [one.name for one in first.desired().topics] == ["a", "b"]


def test_every_setting_of_the_spec_reaches_the_keeper() -> None:
    spec = {"measure": {"intervalSeconds": 30}, "balance": {"maxFillPercent": 70}, "state": "Paused"}
    desired = build_desired(BalancedCluster.model_validate(cluster(**spec)), [], [], "i")
    assert desired.paused
    assert (desired.policy.interval_seconds, desired.policy.max_fill_percent) == (30, 70)
    assert desired.owner.name == "data/kafka"
    assert desired.version == desired.sealed().version


def test_what_is_absent_is_not_deleted() -> None:
    world = ready_world(topic("events"))
    item = world.get("BalancedTopic", "events")
    assert item is not None
    world.store.put("DELETED", item)
    world.run("BalancedCluster", "kafka")
    assert (world.desired().topics, world.desired().deletions) == ((), ())


LATER = "2026-01-01T00:00:09Z"
GOING = {"deletionTimestamp": "2026-01-02T00:00:00Z", "finalizers": [names.FINALIZER]}


def test_namespace_that_is_no_longer_admitted_has_no_say() -> None:
    world = World()
    for item in (namespace_object("data"), namespace_object("guests")):
        world.add(item)
    world.add(cluster(allowedNamespaces={"from": "All"}))
    world.add(topic("events", namespace="guests"))
    world.run("BalancedTopic", "events", "guests")
    world.run("BalancedCluster", "kafka")
    assert [one.name for one in world.desired().topics] == ["events"]
    world.change("BalancedCluster", "kafka", spec={"bootstrapServers": ["kafka:9092"]})
    world.run("BalancedCluster", "kafka")
    assert world.desired().topics == ()


def test_topic_that_another_resource_declares_is_handed_over_not_deleted() -> None:
    second = topic("second", "events")
    second["metadata"]["creationTimestamp"] = LATER
    world = ready_world(topic("first", "events", deletionPolicy="Delete"))
    world.add(second)
    world.run("BalancedTopic", "second")
    world.change("BalancedTopic", "first", metadata=GOING)
    world.run("BalancedCluster", "kafka")
    assert world.desired().deletions == ()
    assert [one.owner_uid for one in world.desired().topics] == ["uid-second"]
    (patch,) = world.plan("BalancedTopic", "first").patches
    assert not isinstance(patch.body, tuple)
    assert patch.body["metadata"]["finalizers"] == []


def test_dataset_keeps_its_data_topic_when_the_resource_of_the_topic_goes() -> None:
    world = ready_world(topic("events", deletionPolicy="Delete"), dataset("x", topicRef={"name": "events"}))
    assert [one.data_topic for one in world.desired().datasets] == ["events"]
    world.change("BalancedTopic", "events", metadata=GOING)
    world.run("BalancedCluster", "kafka")
    assert [one.data_topic for one in world.desired().datasets] == ["events"]
    item = world.get("BalancedTopic", "events")
    assert item is not None
    world.store.put("DELETED", item)
    world.run("TrainingDataset", "x")
    world.run("BalancedCluster", "kafka")
    assert [one.data_topic for one in world.desired().datasets] == ["events"]


def test_dataset_without_the_topic_that_it_names_gets_no_topics() -> None:
    world = ready_world(dataset("x", topicRef={"name": "absent"}))
    assert world.desired().datasets == ()
    assert "topics" not in (world.get("TrainingDataset", "x") or {})["status"]


def test_topic_has_one_dataset() -> None:
    second = dataset("second", topicRef={"name": "events"})
    second["metadata"]["creationTimestamp"] = LATER
    world = ready_world(topic("events"), dataset("first", topicRef={"name": "events"}), second)
    assert [one.uid for one in world.desired().datasets] == ["uid-first"]
