"""What the keeper tells of the open plan: pure, and the same text for the same facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from evenkeel.domain.exchange import BalanceMode, Desired
from evenkeel.domain.moves import Approval, DesiredPlan, PlanEvent, PlanReport, PlanState
from evenkeel.keeper.judging import Contradiction
from evenkeel.keeper.moving.progress import MoveEvent, MoveProgress, find_events
from evenkeel.keeper.moving.run import RunState
from evenkeel.keeper.moving.settings import Control
from evenkeel.keeper.settling import settle_seconds
from evenkeel.reasons import Reason

SHOWN_EVENTS = 20


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a plan stands, and why."""

    state: PlanState
    reason: Reason
    message: str


def decide_waiting(
    plan: DesiredPlan,
    desired: Desired,
    contradiction: Contradiction | None,
    *,
    believed: bool,
    judged: bool,
) -> Standing | None:
    """What becomes of a plan of which nothing has run; None: it begins.

    Args:
        plan: the open one.
        desired: whether anything may run.
        contradiction: what speaks against it just now.
        believed: it has done so for long enough.
        judged: a snapshot was looked at since the plan is known.
    """
    end = _decide_end(plan, contradiction if believed else None)
    if end is not None:
        return end
    waits = f"; it cannot begin now: {contradiction.message}" if contradiction is not None else ""
    if plan.approval is Approval.PENDING:
        return Standing(PlanState.PROPOSED, Reason.PLAN_PENDING, f"waits for spec.approval{waits}")
    halted = explain_halt(plan, desired)
    if halted is not None:
        return Standing(PlanState.PAUSED, *halted)
    if contradiction is not None or not judged:
        message = f"approved{waits}" if waits else "approved; waits for a measurement"
        return Standing(PlanState.PROPOSED, Reason.PENDING, message)
    return None


def _decide_end(plan: DesiredPlan, contradiction: Contradiction | None) -> Standing | None:
    """How a plan ends of which nothing has run."""
    if plan.approval is Approval.REJECTED:
        return Standing(PlanState.FINISHED, Reason.PLAN_REJECTED, "rejected; nothing of it has run")
    if plan.expired and plan.approval is Approval.PENDING:
        message = "nobody decided before spec.expirationTime; nothing of it has run"
        return Standing(PlanState.FINISHED, Reason.PLAN_EXPIRED, message)
    if contradiction is not None:
        return Standing(PlanState.FINISHED, Reason.PLAN_OUTDATED, contradiction.message)
    return None


def explain_halt(plan: DesiredPlan, desired: Desired) -> tuple[Reason, str] | None:
    """Why no batch may begin, as far as the user wants it so."""
    if desired.policy.mode is BalanceMode.DISABLED:
        return Reason.DISABLED, "spec.balance.mode is Disabled: no batch begins"
    if desired.paused:
        return Reason.PAUSED, "spec.state of the cluster is Paused: no batch begins"
    if plan.approval is Approval.PENDING:
        return Reason.PAUSED, "spec.approval was taken back: no batch begins"
    return None


def choose_control(plan: DesiredPlan, desired: Desired) -> Control:
    """What the user wants of a plan that has begun."""
    if plan.approval is Approval.REJECTED:
        return Control.CANCEL
    return Control.RUN if explain_halt(plan, desired) is None else Control.PAUSE


def build_waiting(plan: DesiredPlan, standing: Standing, before: PlanReport | None) -> PlanReport:
    """The report of a plan of which nothing has run."""
    moves = [move for batch in plan.batches for move in batch.moves]
    found = PlanReport(
        uid=plan.uid,
        state=standing.state,
        reason=standing.reason,
        message=standing.message,
        batches=len(plan.batches),
        moves=len(moves),
        bytes=sum(move.bytes for move in moves),
        events=before.events if before is not None else (),
    )
    if standing.state is not PlanState.FINISHED:
        return found
    return _add_events(found, [MoveEvent(standing.reason, standing.message)])


