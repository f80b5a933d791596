"""A sealed revision of a dataset: what is in it, and where in Kafka it lies.

The content manifest is stored as bytes and named by the SHA-256 of those bytes. It says nothing about
Kafka; the location table beside it does and may be rebuilt.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MessageEntry:
    """One message of a shard, in the shard's order."""

    slice: int
    first: int
    """Number of its first record within the slice."""
    records: int
    length: int
    """Bytes of the message as stored."""
    digest: str
    """SHA-256 hex of the message's value."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A file of a revision: schema message, messages as they are in Kafka, end marker."""

    index: int
    records: int
    file_bytes: int
    digest: str
    """SHA-256 hex over schema digest and message digests in order."""
    file_digest: str
    """SHA-256 hex of the whole file: what caches and scrubs check, without Arrow."""
    messages: tuple[MessageEntry, ...]
    deleted: str | None = None
    """Bitmap of deleted rows, base64; None: none deleted."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a revision."""

    schema: str
    """The Arrow schema message, base64, exactly the bytes with which every shard file begins."""
    schema_digest: str
    seed: int
    records: int
    """Live records: all shards' less deleted."""
    objects: int
    """Objects (files) listed in the source."""
    rejected: int
    shards: tuple[Shard, ...]
    schema_version: int = 1


@dataclass(frozen=True, slots=True)
class ShardLocation:
    """Where the messages of a shard lie."""

    index: int
    partition: int
    offsets: tuple[int, ...]
    """One per message, ascending."""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Location:
    """Second table of a revision, outside its digest."""

    digest: str
    """Of the content manifest it belongs to."""
    cluster_id: str
    topic: str
    topic_id: str
    """A reader that finds another topic id or a later log start says DataLost."""
    shards: tuple[ShardLocation, ...]
    schema_version: int = 1
