"""A BalancedCluster that is being deleted while moves run: they are cancelled before it is forgotten. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from evenkeel import names
from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.controller.cluster_plans import patch_finalizer
from evenkeel.controller.conditions import build_conditions, ready, transitions
from evenkeel.controller.plan import Child, Moment, Plan, Saying
from evenkeel.controller.store import Object
from evenkeel.domain.exchange import Desired, Report
from evenkeel.kube.events import EventType, Note
from evenkeel.reasons import Reason

PATIENCE = timedelta(minutes=10)
"""How long a deletion waits for moves to be cancelled; a Kafka that is gone for good never answers."""


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
    if given.namespace_ends or _is_keeper_gone(given.deployment) or _is_released(given):
        return Plan(patches=(free,))
    assert cluster.metadata.deletion_timestamp is not None
    left = (cluster.metadata.deletion_timestamp + PATIENCE - at.now).total_seconds()
    if left <= 0:
        message = (
            f"no word from the keeper for {PATIENCE.total_seconds():.0f} s after the deletion: moves and throttles"
            " may be left in Kafka"
        )
        note = Note(Reason.KEEPER_UNAVAILABLE, message, "Delete", EventType.WARNING)
        return Plan(patches=(free,), sayings=(Saying(given.item, note),))
    conditions = ready(Reason.DELETING, "moves that run are cancelled before the cluster is forgotten")
    status = dict(given.item.get("status") or {})
    present, generation = status.get("conditions") or (), cluster.metadata.generation
    status["observedGeneration"] = generation
    status["conditions"] = build_conditions(present, conditions, generation, at)
    notes = transitions(present, conditions, "Delete")
    return Plan(
        children=(tell,),
        status=status,
        sayings=tuple(Saying(given.item, note) for note in notes),
        again_seconds=max(1.0, left),
    )


def _is_released(given: EndInput) -> bool:
    report = given.report
    return report is not None and report.released and report.desired_version == given.desired.version


def _is_keeper_gone(deployment: Object | None) -> bool:
    return deployment is None or "deletionTimestamp" in deployment["metadata"]
