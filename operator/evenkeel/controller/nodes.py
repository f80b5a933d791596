"""Nodes as preloading sees them, and which of them should hold a dataset. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evenkeel import names
from evenkeel.api.node_cache import NodeCache
from evenkeel.api.training_dataset import PreloadMode, TrainingDataset
from evenkeel.controller.store import Object
from evenkeel.domain.nodes import HoldState

DISK_SHARE_PERCENT = 95
"""What wanted revisions may take of a cache's file system; the rest is for manifests and renames."""
HOLDER_DIGITS = 10


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node."""

    name: str
    uid: str
    labels: Mapping[str, str]
    gpus: int
    """Allocatable."""
    asked: Mapping[str, str] = field(default_factory=dict)
    """What its NodeCache asks it to hold already: UID of the dataset -> UID of its loaders' account."""

    @property
    def has_gpu(self) -> bool:
        """GPUs that a device plug-in offers, or the label that says there are some."""
        return self.gpus > 0 or self.labels.get(names.GPU_LABEL) == "true"


def view_node(item: Object, cache: NodeCache | None = None) -> NodeView:
    """What preloading needs of a stored Node and of the NodeCache of its name."""
    meta = item["metadata"]
    allocatable = (item.get("status") or {}).get("allocatable") or {}
    text = str(allocatable.get(names.GPU_RESOURCE, "0"))
    gpus = int(text) if text.isdecimal() else 0
    own = cache.spec.wanted if cache is not None and cache.spec.node_uid == meta["uid"] else ()
    asked = {one.dataset_uid: one.loader_uid for one in own}
    return NodeView(meta["name"], meta["uid"], meta.get("labels") or {}, gpus, asked)


def eligible_nodes(dataset: TrainingDataset, nodes: Iterable[NodeView]) -> list[NodeView]:
    """Nodes that should hold the dataset, by name: those of its nodeSelector, else those with GPUs.

    A node that holds it already stays: kubelet offers no GPUs while it or the device plug-in starts again,
    and a cache drops at once what it is not asked for.
    """
    preload = dataset.spec.preload
    if preload.mode is PreloadMode.DISABLED or dataset.metadata.deletion_timestamp is not None:
        return []
    selector = preload.node_selector
    chosen = (
        node
        for node in nodes
        if (
            all(node.labels.get(key) == value for key, value in selector.items())
            if selector
            else node.has_gpu or dataset.metadata.uid in node.asked
        )
    )
    return sorted(chosen, key=lambda node: node.name)


def fits(cache: NodeCache | None, data_bytes: int, taken_bytes: int = 0) -> bool:
    """Whether a revision fits beside `taken_bytes`; yes where the disk is not known yet."""
    total = cache.status.disk_total_bytes if cache is not None else None
    return total is None or taken_bytes + data_bytes <= total * DISK_SHARE_PERCENT // 100


def is_warm(cache: NodeCache | None, node: NodeView, dataset_uid: str, digest: str) -> bool:
    """Whether the node's own cache says that every file is there and verified."""
    if cache is None or cache.spec.node_uid != node.uid:
        return False
    return any(
        (one.dataset_uid, one.digest, one.state) == (dataset_uid, digest, HoldState.WARM)
        for one in cache.status.revisions
    )


def warm_nodes(
    dataset: TrainingDataset, nodes: Sequence[NodeView], caches: Mapping[str, NodeCache]
) -> list[NodeView]:
    """Of `nodes` those that hold the dataset's revision."""
    revision = dataset.status.revision
    if revision is None:
        return []
    uid = dataset.metadata.uid
    return [node for node in nodes if is_warm(caches.get(node.name), node, uid, revision.digest)]


def holder_digest(node: str) -> str:
    """A node's name as part of Job names and labels."""
    return hashlib.sha256(node.encode()).hexdigest()[:HOLDER_DIGITS]
