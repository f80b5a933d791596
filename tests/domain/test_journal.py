from __future__ import annotations

import contextlib
import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.domain.job import Order, SourceFormat
from evenkeel.domain.journal import (
    PLAN_SLICE,
    Claim,
    Entry,
    Finished,
    JournalRecord,
    JournalState,
    Lost,
    Plan,
    Rejected,
    Reopen,
    Seal,
    encode,
    parse,
)
from evenkeel.errors import DataError

PLAN = Plan(
    attempt=0,
    format=SourceFormat.IMAGE_FOLDER,
    order=Order.SHUFFLED,
    seed=5,
    listing_digest="11" * 32,
    objects=7,
    records=(4, 3),
    message_bytes=900,
    message_records=2,
    max_record_bytes=1000,
    slice_bytes=2000,
    planned_bytes=7000,
    schema="c2NoZW1h",
    schema_digest="22" * 32,
)
SEAL = Seal("44" * 32, records=7, shards=1, data_bytes=700, rejected=0, schema_digest="22" * 32)
BEGIN: list[JournalRecord] = [Claim(PLAN_SLICE, 0, "a"), PLAN]


def entry(slice_number: int, attempt: int, first: int, **changes: int) -> Entry:
    base = Entry(
        slice_number, attempt, first, 2, 2, partition=1, offset=10 + first, length=100, digest="33" * 32
    )
    return dataclasses.replace(base, **changes)


def fold(*records: JournalRecord) -> JournalState:
    """Records at offsets 2, 3, ... after the plan at offset 1."""
    state = JournalState()
    for offset, record in enumerate([*BEGIN, *records]):
        state.apply(offset, record)
    return state


@pytest.mark.parametrize(
    ("records", "acknowledged"),
    [
        ([Claim(0, 0, "a"), entry(0, 2, 0)], 2),
        ([entry(0, 2, 0)], 0),  # no claim
        ([Claim(0, 0, "a"), entry(0, 3, 0)], 0),  # another attempt's number
        ([Claim(0, 0, "a"), entry(0, 2, 0), entry(0, 2, 0)], 2),  # told twice
        ([Claim(0, 0, "a"), Claim(0, 1, "b"), entry(0, 2, 0)], 0),  # superseded
        ([Claim(0, 0, "a"), entry(0, 2, 0), Claim(0, 1, "b")], 2),  # said in time
        ([Claim(0, 0, "a"), Claim(1, 1, "b"), entry(0, 2, 0)], 2),  # a claim of another slice
        ([Claim(0, 0, "a"), entry(0, 2, 0), Claim(0, 1, "b"), entry(0, 4, 0, offset=99)], 2),  # done already
        ([Claim(0, 0, "a"), Finished(0, 2), entry(0, 2, 0)], 0),  # after the attempt's end
        ([Claim(0, 0, "a"), Reopen(1, (0,)), entry(0, 2, 0)], 0),  # a reopen ends attempts
        ([SEAL, Claim(0, 0, "a"), entry(0, 3, 0)], 0),  # nothing counts after the seal
    ],
)
def test_an_entry_counts_only_under_the_claim_in_force(
    records: list[JournalRecord], acknowledged: int
) -> None:
    assert fold(*records).acknowledged_records == acknowledged


def test_the_first_plan_of_the_claim_in_force_is_the_plan() -> None:
    late = dataclasses.replace(PLAN, seed=6)
    state = JournalState()
    for offset, record in enumerate(
        [
            Claim(PLAN_SLICE, 0, "a"),
            Claim(PLAN_SLICE, 1, "b"),
            PLAN,
            dataclasses.replace(late, attempt=1),
            late,
        ]
    ):
        state.apply(offset, record)
    assert state.plan is not None
    assert (state.plan.seed, state.plan_offset) == (6, 3)
    assert (state.planned_records, state.planned_slices, state.planned_bytes) == (7, 2, 7000)


def test_a_slice_is_whole_when_every_record_is_written_or_rejected() -> None:
    state = fold(
        Claim(0, 0, "a"), Rejected(0, 2, 3, "5.0", "BadRecord"), entry(0, 2, 0), entry(0, 2, 2, records=1)
    )
    assert state.open_slices() == (1,)
    assert (state.finished_slices, state.acknowledged_records, state.rejected_records) == (1, 3, 1)


def test_a_rejection_counts_once_and_never_for_a_written_record() -> None:
    rejected = Rejected(0, 2, 3, "5.0", "BadRecord")
    state = fold(Claim(0, 0, "a"), rejected, rejected, entry(0, 2, 0), Rejected(0, 2, 1, "6.0", "BadRecord"))
    assert state.rejected_records == 1


