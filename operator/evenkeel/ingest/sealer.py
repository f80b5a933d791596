"""The sealer: reads back every byte that the journal refers to, then writes the manifest and the seal."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from evenkeel.domain.job import SealerSettings
from evenkeel.domain.journal import Entry, JournalState, Lost, Plan, Reopen, Seal
from evenkeel.domain.revision import Location, Manifest, MessageEntry, Shard, ShardLocation
from evenkeel.errors import DataError, InputError
from evenkeel.format import arrow
from evenkeel.format.shards import END_MARKER, file_bytes, message_digest, shard_digest
from evenkeel.ingest.headers import MessageIdentity, parse_identity
from evenkeel.kafka.clients.identity import TopicIdentity
from evenkeel.kafka.clients.reader import LogRecord
from evenkeel.reasons import Reason


class ReadRange(Protocol):
    """Reads what is there of a partition with first <= offset < end, ascending."""

    def __call__(self, partition: int, first: int, end: int) -> Iterator[LogRecord]:
        """Read."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A verified revision, ready to be written."""

    manifest: Manifest
    shards: tuple[ShardLocation, ...]

    def locate(self, digest: str, topic: str, identity: TopicIdentity) -> Location:
        """The location table of the revision once its digest is known."""
        return Location(digest, identity.cluster_id, topic, identity.topic_id, self.shards)


def plan_reopen(state: JournalState, settings: SealerSettings, lost: Sequence[Lost] = ()) -> Reopen:
    """The record that asks for another round.

    Raises:
        InputError: SEAL_FAILED: there were `max_rounds` rounds already.
    """
    slices = tuple(sorted({*state.open_slices(), *(item.slice for item in lost)}))
    if state.round >= settings.max_rounds:
        message = f"slices {slices[:10]} are not whole after {state.round} rounds, the limit"
        raise InputError(message, reason=Reason.SEAL_FAILED)
    return Reopen(state.round + 1, slices, tuple(lost))


def verify(
    state: JournalState, plan: Plan, dataset: str, schema: bytes, shard_bytes: int, read: ReadRange
) -> Sealed | tuple[Lost, ...]:
    """Read every referenced message once, in partition and offset order, and build the shards.

    Returns:
        The revision, or the entries whose bytes are not in the log as they say.

    Raises:
        DataError: a record is in the revision twice, or missing although every slice is complete.
        InputError: BAD_RECORD: nothing is left, no cache would take and no reader could use it.
    """
    checker = _Checker(plan, dataset, schema, _Identities(plan.objects))
    builder = _ShardBuilder(schema, plan.schema_digest, shard_bytes)
    for partition, entries in sorted(_by_partition(state).items()):
        for entry, value in checker.check(entries, read, partition):
            builder.add(partition, entry, value)
        builder.cut()
    if checker.lost:
        return tuple(checker.lost)
    rejected = [record.record_id for part in state.slices.values() for record in part.rejected.values()]
    checker.identities.finish(rejected)
    if not builder.shards:
        message = f"all {len(rejected)} records of the source were rejected: nothing is left to seal"
        raise InputError(message, reason=Reason.BAD_RECORD)
    manifest = Manifest(
        schema=plan.schema,
        schema_digest=plan.schema_digest,
        seed=plan.seed,
        records=sum(shard.records for shard in builder.shards),
        objects=plan.objects,
        rejected=len(rejected),
        shards=tuple(builder.shards),
    )
    return Sealed(manifest, tuple(builder.locations))


def build_seal(manifest: Manifest, digest: str, round_: int) -> Seal:
    """The record that makes a revision true, as long as no round was asked for since `round_`."""
    return Seal(
        round=round_,
        digest=digest,
        records=manifest.records,
        shards=len(manifest.shards),
        data_bytes=sum(shard.file_bytes for shard in manifest.shards),
        rejected=manifest.rejected,
        schema_digest=manifest.schema_digest,
    )


def _by_partition(state: JournalState) -> dict[int, list[Entry]]:
    parts: dict[int, list[Entry]] = defaultdict(list)
    for entry in state.entries():
        parts[entry.partition].append(entry)
    for entries in parts.values():
        entries.sort(key=lambda entry: entry.offset)
    return parts


