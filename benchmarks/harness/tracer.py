"""A process that writes numbered records at a steady pace and reads them at once, and tells how long each took.

It ends at SIGTERM: then every record that was acknowledged must have been given to the reader, once. `python -m ... JOB`.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import confluent_kafka

from benchmarks.harness.statistics import percentile
from benchmarks.harness.trail import DELIVERY_MS, Position, count_records, make_value, read_value
from evenkeel.router.producer import Producer as RoutedProducer

TICK_SECONDS = 0.004
END_SECONDS = 60.0
UNASSIGNED = -1


@dataclass(frozen=True, slots=True)
class TracerJob:
    """What the process is told."""

    bootstrap: str
    topic: str
    """Empty when the process begins."""
    rate: float
    """Records per second."""
    record_bytes: int
    routed: bool = False
    """Whether our router chooses the partitions."""
    config: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


class Tracer:
    """One writer and one reader of a topic, in one thread."""

    def __init__(self, job: TracerJob) -> None:
        self._job = job
        self._filler = random.Random(1).randbytes(1 << 16)
        self._producer = _build_producer(job)
        self._consumer = _build_consumer(job)
        self._sent_at: dict[int, float] = {}
        self._acked: dict[int, Position] = {}
        self._failed: set[int] = set()
        self._given: list[tuple[Position, bytes | None]] = []
        self._produced: dict[int, list[float]] = defaultdict(list)
        self._consumed: dict[int, list[float]] = defaultdict(list)

    def run(self, stopped: Callable[[], bool]) -> dict[str, Any]:
        """Write and read until `stopped`, then read what is still missing."""
        began, sent = time.monotonic(), 0
        while not stopped():
            now = time.monotonic()
            while sent < (now - began) * self._job.rate:
                self._produce(sent)
                sent += 1
            self._producer.poll(TICK_SECONDS / 2)
            self._consume(TICK_SECONDS / 2)
        self._producer.flush(DELIVERY_MS / 1000)
        deadline = time.monotonic() + END_SECONDS
        while len(self._given) < len(self._acked) and time.monotonic() < deadline:
            self._consume(0.2)
        for _ in range(10):  # what would come twice comes now
            self._consume(0.2)
        return self._summarise()

    def _produce(self, number: int) -> None:
        value = make_value(number, self._job.record_bytes, self._filler)
        self._sent_at[number] = time.monotonic()
        while True:
            try:
                self._producer.produce(self._job.topic, value, None, UNASSIGNED, self._note(number))
            except BufferError:
                self._producer.poll(0.01)
            else:
                return

    def _note(self, number: int) -> Callable[[Any, confluent_kafka.Message], None]:
        def note(error: Any, message: confluent_kafka.Message) -> None:
            if error is not None:
                self._failed.add(number)
                return
            self._acked[number] = (self._job.topic, message.partition() or 0, message.offset() or 0)
            latency = message.latency()
            if latency is not None:
                self._produced[int(self._sent_at[number])].append(latency)

        return note

    def _consume(self, seconds: float) -> None:
        for message in self._consumer.consume(200, seconds):
            if message.error() is not None:
                continue  # the reader gets over it by itself, or records are missing at the end
            now, value = time.monotonic(), message.value()
            self._given.append(((self._job.topic, message.partition() or 0, message.offset() or 0), value))
            number = read_value(value)
            if number is not None and number in self._sent_at:
                at = self._sent_at[number]
                self._consumed[int(at)].append(now - at)

    def _summarise(self) -> dict[str, Any]:
        tally = count_records(self._acked, self._failed, self._given)
        tables = self._producer.router_stats().tables.accepted if self._job.routed else 0
        seconds = sorted(self._produced.keys() | self._consumed.keys())
        return {
            "records": asdict(tally),
            "tablesAccepted": tables,
            "seconds": [
                {
                    "at": second,
                    "records": len(self._produced[second]),
                    **_describe("produce", self._produced[second]),
                    **_describe("consume", self._consumed[second]),
                }
                for second in seconds
            ],
        }


def _describe(name: str, latencies: list[float]) -> dict[str, float | None]:
    if not latencies:
        return {f"{name}P50Ms": None, f"{name}P99Ms": None}
    return {f"{name}P{percent}Ms": round(1000 * percentile(latencies, percent), 3) for percent in (50, 99)}


def _build_producer(job: TracerJob) -> Any:
    config = {
        "bootstrap.servers": job.bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 5,
        "message.timeout.ms": DELIVERY_MS,
        "enable.metrics.push": False,
        **job.config,
    }
    if job.routed:
        return RoutedProducer({**config, "evenkeel.topics": job.topic})
    return confluent_kafka.Producer(config)


def _build_consumer(job: TracerJob) -> confluent_kafka.Consumer:
    """From the first record of each partition; by hand, so that nobody shares and nothing is rebalanced."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            "group.id": "bench-tracer",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",  # a reader that was set back would read twice and not say so
            "enable.metrics.push": False,
        }
    )
    found = consumer.list_topics(job.topic, timeout=10).topics[job.topic].partitions
    consumer.assign([confluent_kafka.TopicPartition(job.topic, number, 0) for number in found])
    return consumer


def main(arguments: list[str]) -> int:
    """Run one job until SIGTERM; the last line is what was found."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    found = Tracer(TracerJob(**json.loads(arguments[0]))).run(stop.is_set)
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