@pytest.mark.parametrize(
    "wrong",
    [
        entry(0, 2, 3),  # beyond the slice
        entry(0, 2, -1),
        entry(0, 2, 1),  # overlaps the first
        entry(0, 2, 2, records=1),  # one record short
    ],
)
def test_an_entry_that_contradicts_the_plan_is_an_error(wrong: Entry) -> None:
    with pytest.raises(DataError, match="slice 0"):
        fold(Claim(0, 0, "a"), entry(0, 2, 0), wrong)


def test_a_reopen_forgets_lost_entries_and_frees_the_slices() -> None:
    written = [Claim(0, 0, "a"), entry(0, 2, 0), entry(0, 2, 2), Finished(0, 2), Claim(1, 0, "a")]
    state = fold(*written, Reopen(1, (0, 1), (Lost(0, 2),)))
    assert (state.acknowledged_records, state.acknowledged_bytes, state.finished_slices) == (2, 100, 0)
    assert (state.round, state.reopened_at, state.claims) == (1, 7, {})
    again = [Claim(0, 1, "b"), entry(0, 8, 2, offset=50)]
    for offset, record in enumerate(again, 8):
        state.apply(offset, record)
    assert state.open_slices() == (1,)


def test_a_round_is_asked_for_once() -> None:
    """A second sealer that looked before the first round must not throw away what that round wrote."""
    written = [Claim(0, 0, "a"), entry(0, 2, 0), Reopen(1, (0,), (Lost(0, 0),))]
    again = [Claim(0, 1, "b"), entry(0, 5, 0, offset=50)]
    state = fold(*written, *again, Reopen(1, (0,), (Lost(0, 0),)))
    assert (state.round, state.reopened_at, state.acknowledged_records) == (1, 4, 2)


@pytest.mark.parametrize(("round_", "counts"), [(None, True), (0, False), (1, True)])
def test_a_seal_from_before_a_reopen_does_not_count(
    round_: int | None,
    counts: bool,  # noqa: FBT001 - a column of the table
) -> None:
    state = fold(Reopen(1, ()), dataclasses.replace(SEAL, round=round_))
    assert (state.seal is not None) is counts


def test_a_journal_is_complete_when_all_slices_are() -> None:
    assert not JournalState().complete
    state = fold(Claim(0, 0, "a"), entry(0, 2, 0), entry(0, 2, 2))
    assert not state.complete
    for offset, record in enumerate([Claim(1, 0, "a"), entry(1, 5, 0, span=3, records=3)], 5):
        state.apply(offset, record)
    assert state.complete


def test_a_seal_is_final_and_carries_its_offset() -> None:
    state = fold(Reopen(1, ()), SEAL, dataclasses.replace(SEAL, digest="55" * 32))
    assert state.seal is not None
    assert (state.seal.digest, state.seal.journal_offset, state.reopened_at) == (SEAL.digest, 3, None)


def test_messages_of_an_attempt_lie_after_what_was_journaled_before_its_claim() -> None:
    state = fold(
        Claim(0, 0, "a"), entry(0, 2, 0, partition=4, offset=6), Claim(1, 0, "a"), entry(1, 4, 0, offset=9)
    )
    assert state.ends_before(4) == {4: 7}
    assert state.ends_before(6) == {4: 7, 1: 10}


def test_offsets_go_up() -> None:
    state = fold()
    with pytest.raises(DataError, match="offset 1"):
        state.apply(1, Claim(0, 0, "a"))


@pytest.mark.parametrize(
    "record",
    [
        *BEGIN,
        entry(0, 2, 0),
        Rejected(0, 2, 3, "5.0", "BadRecord", "66" * 32),
        Finished(0, 2),
        Reopen(1, (0, 1), (Lost(0, 2),)),
        SEAL,
    ],
)
def test_records_come_back_from_bytes(record: JournalRecord) -> None:
    assert parse(encode(record)) == record
    assert json.loads(encode(record))["type"] == type(record).__name__


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        b'{"type":"Other"}',
        b'{"type":[]}',
        b'{"type":"Claim"}',
        b'{"type":"Claim","slice":"1"}',
        b"\xff",
    ],
)
def test_what_is_no_record_is_refused(value: bytes) -> None:
    with pytest.raises(DataError, match="journal record"):
        parse(value)


@given(st.binary(max_size=60))
def test_random_bytes_never_surprise(value: bytes) -> None:
    with contextlib.suppress(DataError):
        parse(value)
