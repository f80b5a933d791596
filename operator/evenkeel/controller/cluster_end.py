"""A BalancedCluster that is being deleted while moves run: they are cancelled before it is forgotten. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from evenkeel import names
from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.api.meta import ConditionStatus, clip
from evenkeel.controller.cluster_plans import patch_finalizer
from evenkeel.controller.conditions import Condition, Status, build_conditions, transitions
from evenkeel.controller.plan import Child, Moment, Plan, Saying
from evenkeel.controller.store import Object
from evenkeel.domain.exchange import Desired, Report
from evenkeel.kube.events import EventType, Note
from evenkeel.reasons import ConditionType, Reason

PATIENCE = timedelta(minutes=10)
"""How long a deletion waits for a keeper that does not answer; where Kafka is gone for good, it never does."""
LOOK_SECONDS = 60.0
"""Between looks at a keeper that answers: it lets a copy finish that cannot be cancelled, for hours if need be."""
HELD = "a copy that cannot be cancelled without falling below min.insync.replicas is left to finish"


@dataclass(frozen=True, slots=True)
class EndInput:
    """Everything that the end of a cluster depends on."""

    item: Object
    cluster: BalancedCluster
    desired: Desired
    """With `release`."""
    report: Report | None
    deployment: Object | None
    namespace_ends: bool


def plan_end(given: EndInput, tell: Child, at: Moment) -> Plan:
    """Let the cluster go: at once where no plan runs, else when the keeper says that nothing is under way.

    Args:
        given: the facts.
        tell: `desired` for the keeper.
        at: now.
    """
    cluster = given.cluster
    if names.FINALIZER_MOVES not in cluster.metadata.finalizers:
        return Plan()
    free = patch_finalizer(cluster, wanted=False)
    if _is_released(given):
        return Plan(patches=(free,))
    left = LOOK_SECONDS
    if not _answers(given):
        left = (_find_silence(given, at) + PATIENCE - at.now).total_seconds()
    loss = _find_loss(given, left)
    if not loss:
        return _wait(given, tell, at, max(1.0, left))
    message = f"{loss}: moves and throttles may be left in Kafka"
    note = Note(Reason.KEEPER_UNAVAILABLE, message, "Delete", EventType.WARNING)
    return Plan(patches=(free,), sayings=(Saying(given.item, note),))


def _find_loss(given: EndInput, left: float) -> str:
    """Why nobody waits for the keeper any more; empty: it is waited for."""
    if given.namespace_ends:
        return "the namespace is being deleted with the keeper, before it said that nothing is under way"
    if given.deployment is None or "deletionTimestamp" in given.deployment["metadata"]:
        return "the keeper was deleted before it said that nothing is under way"
    return "" if left > 0 else f"no word from the keeper for {PATIENCE.total_seconds():.0f} s"


def _wait(given: EndInput, tell: Child, at: Moment, seconds: float) -> Plan:
    conditions = _decide_conditions(given)
    status = dict(given.item.get("status") or {})
    present, generation = status.get("conditions") or (), given.cluster.metadata.generation
    status["observedGeneration"] = generation
    status["conditions"] = build_conditions(present, conditions, generation, at)
    notes = transitions(present, conditions, "Delete")
    return Plan(
        children=(tell,),
        status=status,
        sayings=tuple(Saying(given.item, note) for note in notes),
        again_seconds=seconds,
    )


def _decide_conditions(given: EndInput) -> tuple[Condition, ...]:
    """Reconciling is False while the keeper does not answer: its transition time says since when."""
    message, going = "moves that run are cancelled before the cluster is forgotten", Status.FALSE
    if _answers(given):
        assert given.report is not None
        fault = next((fault.message for fault in given.report.faults if not fault.subject), "")
        message = clip(f"{message}; {fault or HELD}")
        going = Status.TRUE
    return (
        Condition(ConditionType.READY, Status.FALSE, Reason.DELETING, message),
        Condition(ConditionType.RECONCILING, going, Reason.DELETING, message),
    )


def _find_silence(given: EndInput, at: Moment) -> datetime:
    """Since when the keeper does not answer: the deletion, or when it was last seen to."""
    meta = given.cluster.metadata
    assert meta.deletion_timestamp is not None
    before = given.cluster.status.condition(ConditionType.RECONCILING)
    if before is None or before.reason != Reason.DELETING:
        return meta.deletion_timestamp
    return at.now if before.status is ConditionStatus.TRUE else before.last_transition_time


def _answers(given: EndInput) -> bool:
    """Whether the keeper runs, measures, and has taken up that it should let go."""
    report, running = given.report, ((given.deployment or {}).get("status") or {}).get("availableReplicas")
    return bool(running) and report is not None and report.is_for(given.desired)


def _is_released(given: EndInput) -> bool:
    report = given.report
    return report is not None and report.released and report.is_for(given.desired)
