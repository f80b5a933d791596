"""Pods that wait behind the gate `evenkeel.dev/warm`: which may go, and where they should prefer to go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenkeel import names
from evenkeel.api.node_cache import NodeCache
from evenkeel.api.training_dataset import PreloadMode, TrainingDataset
from evenkeel.controller.nodes import NodeView, eligible_nodes, warm_nodes
from evenkeel.controller.plan import Patch, Saying
from evenkeel.controller.store import Object
from evenkeel.kube.events import EventType, Note
from evenkeel.kube.resources import POD
from evenkeel.reasons import Reason

WARM_WEIGHT = 100
"""Weight of the preference for warm nodes, the highest there is."""


@dataclass(frozen=True, slots=True)
class GatedPod:
    """A pod that waits for us."""

    item: Object
    group: str
    """UID of its controller, or its own."""
    datasets: tuple[str, ...]
    """Names in its namespace, from its CSI volumes."""
    gpus: int


@dataclass(frozen=True, slots=True)
class GatePlan:
    """Patches that let pods go, and what to say on them."""

    patches: tuple[Patch, ...] = ()
    sayings: tuple[Saying, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a group may go, and why or why not."""

    go: bool
    reason: Reason
    message: str
    labels: tuple[str, ...] = ()
    """Warm labels that its pods should prefer."""


def view_pod(item: Object) -> GatedPod | None:
    """A pod behind our gate; None for others and for pods on their way out."""
    meta, spec = item["metadata"], item.get("spec") or {}
    gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
    if names.GATE_WARM not in gates or meta.get("deletionTimestamp"):
        return None
    owner = next(
        (one["uid"] for one in meta.get("ownerReferences") or () if one.get("controller")), meta["uid"]
    )
    return GatedPod(item, owner, datasets_of(item), _gpus(spec))


def datasets_of(item: Object) -> tuple[str, ...]:
    """Names of the datasets that a pod mounts."""
    found = set()
    for volume in (item.get("spec") or {}).get("volumes") or ():
        csi = volume.get("csi") or {}
        name = (csi.get("volumeAttributes") or {}).get(names.CSI_ATTRIBUTE_DATASET)
        if csi.get("driver") == names.CSI_DRIVER and name:
            found.add(str(name))
    return tuple(sorted(found))


def _gpus(spec: Mapping[str, Any]) -> int:
    total = 0
    for container in spec.get("containers") or ():
        wanted = (container.get("resources") or {}).get("limits") or {}
        text = str(wanted.get(names.GPU_RESOURCE, "0"))
        total += int(text) if text.isdecimal() else 0
    return total


def plan_gates(
    pods: Iterable[GatedPod],
    datasets: Sequence[TrainingDataset],
    nodes: Sequence[NodeView],
    caches: Mapping[str, NodeCache],
) -> GatePlan:
    """All waiting pods of one controller go together, or wait together."""
    groups: dict[str, list[GatedPod]] = {}
    for pod in sorted(pods, key=lambda one: str(one.item["metadata"]["name"])):
        groups.setdefault(pod.group, []).append(pod)
    patches: list[Patch] = []
    sayings: list[Saying] = []
    for group in groups.values():
        verdict = judge(group, datasets, nodes, caches)
        kind = EventType.NORMAL if verdict.go or verdict.reason is Reason.NOT_WARM else EventType.WARNING
        note = Note(verdict.reason, verdict.message, "Release" if verdict.go else "Wait", kind)
        sayings.extend(Saying(pod.item, note, once=True) for pod in group)
        if verdict.go:
            patches.extend(build_release(pod.item, verdict.labels) for pod in group)
    return GatePlan(tuple(patches), tuple(sayings))


