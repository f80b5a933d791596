"""Evenkeel goes, and what users declared stays; it comes back by the other way of installing. Played last."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster.lifecycle import Cluster
from e2e.demo import install
from e2e.demo.run import CACHE_PATH
from e2e.scenarios import nodes
from e2e.scenarios.user import CACHE, CLUSTER, DATASET, DEMO_CLUSTER, TOPIC, Object, User
from evenkeel import names
from scripts.provision import cache as provision
from scripts.provision.steps import StepFailed

OWN_KINDS = f"{CLUSTER},{TOPIC},{DATASET}"
MADE = "deployments,jobs,configmaps,serviceaccounts,roles,rolebindings"
CHART_KINDS = "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,csidrivers"
IMAGE_VALUES = ("control", "data")
GONE_SECONDS = 120.0
"""Pods have up to half a minute to end."""
BACK_SECONDS = 240


@pytest.fixture(scope="module")
def reader(vision: User) -> Iterator[str]:
    """A pod that mounts the digits and does not end by itself."""
    (pod, *_) = vision.list("pods", "batch.kubernetes.io/job-name=digits-training")
    name = "reader"
    vision.apply(build_reader(name, pod["spec"]["containers"][0]["image"]))
    vision.wait_for("Ready", "pod", name, 120)
    yield name
    vision.delete("pod", name)


def build_reader(name: str, image: str) -> Object:
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            "python3",
            "-c",
            "import os, signal; print(os.listdir('/data'), flush=True); signal.pause()",
        ],
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    csi = {
        "driver": names.CSI_DRIVER,
        "readOnly": True,
        "volumeAttributes": {names.CSI_ATTRIBUTE_DATASET: "digits"},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {names.LABEL_DATASET: "digits"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {names.LABEL_CACHE_NODE: "true"},
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "data", "csi": csi}],
        },
    }


@pytest.fixture(scope="module")
def values(cluster: Cluster) -> dict[str, Any]:
    """What the release was installed with."""
    said = install.helm(
        cluster, "get", "values", install.RELEASE, "--namespace", install.NAMESPACE, "--output", "json"
    )
    found: dict[str, Any] = json.loads(said)
    return found


def uninstall(cluster: Cluster) -> None:
    install.helm(cluster, "uninstall", install.RELEASE, "--namespace", install.NAMESPACE)


def wait_none(cluster: Cluster, *words: str) -> None:
    """Wait until `kubectl get WORDS` finds nothing: what was deleted may take a moment to end."""
    deadline = time.monotonic() + GONE_SECONDS
    while left := cluster.kubectl("get", *words, "--output", "name"):
        assert time.monotonic() < deadline, f"after {GONE_SECONDS:.0f} s there is still {left}"
        time.sleep(0.5)


def test_it_is_refused_while_a_pod_mounts_a_dataset(
    cluster: Cluster, values: dict[str, Any], reader: str, vision: User
) -> None:
    with pytest.raises(StepFailed):
        uninstall(cluster)
    said = cluster.kubectl("--namespace", install.NAMESPACE, "logs", f"job/{install.RELEASE}-uninstall")
    assert f"{vision.namespace}/{reader}" in said
    operator = f"deployment/{install.RELEASE}-operator"
    cluster.kubectl("--namespace", install.NAMESPACE, "rollout", "status", operator, "--timeout=100s")
    assert vision.get("pod", reader)["status"]["phase"] == "Running"


def test_then_it_removes_what_it_made(cluster: Cluster, values: dict[str, Any], vision: User) -> None:
    vision.delete("pod", "reader")
    uninstall(cluster)
    selector = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
    wait_none(cluster, MADE, "--all-namespaces", "--selector", selector)


def test_nothing_of_the_chart_is_left(cluster: Cluster, values: dict[str, Any]) -> None:
    selector = "app.kubernetes.io/part-of=evenkeel"
    kinds = f"{MADE},daemonsets,services,pods,leases"
    wait_none(cluster, kinds, "--all-namespaces", "--selector", selector)
    wait_none(cluster, CHART_KINDS, "--selector", selector)
    wait_none(cluster, "leases", "--namespace", install.NAMESPACE)


def test_nodes_are_as_before(cluster: Cluster, values: dict[str, Any]) -> None:
    found = json.loads(cluster.kubectl("get", "nodes", "--output", "json"))["items"]
    labels = [
        key for node in found for key in node["metadata"]["labels"] if names.API_GROUP in key.split("/")[0]
    ]
    assert labels == []
    assert cluster.kubectl("get", CACHE, "--output", "name") == ""
    for node in cluster.workers[1:]:
        assert nodes.run(node, 'find "$1" -mindepth 1 -name "*.arrow"', CACHE_PATH) == ""


def test_definitions_and_what_users_declared_stay(
    cluster: Cluster, values: dict[str, Any], administrator: User, vision: User
) -> None:
    for kind in (CLUSTER, TOPIC, DATASET, CACHE):
        cluster.kubectl("get", "customresourcedefinition", kind)
    assert administrator.get(CLUSTER, DEMO_CLUSTER)["spec"]["bootstrapServers"]
    assert administrator.get(TOPIC, "events")["spec"]["partitions"] == 24
    assert vision.get(DATASET, "digits")["status"]["revision"]["records"] == 1797
    found = json.loads(cluster.kubectl("get", OWN_KINDS, "--all-namespaces", "--output", "json"))["items"]
    assert [item["metadata"]["name"] for item in found if item["metadata"].get("finalizers")] == []


@pytest.mark.timeout(1500, func_only=True)
def test_it_comes_back_with_definitions_by_kubectl(
    cluster: Cluster, values: dict[str, Any], administrator: User, vision: User
) -> None:
    before = vision.get(DATASET, "digits")["status"]
    cluster.kubectl("apply", "--server-side", "--filename", provision.REPOSITORY / "crds")
    reinstall(cluster, values)
    administrator.wait_reason("Measured", CLUSTER, DEMO_CLUSTER, BACK_SECONDS)
    administrator.kubectl(
        "wait", "--for=jsonpath={.status.availableReplicas}=1", "deployment/demo-keeper", "--timeout=100s"
    )
    administrator.wait_for("Ready", TOPIC, "events", BACK_SECONDS)
    for node in cluster.workers[1:]:
        vision.kubectl("wait", "--for=create", f"{CACHE}/{node}", "--timeout=100s")
        vision.wait_for("Ready", CACHE, node, BACK_SECONDS)
    vision.wait_for("Preloaded", DATASET, "digits", BACK_SECONDS)
    after = vision.get(DATASET, "digits")["status"]
    assert [after[part] for part in ("revision", "ingest")] == [
        before[part] for part in ("revision", "ingest")
    ]


def reinstall(cluster: Cluster, values: dict[str, Any]) -> None:
    images = [
        f"{values['image'][name]['repository']}:{values['image'][name]['tag']}" for name in IMAGE_VALUES
    ]
    where = ("--namespace", install.NAMESPACE)
    install.helm(
        cluster, "install", install.RELEASE, install.CHART, *where, "--set", "crds.enabled=false",
        *install.image_values(*images),
    )  # fmt: skip
    operator = f"deployment/{install.RELEASE}-operator"
    limit = f"--timeout={install.READY_SECONDS}s"
    cluster.kubectl(*where, "rollout", "status", operator, limit, timeout=install.READY_SECONDS + 10.0)
