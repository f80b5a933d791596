"""The files of one revision on this node. Calls that read or write files block; the store locks the rest."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass
from pathlib import Path

from evenkeel.errors import DataError
from evenkeel.format.manifest import decode_manifest
from evenkeel.format.shards import MANIFEST_NAME, shard_name
from evenkeel.nodecache import files, layout
from evenkeel.reasons import Reason

_DISK_BLOCK = 4096

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A shard file as the manifest promises it."""

    index: int
    length: int
    digest: str
    """SHA-256 hex of the whole file."""

    @property
    def disk_bytes(self) -> int:
        """Space that the file takes: whole disk blocks."""
        return -(-self.length // _DISK_BLOCK) * _DISK_BLOCK


class Holding:
    """What lies on disk of one revision.

    `present` are the shards whose files have their final name and length; `checked` those of them whose
    bytes this process has hashed. `whole` means that the folder has its final name: the revision is warm.
    """

    def __init__(self, root: Path, key: layout.RevisionKey) -> None:
        self.root = root
        self.key = key
        self.shards: dict[int, ShardFile] = {}
        self.present: set[int] = set()
        self.checked: set[int] = set()
        self.whole = False
        self.corrupt: set[int] = set()
        """Shards that a scrub removed and that were not loaded again yet."""

    @property
    def folder(self) -> Path:
        """Where the files lie now."""
        return self.key.whole(self.root) if self.whole else self.key.partial(self.root)

    @property
    def present_bytes(self) -> int:
        """Bytes of the shards that are here."""
        return sum(self.shards[index].length for index in self.present)

    @property
    def missing_bytes(self) -> int:
        """Disk space that the missing shards will take."""
        return sum(shard.disk_bytes for index, shard in self.shards.items() if index not in self.present)

    @property
    def complete(self) -> bool:
        """Whether the manifest and every shard are here."""
        return bool(self.shards) and len(self.present) == len(self.shards)

    @property
    def percent(self) -> int:
        """Bytes that are here, rounded down; 100 only when the revision is warm."""
        if self.whole:
            return 100
        total = sum(shard.length for shard in self.shards.values())
        return min(99, self.present_bytes * 100 // total) if total else 0

    def path(self, index: int) -> Path:
        """The file of a shard."""
        return self.folder / shard_name(index)

    def recover(self) -> None:
        """Read the state from disk after a restart: names and lengths count, bytes are checked later."""
        whole, partial = self.key.whole(self.root), self.key.partial(self.root)
        self.whole = whole.is_dir()
        if self.whole and partial.is_dir():
            files.remove_folder(partial)
        for leftover in self.folder.glob(f"*{layout.TEMPORARY}"):
            leftover.unlink()
        try:
            self.expect(read_shards((self.folder / MANIFEST_NAME).read_bytes(), self.key.digest))
        except (OSError, DataError) as error:
            log.warning("manifest unusable revision=%s why=%s", self.key, error)
            (self.folder / MANIFEST_NAME).unlink(missing_ok=True)
        if self.whole and not self.complete:
            self.demote(set(self.shards) - self.present)

    def expect(self, shards: dict[int, ShardFile]) -> None:
        """Take note of what the manifest promises; shards that lie here already count."""
        self.shards = shards
        self.present = {index for index in shards if self._has(index)}
        self.checked &= self.present

    def forget(self) -> None:
        """Undo `expect`."""
        self.shards, self.present, self.checked = {}, set(), set()

    def write_manifest(self, manifest: bytes) -> None:
        """Store the manifest that `expect` was told of."""
        files.make_folder(self.folder.parent)
        files.make_folder(self.folder)
        files.write_file(self.folder / MANIFEST_NAME, manifest)

    def check(self, index: int) -> bool:
        """Hash a shard's file -> whether it is what the manifest promises. Changes nothing."""
        shard = self.shards.get(index)
        try:
            return shard is not None and files.hash_file(self.path(index)) == shard.digest
        except OSError as error:
            log.warning("shard unreadable revision=%s shard=%d why=%s", self.key, index, error)
            return False

    def check_manifest(self) -> bool:
        """Whether the manifest on disk is still the one of this revision."""
        try:
            return files.hash_file(self.folder / MANIFEST_NAME) == self.key.digest
        except OSError:
            return False

    def promote(self) -> None:
        """Give the complete, checked folder its final name: from here on the revision is warm."""
        files.sync_folder(self.folder)
        self.folder.rename(self.key.whole(self.root))
        files.sync_folder(self.folder.parent)
        self.whole = True
        self.corrupt.clear()

    def demote(self, bad: set[int]) -> None:
        """Take shards out; the rest stays, and mounts of the folder stay valid."""
        for index in bad:
            self.path(index).unlink(missing_ok=True)
        self.present -= bad
        self.checked -= bad
        self.corrupt |= bad
        if not self.folder.is_dir():  # somebody removed it
            self.whole = False
            self.forget()
            return
        if self.whole:
            self.folder.rename(self.key.partial(self.root))
            self.whole = False
        files.sync_folder(self.folder.parent)

    def drop_manifest(self) -> None:
        """Take a damaged manifest out: it has to be sent again; the shards stay."""
        self.demote(set())
        (self.folder / MANIFEST_NAME).unlink(missing_ok=True)
        self.forget()

    def discard(self) -> Path | None:
        """Move the folder out of the way at once -> what is left to remove."""
        if not self.folder.is_dir():
            return None
        trash = self.folder.with_name(f"{layout.TRASH}{secrets.token_hex(8)}")
        self.folder.rename(trash)
        return trash

    def _has(self, index: int) -> bool:
        try:
            return self.path(index).stat().st_size == self.shards[index].length
        except FileNotFoundError:
            return False


def read_shards(manifest: bytes, digest: str) -> dict[int, ShardFile]:
    """The shard files that a manifest promises.

    Raises:
        DataError: not the manifest with this digest, not a manifest, or its shards are not 0, 1, 2, ...
    """
    parsed = decode_manifest(manifest, digest)
    shards = {
        shard.index: ShardFile(shard.index, shard.file_bytes, shard.file_digest) for shard in parsed.shards
    }
    if any(shard.length <= 0 for shard in shards.values()):
        message = f"manifest {digest}: every shard's fileBytes must be above 0"
        raise DataError(message, reason=Reason.SHARD_CORRUPT)
    if sorted(shards) != list(range(len(parsed.shards))) or not shards:
        message = f"manifest {digest}: its shards must be numbered 0, 1, 2, ... without gaps"
        raise DataError(message, reason=Reason.SHARD_CORRUPT)
    return shards
