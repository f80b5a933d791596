"""What a BalancedCluster does about plans of moves: proposes, names the open one, keeps a history. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from evenkeel import names
from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.api.meta import State
from evenkeel.api.plan_content import build_spec
from evenkeel.api.rebalance_plan import RebalancePlan
from evenkeel.controller.conditions import Condition, Status
from evenkeel.controller.plan import Child, Moment, Patch, Removal
from evenkeel.controller.plans import LIFETIME, Plans, expiration, needs_guard, stands_until, tell_time
from evenkeel.controller.pods import build_labels, build_meta
from evenkeel.controller.rebalance import say_pending
from evenkeel.domain.exchange import BalanceMode, Desired, Report
from evenkeel.domain.moves import Approval, ProposedPlan
from evenkeel.errors import InputError
from evenkeel.kube.resources import BALANCED_CLUSTER, REBALANCE_PLAN
from evenkeel.reasons import ConditionType, Reason

COMPONENT = "plan"
HASH_DIGITS = 10
"""Of a plan's hash in its name."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A RebalancePlan to make, or why a proposed plan cannot become one."""

    child: Child | None = None
    problem: str = ""


def plan_proposal(plans: Plans, desired: Desired, report: Report | None, at: Moment) -> Proposal:
    """The RebalancePlan for what the keeper proposes by what it was told last; nothing while another is open."""
    cluster = plans.cluster
    if report is None or report.moves is None or report.moves.proposal is None:
        return Proposal()
    active = cluster.spec.state is State.ACTIVE and cluster.spec.balance.mode is not BalanceMode.DISABLED
    if not active or report.desired_version != desired.version:
        return Proposal()
    # One that could not measure says again what it proposed before, perhaps by another policy.
    if any(not fault.subject for fault in report.faults):
        return Proposal()
    found = report.moves.proposal
    # The keeper proposes a plan that was decided no more; until it has taken that up its report is of before.
    if plans.open is not None or not desired.propose or plans.is_known(_name(cluster, found)):
        return Proposal()
    try:
        return Proposal(_build_plan(cluster, found, at))
    except InputError as error:
        return Proposal(problem=error.message)


def _build_plan(cluster: BalancedCluster, proposal: ProposedPlan, at: Moment) -> Child:
    name = cluster.metadata.name
    automatic = cluster.spec.balance.mode is BalanceMode.AUTOMATIC
    approval = Approval.APPROVED if automatic else Approval.PENDING
    labels = build_labels(COMPONENT, name, **{names.LABEL_CLUSTER: name})
    spec = build_spec(proposal, name, (at.now + LIFETIME).replace(microsecond=0), approval)
    meta = build_meta(cluster, BALANCED_CLUSTER, _name(cluster, proposal), labels)
    (owner,) = meta["ownerReferences"]
    guarded = {**meta, "ownerReferences": [{**owner, "blockOwnerDeletion": True}]}
    return Child(REBALANCE_PLAN, {"metadata": guarded, "spec": spec.dump()}, create_only=True)


def _name(cluster: BalancedCluster, proposal: ProposedPlan) -> str:
    return f"{cluster.metadata.name}-{proposal.hash[:HASH_DIGITS]}"


def remove_outlived(plans: Plans, now: datetime) -> tuple[Removal, ...]:
    """Finished plans that nobody needs any more."""
    metas = (one.metadata for one in plans.outlived(now))
    return tuple(Removal(REBALANCE_PLAN, meta.namespace, meta.name, meta.uid) for meta in metas)


def guard_cluster(plans: Plans, *, settled: bool) -> tuple[Patch, ...]:
    """Puts the finalizer on the cluster from a plan's approval to its end, and takes it away.

    Args:
        plans: the open one may run.
        settled: the keeper has said, knowing of the open plan, that nothing is under way. A plan that is deleted while
            it runs has moves in Kafka until then.
    """
    present = names.FINALIZER_MOVES in plans.cluster.metadata.finalizers
    wanted = needs_guard(plans.open) or (present and not settled)
    return () if wanted == present else (patch_finalizer(plans.cluster, wanted=wanted),)


def patch_finalizer(cluster: BalancedCluster, *, wanted: bool) -> Patch:
    """The finalizer set or taken away; refused if the cluster changed meanwhile."""
    meta = cluster.metadata
    others = [one for one in meta.finalizers if one != names.FINALIZER_MOVES]
    finalizers = [*others, names.FINALIZER_MOVES] if wanted else others
    body = {"metadata": {"finalizers": finalizers, "resourceVersion": meta.resource_version}}
    return Patch(BALANCED_CLUSTER, meta.namespace, meta.name, body)


def decide_pending(plans: Plans, report: Report, proposal: Proposal, at: Moment) -> Condition:
    """Whether a plan waits for a decision: which one, and what to type."""
    kind, cluster = ConditionType.PLAN_PENDING, plans.cluster
    first = plans.open
    if first is not None:
        return _decide_open(first)
    if cluster.spec.balance.mode is BalanceMode.DISABLED:
        return Condition(kind, Status.FALSE, Reason.DISABLED, "spec.balance.mode is Disabled")
    rejected = plans.rejection(at.now)
    if rejected is not None:
        end = stands_until(rejected)
        until = tell_time(end) if end is not None else "it has ended"
        message = (
            f"RebalancePlan {rejected.metadata.name} was rejected: nothing new is proposed before {until},"
            " or before that plan is deleted"
        )
        return Condition(kind, Status.FALSE, Reason.PLAN_REJECTED, message)
    if proposal.problem:
        return Condition(kind, Status.FALSE, Reason.INVALID_SPEC, proposal.problem)
    if report.moves is None:
        return Condition(kind, Status.FALSE, Reason.PENDING, "no moves have been planned yet")
    status = Status.TRUE if report.moves.moves > 0 else Status.FALSE
    return Condition(kind, status, report.moves.reason, report.moves.message)


def _decide_open(plan: RebalancePlan) -> Condition:
    kind, name = ConditionType.PLAN_PENDING, plan.metadata.name
    where = f"kubectl evenkeel status {plan.spec.cluster_ref.name} -n {plan.metadata.namespace}"
    if plan.spec.approval is Approval.PENDING:
        return Condition(kind, Status.TRUE, Reason.PLAN_PENDING, f"RebalancePlan {name}: {say_pending(plan)}")
    if plan.spec.approval is Approval.REJECTED:
        message = f"RebalancePlan {name} is rejected; what of it runs is being cancelled: {where}"
        return Condition(kind, Status.FALSE, Reason.PLAN_REJECTED, message)
    message = f"RebalancePlan {name} is approved and being carried out: {where}"
    return Condition(kind, Status.FALSE, Reason.MOVING, message)


def next_look(plans: Plans, now: datetime) -> float | None:
    """Seconds until a plan expires or a rejection ends; None: neither."""
    first = plans.open
    pending = first if first is not None and first.spec.approval is Approval.PENDING else None
    rejected = plans.rejection(now)
    expires = expiration(pending) if pending is not None else None
    stands = stands_until(rejected) if rejected is not None else None
    left = [(one - now).total_seconds() for one in (expires, stands) if one is not None]
    return min((max(1.0, seconds) for seconds in left if seconds > 0), default=None)
