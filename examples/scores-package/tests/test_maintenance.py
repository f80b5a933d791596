"""A score is a function of values: its tests need no Kafka."""

from __future__ import annotations

import pytest
from evenkeel_maintenance import maintenance

from evenkeel.domain.snapshot import Broker, ClusterSnapshot
from evenkeel.errors import InputError

THREE = ClusterSnapshot(brokers=(Broker(1), Broker(2), Broker(3)), partitions=(), incoming=())


def test_the_brokers_named_are_dear() -> None:
    """Leading costs twice what following does."""
    costs = maintenance(THREE, "orders", {"brokers": "2, 3"})
    assert costs.leader == {1: 0, 2: 10, 3: 10}
    assert costs.follower == {1: 0, 2: 5, 3: 5}


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, "parameter brokers is required"),
        ({"brokers": "9"}, "there is no broker 9; known are 1, 2, 3"),
        ({"brokers": "1", "strength": "-1"}, "strength must be a number from 0 to 100, not '-1'"),
        ({"brokers": "1", "rack": "a"}, "parameter rack is unknown"),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, str], said: str) -> None:
    """The message ends up in the topic's status."""
    with pytest.raises(InputError, match=said):
        maintenance(THREE, "orders", parameters)
