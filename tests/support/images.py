"""Small revisions of images in a folder, as a node cache holds them: real Arrow, readable by the reader."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evenkeel.domain.revision import Manifest, MessageEntry, Shard
from evenkeel.format import arrow
from evenkeel.format.manifest import encode_manifest
from evenkeel.format.shards import MANIFEST_NAME, message_digest, shard_digest, shard_file, shard_name

CLASSES = ("cat", "dog", "owl")


def write_revision(
    folder: Path, shards: Sequence[Sequence[int]], deleted: dict[int, Sequence[int]] | None = None
) -> Manifest:
    """A revision whose shard i has messages of `shards[i]` records; ids count up from 0.

    `deleted` names rows of shards that are marked as deleted.
    """
    schema = arrow.image_folder_schema(CLASSES)
    head = arrow.encode_schema(schema)
    built, total = [], 0
    for index, sizes in enumerate(shards):
        values = []
        for size in sizes:
            records = [build_record(total + i) for i in range(size)]
            values.append(arrow.encode_batch(arrow.build_image_batch(schema, records)))
            total += size
        whole = b"".join(shard_file(head, values))
        (folder / shard_name(index)).write_bytes(whole)
        built.append(_describe(index, sizes, values, head, whole, (deleted or {}).get(index, ())))
    manifest = Manifest(
        schema=base64.b64encode(head).decode(),
        schema_digest=arrow.schema_digest(head),
        seed=1,
        records=total - sum(map(len, (deleted or {}).values())),
        objects=total,
        rejected=0,
        shards=tuple(built),
    )
    (folder / MANIFEST_NAME).write_bytes(encode_manifest(manifest))
    return manifest


def build_record(number: int) -> arrow.PackedRecord:
    """Record `number`, of class number modulo 3, whose content tells it."""
    name = arrow.record_id(number, 0)
    return arrow.PackedRecord(name, f"{number}.png", f"image {number}".encode(), number % len(CLASSES))


def _describe(
    index: int, sizes: Sequence[int], values: Sequence[bytes], head: bytes, whole: bytes, dead: Sequence[int]
) -> Shard:
    entries = tuple(
        MessageEntry(index, sum(sizes[:i]), size, len(value), message_digest(value))
        for i, (size, value) in enumerate(zip(sizes, values, strict=True))
    )
    bits = np.zeros(sum(sizes), dtype=bool)
    bits[list(dead)] = True
    return Shard(
        index=index,
        records=sum(sizes),
        file_bytes=len(whole),
        digest=shard_digest(arrow.schema_digest(head), [entry.digest for entry in entries]),
        file_digest=hashlib.sha256(whole).hexdigest(),
        messages=entries,
        deleted=base64.b64encode(np.packbits(bits, bitorder="little").tobytes()).decode() if dead else None,
    )
