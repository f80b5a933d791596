"""What is written to `__evenkeel_control` about moves: enough to go on, or to clean up, after any crash.

One record, key `moves`: the newest one counts. It is committed before the calls that it covers, so that
whatever of ours can be in Kafka is named by it: moves under way, throttle values, throttled replicas.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

from evenkeel.domain.moves import Move
from evenkeel.domain.waits import Waits
from evenkeel.kafka.answers import TopicPartition
from evenkeel.reasons import Reason

MOVES_KEY = b"moves"
SHOWN_NOTES = 3
NOTE_CHARS = 240
"""Three of them and the counts are less than the 1,024 characters that an event may have."""
AWAY_SECONDS = 60.0
"""A run that has ended waits so long for brokers that are away: one that restarts is back by then, one that was
replaced never is, and no other plan could begin."""


class RunState(StrEnum):
    """Whether a run goes on."""

    RUNNING = "Running"
    FINISHED = "Finished"
    """Every batch had its turn."""
    CANCELLED = "Cancelled"
    """Stopped on request; the rest of the plan did not run."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A move of the batch that runs."""

    move: Move
    topic_id: str
    """Of the topic when the move was begun: one of its name with another id is another topic."""
    seen: bool = False
    """Kafka has shown it under way."""
    cancelled: Reason | None = None
    """Why it is to be cancelled; decided before the call."""

    @property
    def key(self) -> TopicPartition:
        """Topic and partition."""
        return self.move.topic, self.move.partition


@dataclass(frozen=True, slots=True)
class Ended:
    """A move that has had its turn."""

    topic: str
    partition: int
    reason: Reason
    """MOVED, or why it was not moved."""
    bytes: int = 0
    """What was copied."""
    note: str = ""
    """Why it was not moved, or what is not as planned though it was; a sentence with the partition's name."""


@dataclass(frozen=True, slots=True)
class OwnRate:
    """A throttle of a broker that may be ours."""

    broker: int
    key: str
    """Name of the setting."""
    values: tuple[int, ...]
    """Bytes per second; several while one replaces the other. Any other value is somebody else's."""


@dataclass(frozen=True, slots=True)
class OwnEntry:
    """A throttled replica in a topic's list that we may have added."""

    topic: str
    role: str
    """`leader` or `follower`."""
    entry: str
    """As Kafka writes it: `PARTITION:BROKER`."""


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a plan."""

    plan: str
    """ApprovedPlan.id."""
    name: str = ""
    """The plan's hash, for people."""
    state: RunState = RunState.RUNNING
    batch: int = 0
    """Number of the batch that runs or comes next."""
    flights: tuple[Flight, ...] = ()
    """The intent: moves that are under way, or may be."""
    ended: tuple[Ended, ...] = ()
    rates: tuple[OwnRate, ...] = ()
    entries: tuple[OwnEntry, ...] = ()
    bytes_per_second: int = 0
    """Throttle in force."""
    cancelling: Reason | None = None
    """Set once: everything under way is cancelled where that is safe."""
    finishing: bool = False
    """Set once: no other batch."""
    reason: Reason = Reason.MOVING
    """Of the end, where it has ended."""
    message: str = ""
    calm: Waits | None = None
    """How long producers waited before the first batch; None: nobody told."""

    @property
    def clean(self) -> bool:
        """Nothing of ours is left in Kafka, as far as it could be asked."""
        return not (self.flights or self.rates or self.entries)

    def waits_for_away(self, online: Collection[int]) -> bool:
        """It has ended, and all that is left are throttles of brokers that are not online."""
        if self.state is RunState.RUNNING or self.flights or self.entries or not self.rates:
            return False
        return not any(rate.broker in online for rate in self.rates)


def end_move(move: Move, reason: Reason, why: str = "", size: int = 0) -> Ended:
    """The move has had its turn; `why` is cut where it is long."""
    name = f"{move.topic}-{move.partition}"
    note = why if not why or name in why else f"{name}: {why}"
    if len(note) > NOTE_CHARS:
        note = note[: NOTE_CHARS - 3] + "..."
    return Ended(move.topic, move.partition, reason, size, note)


def end_run(run: Run, state: RunState) -> Run:
    """The same run, over, with a sentence that counts what became of its moves."""
    reasons = [one.reason for one in run.ended if one.reason is not Reason.MOVED]
    done = len(run.ended) - len(reasons)
    if state is RunState.CANCELLED:
        reason = run.cancelling or Reason.MOVES_CANCELLED
        message = f"stopped: {done} moves done, the rest did not run"
    elif reasons:
        reason = Reason.PLAN_OUTDATED
        listed = ", ".join(f"{reasons.count(one)} {one}" for one in sorted(set(reasons)))
        message = f"{done} of {len(run.ended)} moves done; not moved: {listed}"
    else:
        reason, message = Reason.MOVED, f"all {done} moves done"
    notes = [one.note for one in run.ended if one.note]
    listed = "".join(f"; {note}" for note in notes[:SHOWN_NOTES])
    rest = f" and {len(notes) - SHOWN_NOTES} more" if len(notes) > SHOWN_NOTES else ""
    return replace(run, state=state, reason=reason, message=message + listed + rest)
