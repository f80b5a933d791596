"""Small revisions as Kafka and the caches hold them; the bytes are not Arrow, nobody here decodes them."""

from __future__ import annotations

import base64
import hashlib
import random
from dataclasses import dataclass

from evenkeel.domain.nodes import WantedRevision
from evenkeel.domain.revision import Manifest, MessageEntry, Shard
from evenkeel.format.manifest import encode_manifest, manifest_digest
from evenkeel.format.shards import file_bytes, message_digest, shard_digest, shard_file
from evenkeel.names import dataset_reference

UID = "7c1d2f9e-0000-4000-8000-000000000001"
LOADER_UID = "loader-service-account-uid"
SCHEMA = b"schema message"


@dataclass(frozen=True, slots=True)
class BuiltRevision:
    """A revision with all its bytes."""

    manifest: Manifest
    stored: bytes
    messages: tuple[tuple[bytes, ...], ...]
    """Per shard."""

    @property
    def digest(self) -> str:
        return manifest_digest(self.stored)

    @property
    def files(self) -> tuple[bytes, ...]:
        return tuple(b"".join(shard_file(SCHEMA, values)) for values in self.messages)

    @property
    def data_bytes(self) -> int:
        return sum(len(file) for file in self.files)

    def wanted(self, uid: str = UID, namespace: str = "team", name: str = "digits") -> WantedRevision:
        reference = dataset_reference(namespace, name)
        return WantedRevision(uid, self.digest, self.data_bytes, LOADER_UID, reference)


def build_revision(
    shards: int = 3, messages: int = 2, message_bytes: int = 1000, seed: int = 0, schema: bytes = SCHEMA
) -> BuiltRevision:
    """A revision of pseudo-random bytes; equal arguments give equal bytes."""
    chance = random.Random(seed)
    values = tuple(tuple(chance.randbytes(message_bytes) for _ in range(messages)) for _ in range(shards))
    schema_digest = hashlib.sha256(schema).hexdigest()
    built = tuple(_build_shard(index, schema, schema_digest, row) for index, row in enumerate(values))
    encoded = base64.b64encode(schema).decode()
    manifest = Manifest(encoded, schema_digest, seed, shards * messages, shards * messages, 0, built)
    return BuiltRevision(manifest, encode_manifest(manifest), values)


def _build_shard(index: int, schema: bytes, schema_digest: str, values: tuple[bytes, ...]) -> Shard:
    entries = tuple(
        MessageEntry(index, place, 1, len(value), message_digest(value)) for place, value in enumerate(values)
    )
    whole = hashlib.sha256(b"".join(shard_file(schema, values))).hexdigest()
    digest = shard_digest(schema_digest, [entry.digest for entry in entries])
    return Shard(index, len(values), file_bytes(len(schema), map(len, values)), digest, whole, entries)
