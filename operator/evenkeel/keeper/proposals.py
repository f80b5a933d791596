"""Which plan to propose. A proposal stands, word for word, as long as its facts hold and it is needed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from evenkeel.domain.exchange import BalanceMode, Desired, TopicRouting
from evenkeel.domain.moves import Batch, Move, MoveKind, ProposedPlan
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.keeper.judging import judge_batches
from evenkeel.keeper.moving.settings import START_BYTES_PER_SECOND
from evenkeel.planning import proposal as planning
from evenkeel.planning.moves_plan import Cure, MovesPlan, MovesRequest
from evenkeel.planning.peak import source_volume, target_volume
from evenkeel.planning.routing import RoutesPlan
from evenkeel.planning.space import build_space
from evenkeel.reasons import Reason

RESIZES = frozenset({MoveKind.ADD, MoveKind.REMOVE})


def build_request(
    desired: Desired,
    snapshot: ClusterSnapshot,
    routed: Mapping[str, TopicRouting],
    routes: RoutesPlan | None,
    *,
    continuing: bool,
) -> MovesRequest:
    """What is asked of the planner.

    Args:
        desired: policy, and topics that want another number of replicas.
        snapshot: what was measured.
        routed: topics that may be routed.
        routes: the newest weights; topics that they do not route count as not steered.
        continuing: a plan of the same imbalance has run, or stands: go on until within `leave_percent`.
    """
    steered = {
        topic: routing
        for topic, routing in routed.items()
        if routes is not None and topic in routes.topics and routes.topics[topic].active
    }
    return MovesRequest(
        routed=steered,
        routes=routes if steered else None,
        drain=desired.policy.drain,
        replication=find_replication(desired, snapshot),
        continuing=continuing,
        throttle_bytes_per_second=desired.policy.throttle_bytes_per_second or START_BYTES_PER_SECOND,
    )


def find_replication(desired: Desired, snapshot: ClusterSnapshot) -> dict[str, int]:
    """Topic -> wanted number of replicas, of those declared topics that have another."""
    wanted = {
        topic.name: topic.replication_factor
        for topic in desired.topics
        if topic.create and topic.replication_factor is not None
    }
    groups = snapshot.group_partitions(wanted)
    return {
        name: count
        for name, count in wanted.items()
        if any(len(one.replicas) - len(one.removing) != count for one in groups[name])
    }


def decide_proposal(
    before: ProposedPlan | None, plan: MovesPlan, snapshot: ClusterSnapshot, desired: Desired
) -> ProposedPlan | None:
    """The plan to propose: the one that stands, a new one, or none.

    One that is contradicted is dropped; another is made by the next plan, which then has to be worth beginning.

    Args:
        before: that stands.
        plan: the newest; where a proposal stands it was made to go on until within `leave_percent`.
        snapshot: that it was made from.
        desired: whether a plan is welcome, and what it should be for.
    """
    if not is_welcome(desired):
        return None
    if before is None:
        return build_proposal(plan, snapshot, desired) if plan.moves else None
    if judge_batches(before.batches, before.cluster_id, snapshot, desired.policy) is not None:
        return None
    if plan.reason is Reason.SNAPSHOT_INCOMPLETE:
        return before
    if not plan.moves or _misses(before, plan, desired) or not _helps(before, plan, snapshot, desired):
        return None
    return before


def is_welcome(desired: Desired) -> bool:
    """Whether the operator would take a proposal."""
    if desired.plan is not None or not desired.propose:
        return False
    return not (desired.paused or desired.release or desired.policy.mode is BalanceMode.DISABLED)


def build_proposal(plan: MovesPlan, snapshot: ClusterSnapshot, desired: Desired) -> ProposedPlan:
    """The planner's plan as it is proposed."""
    choice = plan.choice
    found = planning.build_proposal(plan, snapshot.cluster_id, desired.policy.throttle_bytes_per_second)
    fills = tuple(sorted(found.fills, key=lambda fill: fill.volume))
    found = replace(found, seconds=round(plan.seconds or 0.0), fills=fills)
    if choice is None or choice.cure is not Cure.MOVE:
        return found
    return replace(found, reason=choice.reason, message=f"{plan.message}; {choice.message}")


def _moves(batches: Sequence[Batch]) -> list[Move]:
    return [move for batch in batches for move in batch.moves]


def _misses(before: ProposedPlan, plan: MovesPlan, desired: Desired) -> bool:
    """Whether what is wanted for itself has changed: brokers to be emptied, numbers of replicas."""
    old, new, drain = _moves(before.batches), plan.moves, set(desired.policy.drain)
    if not _emptied(new, drain) <= _emptied(old, drain):
        return True
    if not {move.topic for move in new if move.kind in RESIZES} <= {
        move.topic for move in old if move.kind in RESIZES
    }:
        return True
    wanted = {topic.name: topic.replication_factor for topic in desired.topics}
    return any(_is_unwanted(move, wanted.get(move.topic)) for move in old if move.kind in RESIZES)


def _emptied(moves: Sequence[Move], drain: Collection[int]) -> set[int]:
    return {
        broker for move in moves for broker in move.source if broker in drain and broker not in move.target
    }


def _is_unwanted(move: Move, wanted: int | None) -> bool:
    if wanted is None:
        return True
    return wanted <= len(move.source) if move.kind is MoveKind.ADD else wanted >= len(move.source)


def _helps(before: ProposedPlan, plan: MovesPlan, snapshot: ClusterSnapshot, desired: Desired) -> bool:
    """Whether a plan for evenness alone still makes the volumes more even, from where the newest plan begins.

    Evenness is the sum of squares: a volume that nothing can level must not hide what becomes of the others.
    """
    moves = _moves(before.batches)
    if desired.policy.drain or any(move.kind in RESIZES for move in moves):
        return True
    space = build_space(snapshot)
    sizes = [volume.total_bytes for volume in space.volumes]
    used = [
        plan.fills_before.get(volume.name, volume.used_bytes / volume.total_bytes) * volume.total_bytes
        for volume in space.volumes
    ]
    now = _unevenness(used, sizes)
    for move in moves:
        target, source = target_volume(space, move), source_volume(space, move)
        if target is not None:
            used[target] += move.bytes
        if source is not None:
            used[source] -= move.freed_bytes
    return _unevenness(used, sizes) < now


def _unevenness(used: Sequence[float], sizes: Sequence[int]) -> float:
    mean = sum(used) / sum(sizes)
    return sum(size * (one / size - mean) ** 2 for one, size in zip(used, sizes, strict=True))
