"""A producer worker: takes slices by claim and writes what is missing, until nothing is.

`step` does one small thing, so that tests can interleave workers and end them between any two steps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from evenkeel.domain.job import DatasetRef, ProducerSettings, SourceFormat
from evenkeel.domain.journal import (
    PLAN_SLICE,
    Claim,
    Entry,
    Finished,
    HeldClaim,
    Plan,
    Rejected,
    SliceState,
)
from evenkeel.errors import InputError
from evenkeel.format.arrow import schema_digest
from evenkeel.ingest.headers import MessageIdentity
from evenkeel.ingest.journal import Journal
from evenkeel.ingest.outbox import Acknowledged, Outbox
from evenkeel.ingest.packing import PackedMessage, Packer, refuse_bad_sizes
from evenkeel.ingest.plan import Layout, MessageRange, build_layout, build_plan, build_schema
from evenkeel.ingest.recovery import DataLog, find_written, missing_ranges
from evenkeel.ingest.rejects import Rejects
from evenkeel.ingest.sources import Listing, list_source
from evenkeel.reasons import Reason

log = logging.getLogger(__name__)

STALE_SECONDS = 30.0
"""Silence after which another worker's slice may be taken; a needless take-over costs bytes, never records."""
JOURNAL_EVERY = 16
"""Acknowledged messages that are journaled at once."""


class Step(Enum):
    """What a step did."""

    WORKED = "Worked"
    WAITING = "Waiting"
    DONE = "Done"


@dataclass(frozen=True, slots=True)
class Ports:
    """What a worker uses of the world."""

    journal: Journal
    outbox: Outbox
    data: DataLog
    rejects: Rejects


@dataclass(slots=True)
class _Attempt:
    """The slice in hand."""

    slice: int
    number: int
    todo: list[MessageRange]
    unjournaled: list[Acknowledged] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Work:
    """What the plan says, computed from our own listing."""

    plan: Plan
    layout: Layout
    packer: Packer


