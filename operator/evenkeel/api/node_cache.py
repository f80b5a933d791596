"""NodeCache: what one node's cache should hold and holds. Written by the operator (spec) and that cache (status)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from evenkeel.api.fields import MESSAGE_LIMIT, Bytes, Count, Digest, Uid, listing
from evenkeel.api.meta import Base, Column, Definition, Resource, Status, clip
from evenkeel.domain.nodes import HeldRevision, HoldState, WantedRevision


class Retention(StrEnum):
    """Whether a revision may be evicted for others."""

    EVICTABLE = "Evictable"
    PINNED = "Pinned"


class Wanted(Base):
    """A revision that the node should hold."""

    dataset_uid: Uid
    """UID of its TrainingDataset."""
    digest: Digest
    """Digest of the revision."""
    data_bytes: Bytes
    """Sum of its files, in bytes: what must be reserved before anything is loaded."""
    loader_uid: Uid
    """UID of the service account whose tokens may upload it."""
    reference: Annotated[str, Field(min_length=20, max_length=20, pattern=r"^[0-9a-f]{20}$")]
    """What mounts ask for: 20 hex digits of SHA-256 over the dataset's `namespace/name`."""
    retention: Retention = Retention.EVICTABLE
    """Pinned revisions are never evicted."""

    @classmethod
    def of(cls, revision: WantedRevision) -> Wanted:
        """From the value that planning works with."""
        return cls(
            dataset_uid=revision.dataset_uid,
            digest=revision.digest,
            data_bytes=revision.data_bytes,
            loader_uid=revision.loader_uid,
            reference=revision.reference,
            retention=Retention.PINNED if revision.pinned else Retention.EVICTABLE,
        )

    def domain(self) -> WantedRevision:
        """As the value that planning and the cache work with."""
        return WantedRevision(
            dataset_uid=self.dataset_uid,
            digest=self.digest,
            data_bytes=self.data_bytes,
            loader_uid=self.loader_uid,
            reference=self.reference,
            pinned=self.retention is Retention.PINNED,
        )


class Held(Base):
    """A revision as the cache has it."""

    dataset_uid: Uid
    """UID of its TrainingDataset."""
    digest: Digest
    """Digest of the revision."""
    state: HoldState
    """Wanted: nothing there yet. Loading: some files are. Warm: every file is there, verified and mountable.
    Failed: reason and message say why."""
    verified_shards: Count = 0
    """Files whose digests were checked."""
    total_shards: Count = 0
    """Files of the revision; 0 until its manifest is there."""
    verified_bytes: Bytes = 0
    """Bytes in the checked files."""
    reason: Annotated[str, Field(max_length=128)] = ""
    """Why it is not warm, as one CamelCase word; empty when it is."""
    message: Annotated[str, Field(max_length=MESSAGE_LIMIT)] = ""
    """The same as a sentence."""

    @classmethod
    def of(cls, revision: HeldRevision) -> Held:
        """From the value that the cache works with."""
        return cls(
            dataset_uid=revision.dataset_uid,
            digest=revision.digest,
            state=revision.state,
            verified_shards=revision.verified_shards,
            total_shards=revision.total_shards,
            verified_bytes=revision.verified_bytes,
            reason=revision.reason,
            message=clip(revision.message),
        )

    def domain(self) -> HeldRevision:
        """As the value that planning works with."""
        return HeldRevision(
            dataset_uid=self.dataset_uid,
            digest=self.digest,
            state=self.state,
            verified_shards=self.verified_shards,
            total_shards=self.total_shards,
            verified_bytes=self.verified_bytes,
            reason=self.reason,
            message=self.message,
        )


_REVISION_KEY = ("datasetUID", "digest")


class NodeCacheSpec(Base):
    """What the operator wants on the node."""

    node_uid: Uid
    """UID of the Node of the same name; a node that was made anew starts with an empty cache."""
    wanted: Annotated[tuple[Wanted, ...], listing("map", most=256, keys=_REVISION_KEY)] = ()
    """Revisions that the node should hold; others may be evicted."""


class NodeCacheStatus(Status):
    """What the node's cache says of itself."""

    endpoint: Annotated[str, Field(max_length=512, pattern=r"^(https?://.+)?$")] = ""
    """URL of the cache, for loaders; empty while it does not listen."""
    disk_total_bytes: Bytes | None = None
    """Size of the cache's file system, in bytes; absent: unknown."""
    disk_usable_bytes: Bytes | None = None
    """What the cache may still write, in bytes, rounded to a percent of the size; absent: unknown."""
    revisions: Annotated[tuple[Held, ...], listing("map", most=512, keys=_REVISION_KEY)] = ()
    """Revisions that the node holds or works on."""


class NodeCache(Resource):
    """What one node's cache should hold and holds; its name is the node's.

    Ready means: the cache is alive and its disk usable. Made by Evenkeel; nothing for people to write.
    """

    definition: ClassVar[Definition] = Definition(
        plural="nodecaches",
        short_name="ncache",
        columns=(
            Column("DiskUsableBytes", "integer", ".status.diskUsableBytes"),
            Column("DiskTotalBytes", "integer", ".status.diskTotalBytes"),
            Column("Endpoint", "string", ".status.endpoint", wide=True),
        ),
        namespaced=False,
    )

    kind: str = "NodeCache"
    spec: NodeCacheSpec
    """What the operator wants on the node."""
    status: NodeCacheStatus = NodeCacheStatus()
    """What the node's cache says of itself; written by it alone."""
