"""Decides what a pod's volume is, and mounts it: publish, unpublish, and what is in use."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from evenkeel import names
from evenkeel.domain.nodes import HoldState
from evenkeel.errors import InputError, RetryableError
from evenkeel.nodecache import layout
from evenkeel.nodecache.layout import RevisionKey
from evenkeel.nodecache.local import CacheSocket, Mounted
from evenkeel.nodecache.mounts import Mounts
from evenkeel.reasons import Reason

POD_NAMESPACE = "csi.storage.k8s.io/pod.namespace"
POD_NAME = "csi.storage.k8s.io/pod.name"
EPHEMERAL = "csi.storage.k8s.io/ephemeral"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Volume:
    """An inline volume of a pod, as kubelet describes it."""

    namespace: str
    pod: str
    dataset: str
    target: Path


class Mounter:
    """Serves the volumes of one node.

    Args:
        mounts: the kernel.
        cache: the process that knows what is warm.
        store: where this process sees the cache's store.
        pods: folder below which kubelet wants volumes mounted.
    """

    def __init__(self, mounts: Mounts, cache: CacheSocket, *, store: Path, pods: Path) -> None:
        self._mounts = mounts
        self._cache = cache
        self._store = store
        self._pods = pods
        # From the cache's answer to the mount, and from reading the table to reporting it, nothing may come
        # between: else the cache removes what is just being mounted.
        self._lock = asyncio.Lock()

    async def publish(self, volume: Volume) -> None:
        """Mount the dataset's warm revision; does nothing where it is mounted already.

        Raises:
            RetryableError: reason NotWarm, with the percent; or the cache does not answer.
            InputError: the target is not kubelet's.
        """
        self._expect_target(volume.target)
        async with self._lock:
            if await asyncio.to_thread(self._is_mounted, volume.target):
                return
            key = await self._find(volume)
            await asyncio.to_thread(self._mount, key, volume.target)
        log.info("mounted revision=%s pod=%s/%s", key, volume.namespace, volume.pod)
        await self._report_quietly()

    async def unpublish(self, target: Path) -> None:
        """Unmount and remove the target; gone already is fine.

        Raises:
            InputError: the target is not kubelet's.
            RetryableError: the kernel refuses for now.
        """
        self._expect_target(target)
        async with self._lock:
            await asyncio.to_thread(self._unmount, target)
        log.info("unmounted target=%s", target)
        await self._report_quietly()

    async def report(self) -> None:
        """Tell the cache what is mounted; RetryableError when it does not answer."""
        async with self._lock:
            found = await asyncio.to_thread(self._in_use)
            await self._cache.put_mounts(Mounted(tuple(sorted(found))))

    async def _report_quietly(self) -> None:
        try:
            await self.report()
        except RetryableError as error:
            log.info("mounts not reported, again soon why=%s", error)

    async def _find(self, volume: Volume) -> RevisionKey:
        reference = names.dataset_reference(volume.namespace, volume.dataset)
        found = await self._cache.lookup(reference)
        if found.state is HoldState.WARM and found.key is not None:
            return found.key
        # kubelet formats this text once more: a percent sign would be mangled.
        why = found.message.replace("%", " percent")
        message = (
            f"dataset {volume.dataset} is not warm on this node, {found.percent} percent is loaded: {why}"
        )
        raise RetryableError(message, reason=Reason.NOT_WARM)

    def _mount(self, key: RevisionKey, target: Path) -> None:
        try:
            target.mkdir(mode=0o750, exist_ok=True)
            self._mounts.bind(self._store, (key.dataset_uid, key.digest), target)
        except OSError as error:
            message = f"revision {key} cannot be mounted: {error.strerror}"
            raise RetryableError(message, reason=Reason.CACHE_UNAVAILABLE) from error

    def _unmount(self, target: Path) -> None:
        try:
            self._mounts.unmount(target)
            if target.is_dir() and not target.is_symlink():
                target.rmdir()
        except OSError as error:
            message = f"{target} cannot be unmounted: {error.strerror}"
            raise RetryableError(message, reason=Reason.CACHE_UNAVAILABLE) from error

    def _is_mounted(self, target: Path) -> bool:
        return any(mount.target == str(target) for mount in self._mounts.table())

    def _in_use(self) -> set[RevisionKey]:
        below = f"{self._pods}/"
        roots = [mount.root for mount in self._mounts.table() if mount.target.startswith(below)]
        return {key for key in map(layout.parse_mount_root, roots) if key is not None}

    def _expect_target(self, target: Path) -> None:
        if not target.is_relative_to(self._pods) or ".." in target.parts or target == self._pods:
            message = f"target_path {target}: must lie below {self._pods}"
            raise InputError(message, reason=Reason.INVALID_SPEC)


def read_volume(context: dict[str, str], target: str, *, read_only: bool) -> Volume:
    """A publish request's facts as a Volume. `context` holds what the pod's author wrote and, over it, kubelet's.

    Raises:
        InputError: something is missing or not allowed; names it.
    """
    if not read_only:
        raise _invalid("readOnly must be true: the cache is shared by all pods of the node")
    if context.get(EPHEMERAL) != "true":
        raise _invalid(f"only inline volumes of a pod are served ({EPHEMERAL} must be true)")
    dataset, namespace = context.get(names.CSI_ATTRIBUTE_DATASET, ""), context.get(POD_NAMESPACE, "")
    if not _NAME.fullmatch(dataset):
        raise _invalid(
            f"volumeAttributes.{names.CSI_ATTRIBUTE_DATASET} {dataset!r:.80}: must name a TrainingDataset"
        )
    if not namespace:
        raise _invalid(f"{POD_NAMESPACE} is missing: the CSIDriver must have podInfoOnMount")
    return Volume(namespace, context.get(POD_NAME, ""), dataset, Path(target))


def _invalid(message: str) -> InputError:
    return InputError(message, reason=Reason.INVALID_SPEC)
