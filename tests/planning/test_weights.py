from __future__ import annotations

import numpy as np
from scipy import sparse

from evenkeel.planning.program import Columns, Program
from evenkeel.planning.weights import solve_weights


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


def test_topics_share_the_prices_of_volumes() -> None:
    # Two topics on the same three volumes: the emptiest is filled by both together, and no more.
    def topic(name: str) -> Columns:
        return Columns(
            topic=name,
            partitions=3,
            open=np.arange(3),
            on_volume=sparse.identity(3, format="csr"),
            caps=sparse.csr_matrix((0, 3)),
            limits=np.zeros(0),
            cap_names=(),
            steerable=10.0,
            beta=500.0,
            costs=np.zeros(3),
        )

    program = Program(np.full(3, 100.0), np.array([40.0, 40, 30]), (topic("a"), topic("b")))
    shares = solve_weights(program, 1.0)
    assert np.allclose(shares[0], shares[1], atol=1e-4)
    assert np.ptp(program.fills(shares)) < 0.01
