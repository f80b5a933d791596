"""The journal of a dataset: what its workers claim, write and seal, and the arbiter that decides what counts.

The journal topic has one partition and its order is the truth. An attempt begins with a claim, and the
claim's offset is the attempt's number. What an attempt says of a slice counts only as long as no later
claim for that slice precedes it in the log, so a worker that was thought dead can do no harm. Written
messages that no counting entry refers to do not exist for Evenkeel.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenkeel.domain import codec
from evenkeel.domain.exchange import SealReport
from evenkeel.domain.job import Order, SourceFormat
from evenkeel.errors import DataError, InputError
from evenkeel.reasons import Reason

PLAN_SLICE = -1
"""The slice whose holder lists the source and appends the plan."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker begins an attempt at a slice; the record's offset is the attempt's number."""

    slice: int
    worker: int
    """Index of the worker within its job; a restarted worker keeps it."""
    instance: str
    """Unique per process."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be written, fixed before the first write."""

    attempt: int
    format: SourceFormat
    order: Order
    seed: int
    listing_digest: str
    """SHA-256 hex of the source's listing; a worker that sees another one stops."""
    objects: int
    records: tuple[int, ...]
    """Records of each slice."""
    message_bytes: int
    message_records: int
    max_record_bytes: int
    slice_bytes: int
    planned_bytes: int
    """What the data topic will hold in one replica, on disk."""
    schema: str
    """Arrow schema message, base64."""
    schema_digest: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A message that Kafka acknowledged."""

    slice: int
    attempt: int
    first: int
    """Number within the slice of the first record that it covers."""
    span: int
    """Records of the plan that it covers: those in it and the rejected ones between."""
    records: int
    """Records in it."""
    partition: int
    offset: int
    length: int
    """Bytes of its value."""
    digest: str
    """SHA-256 hex of its value."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that is left out of the revision, for good."""

    slice: int
    attempt: int
    position: int
    """Number within the slice."""
    record_id: str
    reason: str
    """A value of reasons.Reason."""
    digest: str = ""
    """SHA-256 hex of the object's bytes; empty where they could not be read."""


@dataclass(frozen=True, slots=True)
class Finished:
    """An attempt ends: the slice is complete, or given back for others to take at once."""

    slice: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Lost:
    """A message whose bytes are not in the log as its entry says."""

    slice: int
    first: int


@dataclass(frozen=True, slots=True)
class Reopen:
    """The sealer found gaps: these slices are to be completed by the next producer job."""

    round: int
    slices: tuple[int, ...]
    lost: tuple[Lost, ...] = ()
    """Entries that count no more."""


@dataclass(frozen=True, slots=True)
class Seal:
    """The revision is complete and its manifest is written; nothing after this counts."""

    digest: str
    records: int
    shards: int
    data_bytes: int
    rejected: int
    schema_digest: str
    round: int | None = None
    """The round whose journal was verified: a later reopen has found a gap that this seal does not know of."""


JournalRecord = Claim | Plan | Entry | Rejected | Finished | Reopen | Seal
_TYPES: Mapping[str, type[JournalRecord]] = {
    kind.__name__: kind for kind in (Claim, Plan, Entry, Rejected, Finished, Reopen, Seal)
}


def encode(record: JournalRecord) -> bytes:
    """A record as the value of a Kafka record: canonical JSON with its type."""
    content = {"type": type(record).__name__, **codec.to_json(record)}
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def parse(value: bytes) -> JournalRecord:
    """The record in the value of a Kafka record.

    Raises:
        DataError: not a journal record of a type that this version knows; names the field.
    """
    try:
        raw: Any = json.loads(value)
        kind = _TYPES.get(str(raw.get("type"))) if isinstance(raw, dict) else None
        if kind is None:
            message = f"journal record: type must be one of {', '.join(_TYPES)}, not {value[:80]!r}"
            raise DataError(message, reason=Reason.DATA_LOST)
        return codec.from_json(kind, raw)
    except (ValueError, RecursionError, InputError) as error:
        raise DataError(f"journal record: {error}", reason=Reason.DATA_LOST) from error


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """The claim in force of a slice."""

    attempt: int
    worker: int
    instance: str


