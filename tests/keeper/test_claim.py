from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Owner
from evenkeel.errors import EvenkeelError, FencedError, RetryableError
from evenkeel.kafka.clients.reader import LogRecord
from evenkeel.kafka.clients.transaction import Record
from evenkeel.keeper import claim as claim_module
from evenkeel.keeper.claim import (
    RENEW_SECONDS,
    VALID_MS,
    Claim,
    ClaimRecord,
    ClaimState,
    FoundClaim,
    Verdict,
    find_claim,
    judge,
)

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


CONNECTION = Connection(("kafka:9092",))


class Log:
    """What Kafka holds of claims, and a producer that is fenced on demand."""

    def __init__(self, *found: FoundClaim | None) -> None:
        self.answers = list(found)
        self.written: list[ClaimRecord] = []
        self.fenced = False
        self.failure: EvenkeelError | None = None
        """Of the next write."""

    def read(self, _connection: Connection) -> FoundClaim | None:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def __call__(self, _connection: Connection, _transactional_id: str) -> Log:
        return self

    def initialise(self) -> None:
        self.fenced = False

    def append_all(self, records: Iterable[Record]) -> None:
        if self.fenced:
            raise FencedError("fenced")
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.written += [codec.loads(ClaimRecord, value) for _, value, _ in records]

    def close(self) -> None:
        """Nothing to give back."""


def build_claim(
    monkeypatch: pytest.MonkeyPatch, log: Log, *, clock: Sequence[float] = (0.0,), once: bool = False
) -> Claim:
    monkeypatch.setattr(claim_module, "_read", log.read)
    monkeypatch.setattr(claim_module, "FencedAppender", log)
    return Claim(wall_ms=lambda: NOW, monotonic=lambda: clock[0], once=once)


def test_a_claim_that_came_after_the_judgement_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(FoundClaim(FREE, 5, NOW), FoundClaim(THEIRS, 6, NOW))
    assert not build_claim(monkeypatch, log).keep(CONNECTION, US, "kafka-1")
    assert log.written == []


def test_a_keeper_that_was_replaced_knows_it_before_it_changes_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log(None)
    claim = build_claim(monkeypatch, log)
    assert claim.keep(CONNECTION, US, "kafka-1")
    claim.confirm()
    assert [one.epoch for one in log.written] == [1, 1]
    log.fenced = True
    with pytest.raises(FencedError):
        claim.confirm()
    assert not claim.held


def test_a_deleted_resource_does_not_release_the_claim_of_its_successor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log(FoundClaim(ClaimRecord("installation-1", "uid-new", "ns/us", 4), 5, NOW))
    build_claim(monkeypatch, log).release(CONNECTION, US, "kafka-1")
    assert log.written == []


def find_own(epoch: int, *, age_ms: int = 0, state: ClaimState = ClaimState.HELD) -> FoundClaim:
    return FoundClaim(replace(OURS, epoch=epoch, state=state), 10 + epoch, NOW - age_ms)


def lose_claim(
    monkeypatch: pytest.MonkeyPatch, log: Log, successor: FoundClaim, *, once: bool = False
) -> Claim:
    """A claim that was held with epoch 4 and dropped, as after a write in doubt; the log holds `successor` since."""
    log.answers = [find_own(3)]
    claim = build_claim(monkeypatch, log, once=once)
    assert claim.keep(CONNECTION, US, "kafka-1")
    assert [one.epoch for one in log.written] == [4]
    claim.drop()
    log.answers = [successor]
    return claim


def test_a_process_that_starts_takes_a_claim_of_its_own_owner_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log(find_own(9))
    claim = build_claim(monkeypatch, log)
    assert claim.keep(CONNECTION, US, "kafka-1")
    assert claim.epoch == 10


