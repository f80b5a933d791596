from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from evenkeel.planning.program import Columns, Program
from evenkeel.planning.weights import _dual, solve_weights, spread


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-700, 0), min_size=1, max_size=200))
def test_shares_sum_to_one_within_their_bounds(logs: list[float]) -> None:
    attraction = np.exp(np.array(logs) - max(logs))
    count = len(logs)
    lowest, highest = 0.1 / count, max(min(1.0, 8 / count), 1 / count)
    shares = spread(attraction, lowest, highest)
    assert abs(shares.sum() - 1) < 1e-9
    assert shares.min() >= lowest * (1 - 1e-6)
    assert shares.max() <= highest * (1 + 1e-6)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-2, 0), min_size=2, max_size=50))
def test_shares_are_proportional_between_the_bounds(logs: list[float]) -> None:
    attraction = np.exp(np.array(logs))
    count = len(logs)
    shares = spread(attraction, 0.1 / count, 8 / count)
    free = (shares > 0.1001 / count) & (shares < 7.99 / count)
    ratio = shares[free] / attraction[free]
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
    program, point, step = small_program(costs, beta=beta), np.array(prices), 1e-6
    slopes = np.concatenate(_dual(program, 0.7, point[:3], [point[3:]])[1])
    for i in range(4):
        ahead, behind = point.copy(), point.copy()
        ahead[i] += step
        behind[i] -= step
        rise = (
            _dual(program, 0.7, ahead[:3], [ahead[3:]])[0] - _dual(program, 0.7, behind[:3], [behind[3:]])[0]
        )
        # Kinks at the ceiling and at a share's bounds are rounded off by the step.
        assert abs(rise / (2 * step) - slopes[i]) < 1e-3


def test_a_cost_of_five_weighs_like_a_percent_of_fill_at_beta_500() -> None:
    # Little is written to three partitions of one copy; volume 1 is fuller by a thousandth of its size.
    columns = Columns(
        topic="t",
        partitions=3,
        open=np.arange(3),
        on_volume=sparse.identity(3, format="csr"),
        caps=sparse.csr_matrix((0, 3)),
        limits=np.zeros(0),
        cap_names=(),
        steerable=1.0,
        beta=500.0,
        costs=np.array([0.5, 0.0, 0.5]),
    )
    program = Program(np.full(3, 1e6), np.array([5e5, 5.01e5, 5e5]), (columns,))
    assert np.allclose(solve_weights(program, 1.0)[0], 1 / 3, atol=1e-3)
    even = Program(program.capacity, np.full(3, 5e5), (columns,))
    share = solve_weights(even, 1.0)[0]
    assert abs(share[0] / share[1] - np.exp(-0.5)) < 1e-3
