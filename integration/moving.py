"""Moves on real brokers: topics whose places are known, `evenkeel execute`, and what it leaves, asked for apart from it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka import errors as theirs
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

from evenkeel.cli.plan import moves_json
from evenkeel.domain.moves import Batch, Move
from evenkeel.kafka.wire import DIRECTORY_RATE, FOLLOWER_RATE, LEADER_RATE, LISTS
from evenkeel.planning.moves_plan import MovesPlan
from evenkeel.reasons import Reason
from integration.kafka.clients import create_topic, produce, read_all, unique
from integration.kafka.cluster import KafkaCluster
from integration.kafka.disks import MIB
from integration.processes import Process, ServerError, wait_until
from scripts.provision import cache

Rows = Sequence[Sequence[int]]
Key = tuple[str, int]
T = TypeVar("T")


class Topic:
    """A topic with random records, whose places and contents can be asked for."""

    def __init__(self, cluster: KafkaCluster, rows: Rows, mebibytes: int, **config: str) -> None:
        self._cluster = cluster
        self._config = cluster.client_config()
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
        with closing(Admin(self._cluster)) as admin:
            places = admin.places([self.name])
        return [places[key].replicas for key in sorted(places)]

    def await_replicas(self, *wanted: tuple[int, ...]) -> None:
        """Wait until it lies there, in this order, as a broker tells, which learns of it after the controller.

        Raises:
            AssertionError: it does not.
        """
        _await_equal(self.replicas, list(wanted))

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

    def end(self, code: int, seconds: float = 200) -> str:
        """Wait for the end; returns what was printed."""
        found = self.process.wait(seconds)
        assert found == code, self.process.output()
        return self.process.output()


def run_evenkeel(folder: Path, *words: str) -> str:
    """The JSON that a command prints."""
    log = folder / f"{secrets.token_hex(4)}.log"
    environment = {"PYTHONPATH": str(cache.REPOSITORY / "operator")}
    process = Process([sys.executable, "-m", "evenkeel", *words], log, environment)
    assert process.wait(120) == 0, process.output()
    printed = process.output()  # JSON, and sentences around it
    return printed[printed.index("{") : printed.rindex("}") + 1]


def build_plan(*batches: Sequence[Move]) -> dict[str, Any]:
    """As `evenkeel plan moves -o json` prints it."""
    moves = tuple(move for batch in batches for move in batch)
    rows = tuple(Batch(number, tuple(batch), 1.0, 0) for number, batch in enumerate(batches))
    return moves_json(
        MovesPlan(Reason.MOVES_PLANNED, "", hash=secrets.token_hex(8), moves=moves, batches=rows)
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a partition lives."""

    leader: int
    """-1: nowhere."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Admin:
    """What is in the cluster, by kafka-python alone."""

    def __init__(self, cluster: KafkaCluster, timeout_ms: int = 15_000) -> None:
        self._client = KafkaAdminClient(**cluster.admin_config(), request_timeout_ms=timeout_ms)
        self._open = True

    def close(self) -> None:
        """Close the connections; may be called twice."""
        if not self._open:
            return
        self._open = False
        # Else each connection that ends makes the client look for another broker, with a socket that nobody closes.
        self._client._manager.cluster.close()
        self._client.close()

    def under_way(self) -> dict[Key, Any]:
        """Reassignments, whosever."""
        found = self._client.list_partition_reassignments()
        return {(key.topic, key.partition): value for key, value in found.items()}

    def idle(self) -> bool:
        """Whether nothing is under way; False too while the broker that would know it is the one that died."""
        try:
            return not self.under_way()
        except theirs.KafkaConnectionError:
            return False

    def places(self, topics: Sequence[str]) -> dict[Key, Place]:
        """Leader, replicas and ISR of each partition; nothing of a topic that is not there."""
        return {
            (topic["name"], int(row["partition_index"])): Place(
                int(row["leader_id"]), tuple(row["replica_nodes"]), tuple(row["isr_nodes"])
            )
            for topic in self._client.describe_topics(list(topics))
            if not topic["error_code"]
            for row in topic["partitions"]
        }

    def fills(self, brokers: Iterable[int]) -> dict[tuple[int, str], float]:
        """(broker, directory) -> used share of its disk."""
        return {
            (broker, one["log_dir"]): 1 - one["usable_bytes"] / one["total_bytes"]
            for broker in brokers
            for one in self._client.describe_log_dirs({}, brokers=[broker])[0]["log_dirs"]
        }

    def throttles(self, topics: Sequence[str], brokers: Sequence[int] = (1, 2, 3)) -> dict[str, str]:
        """Every throttle that is set on a topic or a broker itself."""
        asked = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
        asked += [ConfigResource(ConfigResourceType.BROKER, str(broker)) for broker in brokers]
        keys = {LEADER_RATE, FOLLOWER_RATE, DIRECTORY_RATE, *LISTS.values()}
        found = {}
        for kind, resources in self._client.describe_configs(asked).items():
            for name, entries in resources.items():
                for key, entry in entries.items():
                    if key in keys and str(entry["config_source"]).startswith("DYNAMIC_"):
                        found[f"{kind} {name} {key}"] = str(entry["value"])
        return found

    def reassign(self, key: Key, replicas: Sequence[int]) -> None:
        """Ask for other replicas, as anybody may.

        Raises:
            KafkaError: it is refused.
        """
        for error in self._client.alter_partition_reassignments(
            {TopicPartition(*key): list(replicas)}
        ).values():
            if error is not None:
                raise error(f"reassigning {key[0]}-{key[1]} to {list(replicas)}")

    def elect_preferred(self) -> None:
        """Let the first replica of each partition lead."""
        self._client.elect_leaders(0)

    def drop_rates(self, broker: int) -> None:
        """Take both throttles of a broker away, whosever they are."""
        change = {LEADER_RATE: (AlterConfigOp.DELETE, None), FOLLOWER_RATE: (AlterConfigOp.DELETE, None)}
        self._alter(ConfigResourceType.BROKER, str(broker), change)

    def set_broker(self, broker: int, key: str, value: str | None) -> None:
        """Set a broker's own setting; None removes it."""
        self._alter(ConfigResourceType.BROKER, str(broker), _change(key, value))

    def set_topic(self, topic: str, key: str, value: str | None) -> None:
        """Set a topic's setting; None removes it."""
        self._alter(ConfigResourceType.TOPIC, topic, _change(key, value))

    def _alter(self, kind: Any, name: str, change: Mapping[str, tuple[Any, str | None]]) -> None:
        answer = self._client.alter_configs(
            [ConfigResource(kind, name, dict(change))], raise_on_unknown=False
        )
        told = [text for one in answer.values() for text in one.values()]
        if told != ["OK"]:
            raise theirs.KafkaError(f"{name}: {told}")


