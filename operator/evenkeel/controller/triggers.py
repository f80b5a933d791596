"""Which of our objects a change touches. Too many is only slow; too few would be wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from evenkeel import names
from evenkeel.controller import places, strimzi
from evenkeel.controller.store import Key, Object, Store, key_of
from evenkeel.controller.strimzi import topic_name

CLUSTER = "BalancedCluster"
TOPIC = "BalancedTopic"
DATASET = "TrainingDataset"
PLAN = "RebalancePlan"
PRELOAD = Key("Preload", "", "")
"""The one key under which caches, node labels and waiting pods are planned together."""


def affected(store: Store, old: Object | None, new: Object | None) -> Iterable[Key]:
    """Keys to reconcile after `old` became `new`."""
    item = new if new is not None else old
    if item is None:
        return ()
    # One that is gone has changed in every respect, as one that is new.
    return set(_BY_KIND.get(item["kind"], _nothing)(store, old if new is not None else None, item))


def _nothing(_store: Store, _old: Object | None, _item: Object) -> Iterator[Key]:
    return iter(())


def _of_cluster(store: Store, old: Object | None, item: Object) -> Iterator[Key]:
    yield key_of(item)
    if old is None or _essence(old) != _essence(item) or _readiness(old) != _readiness(item):
        yield from (key_of(one) for kind in (TOPIC, DATASET) for one in store.all(kind))
        yield from _plans_of(store, key_of(item))


def _of_plan(store: Store, old: Object | None, item: Object) -> Iterator[Key]:
    """Itself, its cluster, and the cluster's other plans where another one may be the open one now."""
    yield key_of(item)
    yield from cluster_keys(item)
    if old is None or _essence(old) != _essence(item) or _plan_state(old) != _plan_state(item):
        for cluster in cluster_keys(item):
            yield from _plans_of(store, cluster)


def _plans_of(store: Store, cluster: Key) -> Iterator[Key]:
    for one in store.all(PLAN, cluster.namespace):
        if cluster in cluster_keys(one):
            yield key_of(one)


def _of_topic(store: Store, old: Object | None, item: Object) -> Iterator[Key]:
    yield key_of(item)
    yield from cluster_keys(item)
    if old is not None and _essence(old) == _essence(item) and cluster_keys(old) == cluster_keys(item):
        return
    name = item["spec"].get("topicName")
    yield from (key_of(one) for one in store.all(TOPIC) if one["spec"].get("topicName") == name)
    for one in store.all(DATASET, item["metadata"]["namespace"]):
        if (one["spec"].get("topicRef") or {}).get("name") == item["metadata"]["name"]:
            yield key_of(one)


def _of_kafka_topic(store: Store, old: Object | None, item: Object) -> Iterator[Key]:
    """BalancedTopics on the same topic, and what their keepers are told of it."""
    wanted = {topic_name(one) for one in (old, item) if one is not None}
    for one in store.all(TOPIC):
        if one["spec"].get("topicName") in wanted:
            yield key_of(one)
            yield from cluster_keys(one)


def _of_broker_pods(_store: Store, _old: Object | None, item: Object) -> Iterator[Key]:
    yield Key(CLUSTER, item["metadata"]["namespace"], item["metadata"]["name"])


def _of_dataset(store: Store, old: Object | None, item: Object) -> Iterator[Key]:
    yield key_of(item)
    yield from cluster_keys(item)
    yield PRELOAD
    if old is None or _essence(old) != _essence(item):
        ref = (item["spec"].get("topicRef") or {}).get("name")
        for one in store.all(DATASET, item["metadata"]["namespace"]):
            if ref and (one["spec"].get("topicRef") or {}).get("name") == ref:
                yield key_of(one)


def _of_config_map(store: Store, old: Object | None, item: Object) -> Iterator[Key]:
    label = _labels(item).get(names.LABEL_CLUSTER, "")
    namespace = item["metadata"]["namespace"]
    yield Key(CLUSTER, namespace, label)
    if item["metadata"]["name"] != names.report_name(label) or (
        old is not None and _data(old) == _data(item)
    ):
        return
    for kind in (TOPIC, DATASET, PLAN):
        for one in store.all(kind):
            if Key(CLUSTER, namespace, label) in cluster_keys(one):
                yield key_of(one)


