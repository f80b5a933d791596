"""`kubectl evenkeel approve|reject|cancel`: decide a plan, and just the one that was shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rich.filesize import decimal

from evenkeel.api.rebalance_plan import RebalancePlan
from evenkeel.cli.kubectl.convert import build_proposal
from evenkeel.cli.kubectl.screen import Screen
from evenkeel.cli.kubectl.session import RefusedError, Session
from evenkeel.cli.main import OK, REFUSED
from evenkeel.cli.tables import tell_costs
from evenkeel.cli.words import count
from evenkeel.controller.plans import is_expired, tell_expiration
from evenkeel.domain.moves import Approval, ProposedPlan
from evenkeel.errors import RetryableError
from evenkeel.kube.failures import ConflictError, NotFoundError
from evenkeel.reasons import ConditionType, Reason

ATTEMPTS = 10
"""Status of a plan that runs changes every few seconds; what was decided does not depend on it."""
TOPICS_NAMED = 5


class Wish(StrEnum):
    """What is to become of a plan."""

    APPROVE = "approve"
    REJECT = "reject"
    CANCEL = "cancel"

    @property
    def approval(self) -> Approval:
        """What is written."""
        return Approval.APPROVED if self is Wish.APPROVE else Approval.REJECTED


class Answer(StrEnum):
    """Whether a wish can be fulfilled."""

    POSSIBLE = "possible"
    DONE = "done"
    """It is so already."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Judgement:
    """An answer with its sentence; the sentence of what is possible is the question to ask."""

    answer: Answer
    message: str


async def decide(
    session: Session, screen: Screen, wish: Wish, name: str | None, *, yes: bool, now: datetime
) -> int:
    """Show the plan, ask, write; returns the exit code.

    Raises:
        RefusedError: the plan cannot be decided so, or changed while it was shown.
        InputError: there is no such plan.
    """
    plan = await session.find_plan(name)
    judgement = judge(plan, wish, now)
    if judgement.answer is Answer.REFUSED:
        raise RefusedError(judgement.message, reason=_reason(plan))
    if judgement.answer is Answer.DONE:
        screen.say(judgement.message)
        return OK
    for line in describe(plan):
        screen.say(line)
    if not yes and not screen.confirms(judgement.message):
        screen.note("nothing was changed")
        return REFUSED
    await write_decision(session, screen, plan, wish, now)
    screen.say(tell_next(plan, wish))
    return OK


def judge(plan: RebalancePlan, wish: Wish, now: datetime) -> Judgement:
    """Whether the plan can be decided so."""
    name = plan.metadata.name
    if plan.is_finished:
        ready = plan.status.condition(ConditionType.READY)
        why = "" if ready is None else f" ({ready.reason}: {ready.message})"
        return Judgement(
            Answer.REFUSED, f"{name} is finished{why}; `kubectl evenkeel plan` shows what is open"
        )
    if wish is Wish.APPROVE:
        return _judge_approval(plan, now)
    approval = plan.spec.approval
    if approval is Approval.REJECTED:
        return Judgement(Answer.DONE, f"{name} is rejected already")
    if wish is Wish.REJECT and approval is Approval.APPROVED:
        message = f"{name} was approved, and may be running: `kubectl evenkeel cancel {name}` stops it"
        return Judgement(Answer.REFUSED, message)
    if wish is Wish.CANCEL and approval is Approval.PENDING:
        message = (
            f"{name} was not approved, so nothing of it runs: `kubectl evenkeel reject {name}` turns it down"
        )
        return Judgement(Answer.REFUSED, message)
    verb = "Cancel" if wish is Wish.CANCEL else "Reject"
    return Judgement(Answer.POSSIBLE, f"{verb} {name}? It cannot be approved again.")


