"""The objects of a keeper: two ConfigMaps, an account that may touch just these, and a Deployment."""

from __future__ import annotations

from typing import Any

from evenkeel import names
from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.controller.desired import config_map_data
from evenkeel.controller.plan import Child
from evenkeel.controller.pods import Images, PodShape, Size, build_labels, build_meta, build_pod
from evenkeel.domain import codec, envelope
from evenkeel.domain.exchange import Desired
from evenkeel.kube import resources
from evenkeel.kube.resources import BALANCED_CLUSTER, Resource

COMPONENT = "keeper"
SIZE = Size(cpu="50m", memory="160Mi", memory_limit="768Mi")
GRACE_SECONDS = 30
"""For the keeper to give its claim back."""


def build_keeper(cluster: BalancedCluster, desired: Desired, images: Images) -> tuple[Child, ...]:
    """Everything in the order in which it has to exist.

    Raises:
        InputError: `desired` does not fit into a ConfigMap.
    """
    name = cluster.metadata.name
    packed = config_map_data(envelope.pack(names.DESIRED_KEY, codec.dumps(desired)))
    bodies: list[tuple[Resource, str, dict[str, Any]]] = [
        (resources.CONFIG_MAP, names.desired_name(name), packed),
        (resources.CONFIG_MAP, names.report_name(name), {}),
        (resources.SERVICE_ACCOUNT, names.keeper_name(name), {"automountServiceAccountToken": False}),
        (resources.ROLE, names.keeper_name(name), {"rules": [_rule(name)]}),
        (resources.ROLE_BINDING, names.keeper_name(name), _binding(cluster)),
        (resources.DEPLOYMENT, names.keeper_name(name), {"spec": _deployment(cluster, images)}),
    ]
    return tuple(
        Child(resource, {"metadata": build_meta(cluster, BALANCED_CLUSTER, child, _labels(cluster)), **body})
        for resource, child, body in bodies
    )


def _labels(cluster: BalancedCluster) -> dict[str, str]:
    name = cluster.metadata.name
    return build_labels(COMPONENT, name, **{names.LABEL_CLUSTER: name})


def _rule(name: str) -> dict[str, Any]:
    return {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [names.desired_name(name), names.report_name(name)],
        "verbs": ["get", "list", "watch", "patch"],
    }


def _binding(cluster: BalancedCluster) -> dict[str, Any]:
    account = names.keeper_name(cluster.metadata.name)
    return {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": cluster.metadata.namespace}],
    }


def _deployment(cluster: BalancedCluster, images: Images) -> dict[str, Any]:
    chosen = {names.LABEL_CLUSTER: cluster.metadata.name, names.LABEL_COMPONENT: COMPONENT}
    return {
        "replicas": 1,
        "revisionHistoryLimit": 2,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": chosen},
        "template": build_pod(_shape(cluster, images)),
    }


def _shape(cluster: BalancedCluster, images: Images) -> PodShape:
    name = cluster.metadata.name
    credentials = cluster.spec.credentials
    secrets = {}
    if credentials is not None:
        secrets = {"observe": credentials.observe.secret_name, "move": credentials.move.secret_name}
    return PodShape(
        component=COMPONENT,
        image=images.control,
        pull_policy=images.pull_policy,
        arguments=(
            "keeper",
            "--kubernetes",
            f"--namespace={cluster.metadata.namespace}",
            f"--desired={names.desired_name(name)}",
            f"--report={names.report_name(name)}",
        ),
        service_account=names.keeper_name(name),
        labels=_labels(cluster),
        size=SIZE,
        defaults=cluster.spec.pod_defaults,
        secrets=secrets,
        container=_probes(),
        automount=True,
        grace_seconds=GRACE_SECONDS,
    )


def _probes() -> dict[str, Any]:
    def probe(path: str, period: int) -> dict[str, Any]:
        return {"httpGet": {"path": path, "port": "metrics"}, "periodSeconds": period, "timeoutSeconds": 3}

    return {
        "ports": [{"name": "metrics", "containerPort": names.METRICS_PORT, "protocol": "TCP"}],
        "livenessProbe": {**probe("/healthz", 20), "failureThreshold": 6},
        "readinessProbe": probe("/readyz", 5),
    }
