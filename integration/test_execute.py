"""`evenkeel execute` as a process against real brokers: whole, killed, cancelled, with a broker that dies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evenkeel.domain import codec
from evenkeel.domain.moves import Move, MoveKind
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.kafka.wire import LISTS
from integration.kafka.cluster import KafkaCluster
from integration.kafka.disks import may_mount
from integration.kafka.settings import BrokerSpec
from integration.keeper import Keeper, build_desired, plain
from integration.moving import (
    Admin,
    Execution,
    Topic,
    ask,
    await_clean,
    await_copying,
    build_plan,
    run_evenkeel,
)
from integration.processes import wait_until

DISKS = [BrokerSpec(1, disks=(256,)), BrokerSpec(2, disks=(256,)), BrokerSpec(3, disks=(256, 256))]


@pytest.fixture(scope="module")
def cluster(kafka_home: object) -> Iterator[KafkaCluster]:
    """Three brokers, the third with two disks."""
    if not may_mount():
        pytest.skip("disks of chosen sizes need root and loop devices")
    with KafkaCluster.start(DISKS) as started:
        yield started


@pytest.fixture
def admin(cluster: KafkaCluster) -> Iterator[Admin]:
    found = Admin(cluster)
    yield found
    found.close()


def test_snapshot_plan_and_execution_level_a_cluster(
    cluster: KafkaCluster, admin: Admin, tmp_path: Path
) -> None:
    topic = Topic(cluster, [[1]] * 8 + [[2]], 8)
    admin.set_topic(topic.name, LISTS["leader"], "99:1")
    text = run_evenkeel(tmp_path, "snapshot", "--bootstrap", cluster.bootstrap)
    path = tmp_path / "snapshot.json"
    path.write_text(text)
    planned = run_evenkeel(tmp_path, "plan", "moves", "--snapshot", str(path), "-o", "json")
    plan = json.loads(planned)
    assert plan["clusterId"] == codec.loads(ClusterSnapshot, text).cluster_id
    told = Execution(cluster, tmp_path, plan).end(0)
    assert f"all {len(plan['moves'])} moves done" in told
    wanted = {move["partition"]: tuple(move["to"]) for move in plan["moves"]}
    assert wanted
    topic.await_replicas(*(wanted.get(number, row) for number, row in enumerate(topic.rows)))
    assert topic.digest() == topic.before
    await_clean(admin, [topic.name], {f"topic {topic.name} {LISTS['leader']}": "99:1"})


def test_a_process_that_is_killed_is_gone_on_from(
    cluster: KafkaCluster, admin: Admin, tmp_path: Path
) -> None:
    topic = Topic(cluster, [[1, 2], [1, 2]], 12, min_insync_replicas="2")
    plan = build_plan([topic.move(0, [3, 2])], [topic.move(1, [3, 2])])
    first = Execution(cluster, tmp_path, plan, "--throttle", "1000000")
    await_copying(first, admin)
    first.process.kill()
    assert admin.throttles([topic.name])
    told = Execution(cluster, tmp_path, plan, "--throttle", "50000000").end(0)
    assert "all 2 moves done" in told
    topic.await_replicas((3, 2), (3, 2))
    assert topic.digest() == topic.before
    await_clean(admin, [topic.name])


def test_another_plan_runs_after_one_that_was_killed(
    cluster: KafkaCluster, admin: Admin, tmp_path: Path
) -> None:
    topic = Topic(cluster, [[1, 2], [1, 2]], 24)  # copied for longer than the second process needs to come
    first = Execution(cluster, tmp_path, build_plan([topic.move(0, [3, 2])]), "--throttle", "1000000")
    await_copying(first, admin)
    first.process.kill()
    other = build_plan([topic.move(1, [3, 2])])
    assert "all 1 moves done" in Execution(cluster, tmp_path, other, "--throttle", "50000000").end(0)
    topic.await_replicas((1, 2), (3, 2))
    assert topic.digest() == topic.before
    await_clean(admin, [topic.name])


def test_ctrl_c_twice_takes_back_what_runs(cluster: KafkaCluster, admin: Admin, tmp_path: Path) -> None:
    topic = Topic(cluster, [[1, 2], [1, 2]], 24)  # copied for longer than a busy machine needs to press twice
    plan = build_plan([topic.move(0, [3, 2])], [topic.move(1, [3, 2])])
    execution = Execution(cluster, tmp_path, plan, "--throttle", "1000000")
    await_copying(execution, admin)
    execution.press()
    wait_until("the wish", lambda: "finishing the batch" in execution.process.output())
    execution.press()
    assert "MovesCancelled" in execution.end(3)
    topic.await_replicas((1, 2), (1, 2))  # in the old order
    assert topic.digest() == topic.before
    await_clean(admin, [topic.name])


def test_a_process_that_stood_still_finds_its_throttles_gone(
    cluster: KafkaCluster, admin: Admin, tmp_path: Path
) -> None:
    topic = Topic(cluster, [[1, 2]], 24)
    execution = Execution(cluster, tmp_path, build_plan([topic.move(0, [3, 2])]), "--throttle", "1000000")
    await_copying(execution, admin)
    execution.process.freeze()
    admin.drop_rates(1)
    execution.process.thaw()
    wait_until("the throttle", lambda: any("broker 1" in one for one in admin.throttles([])))
    assert "ThrottleOverridden: leader.replication.throttled.rate of broker 1 was removed" in execution.end(0)
    topic.await_replicas((3, 2))
    assert topic.digest() == topic.before
    await_clean(admin, [topic.name])


def test_replicas_go_to_the_directory_that_was_chosen(
    cluster: KafkaCluster, admin: Admin, tmp_path: Path
) -> None:
    topic = Topic(cluster, [[1], [1]], 8)
    first, second = (str(cluster.log_dir(3, disk)) for disk in (0, 1))
    plan = build_plan([topic.move(0, [3], first), topic.move(1, [3], first)])
    Execution(cluster, tmp_path, plan).end(0)
    local = Move(
        topic.name, 0, (3,), (3,), topic.bytes, second, MoveKind.DIRECTORY,
        copied_to=3, copied_from=3, freed_on=3, freed_dir=first, freed_bytes=topic.bytes,
    )  # fmt: skip
    Execution(cluster, tmp_path, build_plan([local])).end(0)
    assert [
        (Path(path) / f"{topic.name}-{number}").is_dir() for path, number in ((second, 0), (first, 1))
    ] == [
        True,
        True,
    ]
    assert topic.digest() == topic.before
    await_clean(admin, [topic.name])


def test_the_first_replica_leads_at_the_end(cluster: KafkaCluster, admin: Admin, tmp_path: Path) -> None:
    topic = Topic(cluster, [[1, 2]], 4)
    Execution(cluster, tmp_path, build_plan([topic.move(0, [3, 1])])).end(0)
    # Broker 1 keeps its replica, and would go on leading.
    wait_until("the leader", lambda: admin.places([topic.name])[topic.name, 0].leader == 3)


def test_a_cluster_of_a_keeper_is_left_to_it(cluster: KafkaCluster, tmp_path: Path) -> None:
    topic = Topic(cluster, [[1]], 1)
    with Keeper(tmp_path / "keeper", build_desired(plain(cluster))) as keeper:
        keeper.wait_claim()
        told = Execution(cluster, tmp_path, build_plan([topic.move(0, [2])])).end(2)
        assert "belongs to ns/one" in told
        assert topic.replicas() == [(1,)]
        keeper.want(release=True)
        keeper.wait("release", lambda report: report.released)


def test_a_receiver_that_dies_costs_its_moves_and_nothing_else(
    cluster: KafkaCluster, admin: Admin, tmp_path: Path
) -> None:
    topic = Topic(cluster, [[1, 2], [2, 1]], 12)
    plan = build_plan([topic.move(0, [3, 2])])
    execution = Execution(cluster, tmp_path, plan, "--throttle", "1000000")
    await_copying(execution, admin)
    admin.close()
    cluster.kill(3)
    # A client that was told that the broker which died is the controller asks no other.
    wait_until("the cancellation", lambda: ask(cluster, Admin.idle), seconds=90, every=0.5)
    cluster.start_broker(3)
    told = execution.end(3)
    assert "PlanOutdated: 0 of 1 moves done; not moved: 1 BrokersUnreachable" in told
    topic.await_replicas((1, 2), (2, 1))
    assert topic.digest() == topic.before
    with closing(Admin(cluster)) as returned:
        await_clean(returned, [topic.name])