class Worker:
    """One worker process.

    Args:
        index: of the worker within its job.
        instance: unique per process.
        dataset: whose records.
        settings: of the ingest; the plan's win once there is one.
        ports: journal, data topic, rejected topic.
        list_objects: the listing of the source.
        journal_every: acknowledged messages that are journaled at once.
    """

    def __init__(
        self,
        index: int,
        instance: str,
        dataset: DatasetRef,
        settings: ProducerSettings,
        ports: Ports,
        list_objects: Callable[[ProducerSettings], Listing] = list_source,
        journal_every: int = JOURNAL_EVERY,
    ) -> None:
        self._index = index
        self._instance = instance
        self._dataset = dataset
        self._settings = settings
        self._ports = ports
        self._journal = ports.journal
        self._list = list_objects
        self._journal_every = journal_every
        self._listings: dict[SourceFormat, Listing] = {}
        self._layouts: dict[ProducerSettings, Layout] = {}
        self._work: _Work | None = None
        self._attempt: _Attempt | None = None
        self._routed = False
        self._began_at: int | None = None

    def step(self) -> Step:
        """Do the next small thing.

        Raises:
            InputError: the source cannot be ingested as it is.
            RetryableError: Kafka or the source failed; call `reset`, then go on.
            DataError: the journal contradicts itself.
        """
        if self._began_at is None:
            self._journal.catch_up()
            self._began_at = self._journal.state.next_offset
        self._journal.poll()
        state = self._journal.state
        if state.seal is not None or state.complete:
            self._attempt = None
            return Step.DONE
        if self._work is None:
            return self._prepare()
        if self._attempt is None:
            return self._take(self._work)
        return self._advance(self._work, self._attempt)

    def reset(self) -> None:
        """After a failure: what was under way is unknown; a new claim will find out."""
        self._ports.outbox.drop()
        self._attempt = None

    def release(self) -> None:
        """Journal what is acknowledged and give the slice in hand back, because this process must end."""
        if self._attempt is None:
            return
        self._end(self._attempt)

    def _prepare(self) -> Step:
        plan = self._journal.state.plan
        if plan is not None:
            self._work = self._follow_plan(plan)
            return Step.WORKED
        listing = self._look(self._settings)
        refuse_bad_sizes(listing, self._settings)
        # Before the claim: what takes long must not look like the silence of a dead planner.
        layout = self._lay_out(self._settings)
        if not self._may_take(self._journal.state.plan_claim):
            return Step.WAITING
        (attempt,) = self._journal.append(Claim(PLAN_SLICE, self._index, self._instance))
        held = self._journal.state.plan_claim
        if held is not None and held.attempt == attempt:
            self._journal.append(build_plan(listing, layout, self._settings, attempt))
            log.info(
                "planned objects=%d slices=%d bytes=%d",
                len(listing.objects),
                len(layout.slices),
                layout.planned_bytes,
            )
        return Step.WORKED

    def _follow_plan(self, plan: Plan) -> _Work:
        settings = replace(
            self._settings,
            format=plan.format,
            order=plan.order,
            seed=plan.seed,
            message_bytes=plan.message_bytes,
            message_records=plan.message_records,
            max_record_bytes=plan.max_record_bytes,
            slice_bytes=plan.slice_bytes,
        )
        listing = self._look(settings)
        layout = self._lay_out(settings)
        if listing.digest != plan.listing_digest or schema_digest(layout.schema) != plan.schema_digest:
            message = (
                f"source {settings.source_path}: {len(listing.objects)} objects with digest {listing.digest}, "
                f"the plan was made for {plan.objects} with {plan.listing_digest}"
            )
            raise InputError(message, reason=Reason.SOURCE_CHANGED)
        return _Work(plan, layout, Packer(listing, build_schema(listing, settings.format), settings))

    def _look(self, settings: ProducerSettings) -> Listing:
        """The source, listed once."""
        if settings.format not in self._listings:
            self._listings[settings.format] = self._list(settings)
        return self._listings[settings.format]

    def _lay_out(self, settings: ProducerSettings) -> Layout:
        """The layout by these settings; only the last one is kept."""
        if settings not in self._layouts:
            self._layouts = {settings: build_layout(self._look(settings), settings)}
        return self._layouts[settings]

    def _take(self, work: _Work) -> Step:
        self._wait_for_routes()
        number = self._choose()
        if number is None:
            return Step.WAITING
        before = self._journal.state.slices[number].first_attempt
        (attempt,) = self._journal.append(Claim(number, self._index, self._instance))
        state = self._journal.state.slices[number]
        if not self._holds(number, attempt):
            return Step.WORKED
        missing = missing_ranges(work.layout.slices[number], state)
        self._attempt = _Attempt(number, attempt, missing)
        if before is not None:
            self._recover(work, self._attempt, state, before)
        return Step.WORKED

    def _recover(self, work: _Work, attempt: _Attempt, state: SliceState, since: int) -> None:
        """Journal what earlier attempts wrote; only the rest is written again."""
        records = self._ports.data.scan(self._journal.state.ends_before(since))
        digest = work.plan.schema_digest
        found = find_written(records, attempt.todo, state, self._dataset.uid, work.layout.schema, digest)
        log.info("recovered slice=%d messages=%d of %d", attempt.slice, len(found), len(attempt.todo))
        attempt.unjournaled.extend(found.values())
        attempt.todo = [message for message in attempt.todo if message.first not in found]

    def _advance(self, work: _Work, attempt: _Attempt) -> Step:
        if not self._holds(attempt.slice, attempt.number):
            log.warning("slice %d was taken by another worker", attempt.slice)
            self._attempt = None
            return Step.WORKED
        if attempt.todo:
            self._write(work, attempt, attempt.todo.pop(0))
            self._gather(attempt)
            if len(attempt.unjournaled) >= self._journal_every:
                self._record(attempt)
            return Step.WORKED
        self._end(attempt)
        return Step.WORKED

    def _write(self, work: _Work, attempt: _Attempt, message: MessageRange) -> None:
        left_out = self._journal.state.slices[attempt.slice].rejected
        packed = work.packer.pack(message, left_out)
        self._quarantine(attempt, packed)
        if packed.records == 0:
            return
        identity = MessageIdentity(
            dataset=self._dataset.uid,
            schema=work.plan.schema_digest,
            attempt=attempt.number,
            slice=attempt.slice,
            first=message.first,
            count=packed.records,
            digest=packed.digest,
        )
        self._ports.outbox.send(identity, message.span, packed.value)

    def _quarantine(self, attempt: _Attempt, packed: PackedMessage) -> None:
        if not packed.rejected:
            return
        self._ports.rejects.write(packed.rejected)
        place = attempt.slice, attempt.number
        self._journal.append(
            *(
                Rejected(*place, bad.position, bad.record_id, bad.reason.value, bad.digest)
                for bad in packed.rejected
            )
        )

    def _gather(self, attempt: _Attempt) -> None:
        """Reports of an attempt that is over are dropped with it: its claim counts no more."""
        reports = self._ports.outbox.take()
        attempt.unjournaled.extend(item for item in reports if item.identity.attempt == attempt.number)

    def _record(self, attempt: _Attempt) -> None:
        """Journal what is acknowledged."""
        entries = [_build_entry(item, attempt.number) for item in attempt.unjournaled]
        self._journal.append(*entries)
        attempt.unjournaled = []

    def _end(self, attempt: _Attempt) -> None:
        """Wait for what is in flight, journal it and let go of the slice."""
        self._ports.outbox.flush()
        self._gather(attempt)
        entries = [_build_entry(item, attempt.number) for item in attempt.unjournaled]
        self._journal.append(*entries, Finished(attempt.slice, attempt.number))
        self._attempt = None

    def _wait_for_routes(self) -> None:
        offset = self._journal.state.plan_offset
        if self._routed or offset is None:
            return
        self._routed = True
        if not self._ports.outbox.wait_for_routes(offset):
            log.warning(
                "reason=%s: no routes for plan offset %d came in time", Reason.ROUTES_LATE.value, offset
            )

    def _choose(self) -> int | None:
        """An open slice that may be taken: those of our own share first, so that workers rarely meet."""
        plan = self._journal.state.plan
        workers = max(1, self._settings.workers)
        free = [
            number
            for number in self._journal.state.open_slices()
            if self._may_take(self._journal.state.slices[number].claim)
        ]
        if plan is None or not free:
            return None
        return min(free, key=lambda number: ((number - self._index) % workers, number))

    def _may_take(self, claim: HeldClaim | None) -> bool:
        """Free, ours from before a failure, of a dead predecessor at our index, or silent for too long."""
        if claim is None or claim.instance == self._instance:
            return True
        predecessor = claim.worker == self._index and claim.attempt < (self._began_at or 0)
        return predecessor or self._journal.silence(claim.instance) > STALE_SECONDS

    def _holds(self, number: int, attempt: int) -> bool:
        claim = self._journal.state.slices[number].claim
        return claim is not None and claim.attempt == attempt


def _build_entry(item: Acknowledged, attempt: int) -> Entry:
    return Entry(
        slice=item.identity.slice,
        attempt=attempt,
        first=item.identity.first,
        span=item.span,
        records=item.identity.count,
        partition=item.partition,
        offset=item.offset,
        length=item.length,
        digest=item.identity.digest,
    )
