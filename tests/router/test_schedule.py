from __future__ import annotations

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from evenkeel.router.schedule import Schedule

WEIGHTS = st.lists(st.integers(0, 1000), min_size=1, max_size=20).filter(any)


def run(schedule: Schedule, lengths: list[float]) -> Counter[int]:
    """Bytes by partition after turns of these lengths."""
    taken: Counter[int] = Counter()
    for length in lengths:
        partition = schedule.pick()
        schedule.advance(partition, length)
        taken[partition] += length  # type: ignore[assignment]
    return taken


@settings(max_examples=60, deadline=None)
@given(WEIGHTS, st.floats(0, 0.999))
def test_shares_match_weights_to_about_one_run(weights: list[int], phase: float) -> None:
    turns = 3000
    taken = run(Schedule(weights, phase), [1.0] * turns)
    for partition, weight in enumerate(weights):
        assert abs(taken[partition] - turns * weight / sum(weights)) <= 2.0


@settings(max_examples=40, deadline=None)
@given(WEIGHTS, st.integers(0, 2**32))
def test_runs_of_unequal_length_are_made_up_for(weights: list[int], seed: int) -> None:
    source = random.Random(seed)
    lengths = [source.uniform(0.1, 3.0) for _ in range(500)]
    taken = run(Schedule(weights, 0.5), lengths)
    for partition, weight in enumerate(weights):
        assert abs(taken[partition] - sum(lengths) * weight / sum(weights)) <= 3.0 + 3.0


@settings(max_examples=40, deadline=None)
@given(WEIGHTS, st.integers(1, 8), st.integers(20, 200))
def test_routers_at_even_phases_are_as_even_together_as_one(
    weights: list[int], routers: int, turns: int
) -> None:
    taken: Counter[int] = Counter()
    for i in range(routers):
        taken += run(Schedule(weights, (i + 0.5) / routers), [1.0] * turns)
    for partition, weight in enumerate(weights):
        expected = routers * turns * weight / sum(weights)
        assert abs(taken[partition] - expected) <= 1.0 + len(weights) / 4 + routers / 2


def test_light_partitions_do_not_all_come_at_once() -> None:
    weights = [1] * 12 + [19] * 12  # the light dozen lies on one disk
    schedule = Schedule(weights, 1 / 6)
    light = []
    for _ in range(240):
        partition = schedule.pick()
        schedule.advance(partition, 1.0)
        light.append(partition < 12)
    most = max(sum(light[i : i + 20]) for i in range(220))
    assert most <= 4


@settings(max_examples=40, deadline=None)
@given(WEIGHTS, st.data())
def test_credits_survive_a_new_table(weights: list[int], data: st.DataObject) -> None:
    schedule = Schedule(weights, 0.25)
    taken: Counter[int] = Counter()
    turns = 0
    for _ in range(50):  # a new table of equal weights every few turns must not favour anybody
        step = data.draw(st.integers(0, 7))
        taken += run(schedule, [1.0] * step)
        turns += step
        schedule = schedule.successor([weight * 3 for weight in weights])
    for partition, weight in enumerate(weights):
        assert abs(taken[partition] - turns * weight / sum(weights)) <= 2.5


def test_a_partition_without_weight_is_left_out_and_comes_back() -> None:
    schedule = Schedule([1, 1], 0.0).successor([0, 1])
    assert 0 not in schedule
    assert run(schedule, [1.0] * 10) == {1: 10}
    back = run(schedule.successor([1, 1]), [1.0] * 20)
    assert abs(back[0] - 10) <= 2


def test_a_run_that_ends_after_its_partition_was_dropped_is_harmless() -> None:
    schedule = Schedule([1, 1], 0.0).successor([0, 1])
    schedule.advance(0, 2.0)
    assert schedule.pick() == 1
