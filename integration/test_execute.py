"""`evenkeel execute` as a process against real brokers: whole, killed, cancelled, with a broker that dies."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka import errors as theirs
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

from evenkeel.cli.plan import moves_json
from evenkeel.domain import codec
from evenkeel.domain.moves import Batch, Move, MoveKind
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.kafka.wire import DIRECTORY_RATE, FOLLOWER_RATE, LEADER_RATE, LISTS
from evenkeel.planning.moves_plan import MovesPlan
from evenkeel.reasons import Reason
from integration.kafka.clients import create_topic, produce, read_all, unique
from integration.kafka.cluster import KafkaCluster
from integration.kafka.disks import may_mount
from integration.kafka.settings import BrokerSpec
from integration.keeper import Keeper, build_desired, plain
from integration.processes import Process, wait_until
from scripts.provision import cache

MIB = 1024 * 1024
DISKS = [BrokerSpec(1, disks=(256,)), BrokerSpec(2, disks=(256,)), BrokerSpec(3, disks=(256, 256))]
Rows = Sequence[Sequence[int]]


@pytest.fixture(scope="module")
def cluster(kafka_home: object) -> Iterator[KafkaCluster]:
    """Three brokers, the third with two disks."""
    if not may_mount():
        pytest.skip("disks of chosen sizes need root and loop devices")
    with KafkaCluster.start(DISKS) as started:
        yield started


class Topic:
    """A topic with random records, whose places and contents can be asked for."""

    def __init__(self, cluster: KafkaCluster, rows: Rows, mebibytes: int, **config: str) -> None:
        self._config = cluster.client_config()
        self._admin_config = cluster.admin_config()
        self.name = create_topic(self._config, unique("moved"), rows, segment_bytes=str(4 * MIB), **config)
        values = [secrets.token_bytes(256 * 1024) for _ in range(4 * mebibytes)]
        for partition in range(len(rows)):
            produce(self._config, self.name, values, partition=partition)
        self.rows = tuple(tuple(row) for row in rows)
        self.bytes = mebibytes * MIB
        self.before = self.digest()

    def digest(self) -> list[tuple[int | None, int | None, int]]:
        """What a consumer reads."""
        found = read_all(self._config, self.name)
        return [(one.partition(), one.offset(), hash(one.value())) for one in found]

    def replicas(self) -> list[tuple[int, ...]]:
        """Of each partition, as a client of our own asks for them."""
        with_admin = KafkaAdminClient(**self._admin_config)
        try:
            (topic,) = with_admin.describe_topics([self.name])
        finally:
            with_admin.close()
        rows = sorted(topic["partitions"], key=lambda row: int(row["partition_index"]))
        return [tuple(row["replica_nodes"]) for row in rows]

    def move(self, partition: int, target: Sequence[int], target_dir: str | None = None) -> Move:
        """From where the partition was made."""
        source = self.rows[partition]
        (added,), gone = set(target) - set(source), set(source) - set(target)
        return Move(
            self.name, partition, source, tuple(target), self.bytes, target_dir,
            copied_to=added, copied_from=source[0], freed_on=next(iter(gone), None), freed_bytes=self.bytes,
        )  # fmt: skip


class Execution:
    """One run of the command."""

    def __init__(self, cluster: KafkaCluster, folder: Path, plan: Any, *options: str) -> None:
        folder.mkdir(exist_ok=True)
        path = folder / "plan.json"
        path.write_text(json.dumps(plan))
        words = ["execute", "--plan", str(path), "--bootstrap", cluster.bootstrap, *options]
        log = folder / f"execute-{secrets.token_hex(4)}.log"
        environment = {"PYTHONPATH": str(cache.REPOSITORY / "operator")}
        self.process = Process([sys.executable, "-m", "evenkeel", *words], log, environment)

    def press(self) -> None:
        """Ctrl-C."""
        os.kill(self.process.pid, signal.SIGINT)

    def end(self, code: int, seconds: float = 120) -> str:
        """Wait for the end; returns what was printed."""
        found = self.process.wait(seconds)
        assert found == code, self.process.output()
        return self.process.output()


def run_evenkeel(folder: Path, *words: str) -> str:
    log = folder / f"{secrets.token_hex(4)}.log"
    environment = {"PYTHONPATH": str(cache.REPOSITORY / "operator")}
    process = Process([sys.executable, "-m", "evenkeel", *words], log, environment)
    assert process.wait(60) == 0, process.output()
    printed = process.output()  # JSON, and sentences around it
    return printed[printed.index("{") : printed.rindex("}") + 1]


def build_plan(*batches: Sequence[Move]) -> dict[str, Any]:
    """As `evenkeel plan moves -o json` prints it."""
    moves = tuple(move for batch in batches for move in batch)
    rows = tuple(Batch(number, tuple(batch), 1.0, 0) for number, batch in enumerate(batches))
    return moves_json(
        MovesPlan(Reason.MOVES_PLANNED, "", hash=secrets.token_hex(8), moves=moves, batches=rows)
    )


class Admin:
    """What is left in the cluster, by kafka-python alone."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._client = KafkaAdminClient(**cluster.admin_config())
        self._open = True

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        # Else each connection that ends makes the client look for another broker, with a socket that nobody closes.
        self._client._manager.cluster.close()
        self._client.close()

    def under_way(self) -> dict[Any, Any]:
        return dict(self._client.list_partition_reassignments())

    def idle(self) -> bool:
        """Whether nothing is under way; False too while the broker that would know it is the one that died."""
        try:
            return not self.under_way()
        except theirs.KafkaConnectionError:
            return False

    def throttles(self, topics: Sequence[Topic], brokers: Sequence[int] = (1, 2, 3)) -> dict[str, str]:
        """Every throttle that is set on a topic or a broker itself."""
        asked = [ConfigResource(ConfigResourceType.TOPIC, topic.name) for topic in topics]
        asked += [ConfigResource(ConfigResourceType.BROKER, str(broker)) for broker in brokers]
        keys = {LEADER_RATE, FOLLOWER_RATE, DIRECTORY_RATE, *LISTS.values()}
        found = {}
        for kind, resources in self._client.describe_configs(asked).items():
            for name, entries in resources.items():
                for key, entry in entries.items():
                    if key in keys and str(entry["config_source"]).startswith("DYNAMIC_"):
                        found[f"{kind} {name} {key}"] = str(entry["value"])
        return found

    def drop_rates(self, broker: int) -> None:
        change = {LEADER_RATE: (AlterConfigOp.DELETE, None), FOLLOWER_RATE: (AlterConfigOp.DELETE, None)}
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker), change)
        self._client.alter_configs([resource], raise_on_unknown=False)

    def set_topic(self, topic: Topic, key: str, value: str) -> None:
        change = {key: (AlterConfigOp.SET, value)}
        resource = ConfigResource(ConfigResourceType.TOPIC, topic.name, change)
        self._client.alter_configs([resource], raise_on_unknown=False)


