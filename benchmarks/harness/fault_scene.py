"""One run under a fault: topics on a small cluster, a plan for them, the process that runs it, and who watches."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.harness.isr_watch import IsrWatch
from benchmarks.harness.mover import MoverJob, Told, read_told, start_mover
from benchmarks.harness.options import PYTHON_PATH
from benchmarks.harness.stage import PROPERTIES
from benchmarks.harness.trail import Trail
from evenkeel.cli.plan import moves_json
from evenkeel.cli.snapshot import build_connection, measure
from evenkeel.domain.exchange import Policy
from evenkeel.domain.moves import Move
from evenkeel.kafka.wire import DIRECTORY_RATE, LISTS
from evenkeel.keeper.moving.settings import MoveSettings
from evenkeel.planning.moves import MovesPlan, MovesRequest, plan_moves
from integration.kafka.clients import create_topic
from integration.kafka.cluster import KafkaCluster
from integration.kafka.network import Network
from integration.kafka.settings import BrokerSpec
from integration.moving import Admin, Key, Place, ask
from integration.processes import Process, wait_until

T = TypeVar("T")
BROKERS = (1, 2, 3, 4)
SPECS = [BrokerSpec(number, disks=(256,)) for number in BROKERS]
FAULT_PROPERTIES = {
    **PROPERTIES,
    # A death is seen after 6 s, not 9.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    # A quota is a mean over some seconds: over 11 the first copies of a small plan would run unthrottled.
    "replication.quota.window.num": "3",
    "replica.fetch.max.bytes": "65536",
    "replica.fetch.response.max.bytes": "262144",
}
PLAN_SECONDS = 10.0
"""What the busiest broker copies for, at the run's throttle; down to half of it where times are scaled down."""
BATCHES = 2.0
RECORD = 32 * 1024
LIVE_RECORD, LIVE_RATE = 512, 20.0
FOREIGN_RATE = "7777777"
FOREIGN_ENTRY = "99:1"
ENTER_PERCENT, LEAVE_PERCENT = 3, 2
TIMES = ("lost_seconds", "settle_seconds", "stall_seconds", "patience_seconds", "quiet_seconds")


@dataclass(frozen=True, slots=True)
class TopicShape:
    """A topic of a run."""

    name: str
    copies: int
    least: int
    partitions: int


SHAPES = (
    TopicShape("one", copies=1, least=1, partitions=12),
    TopicShape("two", copies=2, least=1, partitions=20),
    TopicShape("three", copies=3, least=2, partitions=10),
)


@dataclass(frozen=True, slots=True)
class Hold:
    """How long a fault lasts."""

    seconds: float
    until: Callable[[], bool] | None = None
    """Ends earlier when this holds."""


class Runner:
    """The processes that run the plan, one after the other; two at a time where one replaces another."""

    def __init__(self, job: MoverJob, folder: Path) -> None:
        self._job, self._folder = job, folder
        self.processes: list[Process] = []

    def start(self) -> Process:
        """One more."""
        log = self._folder / f"mover-{len(self.processes)}.log"
        self.processes.append(start_mover(self._job, log, PYTHON_PATH))
        return self.processes[-1]

    @property
    def process(self) -> Process:
        """The newest."""
        return self.processes[-1]

    @property
    def running(self) -> bool:
        """Whether any of them runs."""
        return any(process.running for process in self.processes)

    def told(self) -> list[Told]:
        """What all of them have said, oldest first."""
        return sorted((one for p in self.processes for one in read_told(p.output())), key=lambda one: one.at)

    def newest(self) -> list[Told]:
        """What the newest process has said."""
        return read_told(self.process.output())

    def cancel(self) -> None:
        """Ctrl-C twice: for the kernel two signals at once are one."""
        for _ in range(2):
            os.kill(self.process.pid, signal.SIGINT)
            time.sleep(0.3)

    def close(self) -> None:
        """End all."""
        for process in self.processes:
            if process.running:
                process.kill()


