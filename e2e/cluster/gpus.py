"""GPU capacity on nodes without GPUs: the scheduler counts it, no device is behind it."""

from __future__ import annotations

import json

from e2e.cluster.lifecycle import Cluster

RESOURCE = "nvidia.com/gpu"
LABEL = "nvidia.com/gpu.present"


def set_gpus(cluster: Cluster, node: str, count: int) -> None:
    """Let `node` have `count` GPUs to schedule, and the label that NVIDIA's feature discovery would give it.

    0 takes both away. Do not use it where a device plug-in runs: kubelet would write its own count.

    Raises:
        steps.StepFailed: there is no such node.
        ValueError: a negative count.
    """
    if count < 0:
        raise ValueError(f"count: {count}: at least 0")
    # kubelet copies capacity to allocatable within seconds; both at once spare the wait.
    amount = {RESOURCE: str(count) if count else None}
    body = json.dumps({"status": {"capacity": amount, "allocatable": amount}})
    cluster.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "--patch", body)
    label = json.dumps({"metadata": {"labels": {LABEL: "true" if count else None}}})
    cluster.kubectl("patch", "node", node, "--type=merge", "--patch", label)