def judge(
    group: Sequence[GatedPod],
    datasets: Sequence[TrainingDataset],
    nodes: Sequence[NodeView],
    caches: Mapping[str, NodeCache],
) -> Verdict:
    """Go when the warm nodes have room for the group, or when no further node will become warm."""
    namespace = group[0].item["metadata"]["namespace"]
    asked = sorted({name for pod in group for name in pod.datasets})
    if not asked:
        message = f"the pod has the gate {names.GATE_WARM} but no volume of driver {names.CSI_DRIVER}"
        return Verdict(go=True, reason=Reason.NOTHING_TO_DO, message=message)
    by_name = {(one.metadata.namespace, one.metadata.name): one for one in datasets}
    found = []
    for name in asked:
        dataset = by_name.get((namespace, name))
        refusal = _refuse(name, dataset, nodes)
        if refusal is not None or dataset is None:
            return refusal or Verdict(go=False, reason=Reason.DATASET_NOT_FOUND, message=name)
        found.append(dataset)
    wanted = _common([eligible_nodes(one, nodes) for one in found])
    warm = _common([warm_nodes(one, wanted, caches) for one in found])
    said = f"{len(warm)} of {len(wanted)} nodes hold {', '.join(asked)}"
    if not warm or (len(warm) < len(wanted) and _slots(warm, group) < len(group)):
        return Verdict(go=False, reason=Reason.NOT_WARM, message=f"waiting: {said}")
    labels = tuple(names.warm_label(one.metadata.uid) for one in found)
    return Verdict(go=True, reason=Reason.WARM, message=said, labels=labels)


def _refuse(name: str, dataset: TrainingDataset | None, nodes: Sequence[NodeView]) -> Verdict | None:
    """Why the pods cannot go yet, whatever the caches hold."""
    if dataset is None:
        message = f"TrainingDataset {name} does not exist in this namespace"
        return Verdict(go=False, reason=Reason.DATASET_NOT_FOUND, message=message)
    if dataset.spec.preload.mode is PreloadMode.DISABLED:
        message = f"TrainingDataset {name} has spec.preload.mode Disabled, so no node will hold it"
        return Verdict(go=False, reason=Reason.DISABLED, message=message)
    if dataset.status.revision is None:
        return Verdict(
            go=False, reason=Reason.NOT_WARM, message=f"waiting: TrainingDataset {name} is not sealed yet"
        )
    if not eligible_nodes(dataset, nodes):
        message = f"no node is there that could hold TrainingDataset {name}"
        return Verdict(go=False, reason=Reason.NO_CACHE_NODES, message=message)
    return None


def _common(lists: Sequence[Sequence[NodeView]]) -> list[NodeView]:
    first, *others = lists
    return [node for node in first if all(node in other for other in others)]


def _slots(warm: Sequence[NodeView], group: Sequence[GatedPod]) -> int:
    """Pods that the warm nodes can take: by GPUs, or one each where pods ask for none."""
    need = max(pod.gpus for pod in group)
    return sum(node.gpus // need for node in warm) if need else len(warm)


def build_release(item: Object, labels: Sequence[str]) -> Patch:
    """One patch: our gate removed, warm nodes preferred, only nodes with a cache allowed.

    The tests make the API server refuse it if the pod is another one or its gates changed meanwhile.
    """
    meta, spec = item["metadata"], item["spec"]
    gates = [gate["name"] for gate in spec["schedulingGates"]]
    index = gates.index(names.GATE_WARM)
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": meta["uid"]},
        {"op": "test", "path": f"/spec/schedulingGates/{index}/name", "value": names.GATE_WARM},
        {"op": "remove", "path": f"/spec/schedulingGates/{index}"},
    ]
    if labels:
        affinity = build_affinity(spec.get("affinity") or {}, labels)
        operations.append({"op": "add", "path": "/spec/affinity", "value": affinity})
    return Patch(POD, meta["namespace"], meta["name"], tuple(operations))


def build_affinity(present: Mapping[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    """The pod's own affinity, narrowed to cache nodes; a gated pod may only be narrowed, never widened."""
    node = dict(present.get("nodeAffinity") or {})
    required = dict(node.get("requiredDuringSchedulingIgnoredDuringExecution") or {})
    cache = {"key": names.LABEL_CACHE_NODE, "operator": "In", "values": ["true"]}
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), cache]} for term in terms
    ]
    warm = [{"key": label, "operator": "In", "values": ["true"]} for label in labels]
    preferred = [
        *(node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()),
        {"weight": WARM_WEIGHT, "preference": {"matchExpressions": warm}},
    ]
    node["requiredDuringSchedulingIgnoredDuringExecution"] = required
    node["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {**present, "nodeAffinity": node}
