"""A revision's shards as they lie in Kafka, every message checked before it is handed on."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Self

from evenkeel.domain.connection import Connection
from evenkeel.domain.job import JobSpec
from evenkeel.domain.revision import Location, Manifest, Shard, ShardLocation
from evenkeel.errors import DataError
from evenkeel.format.manifest import decode_location, decode_manifest
from evenkeel.format.shards import message_digest, shard_file
from evenkeel.kafka.clients.identity import identify_topic
from evenkeel.kafka.clients.reader import PartitionReader
from evenkeel.kafka.manifests import read_manifest
from evenkeel.reasons import Reason


class RevisionSource:
    """One revision in Kafka. A context manager; keeps a reader per partition.

    Raises, from all calls: DataError DATA_LOST when Kafka no longer holds the bytes, SHARD_CORRUPT when
    they are others, RetryableError when it does not answer.
    """

    def __init__(self, connection: Connection, stored: bytes, manifest: Manifest, location: Location) -> None:
        self.stored = stored
        """The content manifest as it is stored."""
        self.manifest = manifest
        self._connection = connection
        self._location = location
        self._places = {place.index: place for place in location.shards}
        self._schema = base64.b64decode(manifest.schema)
        self._readers: dict[int, PartitionReader] = {}
        self._stack = ExitStack()

    @classmethod
    def open(cls, job: JobSpec, digest: str) -> Self:
        """Read manifest and location, and check that they speak of the topic that is there now."""
        content, table = read_manifest(job.connection, job.dataset.manifest_topic, digest)
        manifest, location = decode_manifest(content, digest), decode_location(table)
        check_location(manifest, location, digest)
        found = identify_topic(job.connection, location.topic)
        if found.topic_id != location.topic_id:
            message = f"topic {location.topic} has id {found.topic_id}, the revision was written to {location.topic_id}"
            raise DataError(message, reason=Reason.DATA_LOST)
        return cls(job.connection, content, manifest, location)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def order(self, missing: set[int]) -> list[Shard]:
        """Missing shards in the order in which they are read best: by partition, then by offset."""

        def place(shard: Shard) -> tuple[int, int]:
            found = self._places[shard.index]
            return found.partition, found.offsets[0]

        return sorted((shard for shard in self.manifest.shards if shard.index in missing), key=place)

    def read_file(self, shard: Shard) -> Iterator[bytes]:
        """The pieces of a shard's file."""
        place = self._places[shard.index]
        messages = read_messages(self._reader(place.partition), shard, place)
        yield from shard_file(self._schema, messages)

    def _reader(self, partition: int) -> PartitionReader:
        if partition not in self._readers:
            self._stack.close()  # shards come by partition: one reader at a time
            self._readers.clear()
            reader = PartitionReader(self._connection, self._location.topic, partition)
            self._readers[partition] = self._stack.enter_context(reader)
        return self._readers[partition]


def check_location(manifest: Manifest, location: Location, digest: str) -> None:
    """Whether a location table fits the manifest; DataError DATA_LOST says where it does not."""
    places = {place.index: place for place in location.shards}
    wrong = [
        shard.index
        for shard in manifest.shards
        if shard.index not in places or len(places[shard.index].offsets) != len(shard.messages)
    ]
    if location.digest != digest or wrong:
        what = f"shards {wrong[:5]}" if wrong else f"digest {location.digest}"
        message = f"the location table does not belong to revision {digest}: {what}"
        raise DataError(message, reason=Reason.DATA_LOST)


def read_messages(reader: PartitionReader, shard: Shard, place: ShardLocation) -> Iterator[bytes]:
    """The messages of a shard in order; each has the digest that the manifest says.

    Raises:
        DataError: an offset is gone (DATA_LOST), or its bytes are others (SHARD_CORRUPT).
        RetryableError: Kafka does not answer.
    """
    first, last = place.offsets[0], place.offsets[-1]
    start, end = reader.bounds()
    if start > first:
        message = (
            f"shard {shard.index}: partition {place.partition} begins at {start}, offset {first} is gone"
        )
        raise DataError(message, reason=Reason.DATA_LOST)
    if end <= last:  # waiting for it would end in a time-out that names no cause
        message = f"shard {shard.index}: partition {place.partition} ends at {end}, offset {last} is gone"
        raise DataError(message, reason=Reason.DATA_LOST)
    expected = dict(zip(place.offsets, shard.messages, strict=True))
    for record in reader.read(first, last + 1):
        entry = expected.pop(record.offset, None)
        if entry is None:
            continue  # of another attempt, never referred to
        if message_digest(record.value) != entry.digest:
            message = f"shard {shard.index}: the message at {place.partition}/{record.offset} has other bytes"
            raise DataError(message, reason=Reason.SHARD_CORRUPT)
        yield record.value
    if expected:
        gone = min(expected)
        message = f"shard {shard.index}: there is no message at {place.partition}/{gone}"
        raise DataError(message, reason=Reason.DATA_LOST)