@dataclass(slots=True)
class SliceState:
    """What counts of one slice."""

    records: int
    claim: HeldClaim | None = None
    first_attempt: int | None = None
    """Offset of the first claim since an attempt last ended; None: what was written is journaled.

    Messages that nobody journaled are not older than this, or were given up by a reopen.
    """
    entries: dict[int, Entry] = field(default_factory=dict)
    """By the number of their first record; ranges never overlap."""
    rejected: dict[int, Rejected] = field(default_factory=dict)
    """By position."""
    covered: int = 0
    """Records of the plan that are acknowledged or rejected."""

    @property
    def complete(self) -> bool:
        """Whether every record of the plan is accounted for."""
        return self.covered == self.records


class JournalState:
    """The fold over a journal. Feed every record in log order; read the attributes, change nothing."""

    def __init__(self) -> None:
        self.next_offset = 0
        """Offset after the last record that was applied."""
        self.plan: Plan | None = None
        self.plan_offset: int | None = None
        self.plan_claim: HeldClaim | None = None
        self.slices: dict[int, SliceState] = {}
        self.acknowledged_records = 0
        self.acknowledged_bytes = 0
        """Sum of the values' bytes, before replication and compression."""
        self.rejected_records = 0
        self.finished_slices = 0
        """Slices that are complete."""
        self.round = 0
        self.reopened_at: int | None = None
        """Offset of the newest reopen that no seal follows."""
        self.seal: SealReport | None = None
        self._entry_offsets: list[tuple[int, Entry]] = []

    @property
    def planned_records(self) -> int | None:
        """Records of the source, None before the plan."""
        return None if self.plan is None else sum(self.plan.records)

    @property
    def planned_slices(self) -> int | None:
        """Slices, None before the plan."""
        return None if self.plan is None else len(self.plan.records)

    @property
    def planned_bytes(self) -> int | None:
        """On-disk bytes of one replica, None before the plan."""
        return None if self.plan is None else self.plan.planned_bytes

    @property
    def complete(self) -> bool:
        """Whether there is a plan and every record of it is acknowledged or rejected."""
        return self.plan is not None and self.finished_slices == len(self.slices)

    @property
    def claims(self) -> Mapping[int, HeldClaim]:
        """Slice -> claim in force, the plan's among them."""
        held = {number: state.claim for number, state in self.slices.items()}
        held[PLAN_SLICE] = self.plan_claim
        return {number: claim for number, claim in held.items() if claim is not None}

    def open_slices(self) -> tuple[int, ...]:
        """Slices that are not complete, ascending."""
        return tuple(number for number, state in sorted(self.slices.items()) if not state.complete)

    def entries(self) -> Iterator[Entry]:
        """Every entry that counts."""
        for state in self.slices.values():
            yield from state.entries.values()

    def ends_before(self, journal_offset: int) -> dict[int, int]:
        """Partition -> data offset from which on messages of attempts >= `journal_offset` must lie.

        A message that was journaled before a claim was in its partition before anything that the
        claim's attempt wrote. Partitions without an entry are absent: begin at their start.
        """
        ends: dict[int, int] = {}
        for position, entry in self._entry_offsets:
            if position < journal_offset:
                ends[entry.partition] = max(ends.get(entry.partition, 0), entry.offset + 1)
        return ends

    def apply(self, offset: int, record: JournalRecord) -> None:
        """Take the next record of the log; one that does not count changes nothing.

        Raises:
            DataError: `offset` is not after the last one, or the record contradicts the plan.
        """
        if offset < self.next_offset:
            message = f"journal offset {offset} comes after {self.next_offset - 1}"
            raise DataError(message, reason=Reason.DATA_LOST)
        self.next_offset = offset + 1
        if self.seal is not None:
            return
        match record:
            case Claim():
                self._claim(offset, record)
            case Plan():
                self._fix_plan(offset, record)
            case Entry():
                self._acknowledge(offset, record)
            case Rejected():
                self._reject(record)
            case Finished():
                self._finish(record)
            case Reopen():
                self._reopen(offset, record)
            case Seal():
                self._seal(offset, record)

    def _claim(self, offset: int, claim: Claim) -> None:
        held = HeldClaim(offset, claim.worker, claim.instance)
        if claim.slice == PLAN_SLICE:
            self.plan_claim = held
        elif claim.slice in self.slices:
            state = self.slices[claim.slice]
            state.claim = held
            state.first_attempt = offset if state.first_attempt is None else state.first_attempt

    def _fix_plan(self, offset: int, plan: Plan) -> None:
        held = self.plan_claim
        if self.plan is not None or held is None or held.attempt != plan.attempt:
            return
        self.plan, self.plan_offset, self.plan_claim = plan, offset, None
        self.slices = {number: SliceState(count) for number, count in enumerate(plan.records)}
        self.finished_slices = sum(state.complete for state in self.slices.values())

    def _in_force(self, slice_number: int, attempt: int) -> SliceState | None:
        state = self.slices.get(slice_number)
        if state is None or state.claim is None or state.claim.attempt != attempt:
            return None
        return state

    def _acknowledge(self, offset: int, entry: Entry) -> None:
        state = self._in_force(entry.slice, entry.attempt)
        if state is None or entry.first in state.entries:
            return
        covered = self._covered_by(state, entry)
        state.entries[entry.first] = entry
        self._cover(state, covered)
        self.acknowledged_records += entry.records
        self.acknowledged_bytes += entry.length
        self._entry_offsets.append((offset, entry))

    def _covered_by(self, state: SliceState, entry: Entry) -> int:
        """Positions that the entry newly covers, after checking that it agrees with plan and rejections."""
        end = entry.first + entry.span
        clash = any(
            other.first < end and entry.first < other.first + other.span for other in state.entries.values()
        )
        rejected = sum(entry.first <= position < end for position in state.rejected)
        if clash or entry.first < 0 or end > state.records or entry.span - rejected != entry.records:
            message = (
                f"journal: slice {entry.slice}, records {entry.first} to {end - 1} ({entry.records} written, "
                f"{rejected} rejected) do not fit the plan's {state.records} records"
            )
            raise DataError(message, reason=Reason.SEAL_FAILED)
        return entry.span - rejected

    def _reject(self, rejected: Rejected) -> None:
        state = self._in_force(rejected.slice, rejected.attempt)
        position = rejected.position
        if state is None or position in state.rejected or not 0 <= position < state.records:
            return
        if any(entry.first <= position < entry.first + entry.span for entry in state.entries.values()):
            return  # acknowledged already
        state.rejected[position] = rejected
        self._cover(state, 1)
        self.rejected_records += 1

    def _cover(self, state: SliceState, records: int) -> None:
        before = state.complete
        state.covered += records
        self.finished_slices += int(state.complete) - int(before)

    def _finish(self, finished: Finished) -> None:
        state = self._in_force(finished.slice, finished.attempt)
        if state is not None:
            state.claim = state.first_attempt = None

    def _reopen(self, offset: int, reopen: Reopen) -> None:
        if reopen.round != self.round + 1:
            return  # of a second sealer that looked before this round: what it missed may be here by now
        self.round, self.reopened_at = reopen.round, offset
        for lost in reopen.lost:
            state = self.slices.get(lost.slice)
            entry = state.entries.pop(lost.first, None) if state is not None else None
            if state is not None and entry is not None:
                self._cover(state, -entry.records)
                self.acknowledged_records -= entry.records
                self.acknowledged_bytes -= entry.length
        for number in reopen.slices:
            if number in self.slices:
                # Without this, every slice of a large dataset would be looked for in all of its topic.
                self.slices[number].claim = self.slices[number].first_attempt = None

    def _seal(self, offset: int, seal: Seal) -> None:
        if seal.round is not None and seal.round != self.round:
            return
        self.reopened_at = None
        self.seal = SealReport(
            digest=seal.digest,
            records=seal.records,
            shards=seal.shards,
            data_bytes=seal.data_bytes,
            rejected=seal.rejected,
            journal_offset=offset,
            schema_digest=seal.schema_digest,
        )


__all__ = [
    "PLAN_SLICE", "Claim", "Entry", "Finished", "HeldClaim", "JournalRecord", "JournalState", "Lost",
    "Plan", "Rejected", "Reopen", "Seal", "SliceState", "encode", "parse",
]  # fmt: skip
