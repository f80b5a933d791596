"""One keeper per Kafka cluster: the claim, a record in `__evenkeel_control`.

Read first without a producer. A foreign claim that was renewed within 15 minutes by the brokers' clock is
respected: this keeper measures only. Otherwise the transactional id of the cluster is taken over, which
fences a predecessor that still lives, and the claim is read again and written.

A process that starts goes on with a claim of its owner at once. One that has held it and finds a higher epoch has
a successor, whose claim it respects like a foreign one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from evenkeel import names
from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import ClaimReport, Owner
from evenkeel.errors import FencedError, InputError
from evenkeel.kafka.clients.append import Appender
from evenkeel.kafka.clients.reader import LogRecord, PartitionReader
from evenkeel.kafka.clients.transaction import FencedAppender, Record
from evenkeel.reasons import Reason

VALID_MS = 15 * 60 * 1000
"""A foreign claim that was not renewed for so long is void."""
RENEW_SECONDS = 5 * 60
CLAIM_KEY = b"claim"
_CLOCK_KEY = b"clock"


class ClaimState(StrEnum):
    """Whether the owner still wants the cluster."""

    HELD = "Held"
    RELEASED = "Released"


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """Who owns a Kafka cluster."""

    installation: str
    uid: str
    name: str
    epoch: int
    """Counts up with every owner and every restart of one."""
    state: ClaimState = ClaimState.HELD

    def is_of(self, owner: Owner) -> bool:
        """Whether `owner` wrote it, perhaps in an earlier life.

        An installation has one resource of a name at a time: one of that name with another UID is the
        earlier life of a resource that was deleted and made again.
        """
        same = self.uid == owner.uid or self.name == owner.name
        return same and self.installation == owner.installation


@dataclass(frozen=True, slots=True)
class FoundClaim:
    """The newest claim in the log."""

    record: ClaimRecord
    offset: int
    timestamp_ms: int
    """By the broker's clock."""


class Verdict(StrEnum):
    """What to do about the claim that was found."""

    TAKE = "Take"
    RESPECT = "Respect"
    ASK_BROKER = "AskBroker"
    """It looks void by our clock, which may be wrong: ask for the broker's time."""


def judge(
    found: FoundClaim | None,
    owner: Owner,
    *,
    now_ms: int,
    broker_now_ms: int | None,
    watched_ms: int,
    succeeded: bool = False,
) -> Verdict:
    """Whether a claim may be taken.

    Args:
        found: the newest claim; None: nobody ever claimed the cluster.
        owner: us.
        now_ms: our wall clock.
        broker_now_ms: the brokers' clock, where it was asked for.
        watched_ms: for how long, by our monotonic clock, this very claim was seen unrenewed.
        succeeded: it came after one that this process held: where it names us, a successor wrote it.
    """
    if found is None or found.record.state is ClaimState.RELEASED:
        return Verdict.TAKE
    if found.record.is_of(owner) and not succeeded:
        return Verdict.TAKE
    if watched_ms > VALID_MS:
        return Verdict.TAKE
    if broker_now_ms is not None:
        return Verdict.TAKE if broker_now_ms - found.timestamp_ms > VALID_MS else Verdict.RESPECT
    return Verdict.ASK_BROKER if now_ms - found.timestamp_ms > VALID_MS else Verdict.RESPECT


def find_claim(records: Iterable[LogRecord]) -> FoundClaim | None:
    """The newest claim among the records of the control topic; unreadable ones are passed over."""
    newest = None
    for record in records:
        if record.key != CLAIM_KEY:
            continue
        try:
            claim = codec.loads(ClaimRecord, record.value)
        except InputError:
            continue
        newest = FoundClaim(claim, record.offset, record.timestamp_ms)
    return newest


