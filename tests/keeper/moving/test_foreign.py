"""What others do to replicas at the same time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evenkeel.kafka.answers import TopicAnswer
from evenkeel.keeper.moving.executor import find_needed
from evenkeel.keeper.moving.guards import find_foreign, find_rooms, name_balancer
from evenkeel.keeper.moving.observation import Observation
from evenkeel.keeper.moving.settings import MoveSettings
from evenkeel.reasons import Reason
from tests.support.moving_kafka import GB, MB, MovingKafka
from tests.support.moving_world import (
    T0,
    World,
    assert_clean,
    build_kafka,
    build_local,
    build_move,
    build_world,
    misplace,
)

U0 = ("u", 0)


def build_disks() -> MovingKafka:
    """Brokers with two disks; `t-0` on 1, and `u-0` of 2 GB on 3, which others move from /d0 to /d1."""
    kafka = build_kafka(dirs=2)
    kafka.add_topic("t", [[1]], [300 * MB])
    kafka.add_topic("u", [[3]], [2 * GB])
    kafka.partition(U0).futures[3] = ("/d1", 0.5 * GB)
    return kafka


def look(world: World) -> Observation:
    return world.kafka.look(find_needed(world.plan, None))


def test_no_batch_begins_while_others_move_replicas_between_directories() -> None:
    kafka = build_disks()
    world = build_world([build_move(kafka, T0, [3], target_dir="/d1")], kafka=kafka)
    found = world.run(lambda found: found.reason is Reason.FOREIGN_REASSIGNMENT)
    assert "u-0 is being moved" in found.message
    assert not kafka.calls
    assert world.run().reason is Reason.MOVED
    assert_clean(kafka)


def test_what_others_copy_between_directories_takes_room() -> None:
    kafka = build_disks()
    move = build_move(kafka, T0, [3], target_dir="/d1")
    rooms = find_rooms([move], look(build_world([move], kafka=kafka)), MoveSettings())
    assert rooms[3, "/d1"].coming_bytes == 300 * MB + 1.5 * GB


def test_a_directory_move_of_ours_takes_its_room_once() -> None:
    kafka = build_kafka(dirs=2)
    kafka.add_topic("t", [[1]], [300 * MB])
    move = build_local(kafka, T0, 1, "/d1")
    kafka.partition(T0).futures[1] = ("/d1", 100 * MB)
    rooms = find_rooms([move], look(build_world([move], kafka=kafka)), MoveSettings())
    assert rooms[1, "/d1"].coming_bytes == 200 * MB


def test_the_way_of_ours_to_its_directory_is_not_foreign() -> None:
    world = misplace()
    assert find_foreign(world.journaled, look(world)) is None


def test_the_same_to_another_directory_is_foreign() -> None:
    world = misplace()
    flight = world.journaled.flights[0]
    other = replace(flight, move=replace(flight.move, target_dir="/d2"))
    assert find_foreign(replace(world.journaled, flights=(other,)), look(world)) == T0


@pytest.mark.parametrize(
    ("topic", "balancer"),
    [
        ("orders", None),
        ("__KafkaCruiseControlModelTrainingSamples", "Cruise Control"),
        ("__CruiseControlMetrics", "Cruise Control"),
        ("strimzi.cruisecontrol.metrics", "Cruise Control"),
    ],
)
def test_another_balancer_is_known_by_its_topics(topic: str, balancer: str | None) -> None:
    world = build_world(kafka=build_disks())
    seen = look(world)
    topics = {**seen.topics, topic: TopicAnswer(topic, "id", internal=False, partitions=())}
    assert name_balancer(replace(seen, topics=topics)) == balancer