def build_running(
    plan: DesiredPlan, desired: Desired, progress: MoveProgress, before: PlanReport | None
) -> PlanReport:
    """The report of a plan that has begun.

    Args:
        plan: the open one.
        desired: whether it is halted.
        progress: by Kafka.
        before: what was told last, by this process or the one before it: no event is told twice.
    """
    standing = _stand(plan, desired, progress)
    waiting = build_waiting(plan, replace(standing, state=PlanState.RUNNING), before)
    found = replace(
        waiting,
        state=standing.state,
        batch=progress.batch,
        moves_done=progress.moves_done,
        moves_failed=progress.moves_failed,
        bytes=progress.bytes,
        bytes_done=progress.bytes_done,
        percent=progress.percent,
        bytes_per_second=progress.bytes_per_second,
        eta_seconds=_settle_eta(progress, before),
    )
    over = standing.state is PlanState.FINISHED
    told = replace(
        progress,
        reason=standing.reason,
        message=standing.message,
        state=progress.state if over else RunState.RUNNING,
    )
    return _add_events(found, find_events(_recall(before, told), told))


def _stand(plan: DesiredPlan, desired: Desired, progress: MoveProgress) -> Standing:
    if progress.over:
        rejected = plan.approval is Approval.REJECTED and progress.state is RunState.CANCELLED
        reason = Reason.PLAN_REJECTED if rejected else progress.reason
        return Standing(PlanState.FINISHED, reason, progress.message)
    if progress.state is not RunState.RUNNING:
        # It has ended but for throttles of brokers that are away, and those may only be restarting.
        return Standing(PlanState.RUNNING, Reason.MOVING, progress.message)
    halted = explain_halt(plan, desired) if plan.approval is not Approval.REJECTED else None
    if halted is None:
        return Standing(PlanState.RUNNING, progress.reason, progress.message)
    if progress.reason in (Reason.MOVING, Reason.PAUSED):
        return Standing(PlanState.PAUSED, *halted)
    return Standing(PlanState.PAUSED, progress.reason, progress.message)


def _settle_eta(progress: MoveProgress, before: PlanReport | None) -> int | None:
    if progress.state is not RunState.RUNNING:
        return None
    return settle_seconds(progress.eta_seconds, before.eta_seconds if before is not None else None)


def _recall(before: PlanReport | None, now: MoveProgress) -> MoveProgress | None:
    """What was told last, as progress; None: nothing of a run."""
    if before is None or before.batch == 0:
        return None
    return replace(
        now,
        reason=before.reason,
        message=before.message,
        state=RunState.RUNNING,
        moves_done=before.moves_done,
        bytes_done=before.bytes_done,
        bytes=before.bytes,
    )


def _add_events(report: PlanReport, events: Iterable[MoveEvent]) -> PlanReport:
    """With the next numbers. Start and quarters are told once, though what is to be copied may grow meanwhile."""
    number = report.events[-1].number if report.events else 0
    told = {event.message for event in report.events if event.reason is Reason.MOVING}
    new = (event for event in events if event.reason is not Reason.MOVING or event.message not in told)
    fresh = tuple(PlanEvent(number + i, event.reason, event.message) for i, event in enumerate(new, start=1))
    return replace(report, events=(*report.events, *fresh)[-SHOWN_EVENTS:])


def differs_visibly(before: PlanReport | None, after: PlanReport) -> bool:
    """Whether more than progress has changed: that is told at once."""
    if before is None:
        return True
    weight = replace(
        before,
        message=after.message if after.state is PlanState.RUNNING else before.message,
        moves_done=after.moves_done,
        bytes=after.bytes,
        bytes_done=after.bytes_done,
        percent=after.percent,
        bytes_per_second=after.bytes_per_second,
        eta_seconds=after.eta_seconds,
    )
    return weight != after
