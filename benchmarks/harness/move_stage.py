"""Five brokers whose disks are filled unevenly by many partitions, to be levelled by moves while a client goes on."""

from __future__ import annotations

import contextlib
import json
import random
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from kafka.errors import KafkaError

from benchmarks.harness import progress
from benchmarks.harness.fault_scene import busiest_bytes
from benchmarks.harness.mover import MoverJob, Told, read_told, start_mover
from benchmarks.harness.options import PYTHON_PATH
from benchmarks.harness.stage import PROPERTIES
from benchmarks.harness.tracer import TracerJob
from benchmarks.harness.trail import Trail
from evenkeel.cli.plan_file import read_plan
from evenkeel.domain.moves import Move
from integration.kafka.clients import create_topic
from integration.kafka.cluster import KafkaCluster
from integration.kafka.disks import MIB
from integration.kafka.settings import BrokerSpec
from integration.moving import Admin, Key, ask
from integration.processes import Process, ServerError, wait_until

LIVE = "live"
RECORD = 64 * 1024
LIVE_RECORD = 512
LEVEL = 0.03
LEAVE_PERCENT = 2
"""What is planned for: the client goes on writing, and less than 3 % is what has to be measured in the end."""
MOVE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Skew:
    """The cluster and what lies on it."""

    mib: int = 2200
    """Of records, before replication."""
    disk_mib: int = 1536
    shares: tuple[int, ...] = (27, 23, 20, 17, 13)
    """Of the replicas' bytes by broker, percent."""
    topics: int = 4
    partitions: int = 55
    """Of each."""
    live_partitions: int = 20
    """Of the client's topic, which moves too."""
    copies: int = 2
    seed: int = 7

    @property
    def brokers(self) -> list[int]:
        """Ids."""
        return list(range(1, len(self.shares) + 1))

    def describe(self) -> dict[str, Any]:
        """For the result."""
        return asdict(self)

    def draw_rows(self, count: int, rng: random.Random) -> list[tuple[int, ...]]:
        """Replicas of partitions by share, the leader at random among them."""
        rows = []
        for _ in range(count):
            left, row = dict(zip(self.brokers, self.shares, strict=True)), []
            for _ in range(self.copies):
                (broker,) = rng.choices(list(left), list(left.values()))
                row.append(broker)
                del left[broker]
            rng.shuffle(row)
            rows.append(tuple(row))
        return rows

    def draw_records(self, count: int, rng: random.Random) -> list[int]:
        """Records of each partition: log-normal, together all that is to be written."""
        sizes = [rng.lognormvariate(0, 0.6) for _ in range(count)]
        total = self.mib * MIB / RECORD
        return [max(1, round(size / sum(sizes) * total)) for size in sizes]


@dataclass(slots=True)
class Trace:
    """The client beside a run; `found` when it has ended."""

    process: Process
    found: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sample:
    """Disks at a moment of the monotonic clock."""

    at: float
    fills: tuple[float, ...]

    @property
    def deviation(self) -> float:
        """Max over disks of |fill / mean fill - 1|."""
        mean = sum(self.fills) / len(self.fills)
        return max(abs(fill / mean - 1) for fill in self.fills)


