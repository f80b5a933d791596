"""The RebalancePlans of one cluster: which one is open, which stand in the way of another, which are history. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from evenkeel import names
from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.api.plan_content import read_batches
from evenkeel.api.rebalance_plan import RebalancePlan
from evenkeel.controller.plan import Moment
from evenkeel.domain.moves import Approval, DesiredPlan
from evenkeel.errors import InputError
from evenkeel.reasons import ConditionType, Reason

LIFETIME = timedelta(hours=24)
"""How long a plan may be decided, and how long the rejection of one that has ended stands."""
KEPT_FINISHED = 5
"""Finished plans that stay for people to read."""
ENDED_OTHERWISE = frozenset({Reason.MOVED, Reason.PLAN_OUTDATED, Reason.PLAN_EXPIRED})
"""Ends of a plan that a later rejection does not change."""


@dataclass(frozen=True, slots=True)
class Plans:
    """All RebalancePlans that name one cluster."""

    cluster: BalancedCluster
    items: tuple[RebalancePlan, ...] = ()
    """The older first."""
    told: str | None = None
    """UID of the plan that the keeper was told last."""
    kafka_id: str | None = None
    """Kafka's id of the cluster, where it is known."""

    @property
    def open(self) -> RebalancePlan | None:
        """The one that is told to the keeper: the one that is, then one that has begun, then the oldest."""
        waiting = [one for one in self.items if self._may_be_open(one)]
        waiting.sort(key=lambda one: (one.metadata.uid != self.told, not one.has_begun))
        return next((one for one in waiting if _is_valid(one)), None)

    def rejection(self, now: datetime) -> RebalancePlan | None:
        """The rejected plan that stands longest: nothing new is wanted before."""
        return max((one for one in self.items if is_standing(one, now)), key=_by_end, default=None)

    def outlived(self, now: datetime) -> tuple[RebalancePlan, ...]:
        """Finished plans of ours that go: all but the newest few, and those whose rejection stands.

        Only what the operator made: a plan that somebody declares would be made anew, and run again.
        """
        uid = self.cluster.metadata.uid
        finished = [one for one in self.items if one.is_finished and is_ours(one, uid)]
        finished.sort(key=_finished_at, reverse=True)
        return tuple(
            one
            for one in finished[KEPT_FINISHED:]
            if not is_standing(one, now) and one.metadata.deletion_timestamp is None
        )

    def is_known(self, name: str) -> bool:
        """Whether there is a plan of this name."""
        return any(one.metadata.name == name for one in self.items)

    def _may_be_open(self, plan: RebalancePlan) -> bool:
        going = plan.metadata.deletion_timestamp is not None
        return not plan.is_finished and not going and not is_foreign(plan, self.kafka_id)


def is_foreign(plan: RebalancePlan, kafka_id: str | None) -> bool:
    """Whether the plan was made for another Kafka cluster than this one."""
    wanted = plan.spec.kafka_cluster_id
    return wanted is not None and kafka_id is not None and wanted != kafka_id


def is_ours(plan: RebalancePlan, cluster_uid: str) -> bool:
    """Whether the operator made the plan, for this very cluster."""
    owned = any(one.uid == cluster_uid and one.controller for one in plan.metadata.owner_references)
    return owned and plan.metadata.labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY


def expiration(plan: RebalancePlan) -> datetime:
    """When it is too late to decide."""
    if plan.spec.expiration_time is not None:
        return plan.spec.expiration_time
    assert plan.metadata.creation_timestamp is not None
    return plan.metadata.creation_timestamp + LIFETIME


def tell_expiration(plan: RebalancePlan) -> str:
    """The same for people."""
    return tell_time(expiration(plan))


def tell_time(time: datetime) -> str:
    """A time for people: in UTC, wherever it was written."""
    return Moment(time.astimezone(UTC)).text


def stands_until(plan: RebalancePlan) -> datetime | None:
    """When the rejection of a plan no longer counts; None: not before the plan has ended.

    One that cannot be read never ends.
    """
    ready = plan.status.condition(ConditionType.READY)
    if plan.is_finished and ready is not None:
        return stands_after(plan, ready.last_transition_time)
    return expiration(plan) if plan.is_finished or not _is_valid(plan) else None


def stands_after(plan: RebalancePlan, ended: datetime) -> datetime:
    """The same for one that ended then: whoever stops an old plan wants no other at once."""
    return max(expiration(plan), ended + LIFETIME)


def is_standing(plan: RebalancePlan, now: datetime) -> bool:
    """Whether it was rejected, not only after it had ended for another reason, and that still counts."""
    if plan.spec.approval is not Approval.REJECTED:
        return False
    ready = plan.status.condition(ConditionType.READY)
    if plan.is_finished and ready is not None and ready.reason in ENDED_OTHERWISE:
        return False
    until = stands_until(plan)
    return until is None or now < until


def is_expired(plan: RebalancePlan, now: datetime) -> bool:
    """Whether nobody decided in time."""
    return plan.spec.approval is Approval.PENDING and now >= expiration(plan)


def needs_guard(plan: RebalancePlan | None) -> bool:
    """Whether moves of the open plan may be under way, so that its cluster must not be forgotten."""
    return plan is not None and (plan.spec.approval is Approval.APPROVED or plan.has_begun)


def tell_open(plans: Plans, now: datetime) -> DesiredPlan | None:
    """The open plan as the keeper is told; None: there is none.

    An approval is told once the cluster carries the finalizer that lets moves be cancelled before it goes.
    """
    plan = plans.open
    if plan is None:
        return None
    spec = plan.spec
    guarded = names.FINALIZER_MOVES in plans.cluster.metadata.finalizers
    held_back = spec.approval is Approval.APPROVED and not guarded
    return DesiredPlan(
        uid=plan.metadata.uid,
        name=plan.metadata.name,
        hash=spec.plan_hash or plan.metadata.name,
        approval=Approval.PENDING if held_back else spec.approval,
        batches=read_batches(spec),
        cluster_id=spec.kafka_cluster_id,
        throttle_bytes_per_second=spec.throttle_bytes_per_second,
        expired=is_expired(plan, now),
    )


def _by_end(plan: RebalancePlan) -> tuple[bool, datetime, str]:
    until = stands_until(plan)
    return until is None, until or expiration(plan), plan.metadata.name


def _created(plan: RebalancePlan) -> float:
    made = plan.metadata.creation_timestamp
    return made.timestamp() if made is not None else 0.0


def _finished_at(plan: RebalancePlan) -> tuple[float, float, str]:
    ready = plan.status.condition(ConditionType.READY)
    ended = ready.last_transition_time.timestamp() if ready is not None else 0.0
    return ended, _created(plan), plan.metadata.name


def _is_valid(plan: RebalancePlan) -> bool:
    # An invalid one says so by its own condition, and must not keep others waiting.
    try:
        read_batches(plan.spec)
    except InputError:
        return False
    return True
