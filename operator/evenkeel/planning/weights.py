"""Smooth weights: one convex program that levels every volume and not just the fullest (design section 5).

minimise 1/2 sum c_v f_v^2 + sum_t (w_t/beta_t) sum_p y_tp (log y_tp + k_tp), with f_v <= T, the caps and the
bounds.
Its dual has one price per volume and one per cap, is concave and smooth: L-BFGS-B. The bounds of a
partition's share are inside, by bisection on the normaliser; clipping afterwards would break f_v <= T.
Costs k_tp of the scores stand beside the prices: y_tp is proportional to exp(-k_tp - beta_t x prices).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from evenkeel.planning.program import Columns, Program
from evenkeel.planning.space import Floats

BISECTIONS = 45
CAP_TOLERANCE = 1e-3


def solve_weights(program: Program, ceiling: float) -> list[Floats]:
    """Shares per topic that level all volumes below `ceiling` (T, a fill).

    The result of the dual ascent may exceed the ceiling by its tolerance: see `blend`.
    """
    whole = float(program.capacity.sum())
    size = len(program.capacity)
    ends = np.cumsum([size, *(len(topic.limits) for topic in program.columns)])
    start = np.concatenate([program.base / program.capacity, np.zeros(int(ends[-1]) - size)])
    scale = np.concatenate([np.sqrt(whole / program.capacity), np.ones(int(ends[-1]) - size)])

    def value(point: Floats) -> tuple[float, Floats]:
        prices = np.split(point * scale, ends[:-1])
        result, slopes = _dual(program, ceiling, prices[0], prices[1:])
        return -result, -(np.concatenate(slopes) * scale)

    found = minimize(
        value,
        start / scale,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * len(start),
        options={"maxiter": 400, "ftol": 1e-13, "gtol": 1e-7, "maxcor": 20},
    )
    prices = np.split(np.asarray(found.x) * scale, ends[:-1])
    return [_shares(topic, prices[0], row)[0] for topic, row in zip(program.columns, prices[1:], strict=True)]


def _dual(
    program: Program, ceiling: float, prices: Floats, cap_prices: list[Floats]
) -> tuple[float, list[Floats]]:
    """Value of the dual at these prices, and its gradient by volume and by each topic's caps."""
    whole = float(program.capacity.sum())
    part, base = program.capacity / whole, program.base / whole
    fill = np.minimum(prices, ceiling)
    value = float(part @ (fill**2 / 2 - prices * fill) + prices @ base)
    slopes = [base - part * fill]
    for topic, row in zip(program.columns, cap_prices, strict=True):
        weight = topic.steerable / whole
        share, cost = _shares(topic, prices, row)
        value += weight / topic.beta * float(share @ (np.log(share) + cost))
        value -= weight * float(row @ topic.limits)
        slopes[0] = slopes[0] + weight * (topic.on_volume @ share)
        slopes.append(weight * (topic.caps @ share - topic.limits))
    return value, slopes


def _shares(topic: Columns, prices: Floats, cap_prices: Floats) -> tuple[Floats, Floats]:
    """Shares that are best at these prices, and the costs they answer to."""
    cost = topic.costs + topic.beta * (topic.on_volume.T @ prices + topic.caps.T @ cap_prices)
    attraction = np.exp(cost.min() - cost)  # shifted, since exp overflows otherwise
    return spread(attraction, topic.lowest, topic.highest), cost


def spread(attraction: Floats, lowest: float, highest: float) -> Floats:
    """Shares proportional to `attraction` within the bounds, sum 1. Bounds must allow the sum."""
    tiny = np.maximum(attraction, 1e-300)
    left, right = np.log(lowest / tiny.max()) - 1.0, np.log(highest / tiny.min()) + 1.0
    for _ in range(BISECTIONS):
        middle = (left + right) / 2
        if np.clip(np.exp(middle) * tiny, lowest, highest).sum() < 1.0:
            left = middle
        else:
            right = middle
    share = np.clip(np.exp(right) * tiny, lowest, highest)
    return np.asarray(share / share.sum())


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
