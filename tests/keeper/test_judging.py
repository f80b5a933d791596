from __future__ import annotations

import re
from dataclasses import replace

import pytest

from evenkeel.domain.exchange import Policy
from evenkeel.domain.moves import Approval, Batch, DesiredPlan, Move, MoveKind
from evenkeel.domain.snapshot import Broker, ClusterSnapshot, LogDir, Topic
from evenkeel.keeper.judging import Contradiction, judge_plan
from tests.support.snapshots import GIB, broker, cluster, partitions_of

MOVE = Move("t", 0, (1, 2), (3, 2), GIB, copied_to=3, copied_from=1, freed_on=1, freed_bytes=GIB)
LOCAL = Move(
    "t", 0, (1, 2), (1, 2), GIB, "/b", MoveKind.DIRECTORY,
    copied_to=1, copied_from=1, freed_on=1, freed_dir="/a", freed_bytes=GIB,
)  # fmt: skip
WITH_ID = replace(MOVE, topic_id="old")


def snapshot(third: Broker | None = None, replicas: tuple[int, ...] = (1, 2)) -> ClusterSnapshot:
    brokers = [broker(1, 10 * GIB, 5 * GIB), broker(2, 10 * GIB, 5 * GIB), third or broker(3, 10 * GIB, GIB)]
    rows = partitions_of("t", [replicas], [GIB])
    return replace(cluster(brokers, rows), cluster_id="c")


def plan(*moves: Move, cluster_id: str | None = "c") -> DesiredPlan:
    batches = tuple(Batch(i, (move,), 10.0, move.bytes) for i, move in enumerate(moves))
    return DesiredPlan("uid", "name", "hash", Approval.PENDING, batches, cluster_id)


def changed(one: ClusterSnapshot, **changes: object) -> ClusterSnapshot:
    """The snapshot with its partition changed."""
    return replace(one, partitions=(replace(one.partitions[0], **changes),))  # type: ignore[arg-type]


def dirs(*entries: LogDir, number: int = 3) -> Broker:
    return Broker(number, log_dirs=entries)


def test_what_holds_is_not_contradicted() -> None:
    assert judge_plan(plan(MOVE), snapshot(), Policy()) is None


@pytest.mark.parametrize(
    ("found", "policy", "said"),
    [
        (replace(snapshot(), cluster_id="d"), Policy(), "the plan is for cluster c, this is d"),
        (replace(snapshot(), partitions=()), Policy(), "t-0 is not there any more"),
        (snapshot(replicas=(2, 1)), Policy(), r"t-0 lies on brokers \[2, 1\], planned from \[1, 2\]"),
        (snapshot(), Policy(exclude_topics=("t",)), "topic t is in spec.balance.excludeTopics"),
        (replace(snapshot(), topics=(Topic("t", internal=True),)), Policy(), "topic t is internal"),
        (
            replace(snapshot(), topics=(Topic("t", topic_id="new"),)),
            Policy(),
            "topic t was made again: it has id new, planned for old",
        ),
        (snapshot(), Policy(drain=(3,)), "broker 3, which is to receive t-0, is to be drained"),
        (snapshot(dirs(LogDir("/d", GIB, GIB, cordoned=True))), Policy(), "/d of broker 3, .* is cordoned"),
    ],
)
def test_each_fact_that_changed_is_named(found: ClusterSnapshot, policy: Policy, said: str) -> None:
    contradiction = judge_plan(plan(WITH_ID), found, policy)
    assert contradiction is not None
    assert not contradiction.passing
    assert re.search(said, contradiction.message)


@pytest.mark.parametrize(
    ("third", "said"),
    [
        (broker(3, 10 * GIB, GIB, online=False), "broker 3, which is to receive t-0, is offline"),
        (broker(4, 10 * GIB, GIB), "broker 3, which is to receive t-0, is not known"),
        (dirs(LogDir("/d", online=False)), "/d of broker 3, which is to receive t-0, is offline"),
    ],
)
def test_what_may_be_as_before_in_a_minute_is_passing(third: Broker, said: str) -> None:
    assert judge_plan(plan(MOVE), snapshot(third), Policy()) == Contradiction(said, passing=True)


def test_a_directory_that_is_gone_is_told() -> None:
    found = judge_plan(plan(replace(MOVE, target_dir="/e")), snapshot(), Policy())
    assert found == Contradiction("broker 3 has no log directory /e, which is to receive t-0")


def test_a_replica_that_lies_in_another_directory_is_told() -> None:
    two = dirs(LogDir("/a", 10 * GIB, GIB), LogDir("/b", 10 * GIB, 9 * GIB), number=1)
    one = cluster([two, broker(2, 10 * GIB, GIB)], partitions_of("t", [(1, 2)], [GIB]))
    assert judge_plan(plan(LOCAL), changed(one, replica_dirs={1: "/a"}), Policy()) is None
    found = judge_plan(plan(LOCAL), changed(one, replica_dirs={1: "/c"}), Policy())
    assert found == Contradiction("t-0 lies in /c of broker 1, planned from /a")


def test_what_is_done_already_or_just_being_moved_contradicts_nothing() -> None:
    assert judge_plan(plan(MOVE), snapshot(replicas=(3, 2)), Policy()) is None
    moving = changed(snapshot(), replicas=(4, 1, 2), adding=(4,), removing=(1,))
    assert judge_plan(plan(MOVE), moving, Policy()) is None


def test_what_is_unknown_contradicts_nothing() -> None:
    assert judge_plan(plan(MOVE, cluster_id=None), snapshot(), Policy()) is None
    assert judge_plan(plan(WITH_ID), replace(snapshot(), topics=(Topic("t"),)), Policy()) is None
    assert judge_plan(plan(MOVE), replace(snapshot(), topics=(Topic("t", topic_id="new"),)), Policy()) is None
    assert judge_plan(plan(MOVE), snapshot(broker(3, None, None)), Policy()) is None
    assert judge_plan(plan(MOVE), snapshot(Broker(3)), Policy()) is None


def test_a_partition_that_has_grown_counts_with_its_size_of_now() -> None:
    grown = changed(snapshot(), replica_bytes={1: 8 * GIB, 2: 8 * GIB})
    found = judge_plan(plan(MOVE), grown, Policy())
    assert found == Contradiction("batch 1 would fill 3:/data to 90.0%, limit 85 %", passing=True)


def test_a_disk_that_is_too_full_now_may_be_about_to_be_emptied() -> None:
    found = judge_plan(plan(MOVE), snapshot(broker(3, 10 * GIB, 8 * GIB)), Policy())
    assert found == Contradiction("batch 1 would fill 3:/data to 90.0%, limit 85 %", passing=True)


def test_deleted_bytes_keep_their_space_for_a_while() -> None:
    there = Move("u", 0, (3,), (1,), 5 * GIB, copied_to=1, copied_from=3, freed_on=3, freed_bytes=5 * GIB)
    rows = (*partitions_of("u", [(3,)], [5 * GIB]), *partitions_of("t", [(1, 2)], [4 * GIB]))
    disks = [broker(1, 20 * GIB, 5 * GIB), broker(2, 10 * GIB, 5 * GIB), broker(3, 10 * GIB, 6 * GIB)]
    found = judge_plan(plan(there, MOVE, cluster_id=None), cluster(disks, rows), Policy())
    assert found == Contradiction("batch 2 would fill 3:/data to 100.0%, limit 85 %", passing=True)
