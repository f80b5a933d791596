"""The source volumes: folders of this machine copied into one node and offered as claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from e2e.cluster.lifecycle import Cluster
from scripts.provision import docker, steps

FOLDER = "/var/lib/evenkeel-sources"
Object = dict[str, Any]


def offer(cluster: Cluster, node: str, namespace: str, folders: dict[str, Path]) -> None:
    """Copy each folder into `node` and make a claim of its name in `namespace` that is bound to it.

    Raises:
        steps.StepFailed: docker or the API server refuses.
    """
    with steps.step(f"sources {', '.join(folders)} into {node}"):
        objects: list[Object] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}]
        for name, folder in folders.items():
            path = f"{FOLDER}/{name}"
            docker.call("exec", node, "mkdir", "-p", path)
            docker.call("cp", "--quiet", f"{folder}/.", f"{node}:{path}")
            # The producers are not root.
            docker.call("exec", node, "chmod", "-R", "a+rX", path)
            objects += build_volume(name, namespace, node, path)
        body = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        cluster.kubectl("apply", "--server-side", "--filename", "-", stdin=body)


def build_volume(name: str, namespace: str, node: str, path: str) -> list[Object]:
    """A local volume and the claim bound to it. Pure."""
    claim = {"namespace": namespace, "name": name}
    size, modes = "1Gi", ["ReadOnlyMany"]
    matches = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    volume = {
        "capacity": {"storage": size},
        "accessModes": modes,
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "local": {"path": path},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [matches]}]}},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim},
    }
    request = {
        "accessModes": modes,
        "storageClassName": "",
        "volumeName": f"source-{name}",
        "resources": {"requests": {"storage": size}},
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"source-{name}"},
            "spec": volume,
        },
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim, "spec": request},
    ]