@pytest.fixture
def admin(cluster: KafkaCluster) -> Iterator[Admin]:
    found = Admin(cluster)
    yield found
    found.close()


def await_copying(execution: Execution, admin: Admin) -> None:
    wait_until("a reassignment", admin.under_way, seconds=40, every=0.2, processes=[execution.process])


def test_snapshot_plan_and_execution_level_a_cluster(
    cluster: KafkaCluster, admin: Admin, tmp_path: Path
) -> None:
    topic = Topic(cluster, [[1]] * 8 + [[2]], 8)
    admin.set_topic(topic, LISTS["leader"], "99:1")
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
    found = topic.replicas()
    assert {partition: found[partition] for partition in wanted} == wanted
    assert topic.digest() == topic.before
    assert not admin.under_way()
    assert admin.throttles([topic]) == {f"topic {topic.name} {LISTS['leader']}": "99:1"}


def test_a_process_that_is_killed_is_gone_on_from(
    cluster: KafkaCluster, admin: Admin, tmp_path: Path
) -> None:
    topic = Topic(cluster, [[1, 2], [1, 2]], 12, min_insync_replicas="2")
    plan = build_plan([topic.move(0, [3, 2])], [topic.move(1, [3, 2])])
    first = Execution(cluster, tmp_path, plan, "--throttle", "1000000")
    await_copying(first, admin)
    first.process.kill()
    assert admin.throttles([topic])
    told = Execution(cluster, tmp_path, plan, "--throttle", "50000000").end(0)
    assert "all 2 moves done" in told
    assert topic.replicas() == [(3, 2), (3, 2)]
    assert topic.digest() == topic.before
    assert (admin.under_way(), admin.throttles([topic])) == ({}, {})


def test_ctrl_c_twice_takes_back_what_runs(cluster: KafkaCluster, admin: Admin, tmp_path: Path) -> None:
    topic = Topic(cluster, [[1, 2], [1, 2]], 12)
    plan = build_plan([topic.move(0, [3, 2])], [topic.move(1, [3, 2])])
    execution = Execution(cluster, tmp_path, plan, "--throttle", "1000000")
    await_copying(execution, admin)
    execution.press()
    wait_until("the wish", lambda: "finishing the batch" in execution.process.output(), seconds=20)
    execution.press()
    assert "MovesCancelled" in execution.end(3)
    assert topic.replicas() == [(1, 2), (1, 2)], "in the old order"
    assert topic.digest() == topic.before
    assert (admin.under_way(), admin.throttles([topic])) == ({}, {})


def test_a_process_that_stood_still_finds_its_throttles_gone(
    cluster: KafkaCluster, admin: Admin, tmp_path: Path
) -> None:
    topic = Topic(cluster, [[1, 2]], 24)
    execution = Execution(cluster, tmp_path, build_plan([topic.move(0, [3, 2])]), "--throttle", "1000000")
    await_copying(execution, admin)
    execution.process.freeze()
    admin.drop_rates(1)
    execution.process.thaw()
    wait_until("the throttle", lambda: any("broker 1" in one for one in admin.throttles([])), seconds=20)
    assert "ThrottleOverridden: leader.replication.throttled.rate of broker 1 was removed" in execution.end(0)
    assert topic.replicas() == [(3, 2)]
    assert topic.digest() == topic.before
    assert (admin.under_way(), admin.throttles([topic])) == ({}, {})


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
    assert (admin.under_way(), admin.throttles([topic])) == ({}, {})


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
    with closing(Admin(cluster)) as survivors:  # the other client may have chosen the broker that died
        wait_until("the cancellation", survivors.idle, seconds=90, every=0.5)
        cluster.start_broker(3)
        told = execution.end(3)
        assert "PlanOutdated: 0 of 1 moves done; not moved: 1 BrokersUnreachable" in told
        assert topic.replicas() == [(1, 2), (2, 1)]
        assert topic.digest() == topic.before
        assert survivors.throttles([topic], brokers=(1, 2)) == {}
    with closing(Admin(cluster)) as returned:
        assert returned.throttles([topic]) == {}
