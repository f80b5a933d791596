"""How far a run is: what status and the progress bar show, and what is worth an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.keeper.moving.decide import Decision
from evenkeel.keeper.moving.observation import Observation
from evenkeel.keeper.moving.plan import ApprovedPlan
from evenkeel.keeper.moving.run import Run, RunState
from evenkeel.keeper.moving.status import copied_bytes, expected_bytes
from evenkeel.reasons import Reason

QUARTERS = 4


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """One run of moves. No clock in it: `eta_seconds` is a length of time."""

    plan: str
    """ApprovedPlan.id; empty: no run."""
    name: str
    reason: Reason
    message: str
    state: RunState = RunState.RUNNING
    batch: int = 0
    """Number of the batch that runs, from 1; 0: none has begun."""
    batches: int = 0
    moves_done: int = 0
    """That have had their turn, those included that were not moved."""
    moves_failed: int = 0
    moves: int = 0
    bytes_done: int = 0
    """Copied so far, by the growth of log directories."""
    bytes: int = 0
    bytes_per_second: int = 0
    """Throttle in force, per broker and direction."""
    eta_seconds: int | None = None
    """Expected time until the end; None: not known yet."""
    clean: bool = True
    """Nothing of ours is left in Kafka: no reassignment, no throttle."""
    away: bool = False
    """All that is left are throttles of brokers that stay away: they go when those are back, if ever."""

    @property
    def percent(self) -> int:
        """Of the bytes; of the moves where there is nothing to copy."""
        if self.bytes:
            return min(100, 100 * self.bytes_done // self.bytes)
        return 100 * self.moves_done // self.moves if self.moves else 0

    @property
    def over(self) -> bool:
        """There is no run, or it has ended, and all that can be cleaned up is."""
        return not self.plan or (self.state is not RunState.RUNNING and (self.clean or self.away))


@dataclass(frozen=True, slots=True)
class MoveEvent:
    """Something to tell once."""

    reason: Reason
    message: str


def measure_progress(decision: Decision, plan: ApprovedPlan | None, seen: Observation) -> MoveProgress:
    """Progress after a decision, without the time that is left.

    Args:
        decision: the newest.
        plan: what runs, where it is known.
        seen: the look that it was made from.
    """
    run, verdict = decision.run, decision.verdict
    if run is None:
        return MoveProgress("", "", verdict.reason, verdict.message)
    moves = plan.moves if plan is not None and plan.id == run.plan else tuple(one.move for one in run.flights)
    under_way = {flight.key: flight.move for flight in run.flights}
    over = {(one.topic, one.partition): one for one in run.ended}
    total = done = 0
    for move in moves:
        key = (move.topic, move.partition)
        if key in over:
            # What did not move is no work that is left.
            size = over[key].bytes or (move.bytes if over[key].reason is Reason.MOVED else 0)
            total, done = total + size, done + size
        elif key in under_way:
            size = expected_bytes(move, seen)
            total, done = total + size, done + min(size, copied_bytes(move, seen) or 0)
        else:
            total += move.bytes
    return MoveProgress(
        plan=run.plan,
        name=run.name,
        reason=verdict.reason,
        message=verdict.message,
        state=run.state,
        batch=min(run.batch + 1, len(plan.batches)) if plan is not None else run.batch + 1,
        batches=len(plan.batches) if plan is not None else 0,
        moves_done=len(run.ended),
        moves_failed=sum(one.reason is not Reason.MOVED for one in run.ended),
        moves=len(moves),
        bytes_done=done,
        bytes=total,
        bytes_per_second=run.bytes_per_second,
        clean=run.clean,
        away=decision.away,
    )


def describe_end(run: Run | None) -> MoveProgress:
    """What is known of a run that is over and clean without asking Kafka; without a run that there is none."""
    if run is None:
        return MoveProgress("", "", Reason.NOTHING_TO_DO, "no plan is approved")
    return MoveProgress(
        plan=run.plan,
        name=run.name,
        reason=run.reason,
        message=run.message,
        state=run.state,
        moves_done=len(run.ended),
        moves_failed=sum(one.reason is not Reason.MOVED for one in run.ended),
        moves=len(run.ended),
        clean=run.clean,
    )


def find_events(before: MoveProgress | None, after: MoveProgress) -> tuple[MoveEvent, ...]:
    """What is worth telling: the start, each quarter, a change of reason, the end."""
    if not after.plan or (before is None and after.state is not RunState.RUNNING):
        return ()  # a run that had ended before this process began was told then
    events: list[MoveEvent] = []
    if before is None or before.plan != after.plan:
        before = MoveProgress(after.plan, after.name, Reason.MOVING, "")
        if after.state is RunState.RUNNING:
            message = (
                f"plan {after.name[:12]}: {after.moves} moves, {after.bytes} bytes, {after.batches} batches"
            )
            events.append(MoveEvent(Reason.MOVING, message))
    passed = range(QUARTERS * before.percent // 100 + 1, QUARTERS * after.percent // 100 + 1)
    events += [
        MoveEvent(Reason.MOVING, f"plan {after.name[:12]}: {100 * quarter // QUARTERS} percent")
        for quarter in passed
        if quarter < QUARTERS
    ]
    ended = after.state is not RunState.RUNNING and before.state is RunState.RUNNING
    if ended or (after.reason is not before.reason and after.reason is not Reason.MOVING):
        events.append(MoveEvent(after.reason, after.message))
    return tuple(events)


def measure_speed(points: Mapping[float, int]) -> float | None:
    """Bytes per second between the first and the last of (time, bytes done); None: over less than 10 s.

    Kafka's quota is a mean over about 10 s; over less a speed says nothing.
    """
    if not points:
        return None
    first, last = min(points), max(points)
    grown = points[last] - points[first]
    return grown / (last - first) if last - first >= 10.0 and grown > 0 else None  # noqa: PLR2004 - above
