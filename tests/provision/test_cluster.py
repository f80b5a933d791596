from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import components, disks, gpus, lifecycle
from e2e.cluster.lifecycle import Shape
from scripts.provision import steps


def build_configuration(*, workers: int = 3, fast_failure: bool = False) -> dict[str, Any]:
    return lifecycle.configuration(Shape("image", workers, fast_failure))


@pytest.mark.parametrize("workers", [1, 3])
def test_there_is_one_control_plane_and_the_workers_asked_for(workers: int) -> None:
    roles = [node["role"] for node in build_configuration(workers=workers)["nodes"]]
    assert roles == ["control-plane", *["worker"] * workers]


def test_failure_is_detected_as_kubernetes_does_unless_asked() -> None:
    assert build_configuration()["kubeadmConfigPatches"] == []
    patches = [json.loads(patch) for patch in build_configuration(fast_failure=True)["kubeadmConfigPatches"]]
    assert {patch["kind"] for patch in patches} == {"ClusterConfiguration", "KubeletConfiguration"}


@pytest.mark.parametrize(
    ("name", "workers", "complaint"),
    [
        ("", 3, "name"),
        ("Upper", 3, "name: 'Upper'"),
        ("a--b", 3, "name"),
        ("a", 0, "workers: 0"),
        ("a", 99, "workers: 99"),
    ],
)
def test_a_shape_that_kind_would_refuse_is_named(name: str, workers: int, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        lifecycle.check_shape(name, workers)


def test_nodes_are_listed_by_role_and_number() -> None:
    nodes = ["demo-worker10", "demo-worker", "demo-control-plane", "demo-worker2"]
    listed = sorted(nodes, key=lifecycle._position)
    assert listed == ["demo-control-plane", "demo-worker", "demo-worker2", "demo-worker10"]


def test_each_image_that_kubeadm_wants_has_its_programs() -> None:
    wanted = ["r/kube-proxy:v1", "r/coredns/coredns:v1", "r/pause:3", "r/etcd:3.6-0"]
    found = {component.tag: component for component in components.list_components(wanted, "v1")}
    assert set(found) == {*wanted, "evenkeel/cni:v1"}
    assert found["r/etcd:3.6-0"].programs == ("etcd", "etcdctl")
    assert found["r/pause:3"].entrypoint == "/pause"
    assert [tag for tag, component in found.items() if component.xtables] == [
        "r/kube-proxy:v1",
        "evenkeel/cni:v1",
    ]


def test_an_image_that_nothing_makes_is_named() -> None:
    with pytest.raises(steps.StepFailed, match="r/unheard-of:v1"):
        components.list_components(["r/unheard-of:v1"], "v1")


@pytest.mark.parametrize(
    ("mebibytes", "path", "complaint"), [(1, "/a", "mebibytes: 1"), (64, "a", "path: 'a'")]
)
def test_a_disk_that_cannot_be_made_is_named(mebibytes: int, path: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        disks.make_disk("node", "disk", mebibytes, path)


def test_a_negative_number_of_gpus_is_named() -> None:
    cluster = lifecycle.Cluster("demo", Path("kubeconfig"), ("demo-worker",))
    with pytest.raises(ValueError, match="count: -1"):
        gpus.set_gpus(cluster, "demo-worker", -1)
