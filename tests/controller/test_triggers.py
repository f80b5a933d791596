from __future__ import annotations

from typing import Any

import pytest

from evenkeel import names
from evenkeel.controller import triggers
from evenkeel.controller.store import Key, Store
from tests.support.plans import written
from tests.support.world import cluster, dataset, gated_pod, namespace_object, node, topic

CLUSTER = Key("BalancedCluster", "data", "kafka")
EVENTS = Key("BalancedTopic", "data", "events")
DIGITS = Key("TrainingDataset", "data", "digits")


def whole(item: dict[str, Any], version: int = 1, **meta: Any) -> dict[str, Any]:
    base = {"uid": f"uid-{item['metadata']['name']}", "generation": 1, "resourceVersion": str(version)}
    return {**item, "metadata": {**base, **item["metadata"], **meta}}


@pytest.fixture
def store() -> Store:
    """A cluster, a topic and a dataset that belong to it; clean."""
    store = Store(triggers.affected)
    given = {"clusterRef": {"name": "kafka", "namespace": "data"}}
    store.put("ADDED", whole(namespace_object("data")))
    store.put("ADDED", whole(cluster()))
    store.put("ADDED", {**whole(topic("events")), "status": given})
    store.put("ADDED", {**whole(dataset(preload={"mode": "Required"})), "status": given})
    store.take_dirty()
    return store


def child(kind: str, name: str, **labels: str) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": "data", "labels": labels}}


def test_new_cluster_concerns_all_that_may_use_it(store: Store) -> None:
    store.put("ADDED", whole(cluster("other")))
    assert set(store.take_dirty()) == {Key("BalancedCluster", "data", "other"), EVENTS, DIGITS}


def test_status_of_a_cluster_concerns_itself(store: Store) -> None:
    store.put("MODIFIED", {**whole(cluster(), 2), "status": {"brokers": 3}})
    assert store.take_dirty() == [CLUSTER]


def test_report_concerns_the_cluster_and_what_is_in_it(store: Store) -> None:
    label = {names.LABEL_CLUSTER: "kafka"}
    store.put("ADDED", {**whole(child("ConfigMap", "kafka-report", **label)), "data": {"report": "{}"}})
    assert set(store.take_dirty()) == {CLUSTER, EVENTS, DIGITS}
    store.put("MODIFIED", {**whole(child("ConfigMap", "kafka-report", **label), 2), "data": {"report": "{}"}})
    assert store.take_dirty() == [CLUSTER]
    store.put("ADDED", {**whole(child("ConfigMap", "kafka-desired", **label)), "data": {"desired": "{}"}})
    assert store.take_dirty() == [CLUSTER]


def test_spec_of_a_topic_concerns_its_cluster_and_rivals(store: Store) -> None:
    store.put("ADDED", whole(topic("second")))
    assert set(store.take_dirty()) == {Key("BalancedTopic", "data", "second"), EVENTS}
    given = {"status": {"clusterRef": {"name": "kafka"}}}
    store.put("MODIFIED", {**whole(topic("events"), 3, generation=2), **given})
    assert CLUSTER in store.take_dirty()


def test_jobs_and_pods_concern_their_dataset(store: Store) -> None:
    label = {names.LABEL_DATASET_UID: "uid-digits"}
    for kind in ("Job", "Pod"):
        store.put("ADDED", whole(child(kind, "x", **label)))
        assert store.take_dirty() == [DIGITS]
    store.put("ADDED", whole(child("ServiceAccount", "digits-loader", **label)))
    assert set(store.take_dirty()) == {DIGITS, triggers.PRELOAD}


def test_keeper_objects_concern_their_cluster(store: Store) -> None:
    store.put("ADDED", whole(child("Deployment", "kafka-keeper", **{names.LABEL_CLUSTER: "kafka"})))
    assert store.take_dirty() == [CLUSTER]