class Claim:
    """This keeper's hold on a Kafka cluster. `keep` once per cycle; all writes of the owner go by `write`.

    Args:
        wall_ms: wall clock, milliseconds since the epoch.
        monotonic: the clock for ages, seconds.
        once: what was lost to somebody else is never taken back, not even when it is free again.
    """

    def __init__(
        self,
        *,
        wall_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
        once: bool = False,
    ) -> None:
        self._wall_ms = wall_ms
        self._monotonic = monotonic
        self._once = once
        self._epochs: dict[str, int] = {}
        """The newest that this process claimed, by cluster; stays when the claim is dropped."""
        self._appender: FencedAppender | None = None
        self._record: ClaimRecord | None = None
        self._renewed_at = 0.0
        self._watched: tuple[int, float] | None = None
        self._foreign = ""

    @property
    def epoch(self) -> int:
        """Epoch of the claim; 0 while it is not held."""
        return self._record.epoch if self._record else 0

    @property
    def held(self) -> bool:
        """Whether this keeper owns the cluster, as far as it knows."""
        return self._record is not None

    def report(self) -> ClaimReport:
        """For the operator."""
        if self._record is not None:
            return ClaimReport(held=True, owner=self._record.name, epoch=self._record.epoch)
        return ClaimReport(held=False, owner=self._foreign)

    def keep(self, connection: Connection, owner: Owner, cluster_id: str) -> bool:
        """Take the claim, or renew it when it is time. Returns whether it is held.

        Raises:
            FencedError: it was lost, and is held `once`; or somebody else takes it at this moment.
            RetryableError, ConfigurationError: Kafka did not let us find out or write.
        """
        if self._record is not None and not self._record.is_of(owner):
            self.drop()  # Desired names another owner: the old claim is void after a while
        if self._record is not None:
            if self._monotonic() - self._renewed_at >= RENEW_SECONDS:
                try:
                    self.confirm()
                except FencedError:
                    if self._once:
                        raise
            if self._record is not None:
                return True
        found = _read(connection)
        if self._judge(connection, owner, cluster_id, found) is not Verdict.TAKE:
            return False
        return self._take(connection, owner, cluster_id, found)

    def confirm(self) -> None:
        """Renew the claim now: without an error, this keeper is the owner at this moment.

        Raises:
            As `write`.
        """
        if self._record is None:
            raise FencedError("the claim is not held")
        self.write([_encode(self._record)])
        self._renewed_at = self._monotonic()

    def write(self, records: Iterable[Record]) -> None:
        """Write records as the owner, all or none.

        Raises:
            FencedError: the claim is lost; this object knows it from here on.
            RetryableError, ConfigurationError: as FencedAppender.append_all.
        """
        if self._appender is None:
            raise FencedError("the claim is not held")
        try:
            self._appender.append_all(records)
        except BaseException:
            # Fenced, or in doubt: the next `keep` starts with a new producer and reads first.
            self.drop()
            raise

    def release(self, connection: Connection, owner: Owner, cluster_id: str) -> None:
        """Give the cluster free for others; does nothing where the claim is not ours.

        Raises:
            EvenkeelError: Kafka did not take it; call again.
        """
        if self.regain(connection, owner, cluster_id) and self._record is not None:
            self.write([_encode(replace(self._record, state=ClaimState.RELEASED))])
            self.drop()

    def regain(self, connection: Connection, owner: Owner, cluster_id: str) -> bool:
        """Hold the claim if this very resource does, perhaps by a predecessor of this process; whether it is held.

        Raises:
            FencedError: a successor of this process does.
            EvenkeelError: Kafka does not answer; call again.
        """
        if self._record is None:
            found = _read(connection)
            # By UID alone: a resource of the same name that was made again may hold the claim by now.
            if found is None or found.record.uid != owner.uid or found.record.state is ClaimState.RELEASED:
                return False
            if self._is_succeeded(cluster_id, found):
                verdict = self._judge(connection, owner, cluster_id, found)
                if verdict is not Verdict.TAKE:
                    raise _build_fenced(found)
            self._take(connection, owner, cluster_id, found)
        return self._record is not None

    def drop(self) -> None:
        """Forget the claim without a word to Kafka: it was lost, or the process ends and will be back."""
        if self._appender is not None:
            self._appender.close()
        self._appender = self._record = None

    def _is_succeeded(self, cluster_id: str, found: FoundClaim | None) -> bool:
        """Whether somebody claimed the cluster after this process did."""
        return found is not None and 0 < self._epochs.get(cluster_id, 0) < found.record.epoch

    def _judge(
        self, connection: Connection, owner: Owner, cluster_id: str, found: FoundClaim | None
    ) -> Verdict:
        succeeded = self._is_succeeded(cluster_id, found)
        if found is not None and succeeded and self._once:
            raise _build_fenced(found)
        judge_at = partial(
            judge, found, owner, now_ms=self._wall_ms(), watched_ms=self._watch(found), succeeded=succeeded
        )
        verdict = judge_at(broker_now_ms=None)
        if verdict is Verdict.ASK_BROKER:
            verdict = judge_at(broker_now_ms=ask_broker_time(connection))
        self._foreign = found.record.name if found and verdict is Verdict.RESPECT else ""
        return verdict

    def _take(self, connection: Connection, owner: Owner, cluster_id: str, judged: FoundClaim | None) -> bool:
        """Fence and write, unless there is a newer claim than the one that was judged."""
        appender = FencedAppender(connection, names.transactional_id(cluster_id))
        before = self._epochs.get(cluster_id, 0)
        try:
            appender.initialise()
            found = _read(connection)
            if found is not None and (judged is None or found.offset != judged.offset):
                # Somebody else claimed or renewed in between: look again from the start.
                appender.close()
                return False
            epoch = 1 + (found.record.epoch if found else 0)
            record = ClaimRecord(owner.installation, owner.uid, owner.name, epoch)
            self._epochs[cluster_id] = epoch  # before the answer: a record in doubt is ours if it is found
            appender.append_all([_encode(record)])
        except BaseException as error:
            appender.close()
            if isinstance(error, FencedError):  # not written: a record with this epoch is somebody else's
                self._epochs[cluster_id] = before
            raise
        self._appender, self._record, self._renewed_at = appender, record, self._monotonic()
        return True

    def _watch(self, found: FoundClaim | None) -> int:
        """Milliseconds for which the newest claim has been the same one."""
        if found is None:
            self._watched = None
            return 0
        if self._watched is None or self._watched[0] != found.offset:
            self._watched = (found.offset, self._monotonic())
        return int((self._monotonic() - self._watched[1]) * 1000)


def ask_broker_time(connection: Connection) -> int:
    """The brokers' clock, ms: the time they give to a record of the heartbeats topic (LogAppendTime)."""
    with Appender(connection) as appender:
        offset = appender.append(names.HEARTBEATS_TOPIC, b"{}", key=_CLOCK_KEY, partition=0)
    with PartitionReader(connection, names.HEARTBEATS_TOPIC) as reader:
        return next(reader.read(offset, offset + 1)).timestamp_ms


def _read(connection: Connection) -> FoundClaim | None:
    with PartitionReader(connection, names.CONTROL_TOPIC) as reader:
        start, _ = reader.bounds()
        return find_claim(reader.read(start))


def _build_fenced(found: FoundClaim) -> FencedError:
    message = f"this Kafka cluster was claimed by {found.record.name} since this process held it"
    return FencedError(message, reason=Reason.CLUSTER_OWNED_ELSEWHERE)


def _encode(record: ClaimRecord) -> Record:
    return names.CONTROL_TOPIC, codec.dumps(record).encode(), CLAIM_KEY
