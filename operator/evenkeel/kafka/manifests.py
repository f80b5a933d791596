"""Manifests in Kafka: content and location of a revision in chunks, keyed by the revision's digest.

Every record names its writing (a sealer that crashed may have left half of one), its kind, and its place
among the chunks. The newest complete writing is the one that is read.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from evenkeel.domain.connection import Connection
from evenkeel.errors import DataError
from evenkeel.kafka.clients.append import Appender
from evenkeel.kafka.clients.reader import LogRecord, PartitionReader
from evenkeel.reasons import Reason

CHUNK_BYTES = 512 * 1024
"""Below the 1 MiB that a topic takes by default."""
CONTENT, LOCATION = "content", "location"
_HEADER = "evenkeel-chunk"


class ManifestWriter:
    """Writes revisions' manifests.

    Args:
        appender: of the cluster.
        topic: the dataset's manifest topic; partition 0 is used.
        writing: unique per writer, so that two half writings never mix.
    """

    def __init__(self, appender: Appender, topic: str, writing: str) -> None:
        self._appender = appender
        self._topic = topic
        self._writing = writing

    def write(self, content: bytes, location: bytes) -> str:
        """Write both tables, wait for them, return the revision's digest. Errors as `Appender.append`."""
        digest = hashlib.sha256(content).hexdigest()
        chunks = [*_build_chunks(CONTENT, content), *_build_chunks(LOCATION, location)]
        records = [
            (value, digest, [(_HEADER, json.dumps([self._writing, kind, index, count]).encode())])
            for kind, index, count, value in chunks
        ]
        self._appender.append_all(self._topic, records, partition=0)
        return digest


def read_manifest(connection: Connection, topic: str, digest: str) -> tuple[bytes, bytes]:
    """Content manifest and location of a revision, as stored bytes.

    Raises:
        DataError: DATA_LOST: the topic holds no complete writing of that revision; SHARD_CORRUPT: its
            bytes have another digest.
        RetryableError: Kafka does not answer.
    """
    with PartitionReader(connection, topic) as reader:
        first, end = reader.bounds()
        content, location = gather_manifest(reader.read(first, end), digest, topic)
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        message = f"{topic}: the manifest of revision {digest} has digest {found}"
        raise DataError(message, reason=Reason.SHARD_CORRUPT)
    return content, location


def read_location(connection: Connection, topic: str, digest: str, timeout: float = 10.0) -> bytes:
    """Only the location of a revision, as stored bytes; the content is passed over.

    Raises:
        DataError: as `read_manifest`.
        RetryableError: Kafka does not answer, or pauses for longer than `timeout` seconds.
    """
    with PartitionReader(connection, topic) as reader:
        first, end = reader.bounds(timeout)
        return gather_location(reader.read(first, end, timeout), digest, topic)


def gather_location(records: Iterable[LogRecord], digest: str, topic: str) -> bytes:
    """The location of the newest writing of `digest` among `records`.

    Its writer writes the content first, so that a complete location is the end of a complete writing.

    Raises:
        DataError: there is none, or a chunk's header is not ours.
    """
    writings: dict[str, dict[int, bytes]] = defaultdict(dict)
    newest: bytes | None = None
    for record in records:
        if record.key != digest.encode():
            continue
        name, kind, index, count = _parse_header(record, topic)
        if kind == LOCATION:
            writings[name][index] = record.value
            if len(writings[name]) == count:
                newest = b"".join(value for _, value in sorted(writings[name].items()))
    if newest is None:
        raise DataError(f"{topic}: no complete manifest of revision {digest}", reason=Reason.DATA_LOST)
    return newest


def gather_manifest(records: Iterable[LogRecord], digest: str, topic: str) -> tuple[bytes, bytes]:
    """The two tables of the newest complete writing of `digest` among `records`.

    Raises:
        DataError: there is none, or a chunk's header is not ours.
    """
    writings: dict[str, _Writing] = defaultdict(_Writing)
    newest: tuple[bytes, bytes] | None = None
    for record in records:
        if record.key != digest.encode():
            continue
        name, kind, index, count = _parse_header(record, topic)
        found = writings[name].add(kind, index, count, record.value)
        newest = found or newest
    if newest is None:
        raise DataError(f"{topic}: no complete manifest of revision {digest}", reason=Reason.DATA_LOST)
    return newest


@dataclass
class _Writing:
    """The chunks of one writing seen so far."""

    chunks: dict[str, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, index: int, count: int, value: bytes) -> tuple[bytes, bytes] | None:
        self.chunks[kind][index] = value
        self.counts[kind] = count
        if all(len(self.chunks[name]) == self.counts.get(name) for name in (CONTENT, LOCATION)):
            return self._join(CONTENT), self._join(LOCATION)
        return None

    def _join(self, kind: str) -> bytes:
        return b"".join(value for _, value in sorted(self.chunks[kind].items()))


def _build_chunks(kind: str, content: bytes) -> Iterator[tuple[str, int, int, bytes]]:
    count = max(1, -(-len(content) // CHUNK_BYTES))
    for index in range(count):
        yield kind, index, count, content[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES]


def _parse_header(record: LogRecord, topic: str) -> tuple[str, str, int, int]:
    try:
        name, kind, index, count = json.loads(record.headers[_HEADER])
        return str(name), str(kind), int(index), int(count)
    except (KeyError, ValueError, TypeError) as error:
        message = f"{topic}: record {record.offset} is no chunk of a manifest"
        raise DataError(message, reason=Reason.DATA_LOST) from error
