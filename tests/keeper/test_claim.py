from __future__ import annotations

import pytest

from evenkeel.domain import codec
from evenkeel.domain.exchange import Owner
from evenkeel.kafka.clients.reader import LogRecord
from evenkeel.keeper.claim import VALID_MS, ClaimRecord, ClaimState, FoundClaim, Verdict, find_claim, judge

US = Owner("installation-1", "uid-1", "ns/us")
OURS = ClaimRecord("installation-1", "uid-1", "ns/us", 3)
THEIRS = ClaimRecord("installation-2", "uid-2", "other/cluster", 7)
FREE = ClaimRecord("installation-2", "uid-2", "other/cluster", 7, ClaimState.RELEASED)
NOW = 10 * VALID_MS


@pytest.mark.parametrize(
    ("claim", "age_ms", "broker_age_ms", "watched_ms", "verdict"),
    [
        (None, 0, None, 0, Verdict.TAKE),
        (OURS, 0, None, 0, Verdict.TAKE),
        (FREE, 0, None, 0, Verdict.TAKE),
        (THEIRS, 0, None, 0, Verdict.RESPECT),
        (THEIRS, VALID_MS, None, 0, Verdict.RESPECT),
        (THEIRS, VALID_MS + 1, None, 0, Verdict.ASK_BROKER),
        (THEIRS, VALID_MS + 1, 1000, 0, Verdict.RESPECT),
        (THEIRS, VALID_MS + 1, VALID_MS + 1, 0, Verdict.TAKE),
        (THEIRS, -5000, None, VALID_MS + 1, Verdict.TAKE),
    ],
)
def test_a_claim_is_taken_only_when_nobody_holds_it(
    claim: ClaimRecord | None, age_ms: int, broker_age_ms: int | None, watched_ms: int, verdict: Verdict
) -> None:
    found = None if claim is None else FoundClaim(claim, 5, NOW - age_ms)
    broker_now = None if broker_age_ms is None else NOW - age_ms + broker_age_ms
    assert judge(found, US, now_ms=NOW, broker_now_ms=broker_now, watched_ms=watched_ms) is verdict


def test_another_cluster_resource_of_the_same_installation_is_foreign() -> None:
    found = FoundClaim(ClaimRecord("installation-1", "uid-9", "ns/twin", 1), 5, NOW)
    assert judge(found, US, now_ms=NOW, broker_now_ms=None, watched_ms=0) is Verdict.RESPECT


def test_a_resource_made_again_under_its_name_goes_on_with_its_claim() -> None:
    found = FoundClaim(ClaimRecord("installation-1", "uid-before", "ns/us", 1), 5, NOW)
    assert judge(found, US, now_ms=NOW, broker_now_ms=None, watched_ms=0) is Verdict.TAKE


def test_a_resource_of_our_name_in_another_installation_is_foreign() -> None:
    found = FoundClaim(ClaimRecord("installation-2", "uid-9", "ns/us", 1), 5, NOW)
    assert judge(found, US, now_ms=NOW, broker_now_ms=None, watched_ms=0) is Verdict.RESPECT


def record(offset: int, key: bytes | None, value: bytes) -> LogRecord:
    return LogRecord(offset, key, value, {}, 1000 + offset)


def test_the_newest_claim_counts_and_other_records_do_not() -> None:
    log = [
        record(0, b"claim", codec.dumps(OURS).encode()),
        record(2, b"claim", codec.dumps(THEIRS).encode()),
        record(4, b"intent", codec.dumps(OURS).encode()),
        record(6, b"claim", b"not json"),
    ]
    assert find_claim(log) == FoundClaim(THEIRS, 2, 1002)


def test_an_empty_log_holds_no_claim() -> None:
    assert find_claim([]) is None
