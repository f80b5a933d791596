from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from e2e.cluster import disks, gpus, lifecycle
from e2e.cluster.lifecycle import Cluster

MEBIBYTE = 1 << 20
SERVE = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(sys.argv[1].encode())
http.server.HTTPServer(("", 8080), Answer).serve_forever()
"""
# A Service's rules reach a node a moment after its endpoints are ready, so the first tries may be refused.
FETCH = """
import sys, time, urllib.request
for attempt in range(int(sys.argv[2])):
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=2).read().decode()); break
    except OSError as error:
        last = error; time.sleep(0.1)
else:
    raise last
"""
MEASURE = """
import os, pathlib
pathlib.Path("/disk/written").write_text("here")
total = os.statvfs("/disk")
print(total.f_frsize * total.f_blocks)
"""


def build_pod(name: str, image: str, program: str, *words: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": image, "command": ["python3", "-c", program, *words]}
    container |= spec.pop("container", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        },
    }


def build_service(name: str) -> dict[str, Any]:
    ports = [{"port": 80, "targetPort": 8080}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": ports},
    }


def read_result(cluster: Cluster, namespace: str, pod: str) -> str:
    done = "--for=jsonpath={.status.phase}=Succeeded"
    cluster.kubectl("--namespace", namespace, "wait", done, f"pod/{pod}", "--timeout=120s", timeout=150)
    return cluster.kubectl("--namespace", namespace, "logs", pod).strip()


def test_all_nodes_are_ready(cluster: Cluster) -> None:
    status = lifecycle.status(cluster.name)
    assert status.ready
    assert len(status.nodes) == 4


def test_a_second_up_finds_the_running_cluster(cluster: Cluster) -> None:
    began = cluster.kubectl("get", "namespace", "kube-system", "--output", "jsonpath={.metadata.uid}")
    again = lifecycle.up(cluster.name, workers=3, fast_failure=True)
    assert again.kubectl("get", "namespace", "kube-system", "--output", "jsonpath={.metadata.uid}") == began


def test_a_service_answers_by_name_from_another_node(
    cluster: Cluster, namespace: str, apply: Callable[..., None], python_image: str
) -> None:
    token = uuid4().hex  # the content counts: something else may answer for a Service that is broken
    apply(
        build_service("answer"),
        build_pod("answer", python_image, SERVE, token, nodeName=cluster.workers[0]),
    )
    cluster.kubectl("--namespace", namespace, "wait", "--for=condition=Ready", "pod/answer", "--timeout=100s")
    url = f"http://answer.{namespace}.svc.cluster.local/"
    apply(build_pod("ask", python_image, FETCH, url, "300", nodeName=cluster.workers[1]))
    assert read_result(cluster, namespace, "ask") == token


def test_a_network_policy_lets_only_its_peers_in(
    cluster: Cluster, namespace: str, apply: Callable[..., None], python_image: str
) -> None:
    peer = {"podSelector": {"matchLabels": {"app": "friend"}}}
    spec = {"podSelector": {"matchLabels": {"app": "guarded"}}, "ingress": [{"from": [peer]}]}
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "guard"}}
    apply({**policy, "spec": spec}, build_service("guarded"))
    apply(build_pod("guarded", python_image, SERVE, "welcome", nodeName=cluster.workers[0]))
    cluster.kubectl(
        "--namespace", namespace, "wait", "--for=condition=Ready", "pod/guarded", "--timeout=100s"
    )
    url = f"http://guarded.{namespace}.svc.cluster.local/"
    apply(build_pod("friend", python_image, FETCH, url, "300", nodeName=cluster.workers[1]))
    assert read_result(cluster, namespace, "friend") == "welcome"
    apply(build_pod("stranger", python_image, FETCH, url, "3", nodeName=cluster.workers[1]))
    failed = "--for=jsonpath={.status.phase}=Failed"
    cluster.kubectl("--namespace", namespace, "wait", failed, "pod/stranger", "--timeout=100s")


def test_a_pod_sees_a_disk_of_the_size_asked_for(
    cluster: Cluster, namespace: str, apply: Callable[..., None], python_image: str
) -> None:
    node, path = cluster.workers[1], "/var/lib/evenkeel-test-disk"
    disks.make_disk(node, "test", 64, path)
    volumes = [{"name": "disk", "hostPath": {"path": path, "type": "Directory"}}]
    mounts = {"volumeMounts": [{"name": "disk", "mountPath": "/disk"}]}
    apply(build_pod("measure", python_image, MEASURE, nodeName=node, volumes=volumes, container=mounts))
    assert 56 * MEBIBYTE < int(read_result(cluster, namespace, "measure")) < 64 * MEBIBYTE
    cluster.kubectl("--namespace", namespace, "delete", "pod", "measure", "--wait")
    disks.remove_disk(node, "test", path)
    disks.wait_detached(cluster.name)  # the kernel gives the device back a moment after the last mount of it
    assert disks.attached(cluster.name) == []


def test_gpu_capacity_can_be_asked_for_and_runs_out(
    cluster: Cluster, namespace: str, apply: Callable[..., None], python_image: str
) -> None:
    gpus.set_gpus(cluster, cluster.workers[2], 2)

    def build_user(name: str, count: int) -> dict[str, Any]:
        limits = {"resources": {"limits": {gpus.RESOURCE: str(count)}}}
        return build_pod(
            name, python_image, "print('ran')", container=limits, nodeSelector={gpus.LABEL: "true"}
        )

    apply(build_user("fits", 1), build_user("greedy", 3))
    assert read_result(cluster, namespace, "fits") == "ran"
    refused = "--for=condition=PodScheduled=False"
    cluster.kubectl("--namespace", namespace, "wait", refused, "pod/greedy", "--timeout=60s")
    said = json.loads(cluster.kubectl("--namespace", namespace, "get", "pod", "greedy", "--output", "json"))
    assert "Insufficient nvidia.com/gpu" in said["status"]["conditions"][0]["message"]
    gpus.set_gpus(cluster, cluster.workers[2], 0)
