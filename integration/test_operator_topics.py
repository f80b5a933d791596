"""BalancedTopics beside Strimzi, beside each other and on brokers in pods, on a real API server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from evenkeel.domain.exchange import BrokerPlace, RoutesReport, ScoreReport, TopicReport, VolumeReport
from evenkeel.reasons import Reason
from integration.apiserver.server import Kubectl, install_kinds
from integration.operator_process import Api, KeeperDouble, OperatorProcess, StartOperator, cluster, topic
from integration.processes import wait_until

pytestmark = pytest.mark.timeout(240)
CRD = "kafkatopics.kafka.strimzi.io"
EXISTS = TopicReport("events", exists=True, topic_id="t", partitions=6, replication_factor=2)


def definition() -> dict[str, Any]:
    """As much of Strimzi's KafkaTopic as matters here."""
    text = {"type": "string"}
    parts = {
        "spec": {"type": "object", "properties": {"topicName": text, "partitions": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"topicId": text}},
    }
    version = {
        "name": "v1beta2",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": parts}},
    }
    words = {
        "kind": "KafkaTopic",
        "listKind": "KafkaTopicList",
        "plural": "kafkatopics",
        "singular": "kafkatopic",
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD},
        "spec": {"group": "kafka.strimzi.io", "scope": "Namespaced", "names": words, "versions": [version]},
    }


