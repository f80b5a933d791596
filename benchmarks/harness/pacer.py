"""A process that writes records of several arms at a fixed rate and tells their latencies by second.

Arms write at once, record by record, so that a machine that changes its mood troubles all alike; or in turns of
some seconds, where one arm's load on the brokers must not slow the other. `python -m ... JOB`.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import confluent_kafka

from benchmarks.harness.job import WriteJob
from benchmarks.harness.python_writer import build_producer
from benchmarks.harness.statistics import percentile

TICK_SECONDS = 0.01
POLL_SECONDS = 0.002
FLUSH_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class PaceJob:
    """What the process is told."""

    bootstrap: str
    topics: Mapping[str, str]
    """Arm (a rule of `python_writer`) -> its topic."""
    rate: int
    """Records per second of the arm that writes, or of each arm where they write at once."""
    record_bytes: int
    seconds: float
    turn_seconds: float = 0.0
    """Length of a turn; 0: at once."""
    gap_seconds: float = 0.0
    """At the begin of a turn that does not count: the other arm's records are still being written."""
    warm_seconds: float = 10.0
    """Before anything counts."""
    config: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


@dataclass(slots=True)
class Stream:
    """One arm's producer and the latencies of its records by the second in which they were produced."""

    producer: confluent_kafka.Producer
    topic: str
    latencies: dict[int, list[float]]
    failed: int = 0

    def note(self, second: int) -> Callable[[Any, confluent_kafka.Message], None]:
        """Delivery report of the records of a second; -1: not counted."""

        def report(error: Any, message: confluent_kafka.Message) -> None:
            if error is not None:
                self.failed += 1
            elif second >= 0:
                latency = message.latency()
                if latency is not None:
                    self.latencies[second].append(latency)

        return report


def is_counted(job: PaceJob, elapsed: float) -> bool:
    """Whether a record produced `elapsed` seconds after the begin counts."""
    if elapsed < job.warm_seconds:
        return False
    return not job.turn_seconds or elapsed % job.turn_seconds >= job.gap_seconds


def choose_streams(job: PaceJob, elapsed: float) -> Sequence[str]:
    """Arms that write now; of turns A B B A A B B A, so that neither has always the later one."""
    names = tuple(job.topics)
    if not job.turn_seconds:
        # Who goes first changes each tick.
        return names if int(elapsed / TICK_SECONDS) % 2 else names[::-1]
    turn = int(elapsed / job.turn_seconds)
    return (names[((turn + 1) // 2) % len(names)],)


def run(job: PaceJob) -> dict[str, Any]:
    """Write; returns per arm the seconds with their counts, medians and 99th percentiles (ms)."""
    streams = {
        arm: Stream(build_producer(_write_job(job, arm, topic)), topic, defaultdict(list))
        for arm, topic in job.topics.items()
    }
    value, sent = bytes(job.record_bytes), dict.fromkeys(streams, 0.0)
    began = last = time.monotonic()
    while (now := time.monotonic()) - began < job.seconds:
        elapsed, due = now - began, (now - last) * job.rate
        last = now
        second = int(elapsed) if is_counted(job, elapsed) else -1
        for arm in choose_streams(job, elapsed):
            sent[arm] += due
            stream = streams[arm]
            while sent[arm] >= 1:
                sent[arm] -= 1
                _produce(stream, value, second)
        while time.monotonic() - now < TICK_SECONDS:
            for stream in streams.values():
                stream.producer.poll(POLL_SECONDS / len(streams))
    for stream in streams.values():
        stream.producer.flush(FLUSH_SECONDS)
    return {arm: _summarise(stream) for arm, stream in streams.items()}


def _write_job(job: PaceJob, arm: str, topic: str) -> WriteJob:
    return WriteJob(
        job.bootstrap,
        topic,
        arm,
        0,
        0.0,
        job.record_bytes,
        config={"linger.ms": "5", "message.timeout.ms": "60000", **job.config},
    )


def _produce(stream: Stream, value: bytes, second: int) -> None:
    report = stream.note(second)
    while True:
        try:
            stream.producer.produce(stream.topic, value, None, -1, report)
        except BufferError:
            stream.producer.poll(0.01)
        else:
            return


def _summarise(stream: Stream) -> dict[str, Any]:
    return {
        "failed": stream.failed,
        "seconds": [
            {
                "second": second,
                "records": len(found),
                "p50Ms": round(1000 * percentile(found, 50), 3),
                "p99Ms": round(1000 * percentile(found, 99), 3),
            }
            for second, found in sorted(stream.latencies.items())
        ],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(PaceJob(**json.loads(sys.argv[1])))) + "\n")
