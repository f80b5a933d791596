"""What the pods that Evenkeel makes have in common: restricted security, sizes, credentials, labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenkeel import names
from evenkeel.api.meta import PodDefaults, Resources
from evenkeel.api.meta import Resource as Object_
from evenkeel.kube.resources import Resource

USER = 10001
"""Numeric user of our images."""
NAME_LIMIT = 57
"""Longest name of a Job: pods of indexed jobs add their index and stay within 63."""
_HASH_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Images:
    """Images of what the operator starts."""

    control: str
    data: str
    pull_policy: str = "IfNotPresent"


@dataclass(frozen=True, slots=True)
class Size:
    """Requests and limits of a container. There is no limit on CPU: it would slow what could use idle cores."""

    cpu: str
    memory: str
    memory_limit: str


@dataclass(frozen=True, slots=True)
class PodShape:
    """What differs between our pods."""

    component: str
    image: str
    pull_policy: str
    arguments: tuple[str, ...]
    service_account: str
    labels: Mapping[str, str]
    size: Size
    defaults: PodDefaults
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Folder below CREDENTIALS_PATH -> name of the Secret."""
    volumes: tuple[Mapping[str, Any], ...] = ()
    mounts: tuple[Mapping[str, Any], ...] = ()
    container: Mapping[str, Any] = field(default_factory=dict)
    """More fields of the container, such as probes."""
    automount: bool = False
    restart_policy: str = "Always"
    grace_seconds: int = 30


def build_pod(shape: PodShape) -> dict[str, Any]:
    """A pod template. Secrets are optional, so that the process itself can say that one is missing."""
    defaults = shape.defaults
    spec: dict[str, Any] = {
        "serviceAccountName": shape.service_account,
        "automountServiceAccountToken": shape.automount,
        "enableServiceLinks": False,
        "restartPolicy": shape.restart_policy,
        "terminationGracePeriodSeconds": shape.grace_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_build_container(shape)],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            *_secret_volumes(shape),
            *(dict(one) for one in shape.volumes),
        ],
    }
    if defaults.node_selector:
        spec["nodeSelector"] = dict(defaults.node_selector)
    if defaults.tolerations:
        spec["tolerations"] = [toleration.dump() for toleration in defaults.tolerations]
    return {"metadata": {"labels": dict(shape.labels)}, "spec": spec}


def _build_container(shape: PodShape) -> dict[str, Any]:
    return {
        "name": shape.component,
        "image": shape.image,
        "imagePullPolicy": shape.pull_policy,
        "args": list(shape.arguments),
        "env": [{"name": name, "value": value} for name, value in sorted(shape.environment.items())],
        "resources": build_resources(shape.size, shape.defaults.resources),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
            *(
                {
                    "name": f"credentials-{use}",
                    "mountPath": f"{names.CREDENTIALS_PATH}/{use}",
                    "readOnly": True,
                }
                for use in shape.secrets
            ),
            *(dict(one) for one in shape.mounts),
        ],
        **shape.container,
    }


def _secret_volumes(shape: PodShape) -> list[dict[str, Any]]:
    return [
        {"name": f"credentials-{use}", "secret": {"secretName": secret, "optional": True}}
        for use, secret in shape.secrets.items()
    ]


def build_resources(size: Size, wanted: Resources | None) -> dict[str, Any]:
    """Requests and limits: ours, where the resource says nothing else."""
    requests = {"cpu": size.cpu, "memory": size.memory}
    limits = {"memory": size.memory_limit}
    if wanted is not None:
        requests.update(wanted.requests.dump() if wanted.requests else {})
        limits.update(wanted.limits.dump() if wanted.limits else {})
    return {"requests": requests, "limits": limits}


def build_labels(component: str, instance: str, **more: str) -> dict[str, str]:
    """Labels of everything that we make."""
    return {
        names.LABEL_NAME: "evenkeel",
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_COMPONENT: component,
        names.LABEL_INSTANCE: instance,
        **more,
    }


def build_meta(owner: Object_, kind: Resource, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Metadata of a child of `owner`, which the garbage collector removes with it."""
    meta = owner.metadata
    reference = {**kind.header(), "name": meta.name, "uid": meta.uid, "controller": True}
    return {"name": name, "namespace": meta.namespace, "labels": dict(labels), "ownerReferences": [reference]}


def child_name(base: str, suffix: str, limit: int = NAME_LIMIT) -> str:
    """`base-suffix`; a base that would make it too long is cut, with a digest that keeps names apart."""
    whole = f"{base}-{suffix}"
    if len(whole) <= limit:
        return whole
    digest = hashlib.sha256(base.encode()).hexdigest()[:_HASH_DIGITS]
    room = limit - len(suffix) - _HASH_DIGITS - 2
    return f"{base[:room].rstrip('-')}-{digest}-{suffix}"