class Strimzi:
    """Installs the kind and takes it away."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl

    def install(self) -> None:
        install_kinds(self._kubectl, "-", stdin=json.dumps(definition()))

    def remove(self) -> None:
        self._kubectl("delete", "crd", CRD, "--ignore-not-found", "--timeout=60s")


@pytest.fixture
def strimzi(kube_admin: Kubectl) -> Iterator[Strimzi]:
    found = Strimzi(kube_admin)
    yield found
    found.remove()


def kafka_topic(name: str) -> dict[str, Any]:
    meta = {"name": name, "labels": {"strimzi.io/cluster": "theirs"}}
    return {"apiVersion": "kafka.strimzi.io/v1beta2", "kind": "KafkaTopic", "metadata": meta, "spec": {}}


def annotate(api: Api, value: str) -> None:
    words = ["annotate", "kafkatopic", "events", "-n", api.namespace, "--overwrite"]
    api.kubectl(*words, f"strimzi.io/managed{value}")


def test_topic_of_strimzi_is_left_alone_as_long_as_strimzi_is_there(
    api: Api, start_operator: StartOperator, strimzi: Strimzi
) -> None:
    strimzi.remove()
    operator: OperatorProcess = start_operator()
    api.apply(cluster(), topic("events", "events", partitions=6))
    keeper = KeeperDouble(api, "kafka")
    keeper.start()
    keeper.await_desired("topic", lambda one: bool(one.topics) and one.topics[0].partitions == 6)
    keeper.say(topics=(EXISTS,))
    api.await_condition("btp", "events", ("True", "Ready"))
    strimzi.install()
    api.apply(kafka_topic("events"))
    told = keeper.await_desired("that it is left alone", lambda one: not one.topics[0].create)
    assert told.topics[0].partitions is None
    keeper.say()
    api.await_condition("btp", "events", ("False", "ManagedElsewhere"))
    assert ((api.get("btp", "events") or {})["status"])["managedBy"] == f"{api.namespace}/events"
    annotate(api, "=false")
    keeper.await_desired("that it is ours", lambda one: one.topics[0].partitions == 6)
    keeper.say()
    api.await_condition("btp", "events", ("True", "Ready"))
    annotate(api, "-")
    keeper.await_desired("that it is theirs", lambda one: not one.topics[0].create)
    strimzi.remove()
    keeper.await_desired("that nobody else is there", lambda one: one.topics[0].partitions == 6)
    assert operator.process.running


def test_operator_that_starts_beside_strimzi_never_tells_otherwise(
    api: Api, start_operator: StartOperator, strimzi: Strimzi
) -> None:
    strimzi.install()
    api.apply(kafka_topic("events"), cluster(), topic("events", "events", partitions=6))
    start_operator()
    keeper = KeeperDouble(api, "kafka")
    first = keeper.await_desired("a topic", lambda one: bool(one.topics))
    assert (first.topics[0].create, first.topics[0].partitions) == (False, None)


def test_younger_of_another_namespace_takes_over(
    api: Api, start_operator: StartOperator, kube_admin: Kubectl
) -> None:
    other = Api(api.kubectl, f"{api.namespace}-b")
    kube_admin("create", "namespace", other.namespace)
    try:
        start_operator()
        label = "kubernetes.io/metadata.name"
        allowed = {"from": "Selector", "selector": {"matchLabels": {label: other.namespace}}}
        api.apply(cluster(allowedNamespaces=allowed), topic("first", "events"))
        keeper = KeeperDouble(api, "kafka")
        keeper.await_desired("the first", lambda one: bool(one.topics))
        created = (api.get("btp", "first") or {})["metadata"]["creationTimestamp"]
        # Creation times have whole seconds.
        wait_until("the next second", lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()) > created)
        reference = {"name": "kafka", "namespace": api.namespace}
        other.apply(topic("second", "events", clusterRef=reference, partitions=9))
        other.await_condition("btp", "second", ("False", "Conflict"))
        assert keeper.desired().topics[0].partitions is None
        api.delete("btp", "first")
        keeper.await_desired("the second", lambda one: [each.partitions for each in one.topics] == [9])
    finally:
        kube_admin("delete", "namespace", other.namespace, "--wait=false")


def test_brokers_in_pods_are_told_with_node_and_volume(api: Api, start_operator: StartOperator) -> None:
    disk = f"disk-{api.namespace}"
    size = {"storage": "1Gi"}
    common = {"capacity": size, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain"}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": disk}, "spec": {
        **common, "storageClassName": "", "csi": {"driver": "disks.test", "volumeHandle": disk}}}  # fmt: skip
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data-kafka-0"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "storageClassName": "",
        "volumeName": disk}}  # fmt: skip
    data = {"name": "data", "persistentVolumeClaim": {"claimName": "data-kafka-0"}}
    container = {
        "name": "kafka",
        "image": "kafka:1",
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kafka-0", "labels": {"app": "kafka"}}, "spec": {
        "nodeName": "node-a", "subdomain": "brokers", "containers": [container], "volumes": [data]}}  # fmt: skip
    start_operator()
    api.apply(volume, claim, pod, cluster(brokers={"matchLabels": {"app": "kafka"}}))
    keeper = KeeperDouble(api, "kafka")
    keeper.start()
    hosts = {1: f"kafka-0.brokers.{api.namespace}.svc", 2: "elsewhere"}
    volumes = (
        VolumeReport(1, "/data/logs", 1000, 500, "node-a", 12),
        VolumeReport(2, "/data/logs", 1000, 500),
    )
    keeper.say(hosts=hosts, volumes=volumes)
    told = keeper.await_desired("the place", lambda one: bool(one.places))
    assert told.places == (BrokerPlace(1, "node-a", {"/data/logs": disk}),)
    keeper.say()
    api.await_condition("bcl", "kafka", ("True", "Measured"))
    status = (api.get("bcl", "kafka") or {})["status"]
    messages = {one["type"]: one["message"] for one in status["conditions"]}
    assert "spec.brokers is that of broker 2" in messages["Ready"]
    assert "/data/logs of broker 1 is the first to be full, in about 12 days" in messages["StorageLow"]
    assert (status["volumes"][0]["node"], status["volumes"][0]["fullInDays"]) == ("node-a", 12)
    api.kubectl("delete", "pod", "kafka-0", "-n", api.namespace, "--force", "--grace-period=0")
    api.kubectl("delete", "pv", disk, "--wait=false")


def test_routes_scores_and_drift_are_in_status_events_columns_and_metrics(
    api: Api, start_operator: StartOperator
) -> None:
    operator: OperatorProcess = start_operator()
    api.apply(cluster(), topic("events", "events"))
    keeper = KeeperDouble(api, "kafka")
    keeper.start()
    keeper.await_desired("topic", lambda one: bool(one.topics))
    drift = "config: retention.ms was changed to 5 by somebody else and set back to 9"
    routes = RoutesReport(
        True, Reason.ROUTED, "routed", 1, 7, predicted_max_fill_permille=610, optimal_max_fill_permille=600,
        uncapped_max_fill_permille=590, uniform_max_fill_permille=700,
        binding_caps=("leader share of broker 3",), steered_percent=80,
        scores=(ScoreReport("Storage", Reason.ROUTED), ScoreReport("NodeLoad", Reason.SNAPSHOT_INCOMPLETE, "no load")),
    )  # fmt: skip
    found = TopicReport("events", True, "t", 6, 2, routes, (drift,))
    keeper.say(topics=(found,))
    api.await_condition("btp", "events", ("True", "Routed"), "RoutesActive")
    status = (api.get("btp", "events") or {})["status"]
    assert status["drift"] == [drift]
    assert status["routes"]["bindingCaps"] == ["leader share of broker 3"]
    assert [one["name"] for one in status["routes"]["scores"]] == ["Storage", "NodeLoad"]
    table = api.kubectl("get", "btp", "events", "-n", api.namespace).split()
    assert {"ROUTES", "Routed", "PREDICTEDPERMILLE", "610", "OPTIMALPERMILLE", "600"} <= set(table)

    def events() -> str:
        return str(api.kubectl("get", "events", "-n", api.namespace))

    wait_until("the event of the drift", lambda: drift in events(), every=0.2)
    wait_until(
        "the event of the score", lambda: "score NodeLoad does not count: no load" in events(), every=0.2
    )
    regret = "evenkeel_routes_worst_regret_ratio"
    wait_until("metrics", lambda: operator.metrics().get(regret, 0.0) >= 0.01, every=0.5)