def _judge_approval(plan: RebalancePlan, now: datetime) -> Judgement:
    name, spec = plan.metadata.name, plan.spec
    if spec.approval is Approval.APPROVED:
        return Judgement(Answer.DONE, f"{name} is approved already")
    if spec.approval is Approval.REJECTED:
        return Judgement(Answer.REFUSED, f"{name} was rejected, which is final; wait for the next plan")
    ready = plan.status.condition(ConditionType.READY)
    if ready is not None and ready.reason == Reason.INVALID_SPEC:
        return Judgement(Answer.REFUSED, f"{name} cannot run as it stands: {ready.message}")
    if is_expired(plan, now):
        until = tell_expiration(plan)
        return Judgement(Answer.REFUSED, f"{name} expired at {until}; the next plan comes by itself")
    proposal = build_proposal(plan)
    moves = count(len(spec.moves), "move")
    return Judgement(Answer.POSSIBLE, f"Approve {name}: {moves}, {decimal(proposal.bytes)}?")


async def write_decision(
    session: Session, screen: Screen, shown: RebalancePlan, wish: Wish, now: datetime
) -> None:
    """Write what was decided of the plan that was shown.

    Raises:
        RefusedError: it is not that plan any more; what is there now is shown.
        RetryableError: its status changes faster than we can write.
    """
    plan = shown
    for _ in range(ATTEMPTS):
        try:
            await session.write_approval(plan, wish.approval.value)
        except (ConflictError, NotFoundError):
            newest = await session.read_plan(shown.metadata.name)
            if newest is None:
                raise RefusedError(
                    f"{shown.metadata.name} was deleted meanwhile", reason=Reason.PLAN_OUTDATED
                ) from None
            _check_same(screen, shown, newest, wish, now)
            plan = newest
        else:
            return
    raise RetryableError(f"{shown.metadata.name} keeps changing while it is written; try again")


def _check_same(
    screen: Screen, shown: RebalancePlan, newest: RebalancePlan, wish: Wish, now: datetime
) -> None:
    """Whether what changed does not matter: the same object, the same plan, still undecided."""
    judgement = judge(newest, wish, now)
    same = newest.metadata.uid == shown.metadata.uid and newest.spec == shown.spec
    if same and judgement.answer is Answer.POSSIBLE:
        return
    screen.say("It is now:")
    for line in describe(newest):
        screen.say(line)
    why = "it is another plan" if judgement.answer is Answer.POSSIBLE else judgement.message
    message = f"{shown.metadata.name} changed while it was shown, nothing was written: {why}"
    raise RefusedError(message, reason=Reason.PLAN_OUTDATED)


def describe(plan: RebalancePlan) -> list[str]:
    """What it would do, in a few lines."""
    proposal = build_proposal(plan)
    state = plan.status.state.value if plan.status.state else "not looked at yet"
    whose = f"RebalancePlan {plan.metadata.name} of BalancedCluster {plan.spec.cluster_ref.name}"
    lines = [f"{whose} ({plan.spec.approval}, {state})"]
    if proposal.message:
        lines.append(f"  {proposal.message}")
    lines += [f"  {line}" for line in tell_costs(proposal)]
    lines.append(f"  {_tell_topics(proposal)}")
    if plan.has_begun:
        lines.append(
            f"  done: {plan.status.percent} %, {plan.status.moves_done} of {plan.status.moves} moves"
        )
    return lines


def tell_next(plan: RebalancePlan, wish: Wish) -> str:
    """What was done, and how to see what comes of it."""
    name, cluster = plan.metadata.name, plan.spec.cluster_ref.name
    follow = f"`kubectl evenkeel status {cluster} --watch` follows it"
    if wish is Wish.APPROVE:
        return f"{name} approved; {follow}"
    if wish is Wish.CANCEL:
        return f"{name} is being cancelled where that is safe; {follow}"
    return f"{name} rejected; no other plan is proposed before it expires, nor for 24 h"


def _tell_topics(proposal: ProposedPlan) -> str:
    topics = sorted({move.topic for batch in proposal.batches for move in batch.moves})
    more = f" and {len(topics) - TOPICS_NAMED} more" if len(topics) > TOPICS_NAMED else ""
    return f"{count(len(topics), 'topic')}: {', '.join(topics[:TOPICS_NAMED])}{more}"


def _reason(plan: RebalancePlan) -> Reason:
    if plan.spec.approval is Approval.REJECTED:
        return Reason.PLAN_REJECTED
    return Reason.PLAN_OUTDATED if plan.is_finished else Reason.CONFLICT
