"""Why volumes stay outside the band after a plan: one sentence each."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from evenkeel.planning.levels import TINY, Goal, Levels
from evenkeel.planning.movable import Key, Replica, Seats
from evenkeel.planning.moves_plan import Refusal
from evenkeel.planning.space import Floats, Space
from evenkeel.reasons import Reason

MOST = 20
"""So many volumes are explained, the worst first."""


def explain_leftover(
    space: Space,
    seats: Seats,
    goal: Goal,
    levels: Levels,
    replicas: Sequence[Replica],
    moved: Collection[Key],
    limit: Floats,
) -> list[Refusal]:
    """One refusal for each volume that stays too full or too empty.

    Args:
        space: the volumes.
        seats: where replicas may go.
        goal: the band.
        levels: after the plan.
        replicas: those that might move.
        moved: partitions that the plan moves.
        limit: bytes that no volume may pass at any moment.
    """
    outside = goal.outside(levels.used)
    order = sorted(np.flatnonzero(outside > TINY).tolist(), key=lambda v: (-outside[v], v))
    left = [one for one in replicas if one.key not in moved and one.volume is not None and one.lasting > 0]
    result = []
    for volume in order[:MOST]:
        full = bool(levels.used[volume] > goal.high[volume])
        why = (
            _why_full(volume, seats, goal, levels, left, limit)
            if full
            else _why_empty(volume, goal, levels, left, limit)
        )
        fill = levels.used[volume] / levels.capacity[volume]
        even = goal.level[volume] / levels.capacity[volume]
        what = f"stays at {fill:.1%} of its size where {even:.1%} would be even: {why}"
        result.append(Refusal(f"volume/{space.volumes[volume].name}", Reason.NO_FEASIBLE_MOVE, what))
    return result


def _why_full(
    volume: int, seats: Seats, goal: Goal, levels: Levels, left: Sequence[Replica], limit: Floats
) -> str:
    here = [one for one in left if one.volume == volume]
    if not here:
        return "no replica on it may move (any more in this plan)"
    smallest = min(here, key=lambda one: one.lasting)
    others = np.array([v for v in sorted(set(seats.volumes.tolist())) if v != volume], dtype=np.int64)
    if not len(others):
        return "no other volume may receive"
    if smallest.lasting > float((goal.high - levels.used)[others].max()):
        return f"its smallest replica of {smallest.bytes} bytes is larger than any other volume has room for"
    if smallest.bytes > float((limit - levels.highest)[others].max()):
        return "every move would bring a volume above the highest fill allowed"
    return "racks, and other replicas of the same partitions, leave its replicas no place"


def _why_empty(volume: int, goal: Goal, levels: Levels, left: Sequence[Replica], limit: Floats) -> str:
    others = [one for one in left if one.volume != volume]
    if not others:
        return "no replica may move to it (any more in this plan)"
    smallest = min(others, key=lambda one: one.lasting)
    if smallest.lasting > goal.high[volume] - levels.used[volume]:
        return f"the smallest replica of {smallest.bytes} bytes is larger than its room"
    if smallest.bytes > limit[volume] - levels.highest[volume]:
        return "every move would bring it above the highest fill allowed"
    return (
        "racks, other replicas of the same partitions, or what other volumes can spare leave none that fits"
    )