@dataclass(slots=True)
class Scene:
    """Everything of one run that a fault may touch, and what it has to tell of it."""

    cluster: KafkaCluster
    network: Network | None
    rng: random.Random
    scale: float
    """Of the executor's times, and of faults that last as long as those."""
    topics: tuple[str, ...]
    bystander: str
    trail: Trail
    plan: MovesPlan
    runner: Runner
    watch: IsrWatch
    told: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    """Topics that the fault has deleted."""
    foreign: dict[str, str] = field(default_factory=dict)
    """Throttles of others, as `Admin.throttles` names them."""
    edited: dict[Key, tuple[int, ...]] = field(default_factory=dict)
    """Partitions that somebody else has moved -> where to."""

    @property
    def plan_seconds(self) -> float:
        """About how long the plan takes if nothing happens."""
        return PLAN_SECONDS * max(0.5, self.scale) + 4 * BATCHES

    def under_way(self) -> dict[Key, Any]:
        """What Kafka is moving."""
        return ask(self.cluster, Admin.under_way)

    def places(self) -> dict[Key, Place]:
        """Of all partitions of the run."""
        names = [name for name in (*self.topics, self.bystander) if name not in self.gone]
        return ask(self.cluster, lambda admin: admin.places(names))

    def throttles(self) -> dict[str, str]:
        """All that are set now."""
        names = [name for name in (*self.topics, self.bystander) if name not in self.gone]
        running = [broker for broker in BROKERS if self.cluster.running(broker)]
        return ask(self.cluster, lambda admin: admin.throttles(names, running))

    def ask(self, question: Callable[[Admin], T]) -> T:
        """Of a cluster that may be sick."""
        return ask(self.cluster, question)

    def flights(self) -> list[Move]:
        """Moves of the plan that are under way; all of the plan where none is."""
        found = self.under_way()
        return [move for move in self.plan.moves if (move.topic, move.partition) in found] or list(
            self.plan.moves
        )

    def note(self, text: str) -> None:
        """What was done, for the row."""
        self.told.append(text)

    def lose(self, broker: int) -> None:
        """Before a broker is hit."""
        self.watch.expect_loss(broker)

    def bring_back(self, broker: int) -> None:
        """Start a broker that is down."""
        if not self.cluster.running(broker):
            self.cluster.start_broker(broker)
        self.watch.expect_back(broker)


def start_cluster(network: Network | None) -> KafkaCluster:
    """The small cluster that many runs share."""
    return KafkaCluster.start(SPECS, properties=FAULT_PROPERTIES, network=network)


def open_scene(
    cluster: KafkaCluster, network: Network | None, seed: int, folder: Path, scale: float
) -> Scene:
    """Skewed topics with numbered records, and a plan that levels them; nothing runs yet but a quiet writer.

    Raises:
        ValueError: the plan has no moves.
    """
    rng, suffix = random.Random(seed), secrets.token_hex(3)
    folder.mkdir(parents=True, exist_ok=True)
    names = {shape: f"{shape.name}-{seed}-{suffix}" for shape in SHAPES}
    bystander = f"by-{seed}-{suffix}"
    rows = _make_topics(cluster, names, bystander, rng)
    trail = Trail(cluster.client_config(), rng.randbytes(256 * 1024))
    _fill_topics(trail, names, rows, rng)
    for _ in range(96):
        trail.write(bystander, 0, RECORD)
    trail.flush(60)
    foreign = _set_foreign(cluster, names[SHAPES[1]], rng)
    plan, cluster_id = _plan(cluster, folder, bystander)
    (folder / "plan.json").write_text(json.dumps(moves_json(plan, cluster_id)), encoding="utf-8")
    job = MoverJob(cluster.bootstrap, str(folder / "plan.json"), build_settings(plan, scale))
    watched = {**names}
    watch = IsrWatch(
        cluster,
        {name: shape.least for shape, name in watched.items()},
        {name: shape.copies for shape, name in watched.items()},
    )
    scene = Scene(
        cluster, network, rng, scale, tuple(names.values()), bystander, trail, plan, Runner(job, folder), watch
    )  # fmt: skip
    scene.foreign |= foreign
    live = [(names[shape], number) for shape in SHAPES for number in range(shape.partitions)]
    rng.shuffle(live)
    trail.follow(live, LIVE_RATE, LIVE_RECORD)
    return scene


def build_settings(plan: MovesPlan, scale: float) -> dict[str, float]:
    """Fields of MoveSettings: a throttle that lets the plan run for some seconds, and times by `scale`."""
    defaults = MoveSettings()
    times = {name: getattr(defaults, name) * scale for name in TIMES}
    seconds = PLAN_SECONDS * max(0.5, scale)
    return {**times, "bytes_per_second": max(200_000, round(busiest_bytes(plan.moves) / seconds))}


