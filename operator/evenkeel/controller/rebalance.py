"""RebalancePlan: carried out by the keeper, which is told of it by `desired`; here is said how far it is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.api.meta import State
from evenkeel.api.rebalance_plan import RebalancePlan, RebalancePlanStatus
from evenkeel.controller.conditions import (
    QUIET,
    Condition,
    build_conditions,
    is_ready,
    ready,
    transitions,
)
from evenkeel.controller.plan import Moment, Patch, Plan, Saying
from evenkeel.controller.plans import (
    Plans,
    expiration,
    is_expired,
    is_foreign,
    is_ours,
    stands_after,
    tell_expiration,
    tell_time,
)
from evenkeel.controller.store import Object
from evenkeel.domain.exchange import BalanceMode
from evenkeel.domain.moves import Approval, Batch, PlanEvent, PlanReport, PlanState
from evenkeel.kube.events import EventType, Note
from evenkeel.kube.resources import REBALANCE_PLAN
from evenkeel.reasons import Reason

UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
KILO = 1000
ACTION = "Rebalance"
"""What the events of a plan are about."""


@dataclass(frozen=True, slots=True)
class PlanInput:
    """Everything that the status of one plan depends on."""

    item: Object
    plan: RebalancePlan
    batches: tuple[Batch, ...]
    """Its moves, which were found to be valid."""
    plans: Plans | None
    """All plans of its cluster; None: the cluster does not exist."""
    report: PlanReport | None = None
    """What the keeper says of this very plan."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where the plan stands, and why."""

    state: PlanState
    reason: Reason
    message: str


def plan_rebalance(given: PlanInput, at: Moment) -> Plan:
    """Status and events of a plan; its approval where the cluster's mode is Automatic."""
    plan = given.plan
    if plan.metadata.deletion_timestamp is not None:
        return Plan()
    if plan.is_finished:
        return _keep_finished(given)
    verdict = decide(given, at)
    conditions = _build_conditions(verdict)
    present = (given.item.get("status") or {}).get("conditions") or ()
    status = build_status(given, verdict).dump()
    generation = plan.metadata.generation
    status["observedGeneration"] = generation
    status["conditions"] = build_conditions(present, conditions, generation, at)
    fresh = find_events(given)
    told = {event.reason for event in fresh}
    notes = [
        *(_note(event) for event in fresh),
        *(_calm(note) for note in transitions(present, conditions, ACTION) if note.reason not in told),
    ]
    left = (expiration(plan) - at.now).total_seconds()
    return Plan(
        patches=_approve(given, at),
        status=status,
        sayings=tuple(Saying(given.item, note) for note in notes),
        again_seconds=max(1.0, left) if plan.spec.approval is Approval.PENDING and left > 0 else None,
    )


def decide(given: PlanInput, at: Moment) -> Verdict:
    """Where the plan stands: by the keeper's word if there is one, else by who else is there.

    One that nobody decided in time has never run, as no approval can be taken back: no keeper is asked.
    """
    if is_expired(given.plan, at.now):
        message = f"nobody decided until {tell_expiration(given.plan)}; nothing of it has run"
        return Verdict(PlanState.FINISHED, Reason.PLAN_EXPIRED, message)
    if given.plans is None:
        return _decide_alone(given, at)
    if given.report is not None:
        return _decide_reported(given, given.report)
    foreign = _decide_foreign(given, given.plans)
    if foreign is not None:
        return foreign
    first = given.plans.open
    if first is None or first.metadata.uid != given.plan.metadata.uid:
        return _decide_waiting(given, first, at)
    return _decide_open(given, given.plans.cluster)


def _decide_alone(given: PlanInput, at: Moment) -> Verdict:
    plan = given.plan
    name = f"{plan.metadata.namespace}/{plan.spec.cluster_ref.name}"
    if _has_run(plan):
        message = (
            f"BalancedCluster {name} is deleted; what was under way was cancelled if its keeper could still do so:"
            " look for throttles and reassignments in Kafka"
        )
        return Verdict(PlanState.FINISHED, Reason.PLAN_OUTDATED, message)
    over = _decide_rejected(plan, at)
    message = f"clusterRef: BalancedCluster {name} does not exist"
    return over or Verdict(PlanState.PROPOSED, Reason.CLUSTER_NOT_FOUND, message)


