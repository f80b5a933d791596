"""Disks that became uneven: a plan is proposed, approved by `kubectl evenkeel`, carried out; every record stays."""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from e2e.demo import fills
from e2e.demo.fills import Gauge
from e2e.scenarios import kafka
from e2e.scenarios.conftest import Demo
from e2e.scenarios.user import CLUSTER, DEMO_CLUSTER, Object, User
from evenkeel import names
from evenkeel.kafka.clients.reader import PartitionReader
from integration.processes import wait_until
from scripts.provision import gotools, steps

PLAN = f"rebalanceplans.{names.API_GROUP}"
PARTITIONS = 12
VALUE_BYTES = 128 * 1024
EXTRA = 0.30
"""So much of the mean fill more on one disk: moves begin at 10 percent of it."""
FULLEST = 0.78
"""And never more than this of the disk: above 0.85 it would be about something else."""
SEEN_SECONDS = 180.0
PROPOSED_SECONDS = 180.0
MOVED_SECONDS = 300.0
LEVEL_SECONDS = 180.0
FLUSH_SECONDS = 180.0
LEVEL = 0.03
"""Where moves end, by default."""
NEAR = 0.02


@dataclass(frozen=True)
class Uneven:
    """A topic whose partitions all lie on one broker."""

    topic: str
    broker: int
    digests: tuple[tuple[str, ...], ...]
    """SHA-256 of each value, by partition."""
    deviation: float
    """Before that: largest difference of a disk's fill from the mean, as a fraction of it."""


@pytest.fixture(scope="module")
def uneven(demo: Demo, administrator: User) -> Iterator[Uneven]:
    """The fullest disk much fuller than the others, and nothing else that may move; afterwards as it was."""
    if demo.results["measured"]["routing"] is None:
        pytest.skip("no file system can be mounted on this machine, so no disk fills")
    address, topic = demo.host_bootstrap, f"uneven-{uuid4().hex[:8]}"
    others = [one for one in kafka.list_topics(address) if not one.startswith("_")]
    with Gauge(address) as gauge:
        before = gauge.read_still()
        broker = max(before, key=lambda one: before[one].fill)
        wanted = min(FULLEST, before[broker].fill + EXTRA * mean_fill(before))
        try:
            exclude(administrator, [*others, topic])
            create(address, topic, broker)
            size = int((wanted - before[broker].fill) * before[broker].total_bytes)
            digests = write(address, topic, size)
            wait_until(
                "the keeper's view",
                lambda: is_seen(administrator, broker, wanted),
                seconds=SEEN_SECONDS,
                every=0.5,
            )
            exclude(administrator, others)
            yield Uneven(topic, broker, digests, deviation(before))
        finally:
            kafka.delete_topics(address, [topic])
            administrator.edit(CLUSTER, DEMO_CLUSTER, {"balance": None})
            for plan in administrator.list(PLAN):
                administrator.delete(PLAN, plan["metadata"]["name"])
            gauge.wait_back(before)


def exclude(user: User, topics: list[str]) -> None:
    user.edit(CLUSTER, DEMO_CLUSTER, {"balance": {"excludeTopics": topics}})


def is_seen(user: User, broker: int, wanted: float) -> bool | None:
    """The disk is told to be so full, and not to fill up: what was just written is no inflow any more."""
    volumes = user.get(CLUSTER, DEMO_CLUSTER)["status"]["volumes"]
    volume = next((one for one in volumes if one["broker"] == broker), None)
    if volume is None:  # it missed one measurement
        return None
    filled = volume["usedBytes"] / volume["totalBytes"] >= wanted - NEAR
    return True if filled and "fullInDays" not in volume else None


def mean_fill(disks: fills.Disks) -> float:
    return sum(one.used_bytes for one in disks.values()) / sum(one.total_bytes for one in disks.values())


def deviation(disks: fills.Disks) -> float:
    mean = mean_fill(disks)
    return max(abs(one.fill / mean - 1) for one in disks.values())


def create(address: str, topic: str, broker: int) -> None:
    config = {"retention.ms": "-1", "file.delete.delay.ms": "1000"}
    new = NewTopic(topic, PARTITIONS, replica_assignment=[[broker]] * PARTITIONS, config=config)
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    admin.create_topics([new])[topic].result(kafka.ANSWER_SECONDS)


