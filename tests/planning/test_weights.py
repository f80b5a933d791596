from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenkeel.planning.weights import spread


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
