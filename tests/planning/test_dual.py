from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from evenkeel.planning.dual import Ascent, Stack, build_stack, spread_all
from evenkeel.planning.program import Columns, Program
from evenkeel.planning.space import Floats


def stack_of(count: int) -> Stack:
    """One topic of `count` partitions on a volume each, without caps."""
    columns = Columns(
        topic="t",
        partitions=count,
        open=np.arange(count),
        on_volume=sparse.identity(count, format="csr"),
        caps=sparse.csr_matrix((0, count)),
        limits=np.zeros(0),
        cap_names=(),
        steerable=1.0,
        beta=500.0,
        costs=np.zeros(count),
    )
    return build_stack(Program(np.full(count, 100.0), np.zeros(count), (columns,)))


def spread(logs: list[float]) -> Floats:
    return spread_all(stack_of(len(logs)), np.array(logs))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-700, 0), min_size=1, max_size=200))
def test_shares_sum_to_one_within_their_bounds(logs: list[float]) -> None:
    count, shares = len(logs), spread(logs)
    assert abs(shares.sum() - 1) < 1e-9
    assert shares.min() >= 0.1 / count * (1 - 1e-6)
    assert shares.max() <= max(min(1.0, 8 / count), 1 / count) * (1 + 1e-6)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-2, 0), min_size=2, max_size=50))
def test_shares_are_proportional_between_the_bounds(logs: list[float]) -> None:
    count, shares = len(logs), spread(logs)
    free = (shares > 0.1001 / count) & (shares < 7.99 / count)
    ratio = shares[free] / np.exp(np.array(logs))[free]
    assert np.allclose(ratio, ratio[0] if len(ratio) else 0, rtol=1e-6)


def small_program(costs: list[float], *, beta: float = 500.0) -> Program:
    """Three volumes, four partitions of one or two replicas, one cap."""
    places = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 0]], dtype=np.float64)
    columns = Columns(
        topic="t",
        partitions=4,
        open=np.arange(4),
        on_volume=sparse.csr_matrix(places),
        caps=sparse.csr_matrix(np.array([[1.0, 0.0, 0.0, 1.0]])),
        limits=np.array([0.6]),
        cap_names=("leader share of broker 0",),
        steerable=30.0,
        beta=beta,
        costs=np.array(costs),
    )
    return Program(
        capacity=np.array([100.0, 100.0, 200.0]), base=np.array([50.0, 40, 90]), columns=(columns,)
    )


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(0, 20), min_size=4, max_size=4),
    st.lists(st.floats(0.01, 1), min_size=4, max_size=4),
    st.sampled_from([0.5, 20.0, 500.0]),
)
def test_the_slopes_of_the_dual_are_its_slopes(costs: list[float], prices: list[float], beta: float) -> None:
    ascent, point, step = Ascent(build_stack(small_program(costs, beta=beta)), 0.7), np.array(prices), 1e-6
    slopes = ascent.evaluate(point).gradient
    for i in range(4):
        ahead, behind = point.copy(), point.copy()
        ahead[i] += step
        behind[i] -= step
        rise = ascent.evaluate(ahead).value - ascent.evaluate(behind).value
        # Kinks at the ceiling and at a share's bounds are rounded off by the step.
        assert abs(rise / (2 * step) - slopes[i]) < 1e-3


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 20), min_size=4, max_size=4), st.sampled_from([0.5, 20.0, 500.0, 5000.0]))
def test_the_climb_ends_where_no_price_can_be_bettered(costs: list[float], beta: float) -> None:
    program = small_program(costs, beta=beta)
    stack = build_stack(program)
    point = Ascent(stack, 0.7).climb(np.array([0.5, 0.4, 0.45, 0.0]))
    held = (point.prices <= 0) & (point.gradient <= 0)
    assert np.max(np.abs(np.where(held, 0.0, point.gradient)) / stack.scale) <= 1e-5
    assert program.fills([point.shares]).max() <= 0.7 + 1e-4
