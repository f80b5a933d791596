"""A process that writes records at a steady pace by one partitioning rule: `python -m ... JOB`."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import confluent_kafka
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from benchmarks.harness.job import WriteJob, Written
from evenkeel.router.producer import Producer as RoutedProducer

RULES = ("evenkeel", "librdkafka", "round-robin", "most-free")
RUN_BYTES = 512 * 1024
"""Length of a run to one partition of the rule "most free": the same as our router's."""
TABLE_SECONDS = 30.0
DELIVERY_MS = 60_000
"""Longer than any stall of a busy machine: a record that fails is missing from the comparison."""
UNASSIGNED = -1


class MostFree:
    """The published rule: write to a partition whose leader has the most free bytes."""

    def __init__(self, job: WriteJob, producer: confluent_kafka.Producer) -> None:
        self._job = job
        found = producer.list_topics(job.topic, timeout=10).topics[job.topic].partitions
        self._led: dict[int, list[int]] = {}
        for partition, entry in found.items():
            self._led.setdefault(entry.leader, []).append(partition)
        self._best: list[int] = []
        self._ask()
        threading.Thread(target=self._follow, name="most-free", daemon=True).start()

    def pick(self) -> Iterator[int]:
        """The partition of each next record."""
        records = max(1, RUN_BYTES // self._job.record_bytes)
        while True:
            yield from itertools.repeat(random.choice(self._best), records)

    def _follow(self) -> None:
        while True:
            time.sleep(self._job.interval_seconds)
            self._ask()

    def _ask(self) -> None:
        """The leader with most free bytes; the last answer stands where the cluster does not give one."""
        try:
            client = KafkaAdminClient(bootstrap_servers=self._job.bootstrap.split(","))
            try:
                free = {broker: _usable(client, broker) for broker in self._led}
            finally:
                client.close()
        except KafkaError as error:
            sys.stderr.write(f"free bytes not known: {error}\n")
            self._best = self._best or list(itertools.chain(*self._led.values()))
            return
        self._best = self._led[max(free, key=lambda broker: free[broker])]


def _usable(client: KafkaAdminClient, broker: int) -> int:
    (answer,) = client.describe_log_dirs({}, brokers=[broker])
    return sum(int(one["usable_bytes"]) for one in answer["log_dirs"])


class Counter:
    """Acknowledged and failed bytes."""

    def __init__(self, record_bytes: int) -> None:
        self._record_bytes = record_bytes
        self.acked = 0
        self.failed = 0
        self.partitions: dict[int, int] = {}

    def note(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        """Delivery report of one record."""
        if error is None:
            self.acked += self._record_bytes
            number = message.partition() or 0  # a delivered record has one
            self.partitions[number] = self.partitions.get(number, 0) + self._record_bytes
        else:
            self.failed += self._record_bytes


def client_config(job: WriteJob) -> dict[str, Any]:
    """Defaults of librdkafka but for the acknowledgement of all replicas and a patience of a minute."""
    return {
        "bootstrap.servers": job.bootstrap,
        "acks": job.acks,
        "message.timeout.ms": DELIVERY_MS,
        "enable.metrics.push": False,
        "client.id": f"bench-{job.rule}-{job.writer}",
        **job.config,
    }


def build_producer(job: WriteJob) -> confluent_kafka.Producer:
    """Our router's, or the plain one."""
    if job.rule != "evenkeel":
        return confluent_kafka.Producer(client_config(job))
    phase = (job.writer + 0.5) / job.writers
    producer = RoutedProducer({**client_config(job), "evenkeel.topics": job.topic, "evenkeel.phase": phase})
    if job.plan_offset >= 0:
        if not producer.wait_for_table(job.topic, job.plan_offset, TABLE_SECONDS):
            raise SystemExit(f"no table for the plan at {job.plan_offset}: {producer.router_stats()}")
        return producer
    deadline = time.monotonic() + TABLE_SECONDS
    while producer.router_stats().tables.accepted == 0:
        if time.monotonic() > deadline:
            raise SystemExit(f"no table: {producer.router_stats()}")
        producer.poll(0.05)
    return producer


def partitions(job: WriteJob, producer: confluent_kafka.Producer) -> Iterator[int]:
    """Of each record in turn; UNASSIGNED leaves it to the producer."""
    if job.rule == "round-robin":
        count = len(producer.list_topics(job.topic, timeout=10).topics[job.topic].partitions)
        return itertools.cycle((number + job.writer) % count for number in range(count))
    if job.rule == "most-free":
        return MostFree(job, producer).pick()
    return itertools.repeat(UNASSIGNED)


def write(job: WriteJob, producer: confluent_kafka.Producer, stopped: Callable[[], bool]) -> Written:
    """Write at an even pace until all is written or `stopped`."""
    counter = Counter(job.record_bytes)
    chosen = partitions(job, producer)
    # Cut from one random block: no compression, no page of zeros, no time spent on randomness.
    block = os.urandom(job.record_bytes * 64)
    values = itertools.cycle(block[i : i + job.record_bytes] for i in range(0, len(block), job.record_bytes))
    total = job.bytes_total // job.record_bytes
    began, sent, mix = time.monotonic(), 0, 0.0
    while sent < total and not stopped():
        due = min(total, int(total * (time.monotonic() - began) / job.seconds) + 1)
        while sent < due:
            partition = next(chosen)
            try:
                producer.produce(job.topic, next(values), None, partition, counter.note)
            except BufferError:
                producer.poll(0.05)
                continue
            sent += 1
        producer.poll(0.005)
        mix = max(mix, current_mix(producer, job.topic))
    producer.flush(int(job.config.get("message.timeout.ms", DELIVERY_MS)) / 1000 + 5)
    seen = producer.router_stats().tables.accepted if isinstance(producer, RoutedProducer) else 0
    return Written(
        bytes_acked=counter.acked,
        bytes_failed=counter.failed,
        seconds=round(time.monotonic() - began, 3),
        tables_seen=seen,
        mix=round(mix, 4),
        partition_bytes={str(number): size for number, size in sorted(counter.partitions.items())},
    )


def current_mix(producer: confluent_kafka.Producer, topic: str) -> float:
    """How far a router mixes towards uniform just now; 0 of any other producer."""
    if not isinstance(producer, RoutedProducer):
        return 0.0
    found = producer.router_stats().topics.get(topic)
    return found.mix if found is not None else 1.0


def main(arguments: list[str]) -> int:
    """Run one job; SIGTERM ends it early, with what was written by then."""
    job = WriteJob.from_json(arguments[0])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    producer = build_producer(job)
    written = write(job, producer, stop.is_set)
    sys.stdout.write(json.dumps(asdict(written)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
