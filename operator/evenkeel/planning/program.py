"""The linear program of routing: which weights keep the fullest volume lowest (design section 5, point 1).

Notation as in the design: volumes v with capacity C_v and bytes u_v; per topic t shares y_tp of its
steerable bytes W_t, their sum is 1. Only open partitions (with a leader, not stopped) are columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from evenkeel.errors import EvenkeelError
from evenkeel.planning.space import Floats, Ints

LEADER_FACTOR = 2.0
"""A broker leads at most twice its fair share of a topic's inflow, by count or by capacity."""
LOWEST, HIGHEST = 0.1, 8.0
"""Bounds of a partition's share, in units of 1/P."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The open partitions of one topic as columns of the program."""

    topic: str
    partitions: int
    """P: all partitions of the topic, closed ones included."""
    open: Ints
    """Numbers of the open partitions, ascending."""
    on_volume: sparse.csr_matrix
    """volumes x columns: how many replicas of the partition lie on the volume."""
    caps: sparse.csr_matrix
    """cap rows x columns, 0 or 1."""
    limits: Floats
    """Upper limit of each cap row, relaxed already where needed."""
    cap_names: tuple[str, ...]
    steerable: float
    """W_t in bytes."""
    beta: float
    """Sharpness towards fills."""
    costs: Floats
    """k_p of the scores, no unit: k = 5 weighs as much as 1 % of fill at beta 500."""
    relaxed: float = 1.0
    """By which factor the caps had to be raised to be possible at all."""

    @property
    def lowest(self) -> float:
        """Lower bound of a share."""
        return LOWEST / self.partitions

    @property
    def highest(self) -> float:
        """Upper bound of a share; raised where too few partitions are open."""
        return max(min(1.0, HIGHEST / self.partitions), 1.0 / len(self.open))


@dataclass(frozen=True, slots=True)
class Program:
    """All routed topics together: two must not both discover the same empty broker."""

    capacity: Floats
    base: Floats
    """u_v in bytes."""
    columns: tuple[Columns, ...]

    def written(self) -> float:
        """All steerable bytes before replication, as a share of all capacity."""
        return sum(topic.steerable for topic in self.columns) / float(self.capacity.sum())

    def fills(self, shares: list[Floats]) -> Floats:
        """f_v: fill of each volume once W is written by these shares (one array per topic)."""
        load = self.base.copy()
        for topic, share in zip(self.columns, shares, strict=True):
            load += topic.steerable * (topic.on_volume @ share)
        return load / self.capacity


def solve_optimum(program: Program, *, capped: bool = True) -> tuple[float, list[Floats]]:
    """Lowest possible fill of the fullest volume, and shares that reach it.

    Args:
        program: the topics; caps must be satisfiable (see `least_relaxation`).
        capped: False leaves out the caps and bounds: what they cost is the difference.
    """
    columns, filled = program.columns, program.base / program.capacity
    # In units of what is written, above today's fullest volume: the solver's tolerance is absolute, and
    # would be as large as the answer where little is written.
    unit, start = program.written(), float(filled.max())
    loads = [topic.on_volume * (topic.steerable / unit) for topic in columns]
    rows = sparse.diags(1.0 / program.capacity) @ sparse.hstack(loads)
    ceiling = sparse.csr_matrix(np.full((rows.shape[0], 1), -1.0))
    matrix, limits = sparse.hstack([rows, ceiling]), [(start - filled) / unit]
    if capped:
        caps = sparse.block_diag([topic.caps for topic in columns])
        matrix = sparse.vstack([matrix, sparse.hstack([caps, sparse.csr_matrix((caps.shape[0], 1))])])
        limits += [topic.limits for topic in columns]
    lower = [np.full(len(topic.open), topic.lowest if capped else 0.0) for topic in columns]
    upper = [np.full(len(topic.open), topic.highest if capped else 1.0) for topic in columns]
    cost = np.zeros(matrix.shape[1])
    cost[-1] = 1.0
    bounds = Bounds(np.append(np.concatenate(lower), 0.0), np.append(np.concatenate(upper), np.inf))
    sums = _sums([len(topic.open) for topic in columns])
    solution = _solve(cost, matrix.tocsr(), np.concatenate(limits), sums, bounds)
    ends = np.cumsum([len(topic.open) for topic in columns])
    return start + unit * float(solution[-1]), np.split(solution[:-1], ends[:-1])


def least_relaxation(topic: Columns) -> float:
    """Smallest common factor >= 1 by which this topic's caps must be raised to be possible."""
    even = np.full(len(topic.open), 1.0 / len(topic.open))
    if not len(topic.limits) or bool(np.all(topic.caps @ even <= topic.limits)):
        return 1.0
    size = len(topic.open)
    matrix = sparse.hstack([topic.caps, sparse.csr_matrix(-topic.limits[:, None])]).tocsr()
    lower = np.append(np.full(size, topic.lowest), 1.0)
    upper = np.append(np.full(size, topic.highest), np.inf)
    cost = np.append(np.zeros(size), 1.0)
    zeros = np.zeros(len(topic.limits))
    return float(_solve(cost, matrix, zeros, _sums([size]), Bounds(lower, upper))[-1])


def _sums(sizes: list[int]) -> sparse.csr_matrix:
    """Rows that add up the shares of each topic; the last column is the objective's."""
    rows = np.repeat(np.arange(len(sizes)), sizes)
    width = len(rows)
    return sparse.csr_matrix((np.ones(width), (rows, np.arange(width))), shape=(len(sizes), width + 1))


def _solve(
    cost: Floats, matrix: sparse.csr_matrix, limits: Floats, sums: sparse.csr_matrix, bounds: Bounds
) -> Floats:
    """A linear program by HiGHS, through its mixed-integer face, which takes sparse rows as they are."""
    rows = [LinearConstraint(matrix, -np.inf, limits), LinearConstraint(sums, 1.0, 1.0)]
    result = milp(cost, constraints=rows, bounds=bounds)
    if result.x is None:
        raise EvenkeelError(f"the routing program was not solved: {result.message}")
    return np.asarray(result.x, dtype=np.float64)
