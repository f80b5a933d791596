"""What else can be asked of the planner: brokers emptied, replicas added, budgets, and states of brokers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from evenkeel.domain.exchange import Policy
from evenkeel.domain.moves import MoveKind
from evenkeel.domain.snapshot import ClusterSnapshot, LogDir, Partition, Topic
from evenkeel.errors import InputError
from evenkeel.planning.moves import MovesPlan, MovesRequest, plan_moves
from evenkeel.reasons import Reason
from tests.support.moves_corpus import lose_broker
from tests.support.moves_yardstick import Disks, apply_moves, snapshot_after
from tests.support.snapshots import GIB, broker, cluster, partitions_of

POLICY = Policy(enter_percent=10, leave_percent=3)


def spread(
    counts: tuple[int, ...], size: int = GIB, total: int = 100 * GIB, racks: tuple[str | None, ...] = ()
) -> ClusterSnapshot:
    """RF 1: so many replicas on each broker."""
    racks = racks or (None,) * len(counts)
    disks = [
        broker(i, total, n * size, rack=rack) for i, (n, rack) in enumerate(zip(counts, racks, strict=True))
    ]
    places = [(i,) for i, n in enumerate(counts) for _ in range(n)]
    return cluster(disks, partitions_of("t", places, [size] * len(places)))


def paired(brokers: int = 4, partitions: int = 40, total: int = 100 * GIB) -> ClusterSnapshot:
    """RF 2, level: partition p on brokers p and p + 1."""
    places = [(p % brokers, (p + 1) % brokers) for p in range(partitions)]
    parts = partitions_of("t", places, [GIB] * partitions)
    held = Counter(b for row in places for b in row)
    return cluster(
        [broker(i, total, held[i] * GIB) for i in range(brokers)], parts, topics=[Topic("t", min_isr=1)]
    )


def fills(snapshot: ClusterSnapshot, plan: MovesPlan, away: tuple[int, ...] = ()) -> Disks:
    disks = Disks(snapshot, away)
    apply_moves(snapshot, disks, plan.moves)
    return disks


def test_a_leaving_broker_is_emptied_and_the_others_stay_level() -> None:
    snapshot = paired()
    plan = plan_moves(snapshot, POLICY, MovesRequest(drain=(2,)))
    after = snapshot_after(snapshot, plan.moves)
    assert all(2 not in one.replicas for one in after.partitions)
    assert plan.bytes == plan.lower_bound_bytes == 20 * GIB
    assert Disks(after, (2,)).deviation() <= 0.06
    assert plan.refusals == ()


def test_a_lost_broker_s_replicas_are_copied_anew_from_the_leaders() -> None:
    snapshot = lose_broker(paired(), 1)
    plan = plan_moves(snapshot, POLICY, MovesRequest(drain=(1,)))
    leaders = {one.partition: one.leader for one in snapshot.partitions}
    assert len(plan.moves) == 20
    assert all(move.copied_from == leaders[move.partition] for move in plan.moves)
    assert all(1 not in move.target and move.freed_bytes == 0 for move in plan.moves)


def test_without_the_wish_a_lost_broker_s_partitions_are_left_alone() -> None:
    snapshot = lose_broker(paired(), 1)
    touched = {move.partition for move in plan_moves(snapshot, POLICY).moves}
    assert not touched & {one.partition for one in snapshot.partitions if 1 in one.replicas}


def test_what_cannot_leave_a_broker_is_told() -> None:
    snapshot = paired(brokers=2)
    other = replace(snapshot.partitions[0], topic="__consumer_offsets")
    plan = plan_moves(
        replace(snapshot, partitions=(*snapshot.partitions, other)), POLICY, MovesRequest(drain=(1,))
    )
    assert plan.reason is Reason.DRAIN_BLOCKED
    assert plan.moves == ()
    assert {one.reason for one in plan.refusals} == {Reason.DRAIN_BLOCKED}
    assert plan.refusals[-1].subject == "broker/1"
    assert "1 replicas stay" in plan.refusals[-1].message


def test_a_replica_is_added_in_a_new_rack_where_there_is_room() -> None:
    disks = [
        broker(i, 100 * GIB, used * GIB, rack=rack)
        for i, (used, rack) in enumerate(((30, "a"), (10, "a"), (50, "b"), (40, "b")))
    ]
    snapshot = cluster(disks, partitions_of("t", [(0,)] * 6, [GIB] * 6), topics=[Topic("t", min_isr=1)])
    plan = plan_moves(snapshot, replace(POLICY, enter_percent=100), MovesRequest(replication={"t": 2}))
    assert [(move.kind, set(move.target)) for move in plan.moves] == [(MoveKind.ADD, {0, 3})] * 6
    assert 0 < sum(move.target[0] == 3 for move in plan.moves) < 6
    assert plan.bytes == plan.lower_bound_bytes == 6 * GIB


def test_one_replica_is_added_per_plan() -> None:
    snapshot = replace(spread((6, 0, 0)), topics=(Topic("t", min_isr=1),))
    request = MovesRequest(replication={"t": 3})
    plan = plan_moves(snapshot, POLICY, request)
    assert {len(move.target) for move in plan.moves} == {2}
    again = plan_moves(snapshot_after(snapshot, plan.moves), POLICY, request)
    assert {len(move.target) for move in again.moves} == {3}


def test_a_replica_goes_from_the_fullest_disk_and_never_the_leader() -> None:
    snapshot = paired()
    plan = plan_moves(snapshot, POLICY, MovesRequest(replication={"t": 1}))
    leaders = {one.partition: one.leader for one in snapshot.partitions}
    removed = [move for move in plan.moves if move.kind is MoveKind.REMOVE]
    assert len(removed) == 40
    assert all(move.target == (leaders[move.partition],) for move in removed)
    assert plan.bytes == 0


@pytest.mark.parametrize(
    ("count", "reason"),
    [(1, Reason.REPLICATION_BELOW_MIN_ISR), (5, Reason.REPLICATION_ABOVE_BROKERS)],
)
def test_impossible_numbers_of_replicas_are_refused(count: int, reason: Reason) -> None:
    snapshot = replace(paired(), topics=(Topic("t", min_isr=2),))
    plan = plan_moves(snapshot, POLICY, MovesRequest(replication={"t": count}))
    assert plan.reason is reason
    assert plan.refusals[0].subject == "topic/t"
    assert plan.moves == ()


def test_no_replicas_at_all_is_bad_input() -> None:
    with pytest.raises(InputError, match=r"replication\[t\]: must be at least 1, not 0"):
        plan_moves(paired(), POLICY, MovesRequest(replication={"t": 0}))


def test_internal_topics_keep_their_number_of_replicas() -> None:
    plan = plan_moves(paired(), POLICY, MovesRequest(replication={"__consumer_offsets": 3}))
    assert plan.reason is Reason.INTERNAL_TOPIC


def test_drain_only_relieves_and_fills_nothing_up() -> None:
    snapshot = spread((40, 30, 30, 10))
    plan = plan_moves(snapshot, POLICY, MovesRequest(drain_only=True))
    after = fills(snapshot, plan).used
    assert {move.freed_on for move in plan.moves} == {0, 1, 2}
    assert max(after.values()) <= 27.5 * 1.03 * GIB
    assert plan.bytes < plan_moves(snapshot, POLICY).bytes + GIB
    low = spread((*(25,) * 20, 15))
    assert plan_moves(low, POLICY).moves
    assert plan_moves(low, POLICY, MovesRequest(drain_only=True)).reason is Reason.NO_FEASIBLE_MOVE


def test_a_budget_buys_the_moves_that_bring_most_per_byte() -> None:
    snapshot = spread((60, 15, 15))
    whole = plan_moves(snapshot, POLICY)
    plan = plan_moves(snapshot, replace(POLICY, move_budget_bytes=10 * GIB))
    assert plan.bytes == 10 * GIB
    assert plan.deviation_after is not None
    assert plan.deviation_before is not None
    assert plan.deviation_after < plan.deviation_before
    assert [one.reason for one in plan.refusals] == [Reason.MOVE_BUDGET_TOO_SMALL]
    assert whole.refusals == ()
    none = plan_moves(snapshot, replace(POLICY, move_budget_bytes=GIB - 1))
    assert none.reason is Reason.MOVE_BUDGET_TOO_SMALL
    assert none.moves == ()


def jbod(sizes: tuple[int, int, int, int]) -> ClusterSnapshot:
    """Two brokers with two directories each, RF 2: every partition on both brokers, so none can leave."""
    dirs = ("/a", "/b")
    parts = [
        Partition("t", i, 0, (0, 1), (0, 1), replica_bytes={0: GIB, 1: GIB}, replica_dirs={0: left, 1: right})
        for i, (left, right) in enumerate(
            [(dirs[i >= sizes[0]], dirs[i >= sizes[2]]) for i in range(sizes[0] + sizes[1])]
        )
    ]
    brokers = [
        replace(
            broker(b, 100 * GIB, 0),
            log_dirs=tuple(
                LogDir(path, 100 * GIB, (100 - sizes[2 * b + i]) * GIB) for i, path in enumerate(dirs)
            ),
        )
        for b in range(2)
    ]
    return cluster(brokers, parts)


def test_directories_of_one_broker_are_levelled_in_place() -> None:
    snapshot = jbod((40, 10, 25, 25))
    plan = plan_moves(snapshot, POLICY)
    assert {move.kind for move in plan.moves} == {MoveKind.DIRECTORY}
    assert all(move.source == move.target and move.target_dir == "/b" for move in plan.moves)
    assert all(move.copied_from == move.copied_to == move.freed_on == 0 for move in plan.moves)
    assert {move.freed_dir for move in plan.moves} == {"/a"}
    assert fills(snapshot, plan).deviation() <= 0.03


def test_running_moves_are_counted_and_not_touched() -> None:
    snapshot = spread((60, 15, 15))
    parts = [
        replace(one, replicas=(0, 1), adding=(1,), removing=(0,), replica_bytes={0: GIB, 1: 0})
        if one.partition < 30
        else one
        for one in snapshot.partitions
    ]
    plan = plan_moves(replace(snapshot, partitions=tuple(parts)), POLICY)
    assert all(move.partition >= 30 for move in plan.moves)
    assert all(move.target == (2,) for move in plan.moves)
    assert plan.fills_before["1:/data"] == pytest.approx(0.45)
    assert plan.fills_before["0:/data"] == pytest.approx(0.30)


@pytest.mark.parametrize(("online", "fenced"), [(False, False), (True, True)])
def test_brokers_that_are_away_receive_nothing(*, online: bool, fenced: bool) -> None:
    snapshot = spread((40, 0, 20))
    brokers = tuple(
        replace(one, online=online, fenced=fenced) if one.id == 1 else one for one in snapshot.brokers
    )
    plan = plan_moves(replace(snapshot, brokers=brokers), POLICY)
    assert plan.moves
    assert all(move.target == (2,) for move in plan.moves)


def test_a_broker_that_joins_is_filled() -> None:
    plan = plan_moves(spread((40, 40, 40, 0)), POLICY)
    assert {move.target for move in plan.moves} == {(3,)}
    assert plan.deviation_after is not None
    assert plan.deviation_after <= 0.034


def test_bytes_that_are_no_replicas_stay_and_the_rest_is_levelled_around_them() -> None:
    snapshot = spread((20, 20, 50))
    full = replace(snapshot.brokers[0], log_dirs=(LogDir("/data", 100 * GIB, 10 * GIB),))
    plan = plan_moves(
        replace(snapshot, brokers=(full, *snapshot.brokers[1:])), replace(POLICY, max_fill_percent=95)
    )
    assert plan.deviation_after is not None
    assert plan.deviation_after <= 0.03
    assert plan.fills_after["0:/data"] == pytest.approx(0.70, abs=0.02)
    assert plan.fills_after["1:/data"] == pytest.approx(plan.fills_after["2:/data"], abs=0.03)


def test_what_moves_cannot_change_is_refused_in_words() -> None:
    snapshot = spread((1, 1, 1), size=GIB)
    foreign = replace(snapshot.brokers[0], log_dirs=(LogDir("/data", 100 * GIB, 20 * GIB),))
    plan = plan_moves(replace(snapshot, brokers=(foreign, *snapshot.brokers[1:])), POLICY)
    assert plan.deviation_after is not None
    assert plan.bytes <= 2 * GIB


def test_a_rack_that_is_too_small_has_a_level_of_its_own() -> None:
    disks = [broker(0, 50 * GIB, 40 * GIB, rack="a"), broker(1, 50 * GIB, 0, rack="a")]
    disks += [broker(2, 100 * GIB, 20 * GIB, rack="b"), broker(3, 100 * GIB, 20 * GIB, rack="b")]
    places = [(0, 2 + i % 2) for i in range(40)]
    snapshot = cluster(disks, partitions_of("t", places, [GIB] * 40))
    plan = plan_moves(snapshot, POLICY)
    assert plan.deviation_after is not None
    assert plan.deviation_after <= 0.03
    assert plan.fills_after["0:/data"] == pytest.approx(0.4, abs=0.02)
    assert {move.copied_to for move in plan.moves} == {1}


def test_a_disk_above_the_limit_is_relieved_though_the_deviation_is_small() -> None:
    plan = plan_moves(spread((88, 80, 80)), POLICY)
    assert {move.freed_on for move in plan.moves} == {0}
    assert plan.fills_after["0:/data"] <= 0.855


def test_a_plan_that_has_begun_goes_on_below_the_threshold() -> None:
    snapshot = spread((32, 30, 28))
    assert plan_moves(snapshot, POLICY).reason is Reason.BELOW_THRESHOLD
    plan = plan_moves(snapshot, POLICY, MovesRequest(continuing=True))
    assert plan.reason is Reason.MOVES_PLANNED
    assert plan.deviation_after is not None
    assert plan.deviation_after <= 0.034


def test_leaders_that_move_do_not_gather() -> None:
    disks = [broker(i, 100 * GIB, used * GIB) for i, used in enumerate((60, 60, 0, 0))]
    snapshot = cluster(disks, partitions_of("t", [(0, 1)] * 60, [GIB] * 60))
    plan = plan_moves(snapshot, POLICY)
    after = snapshot_after(snapshot, plan.moves)
    before = Counter(one.replicas[0] for one in snapshot.partitions)
    leads = Counter(one.replicas[0] for one in after.partitions)
    assert max(leads.values()) - min(leads[b] for b in range(4)) < max(before.values())
    assert max(leads.values()) <= 32


def test_moves_beyond_the_most_wait_for_the_next_plan() -> None:
    plan = plan_moves(spread((60, 15, 15)), POLICY, MovesRequest(most_moves=5))
    assert len(plan.moves) == 5


@pytest.mark.parametrize(
    ("snapshot", "policy", "told"),
    [
        (spread((1, 0, 0), size=30 * GIB), POLICY, "is larger than any other volume has room for"),
        (spread((40, 0, 0)), replace(POLICY, exclude_topics=("t",)), "no replicas or may not move"),
        (spread((90, 70, 70)), replace(POLICY, max_fill_percent=70), "above the highest fill allowed"),
    ],
    ids=["large", "excluded", "limit"],
)
def test_what_stays_uneven_is_explained(snapshot: ClusterSnapshot, policy: Policy, told: str) -> None:
    plan = plan_moves(snapshot, policy)
    assert plan.reason is Reason.NO_FEASIBLE_MOVE
    assert told in plan.message


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (MovesRequest(throttle_bytes_per_second=0), "throttleBytesPerSecond: must be at least 1, not 0"),
        (MovesRequest(most_moves=0), "mostMoves: must be at least 1, not 0"),
        (MovesRequest(deadline_seconds=-1), "deadlineSeconds: must be at least 1, not -1"),
    ],
)
def test_impossible_limits_are_bad_input(request_: MovesRequest, told: str) -> None:
    with pytest.raises(InputError, match=told):
        plan_moves(paired(), POLICY, request_)


def test_a_band_of_no_width_is_approached() -> None:
    plan = plan_moves(spread((60, 15, 15)), Policy(enter_percent=0, leave_percent=0))
    assert plan.deviation_after is not None
    assert plan.deviation_after <= 0.034
