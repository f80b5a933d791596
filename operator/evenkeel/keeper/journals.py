"""Follows the journals of datasets: how far ingests are, and when a plan appears."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import DatasetReport, DesiredDataset, Fault, RoutesReport
from evenkeel.domain.journal import JournalState, parse
from evenkeel.errors import DataError, EvenkeelError
from evenkeel.kafka.clients.reader import LogRecord, PartitionReader, Tail
from evenkeel.kafka.topics import data_topic, journal_topic
from evenkeel.keeper.routes import Ingest

log = logging.getLogger(__name__)
RETRY_SECONDS = 2.0
"""Pause after trouble with a journal: each try makes a new client."""
BURST_SECONDS = 5.0
"""Longest time that one journal may be read without a pause for the others."""


class Follower:
    """One journal from its start on."""

    def __init__(self, connection: Connection, dataset: DesiredDataset) -> None:
        self.dataset = dataset
        self.state = JournalState()
        self.fault: Fault | None = None
        self._broken: Fault | None = None
        self._connection = connection
        self._reader: PartitionReader | None = None
        self._tail: Tail | None = None
        self._end = 0
        self._position = 0
        self._retry_at = float("-inf")

    @property
    def caught_up(self) -> bool:
        """Whether everything that was there at the start has been read; before that nothing is reported."""
        return self._tail is not None and self._position >= self._end

    def poll(self, monotonic: Callable[[], float]) -> None:
        """Take what has come. Trouble ends up in `fault` and is tried again with a new reader."""
        now = monotonic()
        if now < self._retry_at:
            return
        deadline = now + BURST_SECONDS
        try:
            self._open()
            assert self._tail is not None
            while records := self._tail.poll(0.05):
                for record in records:
                    self._apply(record)
                if monotonic() > deadline:
                    break
        except EvenkeelError as error:
            self.fault = self._fault(error)
            self._retry_at = monotonic() + RETRY_SECONDS
            self.close()
        else:
            self.fault = self._broken

    def ingest(self) -> Ingest:
        """What routing needs of it."""
        state = self.state
        if state.seal is not None:
            return Ingest(state.plan_offset, state.planned_bytes, 0)
        if state.plan is None:
            return Ingest()
        records = state.planned_records or 0
        left = records - state.acknowledged_records - state.rejected_records
        # By records, since acknowledged bytes are counted before compression.
        remaining = state.plan.planned_bytes * max(0, left) // records if records else 0
        return Ingest(state.plan_offset, state.planned_bytes, remaining)

    def close(self) -> None:
        """Give the connection back; the next poll goes on where this one stopped."""
        if self._reader is not None:
            self._reader.close()
        self._reader = self._tail = None

    def _open(self) -> None:
        if self._tail is not None:
            return
        self._reader = PartitionReader(self._connection, journal_topic(self.dataset))
        start, self._end = self._reader.bounds(5.0)
        if start > self._position:
            message = f"journal of {self.dataset.name} begins at {start}: its first records are gone"
            raise DataError(message)
        if self._end < self._position:
            log.warning(
                "journal made anew or cut off, read again from its start dataset=%s", self.dataset.uid
            )
            self.state, self._position, self._broken = JournalState(), 0, None
        self._tail = self._reader.tail(self._position)

    def _apply(self, record: LogRecord) -> None:
        self._position = record.offset + 1
        try:
            self.state.apply(record.offset, parse(record.value))
        except DataError as error:
            # One bad record must not hide the rest; the sealer judges what it means.
            self._broken = self._fault(error)

    def _fault(self, error: EvenkeelError) -> Fault:
        return Fault(error.reason, error.message, f"dataset/{self.dataset.uid}")


class Journals:
    """All followed journals.

    Args:
        monotonic: clock of pauses, seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._followers: dict[str, Follower] = {}
        self._connection: Connection | None = None

    def follow(self, connection: Connection, datasets: Iterable[DesiredDataset], existing: set[str]) -> None:
        """Follow exactly these datasets, as far as their journals exist and `follow` is asked for."""
        if connection != self._connection:
            self.close()
            self._connection = connection
        wanted = {
            dataset.uid: dataset
            for dataset in datasets
            if dataset.follow and journal_topic(dataset) in existing
        }
        for uid in self._followers.keys() - wanted.keys():
            self._followers.pop(uid).close()
        for uid, dataset in wanted.items():
            follower = self._followers.get(uid)
            if follower is None:
                self._followers[uid] = Follower(connection, dataset)
            else:
                follower.dataset = dataset

    def poll(self) -> set[str]:
        """Take what has come. Returns the data topics of datasets whose plan appeared just now."""
        fresh = set()
        for follower in self._followers.values():
            before = follower.state.plan_offset
            follower.poll(self._monotonic)
            if follower.state.plan_offset != before:
                fresh.add(data_topic(follower.dataset))
                log.info("plan found dataset=%s offset=%s", follower.dataset.uid, follower.state.plan_offset)
        return fresh

    def ingests(self, datasets: Iterable[DesiredDataset]) -> dict[str, Ingest]:
        """By data topic, of all datasets; those that are not followed any more are taken as sealed."""
        found = {}
        for dataset in datasets:
            follower = self._followers.get(dataset.uid)
            if follower is not None:
                found[data_topic(dataset)] = follower.ingest()
            elif not dataset.follow:
                found[data_topic(dataset)] = Ingest(remaining_bytes=0)
            else:
                found[data_topic(dataset)] = Ingest()
        return found

    def state(self, uid: str) -> JournalState | None:
        """What the journal of a dataset says, or None while that is not known whole."""
        follower = self._followers.get(uid)
        return follower.state if follower is not None and follower.caught_up else None

    def faults(self) -> list[Fault]:
        """Trouble of the last poll."""
        return [follower.fault for follower in self._followers.values() if follower.fault is not None]

    def close(self) -> None:
        """Forget all journals."""
        for follower in self._followers.values():
            follower.close()
        self._followers.clear()


def build_dataset_report(
    dataset: DesiredDataset, state: JournalState | None, *, topics_ready: bool, routes: RoutesReport | None
) -> DatasetReport:
    """The dataset's part of the report."""
    if state is None:
        return DatasetReport(uid=dataset.uid, topics_ready=topics_ready, routes=routes)
    return DatasetReport(
        uid=dataset.uid,
        topics_ready=topics_ready,
        planned_records=state.planned_records,
        planned_slices=state.planned_slices,
        planned_bytes=state.planned_bytes,
        acknowledged_records=state.acknowledged_records,
        acknowledged_bytes=state.acknowledged_bytes,
        finished_slices=state.finished_slices,
        rejected_records=state.rejected_records,
        round=state.round,
        reopened_at=state.reopened_at,
        seal=state.seal,
        routes=routes,
    )
