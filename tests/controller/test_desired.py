from __future__ import annotations

from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.controller.desired import build_desired
from tests.support.world import cluster, dataset, ready_world, topic


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
