"""Which node each broker runs on, and which volume holds each of its log directories. Pure.

What cannot be told stays unknown: a wrong node or volume would be worse than none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenkeel.api.balanced_cluster import BalancedCluster, BrokerIdSource, BrokerPods
from evenkeel.controller.store import Object
from evenkeel.domain.exchange import BrokerPlace, Report

KIND = "BrokerPods"
"""What the store calls the pods of one cluster's brokers; no kind of the API server."""
LABEL_POD_INDEX = "apps.kubernetes.io/pod-index"
_NUMBER = re.compile(r"-([0-9]{1,6})$")
HOST_PATH = "hostPath:"
"""Begins the name of a volume that is a folder of a node; names of nodes and volumes have no capital letters."""
SAID = 10
"""Brokers that a message names."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of a container."""

    path: str
    volume: str | None
    """What holds it; equal for pods that share it. None: not known."""


@dataclass(frozen=True, slots=True)
class BrokerPod:
    """What matters of a pod that may be a broker."""

    name: str
    namespace: str
    node: str
    labels: tuple[tuple[str, str], ...] = ()
    hosts: tuple[str, ...] = ()
    """Names and addresses under which others reach it."""
    containers: tuple[tuple[Mount, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerPodsFound:
    """The newest look at a cluster's pods."""

    pods: tuple[BrokerPod, ...] = ()
    problem: str = ""
    """Why they could not be read."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where brokers run, and what is not known of it."""

    known: tuple[BrokerPlace, ...] = ()
    problem: str = ""


def find_places(cluster: BalancedCluster, found: BrokerPodsFound | None, report: Report | None) -> Places:
    """Match the brokers of a report with pods; nothing where the spec does not say how."""
    how = cluster.spec.brokers
    if how is None or found is None or report is None:
        return Places()
    if found.problem:
        return Places(problem=f"where brokers run is not known: {found.problem}")
    paths: dict[int, list[str]] = {broker: [] for broker in report.hosts}
    for volume in report.volumes:
        paths.setdefault(volume.broker, []).append(volume.path)
    owners = _match(how, found.pods, report.hosts)
    known = _without_shared_host_paths(
        _place(broker, owners[broker], paths[broker]) for broker in sorted(paths) if broker in owners
    )
    missing = sorted(paths.keys() - owners.keys())
    if not missing:
        return Places(known)
    listed = ", ".join(map(str, missing[:SAID])) + (" and others" if len(missing) > SAID else "")
    return Places(known, f"no pod, or more than one, of spec.brokers is that of broker {listed}")


def _match(how: BrokerPods, pods: Iterable[BrokerPod], hosts: Mapping[int, str]) -> dict[int, BrokerPod]:
    """Pods by broker; brokers with no pod or with several are left out, and those that share one.

    A pod is one broker: where two advertise one address (hostNetwork, or a proxy) and only one pod is there, it
    cannot be told whose it is, and giving both its volumes would count two disks as one.
    """
    claims: dict[int, list[BrokerPod]] = {}
    matched: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        for broker in _brokers_of(how, pod, hosts):
            claims.setdefault(broker, []).append(pod)
            matched[pod.namespace, pod.name] += 1
    return {
        broker: claimed[0]
        for broker, claimed in claims.items()
        if len(claimed) == 1 and matched[claimed[0].namespace, claimed[0].name] == 1
    }


def _brokers_of(how: BrokerPods, pod: BrokerPod, hosts: Mapping[int, str]) -> list[int]:
    if how.id_from is BrokerIdSource.HOST:
        return [broker for broker, host in hosts.items() if _is_called(pod, host)]
    labels = dict(pod.labels)
    if how.id_from is BrokerIdSource.LABEL:
        text = labels.get(how.id_label or "", "")
        return [int(text)] if text.isascii() and text.isdigit() else []
    number = _NUMBER.search(pod.name)
    text = labels.get(LABEL_POD_INDEX) or (number.group(1) if number else "")
    return [how.first_id + int(text)] if text.isascii() and text.isdigit() else []


def _is_called(pod: BrokerPod, host: str) -> bool:
    """Whether a broker's host is this pod: an address, or a DNS name with any end that the cluster may have."""
    name = host.rstrip(".").lower()
    return any(name == known or name.startswith(f"{known}.svc") for known in pod.hosts)


def _place(broker: int, pod: BrokerPod, paths: Iterable[str]) -> BrokerPlace:
    volumes = {path: volume for path in sorted(paths) if (volume := _volume_of(pod, path)) is not None}
    return BrokerPlace(broker, pod.node, volumes)


def _without_shared_host_paths(places: Iterable[BrokerPlace]) -> tuple[BrokerPlace, ...]:
    """The places without host paths that hold several log directories.

    A folder of a node may hold the mounts of many disks (`/mnt` with `/mnt/disk1`, `/mnt/disk2`), which come into the
    pod with it. Unknown, they are watched by the keeper, which suspects those that do share one.
    """
    found = tuple(places)
    uses = Counter(volume for place in found for volume in place.volumes.values())
    return tuple(
        replace(
            place,
            volumes={
                path: volume
                for path, volume in place.volumes.items()
                if uses[volume] == 1 or not volume.startswith(HOST_PATH)
            },
        )
        for place in found
    )


def _volume_of(pod: BrokerPod, path: str) -> str | None:
    """What holds a path; None where no container mounts it, or where containers disagree."""
    holding = [mount for mounts in pod.containers if (mount := _deepest(mounts, path)) is not None]
    volumes = {mount.volume for mount in holding}
    return volumes.pop() if len(volumes) == 1 else None


def _deepest(mounts: Sequence[Mount], path: str) -> Mount | None:
    around = [one for one in mounts if path == one.path or path.startswith(f"{one.path.rstrip('/')}/")]
    return max(around, key=lambda one: len(one.path.rstrip("/")), default=None)


def view_pod(item: Object, claims: Mapping[str, Object]) -> BrokerPod | None:
    """A pod as `find_places` needs it; None while it has no node or has ended.

    Args:
        item: the pod.
        claims: name of a PersistentVolumeClaim of its namespace -> the PersistentVolume bound to it.
    """
    meta, spec, status = item["metadata"], item["spec"], item.get("status") or {}
    node = spec.get("nodeName")
    if not node or status.get("phase") in ("Succeeded", "Failed"):
        return None
    volumes = {one["name"]: _identity(one, meta["name"], node, claims) for one in spec.get("volumes") or ()}
    return BrokerPod(
        name=meta["name"],
        namespace=meta["namespace"],
        node=node,
        labels=tuple(sorted((meta.get("labels") or {}).items())),
        hosts=_hosts(meta, spec, status),
        containers=tuple(
            tuple(
                Mount(one["mountPath"], volumes.get(one["name"]))
                for one in container.get("volumeMounts") or ()
            )
            for container in spec["containers"]
        ),
    )


def _hosts(meta: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[str, ...]:
    found = [str(one["ip"]) for one in status.get("podIPs") or ()]
    if spec.get("subdomain"):
        name = spec.get("hostname") or meta["name"]
        found.append(f"{name}.{spec['subdomain']}.{meta['namespace']}")
    if spec.get("hostNetwork"):
        # Then nobody else listens under the node's name; with a NodePort the node says nothing of the broker's.
        found += [str(spec["nodeName"]), *([str(status["hostIP"])] if status.get("hostIP") else [])]
    return tuple(sorted({one.lower() for one in found}))


def claim_name(volume: Mapping[str, Any], pod: str) -> str | None:
    """The PersistentVolumeClaim of a pod's volume; that of an ephemeral one is named after the pod."""
    if "persistentVolumeClaim" in volume:
        return str(volume["persistentVolumeClaim"]["claimName"])
    return f"{pod}-{volume['name']}" if "ephemeral" in volume else None


def _identity(volume: Mapping[str, Any], pod: str, node: str, claims: Mapping[str, Object]) -> str | None:
    """A name that is the same for whatever shares one backing store."""
    if "hostPath" in volume:
        return f"{HOST_PATH}{node}:{_plain(volume['hostPath']['path'])}"
    claim = claim_name(volume, pod)
    bound = claims.get(claim) if claim is not None else None
    if bound is None:
        return None
    spec = bound["spec"]
    for kind, prefix in (("hostPath", HOST_PATH), ("local", "")):
        if kind in spec:
            return f"{prefix}{node}:{_plain(spec[kind]['path'])}"
    if "nfs" in spec:
        return f"{spec['nfs']['server']}:{_plain(spec['nfs']['path'])}"
    return str(bound["metadata"]["name"])


def _plain(path: str) -> str:
    return path.rstrip("/") or "/"
