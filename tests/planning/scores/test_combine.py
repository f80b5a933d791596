from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.errors import InputError
from evenkeel.planning.scores.combine import check_costs, combine_costs
from evenkeel.planning.scores.protocol import Costs
from evenkeel.reasons import Reason
from tests.support.snapshots import GIB, broker, cluster, partitions_of

RING = [(0, 1), (1, 2), (2, 0)]
PARTITIONS = partitions_of("t", RING)


def three() -> ClusterSnapshot:
    return cluster([broker(i, GIB, 0) for i in range(3)], PARTITIONS)


def test_leader_followers_and_own_cost_add_up_by_weight() -> None:
    one = Costs(leader={0: 1, 1: 2, 2: 3}, follower={0: 10, 1: 20, 2: 30})
    two = Costs(partition={0: 100, 1: 200, 2: 300})
    assert combine_costs([(1.0, one), (0.5, two)], PARTITIONS) == {0: 71, 1: 132, 2: 163}


def test_a_partition_without_a_leader_has_followers_only() -> None:
    leaderless = (replace(PARTITIONS[0], leader=None),)
    costs = Costs(leader={0: 1, 1: 2, 2: 3}, follower={0: 10, 1: 20, 2: 30})
    assert combine_costs([(1.0, costs)], leaderless) == {0: 30}


def test_a_follower_on_a_broker_that_is_away_costs_the_mean() -> None:
    moved = (replace(PARTITIONS[0], replicas=(0, 9)),)
    assert combine_costs([(1.0, Costs(follower={0: 10, 1: 20, 2: 30}))], moved) == {0: 20}


def test_no_scores_cost_nothing() -> None:
    assert combine_costs([], PARTITIONS) == {0: 0, 1: 0, 2: 0}


@pytest.mark.parametrize(
    ("costs", "said"),
    [
        (Costs(leader={0: 1, 1: math.nan, 2: 0}), "score X: leader cost of broker 1 .* not nan"),
        (Costs(follower={0: math.inf, 1: 0, 2: 0}), "score X: follower cost of broker 0 .* not inf"),
        (Costs(partition={0: 0, 1: 0, 2: -1001}), "score X: cost of partition 2 .* not -1001"),
        (Costs(leader={0: 1, 1: 1}), "score X: leader cost of broker 2 is missing"),
        (Costs(follower={2: 1}), "score X: follower cost of broker 0 is missing"),
        (Costs(partition={0: 1, 2: 1}), "score X: cost of partition 1 is missing"),
    ],
)
def test_costs_that_cannot_be_used_are_refused(costs: Costs, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        check_costs("X", costs, three(), PARTITIONS)
    assert caught.value.reason is Reason.SCORE_INVALID


@pytest.mark.parametrize("costs", [Costs(), Costs(leader={0: 1, 1: 1, 2: 1, 7: 3})])
def test_costs_that_say_nothing_or_more_are_taken(costs: Costs) -> None:
    check_costs("X", costs, three(), PARTITIONS)


numbers = st.floats(-1000, 1000)


@given(st.lists(st.tuples(st.floats(0, 10), st.tuples(numbers, numbers, numbers)), max_size=4))
def test_the_order_of_scores_does_not_matter(
    scores: list[tuple[float, tuple[float, float, float]]],
) -> None:
    weighted = [(weight, Costs(partition=dict(enumerate(costs)))) for weight, costs in scores]
    found = combine_costs(weighted, PARTITIONS)
    turned = combine_costs(weighted[::-1], PARTITIONS)
    assert all(math.isclose(found[i], turned[i], abs_tol=1e-6) for i in found)
