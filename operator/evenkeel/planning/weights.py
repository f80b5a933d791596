"""Smooth weights: one convex program that levels every volume and not just the fullest (design section 5).

minimise 1/2 sum c_v f_v^2 + sum_t (w_t/beta_t) sum_p y_tp (log y_tp + k_tp), with f_v <= T, the caps and the
bounds.
Its dual has one price per volume and one per cap, is concave and smooth: see `dual`. The bounds of a
partition's share are inside, by the normaliser; clipping afterwards would break f_v <= T.
Costs k_tp of the scores stand beside the prices: y_tp is proportional to exp(-k_tp - beta_t x prices).
"""

from __future__ import annotations

import numpy as np

from evenkeel.planning.dual import Ascent, build_stack
from evenkeel.planning.program import Program
from evenkeel.planning.space import Floats

CAP_TOLERANCE = 1e-3


def solve_weights(program: Program, ceiling: float) -> list[Floats]:
    """Shares per topic that level all volumes below `ceiling` (T, a fill).

    The result of the dual ascent may exceed the ceiling by its tolerance: see `blend`.
    """
    stack = build_stack(program)
    caps = len(stack.linear) - len(program.capacity)
    start = np.concatenate([program.base / program.capacity, np.zeros(caps)])
    return np.split(Ascent(stack, ceiling).climb(start).shares, stack.starts[1:])


def blend(program: Program, smooth: list[Floats], vertex: list[Floats], ceiling: float) -> list[Floats]:
    """The smooth shares, mixed with as little of the linear program's as keeps ceiling and caps.

    Caps and fills are convex in the shares, so every mixture of two admissible points is admissible.
    """

    def mixed(part: float) -> list[Floats]:
        return [(1 - part) * one + part * other for one, other in zip(smooth, vertex, strict=True)]

    if _admissible(program, smooth, ceiling):
        return smooth
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if _admissible(program, mixed(middle), ceiling) else (middle, high)
    return mixed(high)


def _admissible(program: Program, shares: list[Floats], ceiling: float) -> bool:
    if float(program.fills(shares).max()) > ceiling:
        return False
    return all(
        bool(np.all(topic.caps @ share <= topic.limits * (1 + CAP_TOLERANCE)))
        for topic, share in zip(program.columns, shares, strict=True)
    )
