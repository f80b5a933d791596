"""All caches together: which nodes run one, what each should hold, which carry a warm label. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenkeel import names
from evenkeel.api.node_cache import NodeCache, Wanted
from evenkeel.api.training_dataset import TrainingDataset
from evenkeel.controller.gates import GatedPod, plan_gates
from evenkeel.controller.nodes import NodeView, eligible_nodes, fits, warm_nodes
from evenkeel.controller.plan import Child, Patch, Plan
from evenkeel.domain.nodes import WantedRevision
from evenkeel.kube import resources
from evenkeel.kube.resources import NODE, NODE_CACHE

WANTED_LIMIT = 256
"""Revisions that one NodeCache lists."""


@dataclass(frozen=True, slots=True)
class PreloadInput:
    """Everything that caches, node labels and waiting pods depend on."""

    nodes: tuple[NodeView, ...]
    caches: Mapping[str, NodeCache]
    datasets: tuple[TrainingDataset, ...]
    """All, the older first."""
    loaders: Mapping[str, str]
    """Dataset UID -> UID of its loaders' service account."""
    gated: tuple[GatedPod, ...]
    asked: frozenset[tuple[str, str]]
    """`(namespace, name)` of datasets that unfinished pods mount."""


def plan_preload(given: PreloadInput) -> Plan:
    """NodeCaches, labels of nodes, and the pods whose data is where they may run."""
    wished = {one.metadata.uid: eligible_nodes(one, given.nodes) for one in given.datasets}
    holding = {node.name for nodes in wished.values() for node in nodes}
    labels = [_plan_labels(given, node, wished, node.name in holding) for node in given.nodes]
    kept = [node for node in given.nodes if node.name in holding or node.name in given.caches]
    gates = plan_gates(given.gated, given.datasets, given.nodes, given.caches)
    return Plan(
        children=tuple(_build_cache(given, node, wished) for node in kept),
        # Labels first: the scheduler prefers warm nodes by them.
        patches=(*(patch for patch in labels if patch is not None), *gates.patches),
        sayings=gates.sayings,
    )


def plan_wanted(
    given: PreloadInput, node: NodeView, wished: Mapping[str, Sequence[NodeView]]
) -> list[WantedRevision]:
    """What one node should hold: the older dataset first, as long as the disk has room."""
    wanted: list[WantedRevision] = []
    taken = 0
    for dataset in given.datasets:
        uid, revision = dataset.metadata.uid, dataset.status.revision
        # Without the account, which is made again soon, the cache is not told to drop what it holds.
        loader = given.loaders.get(uid) or node.asked.get(uid)
        if revision is None or loader is None or node not in wished[dataset.metadata.uid]:
            continue
        if len(wanted) == WANTED_LIMIT or not fits(given.caches.get(node.name), revision.data_bytes, taken):
            continue
        taken += revision.data_bytes
        reference = names.dataset_reference(dataset.metadata.namespace or "", dataset.metadata.name)
        wanted.append(
            WantedRevision(dataset.metadata.uid, revision.digest, revision.data_bytes, loader, reference)
        )
    return wanted


def _build_cache(given: PreloadInput, node: NodeView, wished: Mapping[str, Sequence[NodeView]]) -> Child:
    """The node's NodeCache, owned by the Node: it goes when the node goes."""
    owner = {**resources.NODE.header(), "name": node.name, "uid": node.uid}
    wanted = [Wanted.of(one).dump() for one in plan_wanted(given, node, wished)]
    meta = {
        "name": node.name,
        "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
        "ownerReferences": [owner],
    }
    return Child(NODE_CACHE, {"metadata": meta, "spec": {"nodeUID": node.uid, "wanted": wanted}})


def _plan_labels(
    given: PreloadInput,
    node: NodeView,
    wished: Mapping[str, Sequence[NodeView]],
    holds: bool,  # noqa: FBT001 - private
) -> Patch | None:
    """The node's labels of ours as they should be; None if they are.

    The cache-node label stays once it is set: taking it away would end a cache that pods may be using.
    """
    changes: dict[str, Any] = {}
    if holds and node.labels.get(names.LABEL_CACHE_NODE) != "true":
        changes[names.LABEL_CACHE_NODE] = "true"
    warm = {names.warm_label(uid) for uid in _warm_here(given, node, wished)}
    present = {label for label in node.labels if label.startswith(names.WARM_LABEL_PREFIX)}
    changes.update(dict.fromkeys(sorted(warm - present), "true"))
    changes.update(dict.fromkeys(sorted(present - warm)))
    return Patch(NODE, None, node.name, {"metadata": {"labels": changes}}) if changes else None


def _warm_here(
    given: PreloadInput, node: NodeView, wished: Mapping[str, Sequence[NodeView]]
) -> Iterable[str]:
    """UIDs of datasets that some pod asks for and this node holds."""
    for dataset in given.datasets:
        meta = dataset.metadata
        asked = (meta.namespace or "", meta.name) in given.asked and node in wished[meta.uid]
        if asked and warm_nodes(dataset, [node], given.caches):
            yield meta.uid