def test_a_process_with_a_successor_of_its_own_owner_only_looks_on(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    claim = lose_claim(monkeypatch, log, find_own(5))
    assert not claim.keep(CONNECTION, US, "kafka-1")
    assert [one.epoch for one in log.written] == [4]
    assert claim.report().owner == "ns/us"


def test_a_process_that_thaws_does_not_fence_its_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    log, clock = Log(None), [0.0]
    claim = build_claim(monkeypatch, log, clock=clock)
    assert claim.keep(CONNECTION, US, "kafka-1")
    clock[0], log.fenced, log.answers = RENEW_SECONDS, True, [find_own(2)]
    assert not claim.keep(CONNECTION, US, "kafka-1")
    assert log.fenced  # as long as it has not initialised again


def test_what_a_successor_released_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = lose_claim(monkeypatch, Log(), find_own(5, state=ClaimState.RELEASED))
    assert claim.keep(CONNECTION, US, "kafka-1")
    assert claim.epoch == 6


def test_what_a_successor_does_not_renew_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_module, "ask_broker_time", lambda _connection: NOW)
    claim = lose_claim(monkeypatch, Log(), find_own(5, age_ms=VALID_MS + 1))
    assert claim.keep(CONNECTION, US, "kafka-1")
    assert claim.epoch == 6


def test_a_claim_whose_write_was_in_doubt_is_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    claim = lose_claim(monkeypatch, log, find_own(4))
    log.failure = RetryableError("no answer")
    with pytest.raises(RetryableError):
        claim.keep(CONNECTION, US, "kafka-1")
    log.answers = [find_own(5)]
    assert claim.keep(CONNECTION, US, "kafka-1")
    assert claim.epoch == 6


def test_a_claim_that_was_fenced_while_it_was_written_is_a_successors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log()
    claim = lose_claim(monkeypatch, log, find_own(4))
    log.failure = FencedError("fenced")
    with pytest.raises(FencedError):
        claim.keep(CONNECTION, US, "kafka-1")
    log.answers = [find_own(5)]
    assert not claim.keep(CONNECTION, US, "kafka-1")


def test_epochs_of_another_cluster_tell_no_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = lose_claim(monkeypatch, Log(), find_own(50))
    assert claim.keep(CONNECTION, US, "kafka-2")
    assert claim.epoch == 51


def test_a_process_with_a_successor_does_not_release_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    claim = lose_claim(monkeypatch, log, find_own(5))
    with pytest.raises(FencedError, match="ns/us"):
        claim.release(CONNECTION, US, "kafka-1")
    assert [one.epoch for one in log.written] == [4]


def test_a_claim_of_a_predecessor_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(find_own(9))
    build_claim(monkeypatch, log).release(CONNECTION, US, "kafka-1")
    assert log.written[-1] == replace(OURS, epoch=10, state=ClaimState.RELEASED)


@pytest.mark.parametrize(
    "successor",
    [
        find_own(5),
        find_own(5, state=ClaimState.RELEASED),
        find_own(5, age_ms=VALID_MS + 1),
        FoundClaim(FREE, 5, NOW),
    ],
    ids=["held", "released", "void", "of another owner"],
)
def test_a_claim_that_is_held_once_is_never_taken_back(
    monkeypatch: pytest.MonkeyPatch, successor: FoundClaim
) -> None:
    claim = lose_claim(monkeypatch, Log(), successor, once=True)
    with pytest.raises(FencedError):
        claim.keep(CONNECTION, US, "kafka-1")


def test_a_claim_that_is_held_once_and_in_doubt_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = lose_claim(monkeypatch, Log(), find_own(4), once=True)
    assert claim.keep(CONNECTION, US, "kafka-1")
    assert claim.epoch == 5


def test_a_claim_that_is_held_once_and_fenced_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    log, clock = Log(None), [0.0]
    claim = build_claim(monkeypatch, log, clock=clock, once=True)
    assert claim.keep(CONNECTION, US, "kafka-1")
    clock[0], log.fenced = RENEW_SECONDS, True  # the successor has not written yet
    with pytest.raises(FencedError):
        claim.keep(CONNECTION, US, "kafka-1")
    assert log.fenced
