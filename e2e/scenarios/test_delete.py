"""Whatever is deleted, and whenever: no workload stays behind, and nothing hangs."""

from __future__ import annotations

import json

import pytest

from e2e.demo.run import CACHE_PATH
from e2e.scenarios import ingests, kafka, nodes
from e2e.scenarios.conftest import Demo
from e2e.scenarios.user import CACHE, CLUSTER, DATASET, TOPIC, User, build_cluster, build_dataset, build_topic

WORKLOADS = "jobs,pods,configmaps,serviceaccounts,deployments,roles,rolebindings"
OURS = "app.kubernetes.io/managed-by=evenkeel"
GONE_SECONDS = 120
"""Pods end by themselves; it ends the wait for what hangs."""


@pytest.mark.timeout(700, func_only=True)
def test_a_dataset_in_the_middle_of_its_ingest(demo: Demo, vision: User) -> None:
    ingest = {"parallelism": 2, "messageBytes": "16Ki", "onBadRecord": "Quarantine"}
    ingests.begin(demo, vision, build_dataset("dropped", "clipart", ingest=ingest), share=0.05)
    found = vision.get(DATASET, "dropped")
    selector = f"evenkeel.dev/dataset-uid={found['metadata']['uid']}"
    assert vision.list("pods", selector)
    vision.delete(DATASET, "dropped")
    vision.wait_gone(WORKLOADS, selector, GONE_SECONDS)
    kafka.delete_topics(demo.host_bootstrap, list(found["status"]["topics"].values()))


@pytest.mark.timeout(700, func_only=True)
def test_a_dataset_on_its_way_to_the_nodes(demo: Demo, vision: User) -> None:
    ingest = {"parallelism": 1}
    vision.apply(build_dataset("unloaded", "digits", ingest=ingest, preload={"mode": "Preferred"}))
    vision.wait_for("Ready", DATASET, "unloaded", 240)
    found = vision.get(DATASET, "unloaded")
    uid = found["metadata"]["uid"]
    vision.delete(DATASET, "unloaded")
    vision.wait_gone(WORKLOADS, f"evenkeel.dev/dataset-uid={uid}", GONE_SECONDS)
    for cache in vision.list(CACHE):
        name = cache["metadata"]["name"]
        unwanted = f"jsonpath={{.spec.wanted[*].datasetUID}}={uids_without(vision, uid)}"
        vision.kubectl("wait", f"--for={unwanted}", f"{CACHE}/{name}", "--timeout=60s")
        # The cache removes what nobody wants and nobody has mounted.
        nodes.run(
            name,
            'for try in {1..600}; do [ -e "$1" ] || exit 0; sleep 0.1; done; exit 1',
            f"{CACHE_PATH}/{uid}",
        )
    kafka.delete_topics(demo.host_bootstrap, list(found["status"]["topics"].values()))


def uids_without(user: User, uid: str) -> str:
    """UIDs of the preloaded datasets that are left, as kubectl prints a list."""
    left = json.loads(user.kubectl("get", DATASET, "--all-namespaces", "--output", "json"))["items"]
    preloaded = [one for one in left if one["spec"].get("preload", {}).get("mode", "Disabled") != "Disabled"]
    return " ".join(sorted(one["metadata"]["uid"] for one in preloaded if one["metadata"]["uid"] != uid))


def test_topics_stay_or_go_as_declared(demo: Demo, newcomer: User) -> None:
    newcomer.apply(
        build_topic("kept", partitions=6, replicationFactor=2),
        build_topic("taken", partitions=6, replicationFactor=2, deletionPolicy="Delete"),
    )
    for name in ("kept", "taken"):
        newcomer.wait_for("Ready", TOPIC, name, 120)
    newcomer.delete(TOPIC, "kept")
    newcomer.delete(TOPIC, "taken")
    kafka.wait_topic_gone(demo.host_bootstrap, "taken")
    assert "kept" in kafka.list_topics(demo.host_bootstrap)
    kafka.delete_topics(demo.host_bootstrap, ["kept"])


def test_a_cluster_with_its_keeper(newcomer: User) -> None:
    newcomer.apply(build_cluster("brief", ["nowhere.kafka.svc.cluster.local:9092"]))
    newcomer.kubectl("wait", "--for=create", "deployment/brief-keeper", "--timeout=60s")
    newcomer.delete(CLUSTER, "brief")
    newcomer.wait_gone(WORKLOADS, f"{OURS},evenkeel.dev/cluster=brief", GONE_SECONDS)


def test_a_whole_namespace_with_a_cluster_that_cannot_be_reached(demo: Demo) -> None:
    # The keeper that should delete the topic goes away at the same moment, and never reached Kafka.
    user = User(demo.cluster, "team-brief")
    demo.cluster.make_namespace(user.namespace)
    where = {"clusterRef": {"name": "brief"}}
    user.apply(
        build_cluster("brief", ["nowhere.kafka.svc.cluster.local:9092"]),
        build_topic("brief", **where, partitions=6, replicationFactor=2, deletionPolicy="Delete"),
        build_dataset("brief", "absent", **where),
        build_dataset("waiting", "absent"),
    )
    # Kubernetes waits for pods before it deletes anything else, and the pods of an index wait for others.
    user.wait_reason("SourceMissing", DATASET, "waiting", 120)
    user.kubectl("wait", "--for=jsonpath={.metadata.finalizers}", f"{TOPIC}/brief", "--timeout=60s")
    words = ("delete", "namespace", user.namespace, "--ignore-not-found", "--wait", "--timeout=180s")
    demo.cluster.kubectl(*words, timeout=210)


def test_a_dataset_whose_cluster_was_deleted_first(demo: Demo, newcomer: User) -> None:
    name = "orphan"
    newcomer.apply(build_cluster(name, ["nowhere.kafka.svc.cluster.local:9092"]))
    newcomer.apply(build_dataset(name, "absent", clusterRef={"name": name}))
    newcomer.wait_reason("ClusterNotReady", DATASET, name, 120)
    newcomer.delete(CLUSTER, name)
    newcomer.wait_reason("ClusterNotFound", DATASET, name, 60)
    newcomer.delete(DATASET, name)
    newcomer.wait_gone(WORKLOADS, OURS, GONE_SECONDS)
