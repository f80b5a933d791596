from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenkeel.domain.snapshot import Broker
from evenkeel.errors import InputError
from evenkeel.planning.placement import plan_assignments
from evenkeel.reasons import Reason


def brokers(count: int, racks: int = 0) -> list[Broker]:
    return [Broker(id=i + 1, rack=f"r{i % racks}" if racks else None) for i in range(count)]


def counts(assignments: tuple[tuple[int, ...], ...], ids: list[int]) -> tuple[list[int], list[int]]:
    leaders = Counter(replicas[0] for replicas in assignments)
    held = Counter(one for replicas in assignments for one in replicas)
    return [leaders[i] for i in ids], [held[i] for i in ids]


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 12), st.integers(1, 60), st.data())
def test_every_broker_leads_and_holds_equally_often(count: int, partitions: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, count))
    plan = plan_assignments(brokers(count), partitions, factor)
    leaders, held = counts(plan, list(range(1, count + 1)))
    assert all(len(set(replicas)) == factor for replicas in plan)
    assert max(leaders) - min(leaders) <= 1
    assert max(held) - min(held) <= 1


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 40), st.data())
def test_racks_of_equal_size_are_kept_and_brokers_even(
    racks: int, each: int, partitions: int, data: st.DataObject
) -> None:
    count = racks * each
    factor = data.draw(st.integers(1, count))
    plan = plan_assignments(brokers(count, racks), partitions, factor)
    for replicas in plan:
        assert len({(one - 1) % racks for one in replicas}) == min(racks, factor)
    _, held = counts(plan, list(range(1, count + 1)))
    assert max(held) - min(held) <= 1


@pytest.mark.parametrize(("count", "partitions", "factor"), [(4, 24, 2), (5, 40, 2), (6, 60, 2), (3, 12, 2)])
def test_pairs_of_brokers_are_used_equally_often(count: int, partitions: int, factor: int) -> None:
    plan = plan_assignments(brokers(count), partitions, factor)
    pairs = Counter(tuple(sorted(replicas)) for replicas in plan)
    assert len(pairs) == count * (count - 1) // 2
    assert max(pairs.values()) - min(pairs.values()) <= 1


def test_a_small_rack_is_used_by_every_partition_that_can() -> None:
    mixed = [Broker(1, rack="a"), Broker(2, rack="a"), Broker(3, rack="a"), Broker(4, rack="b")]
    assert all(4 in replicas for replicas in plan_assignments(mixed, 12, 2))


def test_order_of_brokers_does_not_matter_and_excluded_get_none() -> None:
    some = brokers(5)
    plan = plan_assignments(some, 20, 3, exclude=(2,))
    assert plan == plan_assignments(list(reversed(some)), 20, 3, exclude=(2,))
    assert all(2 not in replicas for replicas in plan)


@pytest.mark.parametrize(
    ("partitions", "factor", "reason", "field"),
    [
        (12, 4, Reason.REPLICATION_ABOVE_BROKERS, "replicationFactor"),
        (12, 0, Reason.INVALID_SPEC, "replicationFactor"),
        (0, 1, Reason.INVALID_SPEC, "partitions"),
    ],
)
def test_impossible_numbers_are_refused_by_name(
    partitions: int, factor: int, reason: Reason, field: str
) -> None:
    with pytest.raises(InputError, match=field) as caught:
        plan_assignments(brokers(3), partitions, factor)
    assert caught.value.reason is reason


def test_large_topics_are_placed_quickly() -> None:
    plan = plan_assignments(brokers(50, 5), 1000, 3)
    assert len(plan) == 1000
