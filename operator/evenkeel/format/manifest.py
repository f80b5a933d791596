"""The content manifest as bytes. Its name, the revision's digest, is the SHA-256 of exactly these bytes."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TypeVar

from evenkeel.domain import codec
from evenkeel.domain.revision import Location, Manifest
from evenkeel.domain.topic_id import plain_topic_id
from evenkeel.errors import DataError, InputError
from evenkeel.reasons import Reason

VERSION = 1
"""Of both tables. Keys may be added under the same version; another one means that they are read otherwise."""

T = TypeVar("T", Manifest, Location)


def encode_manifest(manifest: Manifest) -> bytes:
    """Canonical JSON: equal manifests give equal bytes."""
    return codec.dumps(manifest).encode()


def manifest_digest(stored: bytes) -> str:
    """The revision's digest: SHA-256 hex of the stored bytes."""
    return hashlib.sha256(stored).hexdigest()


def decode_manifest(stored: bytes, digest: str | None = None) -> Manifest:
    """The manifest in `stored`.

    Raises:
        DataError: the bytes are not those of the revision `digest`, not a manifest, or of another version.
    """
    if digest is not None and manifest_digest(stored) != digest:
        message = f"manifest has digest {manifest_digest(stored)}, revision {digest} is meant"
        raise DataError(message, reason=Reason.SHARD_CORRUPT)
    return _decode(Manifest, stored)


def encode_location(location: Location) -> bytes:
    """Canonical JSON of where a revision lies."""
    return codec.dumps(location).encode()


def decode_location(stored: bytes) -> Location:
    """The location in `stored`.

    Raises:
        DataError: not a location.
    """
    found = _decode(Location, stored)
    # Earlier writers kept the id as librdkafka spells it.
    return replace(found, topic_id=plain_topic_id(found.topic_id))


def _decode(kind: type[T], stored: bytes) -> T:
    try:
        found = codec.loads(kind, stored)
    except InputError as error:
        raise DataError(error.message, reason=Reason.DATA_LOST) from error
    if found.schema_version != VERSION:
        message = (
            f"{kind.__name__}.schemaVersion {found.schema_version}: this version of Evenkeel reads {VERSION}"
        )
        raise DataError(message, reason=Reason.INVALID_SPEC)
    return found
