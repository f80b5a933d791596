from __future__ import annotations

from dataclasses import replace

import pytest

from evenkeel.domain.exchange import Policy
from evenkeel.domain.snapshot import LogDir, Topic
from evenkeel.planning.moves import plan_moves
from evenkeel.planning.space import build_space
from evenkeel.planning.trigger import segment_swing
from evenkeel.reasons import Reason
from tests.support.moves_noise import steady_snapshots
from tests.support.snapshots import GIB, MIB, broker, cluster, partitions_of

POLICY = Policy(enter_percent=10, leave_percent=3)


def test_a_day_of_segments_that_come_and_go_gives_no_plan() -> None:
    plans = [plan_moves(snapshot, POLICY) for snapshot in steady_snapshots(0.095, step_seconds=600)]
    assert len(plans) == 144
    assert any((plan.deviation_before or 0) > 0.10 for plan in plans)
    assert {plan.reason for plan in plans} == {Reason.BELOW_THRESHOLD}


def test_what_is_further_out_is_planned() -> None:
    snapshots = steady_snapshots(0.13, step_seconds=3600)
    assert {plan_moves(snapshot, POLICY).reason for snapshot in snapshots} == {Reason.MOVES_PLANNED}


@pytest.mark.parametrize(
    ("topic", "size", "swings"),
    [
        (Topic("t", retention_ms=1, segment_bytes=64 * MIB), 512 * MIB, True),
        (Topic("t", retention_bytes=1, segment_bytes=64 * MIB), 512 * MIB, True),
        (Topic("t", retention_ms=-1, segment_bytes=64 * MIB), 512 * MIB, False),
        (Topic("t", cleanup_policy="compact", retention_ms=1, segment_bytes=64 * MIB), 512 * MIB, False),
        (Topic("t", retention_ms=1, segment_bytes=GIB), 512 * MIB, False),
    ],
    ids=["age", "size", "kept for ever", "compacted", "first segment"],
)
def test_only_topics_that_retention_cuts_swing(topic: Topic, size: int, *, swings: bool) -> None:
    parts = partitions_of("t", [(0,)] * 12, [size] * 12)
    snapshot = cluster([broker(0, 100 * GIB, 12 * size)], parts, topics=[topic])
    assert segment_swing(snapshot, build_space(snapshot))[0] == pytest.approx(64 * MIB if swings else 0.0)


def test_bytes_that_are_no_replicas_are_told_when_they_are_the_imbalance() -> None:
    parts = partitions_of("t", [(i,) for i in range(3)] * 10, [GIB] * 30)
    snapshot = cluster([broker(i, 1000 * GIB, 100 * GIB) for i in range(3)], parts)
    full = replace(snapshot.brokers[0], log_dirs=(LogDir("/data", 1000 * GIB, 400 * GIB),))
    empty = replace(snapshot, brokers=(full, *snapshot.brokers[1:]), partitions=snapshot.partitions)
    fixed = replace(empty, partitions=tuple(one for one in empty.partitions if 0 not in one.replicas))
    plan = plan_moves(fixed, POLICY)
    assert plan.reason is Reason.NO_FEASIBLE_MOVE
    assert "by bytes that are no replicas or may not move" in plan.message