def _of_child(store: Store, _old: Object | None, item: Object) -> Iterator[Key]:
    """Deployments, roles and service accounts of a cluster; jobs, pods and accounts of a dataset."""
    labels = _labels(item)
    namespace = item["metadata"]["namespace"]
    if names.LABEL_CLUSTER in labels:
        yield Key(CLUSTER, namespace, labels[names.LABEL_CLUSTER])
    uid = labels.get(names.LABEL_DATASET_UID)
    if uid is not None:
        yield from (key_of(one) for one in store.all(DATASET, namespace) if one["metadata"]["uid"] == uid)
    if names.LABEL_DATASET in labels or item["kind"] == "ServiceAccount":
        yield PRELOAD


def _of_node(store: Store, old: Object | None, item: Object) -> Iterator[Key]:
    if old is None or _node_essence(old) != _node_essence(item) or store.get("Node", "", _name(item)) is None:
        yield PRELOAD
        yield from preloading(store)


def _of_node_cache(store: Store, _old: Object | None, _item: Object) -> Iterator[Key]:
    yield PRELOAD
    yield from preloading(store)


def _of_namespace(store: Store, old: Object | None, item: Object) -> Iterator[Key]:
    if old is None or _labels(old) != _labels(item) or _is_going(old) != _is_going(item):
        for kind in (TOPIC, DATASET):
            yield from (key_of(one) for one in store.all(kind, _name(item)))
        # Whom a cluster admits decides what its keeper is told.
        yield from (key_of(one) for one in store.all(CLUSTER))


_BY_KIND = {
    CLUSTER: _of_cluster,
    TOPIC: _of_topic,
    PLAN: _of_plan,
    DATASET: _of_dataset,
    "NodeCache": _of_node_cache,
    strimzi.KIND: _of_kafka_topic,
    places.KIND: _of_broker_pods,
    "ConfigMap": _of_config_map,
    "Deployment": _of_child,
    "Role": _of_child,
    "RoleBinding": _of_child,
    "ServiceAccount": _of_child,
    "Job": _of_child,
    "Pod": _of_child,
    "Node": _of_node,
    "Namespace": _of_namespace,
}


def cluster_keys(item: Object) -> frozenset[Key]:
    """The cluster that an object names or was given; empty while it has none."""
    found = set()
    for part in (item.get("spec"), item.get("status")):
        ref = (part or {}).get("clusterRef")
        if ref:
            found.add(Key(CLUSTER, ref.get("namespace") or item["metadata"]["namespace"], ref["name"]))
    return frozenset(found)


def preloading(store: Store) -> Iterator[Key]:
    """Datasets that want copies on nodes."""
    for one in store.all(DATASET):
        if (one["spec"].get("preload") or {}).get("mode", "Disabled") != "Disabled":
            yield key_of(one)


def all_keys(store: Store) -> list[Key]:
    """Everything that can be reconciled."""
    return [PRELOAD, *(key_of(one) for kind in (CLUSTER, TOPIC, PLAN, DATASET) for one in store.all(kind))]


def _essence(item: Object) -> tuple[Any, ...]:
    meta = item["metadata"]
    return (meta["uid"], meta.get("generation"), meta.get("deletionTimestamp"))


def _readiness(item: Object) -> tuple[Any, ...]:
    conditions = (item.get("status") or {}).get("conditions") or ()
    return tuple((one["status"], one["reason"]) for one in conditions if one["type"] == "Ready")


def _plan_state(item: Object) -> str:
    return str((item.get("status") or {}).get("state", ""))


def _is_going(item: Object) -> bool:
    return "deletionTimestamp" in item["metadata"]


def _node_essence(item: Object) -> tuple[Any, ...]:
    allocatable = (item.get("status") or {}).get("allocatable") or {}
    return (item["metadata"]["uid"], _labels(item), allocatable.get(names.GPU_RESOURCE))


def _data(item: Object) -> tuple[Any, Any]:
    return (item.get("data"), item.get("binaryData"))


def _labels(item: Object) -> dict[str, str]:
    return item["metadata"].get("labels") or {}


def _name(item: Object) -> str:
    return str(item["metadata"]["name"])
