"""A revision on a local disk: its manifest, and shards that are checked when they are first touched."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenkeel.domain.revision import Manifest, Shard
from evenkeel.errors import DataError, InputError
from evenkeel.format.manifest import decode_manifest, manifest_digest
from evenkeel.format.shards import MANIFEST_NAME, shard_name
from evenkeel.reasons import Reason

READ_BYTES = 4 * 1024 * 1024


class LocalRevision:
    """A folder with `manifest.json` and the shard files that it names.

    Args:
        path: the folder.
        digest: the revision that is meant; None takes whichever lies there.

    Raises:
        InputError: no revision lies there.
        DataError: the manifest is not the one that is meant, or not readable.
    """

    def __init__(self, path: Path, digest: str | None = None) -> None:
        try:
            stored = (path / MANIFEST_NAME).read_bytes()
        except OSError as error:
            message = f"path {path} holds no revision: {error.strerror}"
            raise InputError(message, reason=Reason.DATASET_NOT_FOUND) from error
        self.path = path
        self.manifest: Manifest = decode_manifest(stored, digest)
        self.digest = manifest_digest(stored)
        self.live: tuple[int, ...] = tuple(
            shard.records - _count_deleted(shard) for shard in self.manifest.shards
        )
        self.schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.manifest.schema)))
        self._tables: dict[int, pa.Table] = {}
        self._rows: dict[int, NDArray[np.int64]] = {}

    def take(self, shard: int, rows: NDArray[np.int64]) -> pa.Table:
        """Live records `rows` (numbers among the live ones) of a shard, in that order.

        Raises:
            DataError: the shard's bytes are not those of the manifest.
        """
        if shard not in self._tables:
            self._open(self.manifest.shards[shard])
        physical = self._rows[shard][rows] if shard in self._rows else rows
        return self._tables[shard].take(pa.array(physical))

    def _open(self, shard: Shard) -> None:
        path = self.path / shard_name(shard.index)
        _verify(path, shard)
        try:
            with pa.memory_map(str(path)) as source:
                self._tables[shard.index] = pa.ipc.open_stream(source).read_all()
        except OSError as error:  # a cache that scrubs may have taken it out just now
            message = f"shard {shard.index} cannot be mapped: {error}"
            raise DataError(message, reason=Reason.SHARD_CORRUPT) from error
        if shard.deleted is not None:
            self._rows[shard.index] = np.flatnonzero(~_deleted_rows(shard))


def _verify(path: Path, shard: Shard) -> None:
    total = hashlib.sha256()
    try:
        with path.open("rb") as handle:
            while block := handle.read(READ_BYTES):
                total.update(block)
    except OSError as error:
        message = f"shard {shard.index} cannot be read: {error.strerror}"
        raise DataError(message, reason=Reason.SHARD_CORRUPT) from error
    if total.hexdigest() != shard.file_digest:
        message = f"shard {shard.index} has digest {total.hexdigest()}, the manifest says {shard.file_digest}"
        raise DataError(message, reason=Reason.SHARD_CORRUPT)


def _deleted_rows(shard: Shard) -> NDArray[np.bool_]:
    bits = np.frombuffer(base64.b64decode(shard.deleted or ""), dtype=np.uint8)
    return np.unpackbits(bits, count=shard.records, bitorder="little").astype(bool)


def _count_deleted(shard: Shard) -> int:
    return 0 if shard.deleted is None else int(_deleted_rows(shard).sum())
