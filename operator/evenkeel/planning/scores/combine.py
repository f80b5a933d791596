"""From the costs that scores give to one number per partition."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from statistics import fmean

from evenkeel.domain.snapshot import ClusterSnapshot, Partition
from evenkeel.errors import InputError
from evenkeel.planning.scores.protocol import Costs
from evenkeel.reasons import Reason

MOST = 1000.0
"""Largest cost, either way: twice what a whole disk weighs at beta 500."""


def check_costs(
    score: str, costs: Costs, snapshot: ClusterSnapshot, partitions: Collection[Partition]
) -> None:
    """Refuse costs that cannot be used.

    Args:
        score: its name, for the message.
        costs: what it gave for one topic.
        snapshot: what it was given; every broker in it must have a cost.
        partitions: those of the topic; each must have a cost.

    Raises:
        InputError: a cost is not finite or beyond 1000, or a broker or partition has none.
    """
    brokers = [broker.id for broker in snapshot.brokers]
    numbers = [partition.partition for partition in partitions]
    _check(score, "leader cost of broker", costs.leader, brokers)
    _check(score, "follower cost of broker", costs.follower, brokers)
    _check(score, "cost of partition", costs.partition, numbers)


def _check(score: str, what: str, costs: Mapping[int, float], wanted: Collection[int]) -> None:
    if not costs:
        return
    for number in wanted:
        if number not in costs:
            raise InputError(f"score {score}: {what} {number} is missing", reason=Reason.SCORE_INVALID)
    for number, cost in costs.items():
        if not (math.isfinite(cost) and abs(cost) <= MOST):
            message = (
                f"score {score}: {what} {number} must be a number from -{MOST:g} to {MOST:g}, not {cost}"
            )
            raise InputError(message, reason=Reason.SCORE_INVALID)


def combine_costs(
    weighted: Iterable[tuple[float, Costs]], partitions: Collection[Partition]
) -> dict[int, float]:
    """k_p of a topic: the sum over its scores of weight x (leader's + followers' + own cost), no unit.

    Args:
        weighted: weight (1.0 for 100 percent) and costs of each score, checked already.
        partitions: those of the topic. A partition without a leader has no leader's cost.
    """
    result = {partition.partition: 0.0 for partition in partitions}
    for weight, costs in weighted:
        away = fmean(costs.follower.values()) if costs.follower else 0.0
        for partition in partitions:
            cost = costs.partition.get(partition.partition, 0.0)
            if partition.leader is not None:
                cost += costs.leader.get(partition.leader, 0.0)
            if costs.follower:
                # A broker that is away may be in no snapshot: it counts like the mean one.
                cost += sum(costs.follower.get(b, away) for b in partition.replicas if b != partition.leader)
            result[partition.partition] += weight * cost
    return result