def _has_run(plan: RebalancePlan) -> bool:
    # An approved plan is Paused, too, where it was never let begin.
    return plan.status.state is PlanState.RUNNING or (plan.has_begun and plan.status.batch > 0)


def _decide_foreign(given: PlanInput, plans: Plans) -> Verdict | None:
    plan = given.plan
    if not is_foreign(plan, plans.kafka_id):
        return None
    message = (
        f"kafkaClusterId: was planned for Kafka cluster {plan.spec.kafka_cluster_id},"
        f" BalancedCluster {plans.cluster.metadata.name} is {plans.kafka_id}"
    )
    if plan.has_begun:
        message += "; what was under way there was not cancelled"
    return Verdict(PlanState.FINISHED, Reason.PLAN_OUTDATED, message)


def _decide_rejected(plan: RebalancePlan, at: Moment) -> Verdict | None:
    """The end of a plan that no keeper knows of."""
    if plan.spec.approval is not Approval.REJECTED:
        return None
    until = tell_time(stands_after(plan, at.now))
    message = f"rejected before it began; nothing new is proposed before {until}"
    return Verdict(PlanState.FINISHED, Reason.PLAN_REJECTED, message)


def _decide_waiting(given: PlanInput, first: RebalancePlan | None, at: Moment) -> Verdict:
    over = _decide_rejected(given.plan, at)
    if over is not None:
        return over
    other = f"RebalancePlan {first.metadata.name}" if first is not None else "another RebalancePlan"
    name = given.plan.spec.cluster_ref.name
    message = f"{other} of BalancedCluster {name} is not finished; one plan at a time"
    return Verdict(PlanState.PROPOSED, Reason.CONFLICT, message)


def _decide_open(given: PlanInput, cluster: BalancedCluster) -> Verdict:
    """Before the keeper has said anything of it."""
    plan = given.plan
    state = plan.status.state or PlanState.PROPOSED
    if plan.spec.approval is Approval.PENDING:
        return Verdict(state, Reason.PLAN_PENDING, say_pending(plan))
    if plan.spec.approval is Approval.REJECTED:
        return Verdict(state, Reason.PENDING, "rejected; the keeper is asked whether anything of it runs")
    if cluster.spec.balance.mode is BalanceMode.DISABLED:
        message = f"approved, but spec.balance.mode of BalancedCluster {cluster.metadata.name} is Disabled"
        return Verdict(state, Reason.DISABLED, message)
    if cluster.spec.state is State.PAUSED:
        message = f"approved, but spec.state of BalancedCluster {cluster.metadata.name} is Paused"
        return Verdict(state, Reason.PAUSED, message)
    return Verdict(state, Reason.PENDING, "approved; the keeper has not taken it up yet")


def _decide_reported(given: PlanInput, report: PlanReport) -> Verdict:
    if report.state is PlanState.PROPOSED and report.reason is Reason.PLAN_PENDING:
        if given.plan.spec.approval is not Approval.PENDING:
            # The report is of before the decision.
            decided = given.plan.spec.approval.value.lower()
            return Verdict(report.state, Reason.PENDING, f"{decided}; the keeper has not taken it up yet")
        doubt = report.message.partition("; ")[2]  # why it could not begin now
        told = say_pending(given.plan)
        return Verdict(report.state, report.reason, f"{told}; {doubt}" if doubt else told)
    return Verdict(report.state, report.reason, report.message)


def say_pending(plan: RebalancePlan) -> str:
    """What may be decided, until when, and how."""
    spec, name = plan.spec, plan.metadata.name
    total = sum(move.bytes for move in spec.moves)
    takes = f" in about {spec.seconds} s" if spec.seconds else ""
    return (
        f"{_count(len(spec.moves))} of {_size(total)}{takes}, to be decided until {tell_expiration(plan)}:"
        f" kubectl evenkeel approve {name} -n {plan.metadata.namespace}, or set spec.approval"
    )


