"""What a loader and a node's cache say to each other over HTTP: paths and values, no library.

    GET  /v1/revisions/UID/DIGEST               -> UploadState
    PUT  /v1/revisions/UID/DIGEST/manifest      the stored content manifest, as it is -> UploadState
    PUT  /v1/revisions/UID/DIGEST/shards/INDEX  the whole shard file -> UploadState

All calls carry `Authorization: Bearer TOKEN` (audience names.TOKEN_AUDIENCE). A refusal is a `Refusal`.
"""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.domain.nodes import HoldState

MANIFEST_LIMIT = 64 * 1024 * 1024
"""Bytes of the largest manifest that a cache takes: about 350,000 messages, or 300 GB of data."""


@dataclass(frozen=True, slots=True)
class UploadState:
    """How far a wanted revision is in the cache that answers."""

    state: HoldState
    total_shards: int = 0
    """0: the manifest has not come yet."""
    present: tuple[int, ...] = ()
    """Shards that need not be sent, ascending."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Body of every answer that is not 2xx."""

    reason: str
    """A value of reasons.Reason."""
    message: str


def revision_path(dataset_uid: str, digest: str) -> str:
    """Path of a revision; GET answers its UploadState."""
    return f"/v1/revisions/{dataset_uid}/{digest}"


def manifest_path(dataset_uid: str, digest: str) -> str:
    """Where the manifest is put."""
    return f"{revision_path(dataset_uid, digest)}/manifest"


def shard_path(dataset_uid: str, digest: str, index: int) -> str:
    """Where a shard is put."""
    return f"{revision_path(dataset_uid, digest)}/shards/{index}"
