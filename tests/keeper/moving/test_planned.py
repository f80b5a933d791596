"""The planner's own plans, run on a simulated cluster: what it predicts is what comes out."""

from __future__ import annotations

import random

import pytest

from evenkeel.domain.exchange import Policy
from evenkeel.domain.snapshot import Broker, ClusterSnapshot, LogDir, Partition, Topic
from evenkeel.keeper.moving.plan import approve
from evenkeel.keeper.moving.settings import MoveSettings
from evenkeel.planning.moves import plan_moves
from evenkeel.reasons import Reason
from tests.support.moving_faults import Story, crash
from tests.support.moving_kafka import MB, MovingKafka
from tests.support.moving_world import World, assert_clean, build_kafka


def snapshot(kafka: MovingKafka) -> ClusterSnapshot:
    """What a measurement of the simulated cluster would tell."""
    used = kafka.used()
    brokers = tuple(
        Broker(
            broker,
            rack=f"r{broker}",
            log_dirs=tuple(
                LogDir(path, total, int(total - used[broker, path])) for path, total in own.dirs.items()
            ),
        )
        for broker, own in kafka.brokers.items()
    )
    partitions = tuple(
        Partition(
            name,
            number,
            one.leader,
            tuple(one.replicas),
            tuple(sorted(one.isr)),
            replica_bytes={broker: int(size) for broker, (_, size) in one.copies.items()},
            replica_dirs={broker: path for broker, (path, _) in one.copies.items()},
        )
        for name, topic in kafka.topics.items()
        for number, one in enumerate(topic.partitions)
    )
    topics = tuple(Topic(name, min_isr=topic.min_isr) for name, topic in kafka.topics.items())
    return ClusterSnapshot(brokers, partitions, (), topics, cluster_id="sim")


def skewed(seed: int) -> MovingKafka:
    """Four brokers with two disks each; most replicas lie on the first two."""
    rng = random.Random(seed)
    kafka = build_kafka(4, gigabytes=10, dirs=2)
    for number, copies in enumerate((1, 2)):
        rows = [
            [rng.choice([1, 1, 2, 3]), 4][:copies] if copies == 1 else rng.sample([1, 1, 2, 3, 4], 2)
            for _ in range(20)
        ]
        rows = [row if len(set(row)) == len(row) else [1, 2] for row in rows]
        kafka.add_topic(f"t{number}", rows, [rng.randint(20, 160) * MB for _ in rows])
    return kafka


@pytest.mark.parametrize("seed", range(4))
def test_what_is_planned_levels_a_cluster_even_if_the_keeper_dies(seed: int) -> None:
    kafka = skewed(seed)
    policy = Policy(enter_percent=5, leave_percent=3)
    plan = plan_moves(snapshot(kafka), policy)
    assert plan.reason is Reason.MOVES_PLANNED
    world = World(kafka, approve(plan, "sim"), MoveSettings(bytes_per_second=20 * MB))
    story = Story(seed, world, random.Random(seed))
    crash(story)
    assert world.run().reason is Reason.MOVED
    kafka.tick(61)
    after = plan_moves(snapshot(kafka), policy)
    assert after.deviation_before == pytest.approx(plan.deviation_after, abs=0.002)
    assert not after.moves
    assert_clean(kafka)
