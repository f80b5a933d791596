"""All revisions on this node: which are wanted, how far they are, who uploads, what is in use.

The store may be called from several threads. Methods that touch files block; call them off the event
loop. State after a restart is what the files say.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from evenkeel.domain.nodes import HeldRevision, HoldState, WantedRevision
from evenkeel.domain.upload import UploadState
from evenkeel.errors import InputError, RetryableError
from evenkeel.nodecache import files, layout, metrics
from evenkeel.nodecache.files import DiskSpace
from evenkeel.nodecache.holding import Holding, ShardFile, read_shards
from evenkeel.nodecache.layout import RevisionKey
from evenkeel.nodecache.upload import ShardUpload, disk_errors
from evenkeel.reasons import Reason

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a pod that asks for a dataset gets; as JSON the answer to the mounter."""

    state: HoldState
    percent: int
    message: str
    key: RevisionKey | None = None
    """Set when it is warm; the store keeps it until the mounter has reported its mounts again."""


class Store:
    """The revisions below one folder.

    Args:
        root: the folder; should be a file system of its own.
        disk: how space is measured.
        on_change: called after anything that the report shows has changed, from any thread.
    """

    def __init__(
        self,
        root: Path,
        *,
        disk: Callable[[Path], DiskSpace] = files.read_disk,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.root = root
        self.on_change = on_change
        self._disk = disk
        self._lock = threading.RLock()
        self._holdings: dict[RevisionKey, Holding] = {}
        self._wanted: dict[RevisionKey, WantedRevision] | None = None
        self._mounted: frozenset[RevisionKey] | None = None
        self._lent: set[RevisionKey] = set()
        self._uploads: dict[tuple[RevisionKey, int], ShardUpload] = {}

    def recover(self) -> None:
        """Take over what an earlier process left; blocks for a stat per file.

        Raises:
            InputError, RetryableError: the folder cannot be read.
        """
        with disk_errors(f"store {self.root}"):
            for trash in layout.find_trash(self.root):
                files.remove_folder(trash)
            for key in layout.find_revisions(self.root):
                holding = Holding(self.root, key)
                holding.recover()
                self._holdings[key] = holding

    def set_wanted(self, wanted: Iterable[WantedRevision]) -> None:
        """What the node should hold from now on; unusable entries are InputErrors and change nothing."""
        keyed = {RevisionKey(item.dataset_uid, item.digest): item for item in wanted}
        with self._lock:
            self._wanted = keyed
        self.on_change()

    def set_mounted(self, keys: Collection[RevisionKey]) -> None:
        """What pods of this node have mounted, as of now."""
        with self._lock:
            self._mounted = frozenset(keys)
            self._lent.clear()

    def find_wanted(self, key: RevisionKey) -> WantedRevision | None:
        """The entry of a revision."""
        return (self._wanted or {}).get(key)

    def find_loaders(self, dataset_uid: str) -> set[str]:
        """UIDs of the service accounts that may upload revisions of a dataset."""
        wanted = (self._wanted or {}).values()
        return {item.loader_uid for item in wanted if item.dataset_uid == dataset_uid and item.loader_uid}

    def space(self) -> DiskSpace:
        """Size of the disk and what may still be promised: usable less what uploads have reserved."""
        with disk_errors(f"store {self.root}"):
            disk = self._disk(self.root)
        return DiskSpace(disk.total, max(0, disk.usable - self._reserved()))

    def describe(self, key: RevisionKey) -> UploadState:
        """How far a revision is, for its loader."""
        with self._lock:
            held = self._report(key)
            holding = self._holdings.get(key)
            present = tuple(sorted(holding.present)) if holding else ()
        return UploadState(held.state, held.total_shards, present, held.message)

    def report(self) -> tuple[HeldRevision, ...]:
        """Every wanted revision, in the order in which the operator wants them."""
        with self._lock:
            return tuple(self._report(key) for key in self._wanted or {})

    def lookup(self, reference: str) -> Lookup:
        """What a pod gets that asks for a dataset by names.dataset_reference.

        Of several wanted revisions the last warm one counts: the operator appends newer ones.
        """
        with self._lock:
            keys = [key for key, item in (self._wanted or {}).items() if item.reference == reference]
            for key in reversed(keys):
                if key in self._holdings and self._holdings[key].whole:
                    self._lent.add(key)
                    return Lookup(HoldState.WARM, 100, "", key)
            if not keys:
                return Lookup(HoldState.WANTED, 0, "this node is not asked to hold the dataset (yet)")
            held, holding = self._report(keys[-1]), self._holdings.get(keys[-1])
        return Lookup(held.state, holding.percent if holding else 0, held.message)

    def put_manifest(self, key: RevisionKey, manifest: bytes) -> None:
        """Take the manifest and reserve the space of its shards. Sending it again changes nothing.

        Raises:
            InputError: not wanted (DatasetNotFound), or more than the disk has (DoesNotFit).
            DataError: not the wanted manifest.
        """
        self._expect_wanted(key)
        shards = read_shards(manifest, key.digest)
        with self._lock, disk_errors(f"revision {key}"):
            holding = self._holdings.setdefault(key, Holding(self.root, key))
            if holding.shards:
                return
            self._reserve(holding, shards)
            try:
                holding.write_manifest(manifest)
            except OSError:
                holding.forget()
                raise
        self.on_change()

    def open_shard(self, key: RevisionKey, index: int, length: int) -> ShardUpload | None:
        """Begin to receive a shard; None: it is here already. An upload of the same shard is given up.

        Raises:
            InputError: not wanted, no manifest yet, no such shard, or not the promised length.
        """
        self._expect_wanted(key)
        with self._lock:
            holding = self._holdings.get(key)
            if holding is None or not holding.shards:
                message = f"revision {key}: send the manifest first"
                raise InputError(message, reason=Reason.CONFLICT)
            shard = holding.shards.get(index)
            if shard is None:
                message = f"shard {index}: the manifest has 0 to {len(holding.shards) - 1}"
                raise InputError(message, reason=Reason.INVALID_SPEC)
            if length != shard.length:
                message = f"shard {index}: Content-Length {length}, the manifest says {shard.length}"
                raise InputError(message, reason=Reason.INVALID_SPEC)
            return None if index in holding.present else self._begin(holding, shard)

    def close_shard(self, key: RevisionKey, upload: ShardUpload) -> None:
        """End an upload, whether it was finished or not."""
        with self._lock:
            if self._uploads.get((key, upload.shard.index)) is upload:
                del self._uploads[key, upload.shard.index]
        upload.close()
        self.on_change()

    def finish_complete(self, keep_going: Callable[[], bool] = lambda: True) -> None:
        """Make revisions warm whose every shard is here; those of an earlier process are hashed first."""
        with self._lock:
            waiting = [item for item in self._holdings.values() if item.complete and not item.whole]
        for holding in waiting:
            for index in sorted(holding.present - holding.checked):
                if not keep_going():
                    return
                self._check(holding, [index])
            with self._lock, disk_errors(f"revision {holding.key}"):
                if holding.complete and not holding.whole and self._holdings.get(holding.key) is holding:
                    holding.promote()
            self.on_change()

    def remove_unwanted(self) -> None:
        """Remove revisions that nobody wants and no pod has mounted; does nothing before both are known."""
        for key in tuple(self._holdings):
            with self._lock, disk_errors(f"revision {key}"):
                trash = None
                if self._is_free(key):
                    trash = self._holdings[key].discard()
                    del self._holdings[key]  # a folder that did not move is tried again
                self._abandon(key)
            if trash is not None:
                with disk_errors(f"revision {key}"):
                    files.remove_folder(trash)
                self.on_change()

    def scrub(self, keep_going: Callable[[], bool] = lambda: True) -> None:
        """Hash every shard of every warm revision again; what is not as promised is taken out."""
        with self._lock:
            warm = [item for item in self._holdings.values() if item.whole]
        for holding in warm:
            for index in sorted(holding.shards):
                if not keep_going():
                    return
                self._check(holding, [index])
            if not holding.check_manifest():
                self._drop_manifest(holding)

    def _check(self, holding: Holding, indexes: Iterable[int]) -> None:
        """Hash shards outside the lock; bad ones are taken out, good ones noted."""
        for index in indexes:
            good = holding.check(index)
            with self._lock, disk_errors(f"revision {holding.key}"):
                if self._holdings.get(holding.key) is not holding or index not in holding.present:
                    continue
                if good:
                    holding.checked.add(index)
                    continue
                log.error("shard is not what the manifest says revision=%s shard=%d", holding.key, index)
                metrics.CORRUPT.inc()
                holding.demote({index})
            self.on_change()

    def _drop_manifest(self, holding: Holding) -> None:
        with self._lock, disk_errors(f"revision {holding.key}"):
            if self._holdings.get(holding.key) is holding:
                holding.drop_manifest()
        self.on_change()

    def _begin(self, holding: Holding, shard: ShardFile) -> ShardUpload:
        place = (holding.key, shard.index)
        if place in self._uploads:
            self._uploads[place].abandon()

        def commit(temporary: Path) -> None:
            with self._lock:
                if self._uploads.get(place) is not upload or self._holdings.get(holding.key) is not holding:
                    message = f"shard {shard.index}: another upload took over"
                    raise RetryableError(message, reason=Reason.CONFLICT)
                temporary.rename(holding.path(shard.index))
                files.sync_folder(holding.folder)
                holding.present.add(shard.index)
                holding.checked.add(shard.index)
                holding.corrupt.discard(shard.index)

        upload = ShardUpload(holding.path(shard.index), shard, commit)
        self._uploads[place] = upload
        return upload

    def _abandon(self, key: RevisionKey) -> None:
        if key not in self._holdings:
            for (owner, _), upload in self._uploads.items():
                if owner == key:
                    upload.abandon()

    def _expect_wanted(self, key: RevisionKey) -> None:
        if self.find_wanted(key) is None:
            message = f"revision {key} is not wanted on this node"
            raise InputError(message, reason=Reason.DATASET_NOT_FOUND)

    def _is_free(self, key: RevisionKey) -> bool:
        if self._wanted is None or key in self._wanted:
            return False
        return self._mounted is not None and key not in self._mounted and key not in self._lent

    def _reserved(self) -> int:
        """Bytes that uploads were promised and have not written yet."""
        with self._lock:
            missing = sum(item.missing_bytes for item in self._holdings.values())
            return max(0, missing - sum(upload.written for upload in self._uploads.values()))

    def _reserve(self, holding: Holding, shards: dict[int, ShardFile]) -> None:
        """Refuse a revision that would not fit beside what is promised already."""
        usable = self.space().usable
        holding.expect(shards)
        needed = holding.missing_bytes
        if needed > usable:
            holding.forget()
            message = f"revision {holding.key} needs {needed} bytes, the cache's disk has {usable} left"
            raise InputError(message, reason=Reason.DOES_NOT_FIT)

    def _report(self, key: RevisionKey) -> HeldRevision:
        holding, wanted = self._holdings.get(key), self.find_wanted(key)
        if holding is None or not holding.shards:
            return self._report_absent(key, wanted.data_bytes if wanted else 0)
        state, message = HoldState.LOADING, f"{holding.percent} percent is here"
        reason: Reason | None = Reason.PRELOADING
        if holding.whole:
            state, reason, message = HoldState.WARM, None, ""
        elif holding.corrupt:
            reason = Reason.SHARD_CORRUPT
            message = (
                f"{len(holding.corrupt)} shards were not as the manifest says and have to be loaded again"
            )
        return HeldRevision(
            key.dataset_uid,
            key.digest,
            state,
            len(holding.present),
            len(holding.shards),
            holding.present_bytes,
            reason.value if reason else "",
            message,
        )

    def _report_absent(self, key: RevisionKey, data_bytes: int) -> HeldRevision:
        space = self.space()
        if data_bytes > space.usable:
            message = f"it needs {data_bytes} bytes, the cache's disk has {space.usable} left"
            return HeldRevision(
                key.dataset_uid, key.digest, HoldState.FAILED, reason=Reason.DOES_NOT_FIT, message=message
            )
        return HeldRevision(key.dataset_uid, key.digest, HoldState.WANTED, reason=Reason.PENDING)