@dataclass
class _Checker:
    """Compares what is in the log with what the journal says."""

    plan: Plan
    dataset: str
    schema: bytes
    identities: _Identities
    lost: list[Lost] = field(default_factory=list)

    def check(
        self, entries: Sequence[Entry], read: ReadRange, partition: int
    ) -> Iterator[tuple[Entry, bytes]]:
        """Entries of one partition with their verified bytes; others are noted as lost."""
        # A partition that lost its end gives an offset out again: then two entries name it, and one is lost.
        awaited: dict[int, list[Entry]] = defaultdict(list)
        for entry in entries:
            awaited[entry.offset].append(entry)
        for record in read(partition, entries[0].offset, entries[-1].offset + 1):
            for entry in awaited.pop(record.offset, ()):
                if self._agrees(entry, record):
                    yield entry, record.value
        gone = (entry for entries in awaited.values() for entry in entries)
        self.lost.extend(Lost(entry.slice, entry.first) for entry in gone)

    def _agrees(self, entry: Entry, record: LogRecord) -> bool:
        expected = MessageIdentity(
            dataset=self.dataset,
            schema=self.plan.schema_digest,
            attempt=entry.attempt,
            slice=entry.slice,
            first=entry.first,
            count=entry.records,
            digest=entry.digest,
        )
        found = parse_identity(record.headers)
        same = found is not None and found.same_content(expected)
        if not same or len(record.value) != entry.length or message_digest(record.value) != entry.digest:
            self.lost.append(Lost(entry.slice, entry.first))
            return False
        self.identities.take(self.schema, entry, record.value)
        return True


class _Identities:
    """Which objects of the source are accounted for: one bit each."""

    def __init__(self, objects: int) -> None:
        self._seen = np.zeros(objects, dtype=np.bool_)

    def take(self, schema: bytes, entry: Entry, value: bytes) -> None:
        batch = arrow.decode(schema, value)
        names = batch.column(arrow.ID).to_pylist()
        if len(names) != entry.records or not all(map(self._is_id, names)):
            what = (
                f"{len(names)} records, {entry.records} expected, each with an id below {len(self._seen)}.0"
            )
            message = f"slice {entry.slice}, record {entry.first}: {what}"
            raise DataError(message, reason=Reason.SEAL_FAILED)
        self._mark(names)

    def finish(self, rejected: Sequence[str]) -> None:
        """Every object exactly once, delivered or rejected."""
        self._mark(rejected)
        missing = np.flatnonzero(~self._seen)
        if len(missing):
            message = f"{len(missing)} records are missing, the first is {int(missing[0])}.0"
            raise DataError(message, reason=Reason.SEAL_FAILED)

    def _is_id(self, name: object) -> bool:
        index = str(name).removesuffix(".0")
        return index.isdecimal() and arrow.record_id(int(index), 0) == name and int(index) < len(self._seen)

    def _mark(self, names: Sequence[str]) -> None:
        indexes = np.array([int(name.partition(".")[0]) for name in names], dtype=np.int64)
        if len(np.unique(indexes)) != len(indexes) or self._seen[indexes].any():
            raise DataError("a record is in the revision twice", reason=Reason.SEAL_FAILED)
        self._seen[indexes] = True


class _ShardBuilder:
    """Cuts verified messages into shards, hashing the files that they will be without keeping them."""

    def __init__(self, schema: bytes, schema_digest: str, shard_bytes: int) -> None:
        self.shards: list[Shard] = []
        self.locations: list[ShardLocation] = []
        self._schema = schema
        self._schema_digest = schema_digest
        self._limit = shard_bytes
        self._begin()

    def add(self, partition: int, entry: Entry, value: bytes) -> None:
        lengths = [message.length for message in self._messages]
        if lengths and file_bytes(len(self._schema), [*lengths, len(value)]) > self._limit:
            self.cut()
        self._partition = partition
        self._messages.append(
            MessageEntry(entry.slice, entry.first, entry.records, entry.length, entry.digest)
        )
        self._offsets.append(entry.offset)
        self._file.update(value)

    def cut(self) -> None:
        """End the shard in hand, if it holds anything."""
        if not self._messages:
            return
        self._file.update(END_MARKER)
        index = len(self.shards)
        shard = Shard(
            index=index,
            records=sum(message.records for message in self._messages),
            file_bytes=file_bytes(len(self._schema), [message.length for message in self._messages]),
            digest=shard_digest(self._schema_digest, [message.digest for message in self._messages]),
            file_digest=self._file.hexdigest(),
            messages=tuple(self._messages),
        )
        self.shards.append(shard)
        self.locations.append(ShardLocation(index, self._partition, tuple(self._offsets)))
        self._begin()

    def _begin(self) -> None:
        self._messages: list[MessageEntry] = []
        self._offsets: list[int] = []
        self._partition = 0
        self._file = hashlib.sha256(self._schema)