def ask(cluster: KafkaCluster, question: Callable[[Admin], T], seconds: float = 30) -> T:
    """The answer of a cluster that may be sick: by a fresh client each time, until one gives it.

    Raises:
        KafkaError: the last failure, after `seconds`.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            with closing(Admin(cluster, timeout_ms=4000)) as admin:
                return question(admin)
        except theirs.KafkaError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)  # a refusal at once would be asked for a thousand times


def await_clean(admin: Admin, topics: Sequence[str], left: Mapping[str, str] = MappingProxyType({})) -> None:
    """Wait until nothing is under way and no throttle is set but those of `left`, as brokers tell.

    The controller has done it when an executor ends; any broker is asked, and learns of it later.

    Raises:
        AssertionError: something is left.
    """

    def found() -> tuple[dict[Key, Any], dict[str, str]]:
        return admin.under_way(), admin.throttles(topics)

    _await_equal(found, ({}, left))


def _await_equal(find: Callable[[], Any], wanted: object) -> None:
    """Wait a moment for `find` to give what is wanted; an AssertionError shows what it gives instead."""
    with suppress(ServerError):
        wait_until(f"{wanted}", lambda: find() == wanted, seconds=10, every=0.2)
    assert find() == wanted


def await_copying(execution: Execution, admin: Admin) -> None:
    """Wait until something of it is under way."""
    wait_until("a reassignment", admin.under_way, seconds=90, every=0.2, processes=[execution.process])


def _change(key: str, value: str | None) -> dict[str, tuple[Any, str | None]]:
    return {key: (AlterConfigOp.SET, value) if value is not None else (AlterConfigOp.DELETE, None)}
