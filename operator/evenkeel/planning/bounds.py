"""What moves can make of volumes and racks at all, and how few bytes any plan must move."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby

import numpy as np

from evenkeel.planning.levels import Bounds, Flags, Goal
from evenkeel.planning.movable import Replica, Seats
from evenkeel.planning.space import Floats, Ints, Space


def emptied_volumes(space: Space, drain: Collection[int]) -> Flags:
    """Volumes of which all brokers are to be emptied."""
    return np.array([set(volume.brokers) <= set(drain) for volume in space.volumes], dtype=bool)


def find_bounds(
    space: Space,
    seats: Seats,
    replicas: Sequence[Replica],
    used: Floats,
    drain: Collection[int] = (),
    coming: float = 0.0,
) -> Bounds:
    """Floors and ceilings of volumes and racks.

    Args:
        space: the volumes.
        seats: where replicas may go.
        replicas: those that may move, partition by partition.
        used: bytes of each volume.
        drain: brokers to be emptied.
        coming: bytes that will be copied to somewhere beside what lies here.
    """
    movable = np.zeros(len(used))
    for replica in replicas:
        if replica.volume is not None:
            movable[replica.volume] += replica.lasting
    floor = np.maximum(used - movable, 0.0)
    receives = np.isin(np.arange(len(used)), seats.volumes)
    emptied = emptied_volumes(space, drain)
    ceiling = np.where(emptied, floor, np.where(receives, np.inf, used))
    group = _groups(space, seats)
    bound, reachable = _rack_bytes(seats, replicas, drain, int(group.max()) + 1)
    group_floor = np.bincount(group, floor, minlength=len(bound)) + bound
    here = np.bincount(group, np.where(emptied, floor, used), minlength=len(bound))
    return Bounds(
        floor=floor,
        ceiling=ceiling,
        group=group,
        group_floor=group_floor,
        group_ceiling=np.maximum(here + reachable + coming, group_floor),
    )


def _groups(space: Space, seats: Seats) -> Ints:
    """Rack of each volume; one that brokers of several racks share is a group of its own."""
    racks = max(seats.rack_of.values(), default=0) + 1
    result = []
    for number, volume in enumerate(space.volumes):
        found = {seats.rack_of[broker] for broker in volume.brokers}
        result.append(found.pop() if len(found) == 1 else racks + number)
    return np.array(result, dtype=np.int64)


def _rack_bytes(
    seats: Seats, replicas: Sequence[Replica], drain: Collection[int], count: int
) -> tuple[Floats, Floats]:
    """Of each rack: bytes that cannot leave it without losing a rack, and bytes that could come."""
    bound, held_bytes, whole, crowded = np.zeros(count), np.zeros(count), 0.0, False
    open_racks = {int(rack) for rack in seats.racks}
    for _, group in groupby(replicas, key=lambda one: one.key):
        some = list(group)
        racks = [seats.rack_of[one] for one in some[0].partition.replicas]
        held = set(racks)
        crowded = crowded or len(held) < len(racks)
        whole += some[0].lasting
        for rack in held:
            if rack < count:
                held_bytes[rack] += some[0].lasting
        if open_racks <= held:
            for replica in some:
                rack = seats.rack_of[replica.broker]
                if replica.broker not in drain and racks.count(rack) == 1 and rack < count:
                    bound[rack] += replica.lasting
    # Where a rack holds two replicas of a partition it may hold two of each.
    return bound, np.full(count, np.inf) if crowded else whole - held_bytes


def least_bytes(
    goal: Goal,
    used: Floats,
    space: Space,
    replicas: Sequence[Replica],
    drain: Collection[int] = (),
    coming: float = 0.0,
    *,
    level: bool = True,
) -> float:
    """Bytes below which no plan reaches the same end.

    What is to be emptied or added must be copied anyway and fills what is too empty first. Else surplus must leave
    and lacks must be filled, whichever is more. Where replicas change until the end of the horizon, a byte that is
    copied may count for more than one: the best ratio of each volume (and of all, for lacks) is taken.

    Args:
        goal: the band.
        used: bytes of each volume before the moves, at the end of the horizon.
        space: the volumes.
        replicas: those that may move.
        drain: brokers to be emptied.
        coming: bytes of replicas that are added.
        level: whether the rest is to be levelled too.
    """
    stays = ~emptied_volumes(space, drain)
    by_partition: dict[tuple[str, int], Replica] = {}
    for replica in replicas:
        if replica.broker in drain:
            by_partition.setdefault(replica.key, replica)
    emptied_copied = sum(one.bytes for one in by_partition.values())
    emptied_lasting = sum(one.lasting for one in by_partition.values())
    ratios = _least_ratios(replicas, len(used))
    out = float((goal.surplus(used) * np.where(stays, ratios, 0.0)).sum())
    lack = float(goal.deficit(used)[stays].sum()) - emptied_lasting - coming
    rest = max(out, max(0.0, lack) * float(ratios.min(initial=1.0)))
    return emptied_copied + coming + (rest if level else 0.0)


def _least_ratios(replicas: Sequence[Replica], volumes: int) -> Floats:
    """Of each volume: bytes to copy per byte that counts at the end, of its best replica; at most 1."""
    ratios = np.ones(volumes)
    for replica in replicas:
        if replica.volume is not None and replica.lasting > replica.bytes:
            ratios[replica.volume] = min(ratios[replica.volume], replica.bytes / replica.lasting)
    return ratios