def test_heartbeat_of_a_node_concerns_nobody(store: Store) -> None:
    store.put("ADDED", whole(node("a", gpus=1)))
    assert set(store.take_dirty()) == {triggers.PRELOAD, DIGITS}
    store.put("MODIFIED", whole(node("a", gpus=1), 2))
    assert store.take_dirty() == []
    store.put("MODIFIED", whole(node("a", gpus=2), 3))
    assert triggers.PRELOAD in store.take_dirty()
    store.put("DELETED", whole(node("a", gpus=2), 4))
    assert triggers.PRELOAD in store.take_dirty()


def test_caches_and_waiting_pods_concern_preloading(store: Store) -> None:
    cache = {"kind": "NodeCache", "metadata": {"name": "a"}}
    store.put("ADDED", whole(cache))
    assert set(store.take_dirty()) == {triggers.PRELOAD, DIGITS}
    store.put("ADDED", whole(gated_pod("rank", "digits")))
    assert store.take_dirty() == [triggers.PRELOAD]


def test_labels_of_a_namespace_concern_what_is_in_it(store: Store) -> None:
    store.put("MODIFIED", whole(namespace_object("data", team="vision"), 2))
    assert set(store.take_dirty()) == {EVENTS, DIGITS, CLUSTER}
    store.put("MODIFIED", whole(namespace_object("data", team="vision"), 3))
    assert store.take_dirty() == []


def test_all_keys(store: Store) -> None:
    assert set(triggers.all_keys(store)) == {triggers.PRELOAD, CLUSTER, EVENTS, DIGITS}


def test_deleted_cluster_concerns_all_that_used_it(store: Store) -> None:
    store.put("DELETED", whole(cluster(), 2))
    assert set(store.take_dirty()) == {CLUSTER, EVENTS, DIGITS}


def test_deleted_dataset_concerns_the_next_one_on_its_topic(store: Store) -> None:
    first, second = (dataset(name, topicRef={"name": "events"}) for name in ("first", "second"))
    store.put("ADDED", whole(first))
    store.put("ADDED", whole(second))
    store.take_dirty()
    store.put("DELETED", whole(first, 2))
    assert Key("TrainingDataset", "data", "second") in store.take_dirty()


def plan(name: str, cluster: str = "kafka") -> dict[str, Any]:
    return written(name, cluster=cluster)


def test_plan_concerns_its_cluster_and_its_rivals(store: Store) -> None:
    first, second = Key("RebalancePlan", "data", "first"), Key("RebalancePlan", "data", "second")
    store.put("ADDED", whole(plan("first")))
    assert set(store.take_dirty()) == {first, CLUSTER}
    store.put("ADDED", whole(plan("second")))
    assert set(store.take_dirty()) == {first, second, CLUSTER}
    store.put("MODIFIED", {**whole(plan("first"), 2), "status": {"percent": 7}})
    assert set(store.take_dirty()) == {first, CLUSTER}
    store.put("MODIFIED", {**whole(plan("first"), 3), "status": {"state": "Finished"}})
    assert set(store.take_dirty()) == {first, second, CLUSTER}
    store.put("DELETED", whole(plan("first"), 4))
    assert set(store.take_dirty()) == {first, second, CLUSTER}


def test_report_and_spec_of_a_cluster_concern_its_plans(store: Store) -> None:
    store.put("ADDED", whole(plan("first")))
    store.put("ADDED", whole(plan("elsewhere", "other")))
    store.take_dirty()
    label = {names.LABEL_CLUSTER: "kafka"}
    store.put("ADDED", {**whole(child("ConfigMap", "kafka-report", **label)), "data": {"report": "{}"}})
    assert Key("RebalancePlan", "data", "first") in (found := store.take_dirty())
    assert Key("RebalancePlan", "data", "elsewhere") not in found
    store.put("MODIFIED", whole(cluster(state="Paused"), 2, generation=2))
    assert Key("RebalancePlan", "data", "first") in store.take_dirty()
