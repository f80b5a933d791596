"""When an imbalance is worth moving replicas: beyond `enter_percent`, and more than segments come and go.

A partition that retention keeps at its size grows by a segment and loses one, for ever. Fills swing with that,
and no move would stay right for long: a volume counts as out of balance only when it is beyond by more than
NOISE_SDS standard deviations of that swing. A plan that has begun goes on until within `leave_percent`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenkeel.domain.exchange import Policy
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.planning.levels import Goal
from evenkeel.planning.moves_plan import MovesRequest
from evenkeel.planning.retention import topic_retention
from evenkeel.planning.route_or_move import plain_deviation, written_volumes
from evenkeel.planning.space import Floats, Space
from evenkeel.reasons import Reason

NOISE_SDS = 4.0
"""A day has some thousand independent readings of all volumes; of a normal swing one in 16,000 is beyond."""
UNIFORM_SD = 1 / math.sqrt(12)
"""Of a phase that is anywhere in a segment with equal right."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Whether to plan."""

    due: bool
    reason: Reason
    message: str
    deviation: float


def find_trigger(
    snapshot: ClusterSnapshot,
    space: Space,
    goal: Goal,
    used: Floats,
    policy: Policy,
    request: MovesRequest,
) -> Trigger:
    """Compare each volume with the even fill, and with the limit.

    Args:
        snapshot: what was measured.
        space: its volumes.
        goal: how full they should be.
        used: bytes of each, at the end of the horizon.
        policy: `enter_percent`, `leave_percent`, `max_fill_percent`.
        request: `continuing`.
    """
    deviation = goal.deviation(used)
    threshold = policy.leave_percent if request.continuing else policy.enter_percent
    swing = NOISE_SDS * segment_swing(snapshot, space)
    level, play = goal.level[goal.in_play], goal.in_play
    beyond = np.abs(used - goal.level)[play] - swing[play]
    full = (used > policy.max_fill_percent / 100 * goal.capacity) & (used > goal.high)
    if bool((beyond > threshold / 100 * level).any()) or bool(full.any()):
        return Trigger(due=True, reason=Reason.MOVES_PLANNED, message="", deviation=deviation)
    plain = plain_deviation(used, goal.capacity, written_volumes(snapshot, space, request.drain))
    if plain > threshold / 100 and (deviation <= threshold / 100 or not play.any()):
        what = f"a volume deviates by {plain:.1%}, by bytes that are no replicas or may not move"
        return Trigger(due=False, reason=Reason.NO_FEASIBLE_MOVE, message=what, deviation=plain)
    what = f"the fullest or emptiest volume deviates by {deviation:.1%}; moves begin above {threshold} %"
    if deviation > threshold / 100:
        what += ", and more than segments that come and go account for"
    return Trigger(due=False, reason=Reason.BELOW_THRESHOLD, message=what, deviation=deviation)


def segment_swing(snapshot: ClusterSnapshot, space: Space) -> Floats:
    """Standard deviation of each volume's bytes because segments are closed and deleted whole."""
    variance = np.zeros(len(space.volumes))
    swings = {
        topic.name: retention
        for topic in snapshot.topics
        if (retention := topic_retention(topic)).age_ms is not None or retention.limit_bytes is not None
    }
    for partition in snapshot.partitions:
        if partition.topic not in swings:
            continue
        segment = swings[partition.topic].segment_at(partition.bytes_per_second or 0.0)
        for broker in partition.replicas:
            volume = space.locate(partition, broker)
            if volume is not None:
                rolls = segment <= partition.replica_bytes.get(broker, 0)  # a first segment only grows
                variance[volume] += (UNIFORM_SD * segment) ** 2 if rolls else 0.0
    return np.asarray(np.sqrt(variance))
