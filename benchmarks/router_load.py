"""A process that writes with librdkafka's default partitioner and with the router: `python -m ... JOB`.

Paced, both at once, record by record: latencies by second, and the Produce requests of each. Or one of them as
fast as it can. Its last line is JSON.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import confluent_kafka

from benchmarks.harness.statistics import percentile
from evenkeel.router import Producer

DEFAULT, EVENKEEL = "default", "evenkeel"
ARMS = (DEFAULT, EVENKEEL)
TICK_SECONDS = 0.01
POLL_SECONDS = 0.001
TABLE_SECONDS = 30.0
STATISTICS_MS = 500
_REQUESTS = re.compile(r'"req":\s*\{\s*"Produce":\s*(\d+)')


@dataclass(frozen=True, slots=True)
class LoadJob:
    """What the process is told."""

    bootstrap: str
    topics: dict[str, str]
    """Arm -> its topic."""
    seconds: float
    record_bytes: int = 1024
    rate: int = 0
    """Records per second of each arm, both at once; 0: one arm as fast as it can."""
    warm_seconds: float = 5.0

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


class Arm:
    """One producer and what is known of its records."""

    def __init__(self, job: LoadJob, name: str) -> None:
        self.name, self.topic = name, job.topics[name]
        self.acked = self.failed = self.requests = 0
        self.latencies: dict[int, list[float]] = defaultdict(list)
        config: dict[str, Any] = {
            "bootstrap.servers": job.bootstrap,
            "acks": "all",
            "enable.metrics.push": False,
            "statistics.interval.ms": STATISTICS_MS,
            "stats_cb": self._count,
        }
        if name == DEFAULT:
            self.producer = confluent_kafka.Producer(config)
        else:
            self.producer = _routed({**config, "evenkeel.topics": self.topic}, self.topic)

    def _count(self, text: str) -> None:
        self.requests = sum(map(int, _REQUESTS.findall(text)))

    def note(self, second: int) -> Callable[[Any, confluent_kafka.Message], None]:
        """Delivery report of the records of a second; -1: not counted."""

        def report(error: Any, message: confluent_kafka.Message) -> None:
            if error is not None:
                self.failed += 1
                return
            self.acked += 1
            latency = message.latency()
            if second >= 0 and latency is not None:
                self.latencies[second].append(latency)

        return report

    def send(self, value: bytes, report: Callable[[Any, confluent_kafka.Message], None]) -> None:
        """Produce, waiting for room."""
        while True:
            try:
                self.producer.produce(self.topic, value, None, -1, report)
            except BufferError:
                self.producer.poll(0.01)
            else:
                return

    def count_requests(self) -> int:
        """So far, by statistics that come after this call."""
        self.requests, deadline = -1, time.monotonic() + 10
        while self.requests < 0 and time.monotonic() < deadline:
            self.producer.poll(0.05)
        return self.requests


def _routed(config: dict[str, Any], topic: str) -> Producer:
    producer = Producer(config)
    deadline = time.monotonic() + TABLE_SECONDS
    while producer.router_stats().topics[topic].epoch == 0:
        if time.monotonic() > deadline:
            raise SystemExit(f"no table: {producer.router_stats()}")
        producer.poll(0.05)
    return producer


def pace(job: LoadJob) -> dict[str, Any]:
    """Both at once -> by arm records, requests, and latencies by second."""
    arms = [Arm(job, name) for name in ARMS]
    _pace(arms, job, job.warm_seconds, counted=False)
    before = {arm.name: (arm.acked, arm.count_requests()) for arm in arms}
    _pace(arms, job, job.seconds, counted=True)
    for arm in arms:
        arm.producer.flush(60)
    return {
        arm.name: {
            "failed": arm.failed,
            "records": arm.acked - before[arm.name][0],
            "requests": arm.count_requests() - before[arm.name][1],
            "seconds": [
                {
                    "p50Ms": round(1000 * percentile(found, 50), 3),
                    "p99Ms": round(1000 * percentile(found, 99), 3),
                }
                for _, found in sorted(arm.latencies.items())
            ],
        }
        for arm in arms
    }


def _pace(arms: list[Arm], job: LoadJob, seconds: float, *, counted: bool) -> None:
    """Ticks of 10 ms; who goes first changes with each."""
    value, sent = bytes(job.record_bytes), 0
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < seconds:
        due = int(elapsed * job.rate) - sent
        sent += due
        second = int(elapsed) if counted else -1
        reports = [(arm, arm.note(second)) for arm in arms]
        for number in range(due):
            for arm, report in reports if number % 2 else reversed(reports):
                arm.send(value, report)
        while time.monotonic() - began - elapsed < TICK_SECONDS:
            for arm in arms:
                arm.producer.poll(POLL_SECONDS)
    for arm in arms:
        arm.producer.flush(60)


def saturate(job: LoadJob) -> dict[str, Any]:
    """One arm as fast as it can -> bytes per second from the first record to the last acknowledgement."""
    (name,) = job.topics
    arm = Arm(job, name)
    value, report = bytes(job.record_bytes), arm.note(-1)
    _fill(arm, value, report, job.warm_seconds)
    before, requests = arm.acked, arm.count_requests()
    began = time.monotonic()
    _fill(arm, value, report, job.seconds)
    taken = time.monotonic() - began
    records = arm.acked - before
    return {
        "failed": arm.failed,
        "records": records,
        "bytesPerSecond": records * job.record_bytes / taken,
        "requests": arm.count_requests() - requests,
    }


def _fill(
    arm: Arm, value: bytes, report: Callable[[Any, confluent_kafka.Message], None], seconds: float
) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(500):
            arm.send(value, report)
        arm.producer.poll(0)
    arm.producer.flush(60)


if __name__ == "__main__":
    told = LoadJob(**json.loads(sys.argv[1]))
    sys.stdout.write(json.dumps(pace(told) if told.rate else saturate(told)) + "\n")
