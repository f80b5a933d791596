"""Bring Prometheus and node exporters into a kind cluster."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from e2e.cluster import loading
from e2e.cluster.lifecycle import Cluster
from e2e.prometheus import manifests
from scripts.provision import images, prometheus

FOLDER = Path(__file__).resolve().parent
READY_SECONDS = 300


def deploy(cluster: Cluster) -> str:
    """Start them, ready -> the server's address for pods.

    Raises:
        steps.StepFailed: the packages cannot be had, or pods do not become ready.
    """
    tag = _image()
    loading.load(tag, cluster.name, cluster.workers)
    objects = manifests.build_prometheus(tag, _addresses(cluster))
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    cluster.kubectl("apply", "--filename", "-", stdin=body)
    for kind, name in (("daemonset", manifests.EXPORTER), ("deployment", manifests.NAME)):
        cluster.kubectl(
            "rollout", "status", kind, name, "--namespace", manifests.NAMESPACE,
            f"--timeout={READY_SECONDS}s", timeout=READY_SECONDS + 10,
        )  # fmt: skip
    return manifests.URL


def remove(cluster: Cluster) -> None:
    """Remove all of it."""
    cluster.kubectl("delete", "namespace", manifests.NAMESPACE, "--ignore-not-found", "--wait=false")


def _image() -> str:
    programs = prometheus.ensure()
    with tempfile.TemporaryDirectory() as folder:
        for name in prometheus.PACKAGES:
            shutil.copy(programs / name, folder)
        return images.build_image(
            "prometheus",
            dockerfile=FOLDER / "Dockerfile",
            context=Path(folder),
            args={"BASE_IMAGE": images.base_image()},
        )


def _addresses(cluster: Cluster) -> list[str]:
    found = json.loads(cluster.kubectl("get", "nodes", "--output", "json"))["items"]
    return [
        address["address"]
        for node in found
        if node["metadata"]["name"] in cluster.workers
        for address in node["status"]["addresses"]
        if address["type"] == "InternalIP"
    ]