class MoveStage:
    """The running cluster. Made by `open`."""

    def __init__(self, skew: Skew, cluster: KafkaCluster, rate: float) -> None:
        self.skew, self.cluster, self._rate = skew, cluster, rate
        self._rng = random.Random(skew.seed)
        self._trail = Trail(cluster.client_config(), self._rng.randbytes(1 << 20))
        self.topics = [f"data-{number}" for number in range(skew.topics)]
        self._bytes = 0

    @classmethod
    def open(cls, skew: Skew, rate: float) -> Self:
        """Start the brokers; `rate`: records per second of the client."""
        specs = [BrokerSpec(broker, disks=(skew.disk_mib,)) for broker in skew.brokers]
        return cls(skew, KafkaCluster.start(specs, properties=PROPERTIES), rate)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()

    def fill(self) -> None:
        """Make the topics and write the records."""
        rng, skew = self._rng, self.skew
        rows = {name: skew.draw_rows(skew.partitions, rng) for name in self.topics}
        rows[LIVE] = skew.draw_rows(skew.live_partitions, rng)
        for name, assignments in rows.items():
            create_topic(
                self.cluster.client_config(), name, assignments,
                retention_ms="-1", min_insync_replicas="1", file_delete_delay_ms="1000",
            )  # fmt: skip
        count = sum(len(found) for found in rows.values())
        wait_until("all replicas", lambda: self._is_whole(count), seconds=120, every=0.5)
        left = dict(
            zip(
                ((name, number) for name in self.topics for number in range(skew.partitions)),
                skew.draw_records(skew.topics * skew.partitions, rng),
                strict=True,
            )
        )
        self._bytes = sum(left.values()) * RECORD
        while left:
            for key in list(left):
                progress.check_stop()
                self._trail.write(*key, RECORD)
                left[key] -= 1
                if not left[key]:
                    del left[key]
        self._trail.flush(300)

    def _is_whole(self, count: int) -> bool:
        found = ask(self.cluster, lambda admin: admin.places([*self.topics, LIVE]))
        return len(found) == count and all(set(one.isr) == set(one.replicas) for one in found.values())

    def sample(self) -> Sample:
        """Disks now, by kafka-python."""
        fills = ask(self.cluster, lambda admin: admin.fills(self.skew.brokers))
        return Sample(time.monotonic(), tuple(fills[key] for key in sorted(fills)))

    def idle(self, seconds: float) -> dict[str, float]:
        """Let the client write while nothing moves -> begin and end."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            progress.check_stop()
            time.sleep(0.2)
        return {"from": began, "to": time.monotonic()}

    def execute(self, throttle: int, folder: Path) -> dict[str, Any]:
        """Measure, plan and move by the command's code in a process of its own -> how it went."""
        folder.mkdir()
        policy = {"enter_percent": 3, "leave_percent": LEAVE_PERCENT}
        job = MoverJob(
            self.cluster.bootstrap, str(folder / "plan.json"), {"bytes_per_second": throttle}, policy
        )
        with self.sampled() as samples:
            process = start_mover(job, folder / "mover.log", PYTHON_PATH)
            try:
                self._await(process)
                told = read_told(process.output())
                wait_until("level disks", lambda: samples[-1].deviation < LEVEL, seconds=30, every=0.5)
            finally:
                process.stop(5)
        moves = read_plan(str(folder / "plan.json")).moves
        begun = next(one.at for one in told if one.what == "begin")
        return self.summarise(moves, samples, told, begun, throttle)

    def _await(self, process: Process) -> None:
        def ended() -> bool:
            progress.check_stop()
            return not process.running

        wait_until("the end of the moves", ended, seconds=MOVE_SECONDS, every=0.5)
        if process.wait(1) != 0:
            raise ServerError(f"the executor failed:\n{process.output()[-3000:]}")

    def summarise(
        self,
        moves: Sequence[Move],
        samples: Sequence[Sample],
        told: Sequence[Told],
        begun: float,
        throttle: int | None,
    ) -> dict[str, Any]:
        """One round, timed from `begun`; without a throttle of the user's there is no ideal time."""
        level = find_level(samples, begun)
        busiest = busiest_bytes(moves)
        ideal = None if throttle is None else busiest / throttle
        moving = [one.at for one in told if one.what == "turn" and one.reason == "Moving"]
        return {
            "from": begun,
            "movingFrom": moving[0] if moving else begun,
            "to": told[-1].at if told else begun,
            "levelSeconds": None if level is None else round(level - begun, 2),
            "endSeconds": round(told[-1].at - begun, 2) if told else None,
            "steps": {one.what: round(one.at - begun, 2) for one in told if one.what != "turn"},
            "busiestBytes": busiest,
            "idealSeconds": None if ideal is None else round(ideal, 2),
            "ratio": None if level is None or ideal is None else round((level - begun) / ideal, 4),
            "throttles": find_throttles(told, begun),
            "planBytes": sum(move.bytes for move in moves),
            "batches": max((one.batches for one in told), default=0),
            "deviationBefore": round(samples[0].deviation, 4),
            "deviationAfter": round(samples[-1].deviation, 4),
            "samples": [
                [round(one.at - begun, 1), [round(fill, 4) for fill in one.fills]] for one in samples
            ],
            "moves": [
                {"topic": one.topic, "partition": one.partition, "from": one.source, "to": one.target}
                for one in moves
            ],
        }

    def put_back(self, moves: Sequence[Mapping[str, Any]]) -> None:
        """Undo moves as fast as it goes, so that another round begins where the last one did."""
        wanted: dict[Key, tuple[int, ...]] = {
            (one["topic"], one["partition"]): tuple(one["from"]) for one in moves
        }

        def undo(admin: Admin) -> None:
            for key, replicas in wanted.items():
                admin.reassign(key, replicas)

        def undone() -> bool:
            places = ask(self.cluster, lambda admin: admin.places([*self.topics, LIVE]))
            return all(places[key].replicas == replicas for key, replicas in wanted.items())

        ask(self.cluster, undo, seconds=60)
        wait_until("all replicas where they were", undone, seconds=180, every=0.5)
        # Leaders follow the order of replicas only when they are asked to.
        ask(self.cluster, Admin.elect_preferred)
        time.sleep(3)  # file.delete.delay.ms: the bytes of copies that went are on the disks until then

    @contextlib.contextmanager
    def sampled(self) -> Iterator[list[Sample]]:
        """Disks each second until the end of the block."""
        samples, done = [self.sample()], threading.Event()

        def run() -> None:
            while not done.wait(1.0):
                with contextlib.suppress(KafkaError):  # this second has none
                    samples.append(self.sample())

        thread = threading.Thread(target=run, name="sampler", daemon=True)
        thread.start()
        try:
            yield samples
        finally:
            done.set()
            thread.join()

    @contextlib.contextmanager
    def traced(self, folder: Path, *, routed: bool) -> Iterator[Trace]:
        """A client that writes and reads the live topic until the end of the block."""
        job = TracerJob(self.cluster.bootstrap, LIVE, self._rate, LIVE_RECORD, routed)
        words = [sys.executable, "-m", "benchmarks.harness.tracer", job.to_json()]
        trace = Trace(Process(words, folder / "tracer.log", PYTHON_PATH))
        try:
            yield trace
            trace.process.stop(300)
            trace.found.update(_last_json(trace.process.output()))
        finally:
            trace.process.stop(5)

    def check(self) -> dict[str, int]:
        """Read all that was written before the moves, record by record."""
        self._trail.stop()
        return asdict(self._trail.check())

    def describe(self) -> dict[str, Any]:
        """What lies on the disks."""
        partitions = self.skew.topics * self.skew.partitions + self.skew.live_partitions
        return {"bytes": self._bytes, "partitions": partitions, "copies": self.skew.copies}


def find_level(samples: Sequence[Sample], begun: float) -> float | None:
    """When the deviation fell below the band to stay there; None: it did not."""
    found = None
    for one in samples:
        if one.deviation >= LEVEL:
            found = None
        elif found is None and one.at >= begun:
            found = one.at
    return found


def find_throttles(told: Sequence[Told], begun: float) -> list[tuple[float, int]]:
    """(second, bytes per second and broker) whenever the executor changed it."""
    found: list[tuple[float, int]] = []
    for one in told:
        if one.bytes_per_second and (not found or found[-1][1] != one.bytes_per_second):
            found.append((round(one.at - begun, 1), one.bytes_per_second))
    return found


def _last_json(output: str) -> dict[str, Any]:
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    raise ValueError(f"the client told nothing:\n{output[-2000:]}")