def busiest_bytes(moves: Sequence[Move]) -> int:
    """Of the broker that sends or receives most."""
    sent: dict[tuple[str, int], int] = {}
    for move in moves:
        for lane in (("out", move.copied_from), ("in", move.copied_to)):
            if lane[1] is not None:
                key = (lane[0], lane[1])
                sent[key] = sent.get(key, 0) + move.bytes
    return max(sent.values(), default=0)


def draw_rows(shape: TopicShape, weights: Mapping[int, int], rng: random.Random) -> list[list[int]]:
    """Replicas of each partition: brokers drawn by weight, each once."""
    rows = []
    for _ in range(shape.partitions):
        left, row = dict(weights), []
        for _ in range(shape.copies):
            (broker,) = rng.choices(list(left), list(left.values()))
            row.append(broker)
            del left[broker]
        rows.append(row)
    return rows


def _make_topics(
    cluster: KafkaCluster, names: Mapping[TopicShape, str], bystander: str, rng: random.Random
) -> dict[TopicShape, list[list[int]]]:
    shares = [10, 5, 2, 1]
    rng.shuffle(shares)
    weights = dict(zip(BROKERS, shares, strict=True))
    rows = {shape: draw_rows(shape, weights, rng) for shape in names}
    config = {"file_delete_delay_ms": "1000", "retention_ms": "-1"}
    for shape, name in names.items():
        create_topic(
            cluster.client_config(), name, rows[shape], min_insync_replicas=str(shape.least), **config
        )
    create_topic(
        cluster.client_config(), bystander, [[rng.choice(BROKERS)]], min_insync_replicas="1", **config
    )
    wanted = sum(shape.partitions for shape in names) + 1

    def led() -> bool:
        found = ask(cluster, lambda admin: admin.places([*names.values(), bystander]))
        return len(found) == wanted and all(set(one.isr) == set(one.replicas) for one in found.values())

    wait_until("leaders", led, seconds=90, every=0.2)
    return rows


def _fill_topics(
    trail: Trail,
    names: Mapping[TopicShape, str],
    rows: Mapping[TopicShape, list[list[int]]],
    rng: random.Random,
) -> None:
    for shape, name in names.items():
        for partition in range(len(rows[shape])):
            for _ in range(rng.randint(4, 42)):
                trail.write(name, partition, RECORD)


def _set_foreign(cluster: KafkaCluster, topic: str, rng: random.Random) -> dict[str, str]:
    """Throttles of somebody else, which nothing of ours may touch."""
    broker = rng.choice(BROKERS)

    def change(admin: Admin) -> None:
        admin.set_broker(broker, DIRECTORY_RATE, FOREIGN_RATE)
        admin.set_topic(topic, LISTS["leader"], FOREIGN_ENTRY)

    ask(cluster, change)
    return {
        f"broker {broker} {DIRECTORY_RATE}": FOREIGN_RATE,
        f"topic {topic} {LISTS['leader']}": FOREIGN_ENTRY,
    }


def _plan(cluster: KafkaCluster, folder: Path, bystander: str) -> tuple[MovesPlan, str | None]:
    """As `evenkeel snapshot` and `evenkeel plan moves` do; the throttle it is planned for makes some batches."""
    credentials = folder / "none"
    credentials.mkdir(exist_ok=True)
    snapshot = measure(build_connection(cluster.bootstrap, {}, credentials), 0)
    policy = Policy(enter_percent=ENTER_PERCENT, leave_percent=LEAVE_PERCENT, exclude_topics=(bystander,))
    request = MovesRequest()
    plan = plan_moves(snapshot, policy, request)
    if not plan.moves:
        raise ValueError(f"no plan: {plan.reason}: {plan.message}")
    slow = max(1, round(busiest_bytes(plan.moves) / (60 * BATCHES)))
    return plan_moves(snapshot, policy, replace(request, throttle_bytes_per_second=slow)), snapshot.cluster_id


def measure_deviation(scene: Scene) -> float:
    """Max over disks of |fill / mean fill - 1|, by kafka-python."""
    fills = list(ask(scene.cluster, lambda admin: admin.fills(BROKERS)).values())
    mean = sum(fills) / len(fills)
    return max(abs(fill / mean - 1) for fill in fills)
