"""The dual of the smooth program: prices of volumes and caps, by a projected Newton ascent.

Notation as in `weights`. All topics are one set of columns, so that a step costs the same for one topic and
for many. With F the columns that stand at no bound, y their shares, G the rows and beta their sharpness:

    gradient   G (w y) - limits            (volumes: limits are c_v min(m_v, T) - u_v/C; caps: w_t x limit)
    curvature  G_F diag(w beta y) G_F' - sum_t (w_t beta_t / sum y) g_t g_t' + diag(c_v where m_v < T)

The dual is concave with a continuous gradient, so that Newton's direction with a regularised curvature and a
line search on the projected path climbs to the top (Bertsekas 1982, projected Newton for simple bounds).
Sharp weights make it nearly piecewise linear: it is climbed first with blunt ones, which are sharpened in
steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from evenkeel.planning.program import Program
from evenkeel.planning.space import Floats, Ints

BLUNT = 4.0
"""Costs differ by this at the first step of sharpening."""
SHARPEN = 4.0
STEPS, LAST_STEPS = 15, 60
"""Newton steps until the weights are sharpened again, and at their final sharpness."""
TOLERANCE = 1e-5
"""Of a row, as a share of what is written."""
HALVINGS = 14
ROUNDING = 1e-11
"""Of a sum of shares; costs of a thousand leave no more digits."""
DENSE = 100_000
"""Entries up to which rows are multiplied as they are: sparse ones cost more than they save."""
REACH = 12.0
"""Longest step in costs: a weight changes by exp(12) at most."""


@dataclass(frozen=True, slots=True)
class Stack:
    """All topics of a program as one set of columns."""

    rows: sparse.csr_matrix
    """(volumes and then caps) x columns: how much of a share counts there."""
    turned: sparse.csr_matrix
    """The same transposed."""
    part: Floats
    """c_v by volume."""
    linear: Floats
    """Gradient by row where nothing is written and all prices are 0."""
    scale: Floats
    """What the gradient of a row is measured by."""
    starts: Ints
    """First column of each topic."""
    topic: Ints
    """By column."""
    weight: Floats
    """w_t by topic."""
    beta: Floats
    """By topic."""
    costs: Floats
    lowest: Floats
    highest: Floats
    """By column."""

    def total(self, values: Floats) -> Floats:
        """Sums by topic."""
        return np.asarray(np.add.reduceat(values, self.starts))


def build_stack(program: Program) -> Stack:
    """The rows and columns of all topics together."""
    whole, topics = float(program.capacity.sum()), program.columns
    sizes = np.array([len(topic.open) for topic in topics])
    caps = sparse.block_diag([topic.caps for topic in topics], format="csr")
    rows = sparse.vstack([sparse.hstack([topic.on_volume for topic in topics]), caps], format="csr")
    weight = np.array([topic.steerable / whole for topic in topics])
    part = program.capacity / whole
    limits = [topic.limits * share for topic, share in zip(topics, weight, strict=True)]
    count = len(part)
    return Stack(
        rows=rows,
        turned=rows.T.tocsr(),
        part=part,
        linear=np.concatenate([program.base / whole, *(-limit for limit in limits)]),
        scale=np.concatenate([part * weight.sum() * count, *limits]),
        starts=np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64),
        topic=np.repeat(np.arange(len(topics)), sizes),
        weight=weight,
        beta=np.array([topic.beta for topic in topics]),
        costs=np.concatenate([topic.costs for topic in topics]),
        lowest=np.repeat([topic.lowest for topic in topics], sizes),
        highest=np.repeat([topic.highest for topic in topics], sizes),
    )


@dataclass(frozen=True, slots=True)
class Point:
    """What prices lead to."""

    prices: Floats
    value: float
    gradient: Floats
    shares: Floats
    free: Floats
    """1 for columns at no bound, else 0."""


class Ascent:
    """The climb for one program and ceiling."""

    def __init__(self, stack: Stack, ceiling: float) -> None:
        self._stack = stack
        self._ceiling = ceiling
        self._volumes = len(stack.part)
        small = stack.rows.shape[0] * stack.rows.shape[1] <= DENSE
        self._dense = stack.rows.toarray() if small else None

    def climb(self, prices: Floats) -> Point:
        """From these prices to the best ones, or as near as the steps allow."""
        stack = self._stack
        spread = stack.turned @ prices
        reach = float(max(1e-9, np.max(stack.beta[stack.topic] * (spread - spread.min()))))
        sharpness = min(1.0, BLUNT / reach)
        while sharpness < 1.0:
            prices = self._ascend(prices, sharpness, STEPS, 100 * TOLERANCE).prices
            sharpness *= SHARPEN
        return self._ascend(prices, 1.0, LAST_STEPS, TOLERANCE)

    def _ascend(self, prices: Floats, sharpness: float, steps: int, tolerance: float) -> Point:
        damping = 1e-6
        point = self.evaluate(prices, sharpness)
        for _ in range(steps):
            held = (point.prices <= 0) & (point.gradient <= 0)
            slope = np.where(held, 0.0, point.gradient)
            if float(np.max(np.abs(slope) / self._stack.scale)) <= tolerance:
                break
            step = self._direction(point, np.flatnonzero(~held), sharpness, damping)
            better = self._search(point, step, sharpness)
            if better is None:
                damping *= 100
                if damping > 1e4:  # noqa: PLR2004 - the direction is the gradient's by then
                    break
                continue
            point, damping = better, max(damping / 10, 1e-9)
        return point

    def _search(self, point: Point, step: Floats, sharpness: float) -> Point | None:
        """The first point on the projected path that gains enough; None: there is none."""
        length = 1.0
        for _ in range(HALVINGS):
            found = self.evaluate(np.maximum(point.prices + length * step, 0.0), sharpness)
            gain = float(point.gradient @ (found.prices - point.prices))
            if found.value >= point.value + 1e-4 * gain - 1e-15 and gain > 0:
                return found
            length /= 2
        return None

    def _direction(self, point: Point, open_: Ints, sharpness: float, damping: float) -> Floats:
        stack, beta = self._stack, self._stack.beta * sharpness
        pull = stack.weight * beta
        live = point.free * point.shares
        some = np.flatnonzero(live)
        heavy = live[some] * pull[stack.topic[some]]
        rows: Floats | sparse.csr_matrix
        if self._dense is not None:
            rows = self._dense[np.ix_(open_, some)]
            curve = (rows * heavy) @ rows.T
        else:
            rows = stack.rows[open_][:, some]
            curve = (rows @ sparse.diags(heavy) @ rows.T).toarray()
        sums = stack.total(live)
        for t in np.flatnonzero(sums > 0).tolist():
            mean = rows @ np.where(stack.topic[some] == t, live[some], 0.0)
            curve -= (pull[t] / sums[t]) * np.outer(mean, mean)
        volumes = open_[open_ < self._volumes]
        below = point.prices[volumes] < self._ceiling
        diagonal = np.zeros(len(open_))
        diagonal[: len(volumes)] = np.where(below, stack.part[volumes], 0.0)
        least = 1e-6 * stack.scale[open_] * float(beta.max())
        diagonal += damping * (np.diagonal(curve) + diagonal) + damping * stack.scale[open_] + least * 1e-3
        curve[np.diag_indices_from(curve)] += diagonal
        found = linalg.solve(curve, point.gradient[open_], assume_a="sym", check_finite=False)
        longest = float(np.max(np.abs(found))) * float(beta.min())
        step = np.zeros(len(point.prices))
        step[open_] = found * min(1.0, REACH / max(longest, 1e-300))
        return step

    def evaluate(self, prices: Floats, sharpness: float = 1.0) -> Point:
        """Value and gradient at these prices, with all beta multiplied by `sharpness`."""
        stack = self._stack
        beta = stack.beta * sharpness
        cost = stack.costs + beta[stack.topic] * (stack.turned @ prices)
        shares = spread_all(stack, -cost)
        volume = prices[: self._volumes]
        fill = np.minimum(volume, self._ceiling)
        entropy = stack.total(shares * (np.log(shares) + cost))
        value = float((stack.weight / beta) @ entropy + prices @ stack.linear)
        value += float(stack.part @ (fill**2 / 2 - volume * fill))
        gradient = stack.rows @ (stack.weight[stack.topic] * shares) + stack.linear
        gradient[: self._volumes] -= stack.part * fill
        free = ((shares > stack.lowest * (1 + 1e-9)) & (shares < stack.highest * (1 - 1e-9))).astype(float)
        return Point(prices, value, gradient, shares, free)


def spread_all(stack: Stack, logs: Floats) -> Floats:
    """Shares proportional to exp(logs) within the bounds, sum 1 for each topic. Bounds must allow the sum."""
    low, high = np.log(stack.lowest), np.log(stack.highest)
    left = np.minimum.reduceat(low - logs, stack.starts) - 1.0
    right = np.maximum.reduceat(high - logs, stack.starts) + 1.0
    peak = np.maximum.reduceat(logs, stack.starts)
    level = np.clip(-np.log(stack.total(np.exp(logs - peak[stack.topic]))) - peak, left, right)
    for _ in range(60):
        raw = level[stack.topic] + logs
        shares = np.exp(np.clip(raw, low, high))
        found = stack.total(shares)
        left, right = np.where(found < 1.0, level, left), np.where(found < 1.0, right, level)
        done = np.abs(found - 1.0) <= ROUNDING
        if bool(np.all(done)):
            break
        live = stack.total(np.where((raw > low) & (raw < high), shares, 0.0))
        wanted = live + 1.0 - found
        with np.errstate(divide="ignore", invalid="ignore"):
            guess = level + np.log(wanted / live)
        inside = (live > 0) & (wanted > 0) & (guess >= left) & (guess <= right)
        level = np.where(done, level, np.where(inside, guess, (left + right) / 2))
    return np.asarray(shares / stack.total(shares)[stack.topic])
