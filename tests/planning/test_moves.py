from __future__ import annotations

from dataclasses import replace

import pytest

from evenkeel.domain.exchange import Policy
from evenkeel.domain.moves import MoveKind
from evenkeel.domain.snapshot import ClusterSnapshot, LogDir, Topic
from evenkeel.planning.moves import MovesPlan, plan_moves
from evenkeel.reasons import Reason
from tests.support.snapshots import GIB, SHAPES, Shape, broker, cluster, generate_snapshot, partitions_of

POLICY = Policy(enter_percent=10, leave_percent=3)


def uneven(racks: tuple[str | None, ...] = (None, None, None)) -> ClusterSnapshot:
    """Broker 0 holds 60 replicas of 1 GiB, brokers 1 and 2 hold 15 each; RF 1."""
    counts = (60, 15, 15)
    disks = [
        broker(i, 100 * GIB, count * GIB, rack=rack)
        for i, (count, rack) in enumerate(zip(counts, racks, strict=True))
    ]
    places = [(i,) for i, count in enumerate(counts) for _ in range(count)]
    return cluster(disks, partitions_of("t", places, [GIB] * len(places)))


def apply(snapshot: ClusterSnapshot, plan: MovesPlan) -> dict[int, int]:
    """Bytes per broker after the plan."""
    size = {
        one.id: sum((d.total_bytes or 0) - (d.usable_bytes or 0) for d in one.log_dirs)
        for one in snapshot.brokers
    }
    for move in plan.moves:
        for one in set(move.source) - set(move.target):
            size[one] -= move.bytes
        for one in set(move.target) - set(move.source):
            size[one] += move.bytes
    return size


def test_surplus_goes_to_deficit_until_all_are_within_the_band() -> None:
    snapshot = uneven()
    plan = plan_moves(snapshot, POLICY)
    assert plan.reason is Reason.MOVES_PLANNED
    assert all(29 * GIB <= size <= 31 * GIB for size in apply(snapshot, plan).values())
    assert plan.deviation_before == pytest.approx(1.0)
    assert plan.deviation_after is not None
    assert plan.deviation_after <= 0.03 + 1 / 30
    assert plan.bytes == sum(move.bytes for move in plan.moves)
    assert plan.lower_bound_bytes <= plan.bytes + GIB


def test_moves_say_which_topic_they_were_planned_for() -> None:
    snapshot = replace(uneven(), topics=(Topic("t", topic_id="AAAAAAAAAAAAAAAAAAAAAQ"),))
    assert {move.topic_id for move in plan_moves(snapshot, POLICY).moves} == {"AAAAAAAAAAAAAAAAAAAAAQ"}
    assert {move.topic_id for move in plan_moves(uneven(), POLICY).moves} == {None}


LEVELLED = [
    shape for shape in SHAPES if shape.dirs == 1 and shape.leaderless == 0 and 100 <= shape.partitions <= 4000
]


@pytest.mark.parametrize("shape", LEVELLED, ids=lambda shape: str(shape.seed))
def test_generated_clusters_are_levelled_near_the_lower_bound(shape: Shape) -> None:
    snapshot = generate_snapshot(shape)
    plan = plan_moves(snapshot, POLICY)
    assert plan.reason is Reason.MOVES_PLANNED
    assert plan.deviation_after is not None
    assert plan.deviation_after <= 0.0301
    assert plan.bytes <= 1.1 * plan.lower_bound_bytes


@pytest.mark.parametrize("shape", SHAPES[5:30:4], ids=lambda shape: str(shape.seed))
def test_rules_hold_for_every_move(shape: Shape) -> None:
    snapshot = generate_snapshot(shape)
    rack = {one.id: one.rack for one in snapshot.brokers}
    many = len(set(rack.values())) > 1
    plan = plan_moves(snapshot, POLICY)
    assert len({(move.topic, move.partition) for move in plan.moves}) == len(plan.moves)
    assert plan.peak_fill is not None
    assert plan.peak_fill <= 0.85
    for move in plan.moves:
        assert len(move.target) == len(set(move.target)) == len(move.source)
        assert len(set(move.target) - set(move.source)) == (move.kind is MoveKind.BROKER)
        if many:
            assert len({rack[one] for one in move.target}) >= len({rack[one] for one in move.source})