def _size(number: int) -> str:
    """Bytes for people, in powers of a thousand."""
    power = 0
    while power < len(UNITS) - 1 and round(number / KILO**power) >= KILO:
        power += 1
    return f"{number / KILO**power:.3g} {UNITS[power]}"


def _count(moves: int) -> str:
    return "1 move" if moves == 1 else f"{moves} moves"


def _build_conditions(verdict: Verdict) -> tuple[Condition, ...]:
    if verdict.state is PlanState.FINISHED:
        return is_ready(verdict.reason, verdict.message)
    return ready(verdict.reason, verdict.message)


def build_status(given: PlanInput, verdict: Verdict) -> RebalancePlanStatus:
    """Progress as the keeper reports it; what it has reported before stays."""
    report, before = given.report, given.plan.status
    if report is None:
        total = sum(move.bytes for batch in given.batches for move in batch.moves)
        moves = sum(len(batch.moves) for batch in given.batches)
        known = before.model_copy(update={"batches": len(given.batches), "moves": moves, "bytes": total})
        update = {"state": verdict.state, "eta_seconds": None, "bytes_per_second": 0, "conditions": ()}
        return known.model_copy(update=update)
    ended = verdict.state is PlanState.FINISHED
    events = (event.number for event in report.events)
    return RebalancePlanStatus(
        state=verdict.state,
        batch=report.batch,
        batches=report.batches or len(given.batches),
        moves=report.moves or sum(len(batch.moves) for batch in given.batches),
        moves_done=report.moves_done,
        moves_failed=report.moves_failed,
        bytes=report.bytes or sum(move.bytes for batch in given.batches for move in batch.moves),
        bytes_done=report.bytes_done,
        percent=report.percent,
        eta_seconds=None if ended else report.eta_seconds,
        bytes_per_second=0 if ended else report.bytes_per_second,
        last_event=max((before.last_event, *events)),
    )


def find_events(given: PlanInput) -> list[PlanEvent]:
    """What the keeper told since the newest event that was written."""
    report = given.report
    if report is None:
        return []
    fresh = (event for event in report.events if event.number > given.plan.status.last_event)
    return sorted(fresh, key=lambda event: event.number)


def _note(event: PlanEvent) -> Note:
    kind = EventType.NORMAL if event.reason in QUIET else EventType.WARNING
    return Note(event.reason, event.message, ACTION, kind)


def _calm(note: Note) -> Note:
    return replace(note, type=EventType.NORMAL) if note.reason in QUIET else note


def _keep_finished(given: PlanInput) -> Plan:
    """It stays as it ended; only the generation is followed, for a decision that came too late."""
    status: dict[str, Any] = dict(given.item.get("status") or {})
    generation = given.plan.metadata.generation
    if status.get("observedGeneration") == generation:
        return Plan()
    status["observedGeneration"] = generation
    status["conditions"] = _follow_generation(status.get("conditions") or (), generation)
    return Plan(status=status)


def _follow_generation(present: Iterable[Mapping[str, Any]], generation: int) -> list[dict[str, Any]]:
    return [{**one, "observedGeneration": generation} for one in present]


def _approve(given: PlanInput, at: Moment) -> tuple[Patch, ...]:
    """What the operator proposed it also approves, where the cluster says so."""
    plan, plans = given.plan, given.plans
    if plans is None or plan.spec.approval is not Approval.PENDING or is_expired(plan, at.now):
        return ()
    cluster = plans.cluster
    automatic = cluster.spec.balance.mode is BalanceMode.AUTOMATIC and cluster.spec.state is State.ACTIVE
    going = cluster.metadata.deletion_timestamp is not None
    first = plans.open
    if not automatic or going or not is_ours(plan, cluster.metadata.uid):
        return ()
    if first is None or first.metadata.uid != plan.metadata.uid:
        return ()
    meta = plan.metadata
    # Refused if somebody decided meanwhile.
    body = {
        "metadata": {"resourceVersion": meta.resource_version},
        "spec": {"approval": Approval.APPROVED.value},
    }
    return (Patch(REBALANCE_PLAN, meta.namespace, meta.name, body),)
