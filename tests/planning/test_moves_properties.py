"""What holds for every plan, whatever the cluster: by chance, by the corpus, and by the exact optimum."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenkeel.domain.exchange import Policy
from evenkeel.planning.moves import MovesRequest, plan_moves
from tests.support.moves_corpus import (
    EVENTS,
    MovesCase,
    MovesShape,
    build_moves_case,
    delete_topic,
    draw_shape,
    lose_broker,
    small_case,
)
from tests.support.moves_oracle import Oracle
from tests.support.moves_yardstick import (
    Disks,
    apply_moves,
    count_rack_losses,
    is_fine,
    lower_bound,
    play_batches,
    snapshot_after,
)

POLICY = Policy(enter_percent=10, leave_percent=3)
LIMIT = POLICY.max_fill_percent / 100


@st.composite
def shapes(draw: st.DrawFn) -> MovesShape:
    brokers = draw(st.integers(3, 7))
    replication = draw(st.integers(1, min(3, brokers - 2)))
    racks = draw(st.sampled_from([0, 0, *[r for r in (2, 3) if replication <= r and brokers % r == 0]]))
    return MovesShape(
        seed=draw(st.integers(0, 10_000)),
        brokers=brokers,
        partitions=draw(st.integers(1, 60)),
        replication=replication,
        racks=racks,
        dirs=draw(st.integers(1, 3)),
        unequal=draw(st.booleans()),
        sizes=draw(st.sampled_from(["lognormal", "zipf", "even"])),
        giant=draw(st.booleans()),
        foreign=draw(st.booleans()),
        event=draw(st.sampled_from(EVENTS)),
        skew=draw(st.floats(0.0, 1.0)),
        fill=draw(st.floats(0.05, 0.83)),
    )


@settings(max_examples=20, deadline=None)
@given(shape=shapes(), budget=st.sampled_from([None, 10**11, 10**12]), drain_only=st.booleans())
def test_rules_hold_whatever_the_cluster(shape: MovesShape, budget: int | None, *, drain_only: bool) -> None:
    case = build_moves_case(shape)
    policy = replace(POLICY, move_budget_bytes=budget)
    request = replace(case.request, drain_only=drain_only)
    plan = plan_moves(case.snapshot, policy, request)
    assert len({(move.topic, move.partition) for move in plan.moves}) == len(plan.moves)
    assert count_rack_losses(case.snapshot, plan.moves) == 0
    assert play_batches(case.snapshot, plan.batches) <= LIMIT + 1e-9
    assert budget is None or plan.bytes <= budget
    assert sorted(repr(move) for batch in plan.batches for move in batch.moves) == sorted(
        map(repr, plan.moves)
    )
    for batch in plan.batches:
        longest = max((move.bytes for move in batch.moves), default=0) / request.throttle_bytes_per_second
        assert batch.seconds <= max(60, longest)
    for move in plan.moves:
        assert len(set(move.target)) == len(move.target) == len(move.source)
        assert move.copied_to not in request.drain
    if not request.drain and not drain_only:
        disks = Disks(case.snapshot)
        before = disks.deviation()
        apply_moves(case.snapshot, disks, plan.moves)
        assert not plan.moves or disks.deviation() <= max(before, POLICY.leave_percent / 100) + 1e-9


@pytest.mark.parametrize("number", [4, 5, 8, 10, 19, 21, 23, 25, 34, 35, 40, 43])
def test_generated_clusters_are_levelled_near_the_lower_bound(number: int) -> None:
    shape = replace(draw_shape(number), event="", giant=False, foreign=False, sizes="even")
    case = build_moves_case(replace(shape, partitions=max(300, shape.partitions)))
    assert is_fine(case.snapshot, 0.03)
    assert Disks(case.snapshot).deviation() > POLICY.enter_percent / 100
    plan = plan_moves(case.snapshot, POLICY, case.request)
    disks = Disks(case.snapshot)
    apply_moves(case.snapshot, disks, plan.moves)
    assert disks.deviation() <= 0.03 + 1e-9
    bound = lower_bound(case.snapshot, 0.03)
    assert plan.lower_bound_bytes == pytest.approx(bound, rel=1e-3)
    assert plan.bytes <= (1.02 if case.replication == 1 else 1.05) * bound + largest(case)


def largest(case: MovesCase) -> int:
    return max(size for one in case.snapshot.partitions for size in one.replica_bytes.values())


@pytest.mark.parametrize("number", range(16))
def test_small_clusters_are_within_a_twentieth_of_the_exact_optimum(number: int) -> None:
    case = small_case(number)
    oracle, disks = Oracle(case.snapshot, LIMIT), Disks(case.snapshot)
    plan = plan_moves(case.snapshot, POLICY)
    before = disks.deviation()
    apply_moves(case.snapshot, disks, plan.moves)
    after = disks.deviation()
    if before <= POLICY.enter_percent / 100:
        assert plan.moves == ()
        return
    best = max(0.03, oracle.least_deviation())
    assert max(0.03, after) <= best + 0.1 * (before - best) + 1e-6
    assert plan.bytes <= 1.05 * oracle.least_bytes(max(0.03, after) + 1e-9)


@pytest.mark.parametrize("number", [6, 20, 33, 41])
def test_a_plan_is_made_anew_when_a_topic_goes_or_a_broker_is_lost_half_way(number: int) -> None:
    shape = replace(draw_shape(number), event="", replication=2, brokers=6, racks=0, partitions=180)
    case = build_moves_case(shape)
    plan = plan_moves(case.snapshot, POLICY)
    done = [move for batch in plan.batches[: len(plan.batches) // 2] for move in batch.moves]
    half = snapshot_after(case.snapshot, done)
    for after in (delete_topic(half, "t0", freed=False), lose_broker(half, 2)):
        again = plan_moves(after, POLICY, MovesRequest(continuing=True))
        there = {(one.topic, one.partition) for one in after.partitions}
        assert all((move.topic, move.partition) in there for move in again.moves)
        assert count_rack_losses(after, again.moves) == 0
        lost = {one.id for one in after.brokers if not one.online}
        assert all(not lost & set(move.target) for move in again.moves)