def test_below_the_threshold_nothing_moves() -> None:
    disks = [broker(i, 100 * GIB, size * GIB) for i, size in enumerate((51, 50, 49))]
    plan = plan_moves(cluster(disks, partitions_of("t", [(0,)] * 51, [GIB] * 51)), POLICY)
    assert plan.reason is Reason.BELOW_THRESHOLD
    assert plan.moves == ()
    assert plan.hash == ""


def test_unknown_sizes_are_refused() -> None:
    snapshot = replace(uneven(), brokers=(*uneven().brokers[:2], broker(2, 100, None)))
    plan = plan_moves(snapshot, POLICY)
    assert plan.reason is Reason.SNAPSHOT_INCOMPLETE
    assert "brokers[2].logDirs[0].usableBytes" in plan.message


def _rename(snapshot: ClusterSnapshot, name: str) -> ClusterSnapshot:
    return replace(snapshot, partitions=tuple(replace(p, topic=name) for p in snapshot.partitions))


@pytest.mark.parametrize(
    ("snapshot", "policy"),
    [
        (_rename(uneven(), "__offsets"), POLICY),
        (_rename(uneven(), "evenkeel-0123-data"), POLICY),
        (replace(uneven(), topics=(Topic("t", internal=True),)), POLICY),
        (uneven(), replace(POLICY, exclude_topics=("t",))),
        (replace(uneven(), partitions=tuple(replace(p, leader=None) for p in uneven().partitions)), POLICY),
        (replace(uneven(), partitions=tuple(replace(p, isr=(9,)) for p in uneven().partitions)), POLICY),
        (replace(uneven(), partitions=tuple(replace(p, adding=(0,)) for p in uneven().partitions)), POLICY),
        (uneven(), replace(POLICY, max_fill_percent=10)),
    ],
    ids=["internal name", "ours", "internal", "excluded", "leaderless", "isr", "moving", "too full"],
)
def test_what_may_not_move_stays(snapshot: ClusterSnapshot, policy: Policy) -> None:
    plan = plan_moves(snapshot, policy)
    assert plan.reason is Reason.NO_FEASIBLE_MOVE
    assert plan.moves == ()


def test_cordoned_directories_receive_nothing() -> None:
    snapshot = uneven()
    shut = replace(snapshot.brokers[1], log_dirs=(LogDir("/data", 100 * GIB, 85 * GIB, cordoned=True),))
    plan = plan_moves(replace(snapshot, brokers=(snapshot.brokers[0], shut, snapshot.brokers[2])), POLICY)
    assert plan.moves
    assert all(1 not in move.target for move in plan.moves)


def test_a_move_to_a_broker_with_several_directories_names_one() -> None:
    snapshot = uneven()
    dirs = (LogDir("/a", 100 * GIB, 85 * GIB), LogDir("/b", 100 * GIB, 100 * GIB))
    brokers = (snapshot.brokers[0], snapshot.brokers[1], replace(snapshot.brokers[2], log_dirs=dirs))
    parts = tuple(replace(p, replica_dirs={2: "/a"} if 2 in p.replicas else {}) for p in snapshot.partitions)
    plan = plan_moves(replace(snapshot, brokers=brokers, partitions=parts), POLICY)
    assert {move.target_dir for move in plan.moves if 2 in move.target} == {"/a", "/b"}
    assert {move.target_dir for move in plan.moves if 1 in move.target} <= {None}


def test_plan_and_hash_are_a_function_of_their_input() -> None:
    one, other = plan_moves(uneven(), POLICY), plan_moves(uneven(), POLICY)
    assert one == other
    assert len(one.hash) == 64
    assert plan_moves(uneven(), replace(POLICY, max_fill_percent=84)).hash != one.hash
