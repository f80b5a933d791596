from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from evenkeel import names
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import DesiredDataset
from evenkeel.domain.job import Order, SourceFormat
from evenkeel.domain.journal import PLAN_SLICE, Claim, Entry, JournalRecord, Plan, Rejected, Seal, encode
from evenkeel.errors import DataError, RetryableError
from evenkeel.kafka.clients.reader import LogRecord
from evenkeel.keeper import journals as module
from evenkeel.keeper.journals import Journals
from evenkeel.keeper.routes import Ingest
from evenkeel.reasons import Reason

CONNECTION = Connection(("k:1",))
DATASET = DesiredDataset("uid", "ns/pictures")
JOURNAL, DATA = names.dataset_topic("uid", "journal"), names.dataset_topic("uid", "data")
PLAN = Plan(
    attempt=0,
    format=SourceFormat.FILES,
    order=Order.SHUFFLED,
    seed=1,
    listing_digest="0",
    objects=4,
    records=(50, 50),
    message_bytes=1,
    message_records=1,
    max_record_bytes=1,
    slice_bytes=1,
    planned_bytes=1000,
    schema="",
    schema_digest="",
)


class FakeLog:
    """One journal in memory, read as PartitionReader reads it."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.failing = False
        self.visible: int | None = None
        self._at = 0

    def write(self, *records: JournalRecord) -> None:
        self.values += [encode(record) for record in records]

    def bounds(self, _: float) -> tuple[int, int]:
        if self.failing:
            raise RetryableError("no answer", reason=Reason.BROKERS_UNREACHABLE)
        return 0, len(self.values)

    def tail(self, first: int) -> FakeLog:
        self._at = first
        return self

    def poll(self, _: float) -> list[LogRecord]:
        if self._at > len(self.values):
            raise DataError("offset out of range", reason=Reason.DATA_LOST)
        end = len(self.values) if self.visible is None else self.visible
        found = [LogRecord(offset, None, self.values[offset], {}, 0) for offset in range(self._at, end)]
        self._at = max(self._at, end)
        return found

    def close(self) -> None:
        """Nothing to close."""


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> FakeLog:
    fake = FakeLog()

    def build(_: Connection, topic: str) -> Any:
        assert topic == JOURNAL
        return fake

    monkeypatch.setattr(module, "PartitionReader", build)
    return fake


@pytest.fixture
def journals(log: FakeLog, clock: Clock) -> Journals:
    found = Journals(clock)
    found.follow(CONNECTION, [DATASET], {JOURNAL})
    return found


def ingests(journals: Journals) -> Mapping[str, Ingest]:
    return journals.ingests([DATASET])


def test_a_plan_is_news_once(log: FakeLog, journals: Journals) -> None:
    assert journals.poll() == set()
    log.write(Claim(PLAN_SLICE, 0, "w"), PLAN)
    assert journals.poll() == {DATA}
    assert journals.poll() == set()
    assert ingests(journals) == {DATA: Ingest(1, 1000, 1000)}


def test_what_is_written_or_rejected_is_not_planned_any_more(log: FakeLog, journals: Journals) -> None:
    log.write(Claim(PLAN_SLICE, 0, "w"), PLAN, Claim(0, 0, "w"))
    log.write(Entry(0, 2, first=0, span=40, records=40, partition=0, offset=0, length=9, digest="d"))
    log.write(Rejected(0, 2, position=45, record_id="x", reason="BadRecord"))
    journals.poll()
    ingest = ingests(journals)[DATA]
    assert ingest.remaining_bytes == 590
    assert ingest.remaining_share == pytest.approx(0.59)


def test_after_the_seal_nothing_comes(log: FakeLog, journals: Journals) -> None:
    log.write(Claim(PLAN_SLICE, 0, "w"), PLAN, Seal("d", 100, 1, 9, 0, "s"))
    journals.poll()
    assert ingests(journals)[DATA] == Ingest(1, 1000, 0)


def test_a_journal_is_known_only_when_all_that_was_there_is_read(log: FakeLog, journals: Journals) -> None:
    log.write(Claim(PLAN_SLICE, 0, "w"), PLAN)
    log.visible = 1
    journals.poll()
    assert journals.state("uid") is None
    log.visible = None
    journals.poll()
    assert journals.state("uid") is not None


def test_trouble_is_a_fault_and_reading_goes_on_where_it_stopped(
    log: FakeLog, journals: Journals, clock: Clock
) -> None:
    log.write(Claim(PLAN_SLICE, 0, "w"))
    log.failing = True
    journals.poll()
    assert [(fault.reason, fault.subject) for fault in journals.faults()] == [
        (Reason.BROKERS_UNREACHABLE, "dataset/uid")
    ]
    log.failing = False
    log.write(PLAN)
    assert journals.poll() == set()
    clock.now += module.RETRY_SECONDS
    assert journals.poll() == {DATA}
    assert journals.faults() == []


def test_a_bad_record_is_told_for_good_and_hides_nothing(log: FakeLog, journals: Journals) -> None:
    log.write(Claim(PLAN_SLICE, 0, "w"))
    log.values.append(b"not a record")
    log.write(PLAN)
    assert journals.poll() == {DATA}
    journals.poll()
    assert [fault.reason for fault in journals.faults()] == [Reason.DATA_LOST]


def test_only_what_exists_and_is_asked_for_is_followed(log: FakeLog, journals: Journals) -> None:
    log.write(Claim(PLAN_SLICE, 0, "w"), PLAN)
    journals.follow(CONNECTION, [DATASET], set())
    assert journals.poll() == set()
    assert ingests(journals) == {DATA: Ingest()}
    done = DesiredDataset("uid", "ns/pictures", follow=False)
    journals.follow(CONNECTION, [done], {JOURNAL})
    assert journals.ingests([done]) == {DATA: Ingest(remaining_bytes=0)}


def test_a_journal_that_was_made_anew_is_read_from_its_start(
    log: FakeLog, journals: Journals, clock: Clock
) -> None:
    log.write(Claim(PLAN_SLICE, 0, "w"), PLAN, Claim(0, 0, "w"), Claim(1, 0, "w"))
    journals.poll()
    log.values.clear()
    log.write(Claim(PLAN_SLICE, 0, "x"))
    journals.poll()
    assert [fault.reason for fault in journals.faults()] == [Reason.DATA_LOST]
    clock.now += module.RETRY_SECONDS
    journals.poll()
    assert journals.faults() == []
    state = journals.state("uid")
    assert state is not None
    assert (state.plan, state.next_offset) == (None, 1)
    log.write(PLAN)
    assert journals.poll() == {DATA}
