"""The least moves of a small cluster, exactly: one mixed-integer program instead of a search.

With few replicas each weighs so much that a greedy choice early on costs a fifth of the deviation later; and
few replicas are just where an exact solution is cheap (some 10 ms).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from evenkeel.planning.levels import TINY
from evenkeel.planning.moves_search import Board
from evenkeel.planning.space import Floats, Ints

MOST_VARIABLES = 160
"""Pairs of replica and seat up to which a cluster counts as small."""
MOST_PARTITIONS = 16
"""More of about one size make a program that branches for seconds and wins a thousandth."""
NODES = 3000
"""Branches after which the solver gives up: a count, not a time, so that equal input gives equal plans."""
PERCENT = 100.0
"""The distance outside the band is counted in percent: as a fraction HiGHS gives up on some programs."""
CONCEDED = 0.1
"""Of what can be won where the band cannot be reached: given up, if that spares bytes."""


@dataclass(frozen=True, slots=True)
class _Program:
    """Columns: one per pair, then the distance outside the band as a share of capacity."""

    indices: Ints
    """Replica of each pair."""
    seats: Ints
    rows: sparse.csr_matrix
    limits: Floats
    bytes: Floats
    worst: float
    """Distance now."""


def solve_small(board: Board, reached: float) -> list[tuple[int, int]] | None:
    """(replica, seat) of the least bytes that bring the volumes into the band, or as near as they can.

    None: too large to solve exactly, or nothing was found within the solver's branches.

    Args:
        board: as it is before any move of this kind.
        reached: distance outside the band that a plan at hand leaves, as a share of capacity.
    """
    pairs = _pairs(board)
    if pairs is None:
        return None
    if not pairs:
        return []
    program = _build(board, pairs)
    nearest = reached
    if reached > TINY:
        found = _solve(program, outside_cost=1.0, byte_cost=0.0, most=reached + TINY)
        if found is None:
            return None
        nearest = float(found[-1]) / PERCENT
    most = nearest + CONCEDED * (program.worst - nearest) if nearest > TINY else TINY
    least = _solve(program, outside_cost=0.0, byte_cost=1.0, most=most)
    if least is None:
        return None
    chosen = np.flatnonzero(least[:-1] > 0.5)  # noqa: PLR2004 - binaries
    return [(int(program.indices[i]), int(program.seats[i])) for i in chosen]


def _pairs(board: Board) -> list[tuple[int, int]] | None:
    found: list[tuple[int, int]] = []
    remaining = board.movable.remaining()
    if len({board.replica(index).key for index in remaining}) > MOST_PARTITIONS:
        return None
    for index in remaining:
        if board.replica(index).lasting <= 0:
            continue
        found += [(index, int(seat)) for seat in board.open_seats(index)]
        if len(found) > MOST_VARIABLES:
            return None
    return found


def _build(board: Board, pairs: list[tuple[int, int]]) -> _Program:
    used, goal, capacity = board.levels.used, board.goal, board.levels.capacity
    volumes, unit = len(used), float(capacity.mean())
    entries: list[tuple[int, int, float]] = []
    keys: dict[tuple[str, int], int] = {}
    for column, (index, seat) in enumerate(pairs):
        replica = board.replica(index)
        assert replica.volume is not None
        target = int(board.seats.volumes[seat])
        size = replica.lasting / unit
        for volume, change in ((replica.volume, -size), (target, size)):
            entries.append((volume, column, change))
            entries.append((volumes + volume, column, -change))
        entries.append((2 * volumes + target, column, replica.bytes / unit))
        entries.append((3 * volumes + keys.setdefault(replica.key, len(keys)), column, 1.0))
    for volume in range(volumes):
        share = float(capacity[volume]) / unit / PERCENT
        entries += [(volume, len(pairs), -share), (volumes + volume, len(pairs), -share)]
    rows, columns, values = zip(*entries, strict=True)
    shape = (3 * volumes + len(keys), len(pairs) + 1)
    peak = np.maximum(board.limit - board.levels.highest, 0.0)
    limits = [(goal.high - used) / unit, (used - goal.low) / unit, peak / unit, np.ones(len(keys))]
    return _Program(
        indices=np.array([index for index, _ in pairs]),
        seats=np.array([seat for _, seat in pairs]),
        rows=sparse.csr_matrix((values, (rows, columns)), shape=shape),
        limits=np.concatenate(limits),
        bytes=np.array([board.replica(index).bytes / unit for index, _ in pairs]),
        worst=float(goal.outside(used).max()),
    )


def _solve(program: _Program, *, outside_cost: float, byte_cost: float, most: float) -> Floats | None:
    count = len(program.bytes)
    cost = np.append(byte_cost * program.bytes, outside_cost)
    found = milp(
        cost,
        constraints=LinearConstraint(program.rows, -np.inf, program.limits),
        bounds=Bounds(np.zeros(count + 1), np.append(np.ones(count), most * PERCENT)),
        integrality=np.append(np.ones(count), 0),
        options={"node_limit": NODES},
    )
    # Where it gave up, the best it has found will do: it is no worse than the plan at hand in what bounds it.
    return None if found.x is None else np.asarray(found.x, dtype=np.float64)