def write(address: str, topic: str, size: int) -> tuple[tuple[str, ...], ...]:
    """About `size` bytes, the same in each partition."""
    source, failures = random.Random(7), list[KafkaError]()

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    digests: list[list[str]] = [[] for _ in range(PARTITIONS)]
    producer = Producer(
        {"bootstrap.servers": address, "acks": "all", "enable.idempotence": True, "log_level": 3}
    )
    for number in range(size // VALUE_BYTES):
        value = source.randbytes(VALUE_BYTES)
        while len(producer) > 64:  # keeps the client's memory small
            producer.poll(0.1)
        producer.produce(topic, value, None, number % PARTITIONS, note)
        digests[number % PARTITIONS].append(hashlib.sha256(value).hexdigest())
    left = producer.flush(FLUSH_SECONDS)
    assert (left, failures) == (0, [])
    return tuple(map(tuple, digests))


def read(address: str, topic: str) -> tuple[tuple[str, ...], ...]:
    found = []
    for partition in range(PARTITIONS):
        with PartitionReader(kafka.connect(address), topic, partition) as reader:
            values = (record.value for record in reader.read(*reader.bounds()))
            found.append(tuple(hashlib.sha256(value).hexdigest() for value in values))
    return tuple(found)


def plugin(user: User, *words: str, seconds: float = 60.0) -> str:
    """`kubectl evenkeel WORDS`, found by kubectl on the PATH as every plugin is."""
    place = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    where = ("--kubeconfig", str(user.cluster.kubeconfig), "--namespace", user.namespace)
    command: list[str | Path] = [gotools.ensure() / "kubectl", "evenkeel", *words, *where]
    return steps.run(command, env={"PATH": place}, timeout=seconds)


@pytest.fixture(scope="module")
def proposed(uneven: Uneven, administrator: User) -> Object:
    """The plan of this topic. One that stands from before would keep it waiting, and is of no use any more."""

    def probe() -> Object | None:
        for plan in administrator.list(PLAN):
            if (plan.get("status") or {}).get("state") == "Finished":
                continue
            if {move["topic"] for move in plan["spec"]["moves"]} == {uneven.topic}:
                return plan
            administrator.delete(PLAN, plan["metadata"]["name"])
        return None

    return wait_until("a plan for the fullest disk", probe, seconds=PROPOSED_SECONDS, every=0.5)


def test_the_plan_is_proposed_and_waits(proposed: Object, uneven: Uneven, administrator: User) -> None:
    spec, name = proposed["spec"], proposed["metadata"]["name"]
    assert spec["approval"] == "Pending"
    assert all(move["source"] == [uneven.broker] for move in spec["moves"])
    assert spec["deviationAfterPermille"] < spec["deviationBeforePermille"]
    administrator.wait_reason("PlanPending", CLUSTER, DEMO_CLUSTER, 60, "PlanPending")
    shown = plugin(administrator, "plan")
    assert uneven.topic in shown
    assert f"kubectl evenkeel approve {name}" in shown


@pytest.mark.timeout(600, func_only=True)
def test_it_is_approved_and_carried_out(
    proposed: Object, uneven: Uneven, administrator: User, demo: Demo
) -> None:
    name = proposed["metadata"]["name"]
    assert f"{name} approved" in plugin(administrator, "approve", name, "--yes")
    ended = plugin(administrator, "status", DEMO_CLUSTER, "--watch", seconds=MOVED_SECONDS)
    assert f"{name}: Moved: " in ended
    plan = administrator.get(PLAN, name)
    assert (plan["status"]["state"], plan["status"]["percent"]) == ("Finished", 100)
    assert read(demo.host_bootstrap, uneven.topic) == uneven.digests


def test_the_disks_are_level_again(proposed: Object, uneven: Uneven, demo: Demo) -> None:
    with Gauge(demo.host_bootstrap) as gauge:
        limit = max(uneven.deviation, LEVEL) + NEAR
        wait_until(
            f"deviation {limit:.3f}",
            lambda: deviation(gauge.read()) <= limit,
            seconds=LEVEL_SECONDS,
            every=0.5,
        )
        planned = {move["partition"]: tuple(move["target"]) for move in proposed["spec"]["moves"]}
        wanted = dict.fromkeys(range(PARTITIONS), (uneven.broker,)) | planned
        # A broker that has not heard of the last move yet may be the one that is asked.
        wait_until(
            f"replicas at {wanted}",
            lambda: places(gauge, uneven.topic) == wanted,
            seconds=kafka.KNOWN_SECONDS,
            every=0.5,
        )
        assert gauge.snapshot().throttles == ()


def places(gauge: Gauge, topic: str) -> dict[int, tuple[int, ...]]:
    return {one.partition: one.replicas for one in gauge.snapshot().partitions if one.topic == topic}


def test_the_next_wish_is_answered_by_a_reason(proposed: Object, administrator: User) -> None:
    with pytest.raises(steps.StepFailed, match="is finished"):
        plugin(administrator, "approve", proposed["metadata"]["name"], "--yes")
