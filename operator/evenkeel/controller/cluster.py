"""BalancedCluster: starts its keeper and says what the keeper found. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenkeel.api.balanced_cluster import BalancedCluster, BalancedClusterStatus, MovesStatus, VolumeStatus
from evenkeel.api.meta import clip
from evenkeel.api.rebalance_plan import RebalancePlan
from evenkeel.controller.cluster_end import EndInput, plan_end
from evenkeel.controller.cluster_plans import (
    Proposal,
    decide_pending,
    guard_cluster,
    next_look,
    plan_proposal,
    remove_outlived,
)
from evenkeel.controller.conditions import (
    Condition,
    Status,
    build_conditions,
    is_ready,
    ready,
    transitions,
)
from evenkeel.controller.keeper_objects import build_keeper
from evenkeel.controller.plan import Moment, Plan, Saying
from evenkeel.controller.plans import Plans
from evenkeel.controller.pods import Images
from evenkeel.controller.store import Object
from evenkeel.domain.exchange import Desired, Report
from evenkeel.reasons import ConditionType, Reason

VOLUMES_LIMIT = 512
"""Volumes that status lists; more are only counted."""
STALLING = frozenset(
    {
        Reason.SECRET_MISSING,
        Reason.AUTHENTICATION_FAILED,
        Reason.AUTHORIZATION_MISSING,
        Reason.CLUSTER_OWNED_ELSEWHERE,
        Reason.INVALID_SPEC,
    }
)
"""Faults that somebody has to mend; the others may pass by themselves."""


@dataclass(frozen=True, slots=True)
class ClusterInput:
    """Everything that the plan of one cluster depends on."""

    item: Object
    cluster: BalancedCluster
    desired: Desired
    report: Report | None
    report_problem: str
    """Why the report cannot be read; empty if it can, or if there is none."""
    deployment: Object | None
    images: Images
    plans: Plans
    """All plans of moves for it."""
    namespace_ends: bool = False
    """Its namespace is being deleted with everything in it."""
    places_problem: str = ""
    """What is not known of where brokers run although the spec says how to find them."""


def plan_cluster(given: ClusterInput, at: Moment) -> Plan:
    """Keeper objects, plans of moves, status, events. One that is being deleted is left to the garbage collector."""
    cluster = given.cluster
    keeper = build_keeper(cluster, given.desired, given.images)
    if cluster.metadata.deletion_timestamp is not None:
        return plan_end(_end(given), keeper[0], at)
    proposal = plan_proposal(given.plans, given.desired, given.report, at)
    conditions = decide_conditions(given, proposal, at)
    present = (given.item.get("status") or {}).get("conditions") or ()
    status = _build_status(given.report, given.plans.open).dump()
    generation = cluster.metadata.generation
    status["observedGeneration"] = generation
    status["conditions"] = build_conditions(present, conditions, generation, at)
    return Plan(
        children=(*keeper, *(() if proposal.child is None else (proposal.child,))),
        removals=remove_outlived(given.plans, at.now),
        patches=guard_cluster(given.plans, settled=_is_settled(given)),
        status=status,
        sayings=tuple(Saying(given.item, note) for note in transitions(present, conditions, "Measure")),
        again_seconds=next_look(given.plans, at.now),
    )


def _end(given: ClusterInput) -> EndInput:
    return EndInput(
        given.item, given.cluster, given.desired, given.report, given.deployment, given.namespace_ends
    )


def decide_conditions(given: ClusterInput, proposal: Proposal, at: Moment) -> tuple[Condition, ...]:
    """Ready, and beside it what the newest measurement says."""
    report = given.report
    first = _decide_ready(given)
    if report is None:
        return first
    return (*first, _decide_balanced(given.cluster, report), decide_pending(given.plans, report, proposal, at),
            _decide_storage(given.cluster, report), *_decide_loads(given.cluster, report))  # fmt: skip


def _decide_ready(given: ClusterInput) -> tuple[Condition, ...]:
    report = given.report
    if given.report_problem:
        return ready(Reason.KEEPER_UNAVAILABLE, f"the keeper's report cannot be read: {given.report_problem}")
    if report is None:
        return _before_report(given.deployment)
    trouble = _decide_trouble(given, report)
    if trouble is not None:
        return trouble
    if not _is_told(given, report):
        return ready(Reason.PENDING, "the keeper has not taken up the newest spec yet")
    message = f"{report.brokers or 0} brokers with {len(report.volumes)} volumes are measured"
    gap = _gap(report) or _gap(report, "volume/") or given.places_problem or _gap(report, "routers")
    return is_ready(Reason.MEASURED, clip(f"{message}, but {gap}" if gap else message))


def _is_settled(given: ClusterInput) -> bool:
    report = given.report
    return report is not None and report.settled and report.is_for(given.desired)


def _is_told(given: ClusterInput, report: Report) -> bool:
    """Whether the report answers this spec; what other resources add to `desired` meanwhile is no reason to wait."""
    if report.is_for(given.desired):
        return True
    status = given.cluster.status
    now = status.condition(ConditionType.READY)
    return (
        status.observed_generation == given.cluster.metadata.generation
        and now is not None
        and now.status == "True"
    )


def _gap(report: Report, subject: str = "broker/") -> str:
    """What is missing in the newest measurement, or else odd about what begins with `subject`; empty: nothing."""
    return next((fault.message for fault in report.faults if fault.subject.startswith(subject)), "")


def _decide_trouble(given: ClusterInput, report: Report) -> tuple[Condition, ...] | None:
    fault = next((fault for fault in report.faults if not fault.subject), None)
    if fault is not None:
        return ready(fault.reason, fault.message, stalled=fault.reason in STALLING)
    # Before the keeper's availability: its pod is not ready while it cannot measure.
    if not report.measured and report.volumes:
        return ready(Reason.MEASUREMENT_STALE, "no complete measurement within three intervals")
    if not report.measured:
        return ready(Reason.STARTING, "the first measurement is under way")
    if _available(given.deployment) == 0:
        message = "the keeper is not running or not ready; what is shown is what it said last"
        return ready(Reason.KEEPER_UNAVAILABLE, _with_pod_problem(message, given.deployment))
    return None


def _before_report(deployment: Object | None) -> tuple[Condition, ...]:
    problem = _with_pod_problem("", deployment)
    if problem:
        return ready(Reason.KEEPER_UNAVAILABLE, f"the keeper does not start: {problem}")
    return ready(Reason.STARTING, "the keeper is starting and has not reported yet")


def _available(deployment: Object | None) -> int:
    return int(((deployment or {}).get("status") or {}).get("availableReplicas") or 0)


def _with_pod_problem(message: str, deployment: Object | None) -> str:
    """`message` with what the Deployment says is wrong, such as a quota or a deadline."""
    found: list[dict[str, Any]] = ((deployment or {}).get("status") or {}).get("conditions") or []
    bad = [
        one.get("message", "")
        for one in found
        if (one["type"], one["status"]) in (("ReplicaFailure", "True"), ("Progressing", "False"))
    ]
    return clip(": ".join(part for part in (message, *bad[:1]) if part))


def _decide_balanced(cluster: BalancedCluster, report: Report) -> Condition:
    kind = ConditionType.BALANCED
    deviation = report.deviation_permille
    if deviation is None:
        message = "not every volume's size is known, so the deviation is unknown"
        return Condition(kind, Status.UNKNOWN, Reason.MEASUREMENT_INCOMPLETE, message)
    gap = _gap(report)
    if gap:
        return Condition(kind, Status.UNKNOWN, Reason.MEASUREMENT_INCOMPLETE, gap)
    limit = cluster.spec.balance.enter_percent
    message = f"largest deviation from the mean fill is {deviation / 10:.1f} %, limit {limit} %"
    if deviation <= limit * 10:
        return Condition(kind, Status.TRUE, Reason.BALANCED, message)
    return Condition(kind, Status.FALSE, Reason.IMBALANCED, message)


def _decide_storage(cluster: BalancedCluster, report: Report) -> Condition:
    kind = ConditionType.STORAGE_LOW
    fill = report.max_fill_permille
    if fill is None:
        message = "the fill of the fullest volume is unknown"
        return Condition(kind, Status.UNKNOWN, Reason.MEASUREMENT_INCOMPLETE, message)
    limit = cluster.spec.balance.max_fill_percent
    message = f"the fullest volume is at {fill / 10:.1f} %, limit {limit} %{_say_soonest(report)}"
    if fill > limit * 10:
        return Condition(kind, Status.TRUE, Reason.STORAGE_LOW, message)
    gap = _gap(report)
    if gap:
        return Condition(kind, Status.UNKNOWN, Reason.MEASUREMENT_INCOMPLETE, f"{message}; {gap}")
    return Condition(kind, Status.FALSE, Reason.MEASURED, message)


def _say_soonest(report: Report) -> str:
    """Which volume will be full first, of those that will within a year."""
    filling = [one for one in report.volumes if one.full_in_days is not None]
    if not filling:
        return ""
    first = min(filling, key=lambda one: (one.full_in_days or 0, one.broker, one.path))
    when = {0: "in less than a day", 1: "in about a day"}.get(
        first.full_in_days or 0, f"in about {first.full_in_days} days"
    )
    return (
        f"; if inflow goes on as now, {first.path} of broker {first.broker} is the first to be full, {when}"
    )


def _decide_loads(cluster: BalancedCluster, report: Report) -> tuple[Condition, ...]:
    """Whether Prometheus tells what NodeLoad needs; nothing where no server is named."""
    kind = ConditionType.LOADS_KNOWN
    if cluster.spec.measure.prometheus is None:
        return ()
    faults = [fault for fault in report.faults if fault.subject == "prometheus"]
    if not faults:
        return (Condition(kind, Status.TRUE, Reason.MEASURED, "every load is known of every broker"),)
    if all(fault.reason is Reason.PENDING for fault in faults):
        before = cluster.status.condition(kind)
        if before is not None and before.reason in set(Reason):
            # A keeper that was started anew knows nothing for a moment, which is no news.
            return (Condition(kind, Status(before.status), Reason(before.reason), before.message),)
        return (Condition(kind, Status.UNKNOWN, Reason.PENDING, faults[0].message),)
    worst = min(faults, key=lambda fault: (fault.reason is Reason.SERIES_REFUSED, fault.message))
    message = clip("; ".join(fault.message for fault in faults))
    return (Condition(kind, Status.FALSE, worst.reason, message),)


def _build_status(report: Report | None, open_plan: RebalancePlan | None) -> BalancedClusterStatus:
    if report is None:
        return BalancedClusterStatus()
    moves = report.moves
    return BalancedClusterStatus(
        cluster_id=report.cluster_id,
        brokers=report.brokers,
        volumes=tuple(
            VolumeStatus(
                broker=one.broker,
                path=one.path,
                total_bytes=one.total_bytes,
                used_bytes=one.used_bytes,
                node=one.node,
                full_in_days=one.full_in_days,
            )
            for one in report.volumes[:VOLUMES_LIMIT]
        ),
        deviation_permille=report.deviation_permille,
        max_fill_permille=report.max_fill_permille,
        claim_owner=(report.claim.owner or None) if report.claim else None,
        moves=None
        if moves is None
        else MovesStatus(
            reason=moves.reason,
            message=clip(moves.message),
            moves=moves.moves,
            move_bytes=moves.move_bytes,
            deviation_before_permille=moves.deviation_before_permille,
            deviation_after_permille=moves.deviation_after_permille,
            cure=moves.cure,
            routing_seconds=moves.routing_seconds,
            limit_seconds=moves.limit_seconds,
            plan=None if open_plan is None else open_plan.metadata.name,
        ),
    )
