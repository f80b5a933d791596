"""What one `produce` costs, by a process: `python -m benchmarks.router_calls SEED`. Its last line is JSON.

CPU time of the calling thread; the batching delay is a minute and nothing is sent. A process per round, since where
its objects lie in memory makes a call of 64 KiB dearer or cheaper by up to 1 %, the same way in all its turns.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import confluent_kafka

from benchmarks.harness.order import interleave
from benchmarks.router_load import DEFAULT, EVENKEEL
from evenkeel.names import HEARTBEATS_TOPIC, ROUTES_TOPIC
from evenkeel.router import Producer

SIZES = {1024: 10_000, 64 * 1024: 1_000}
"""Bytes of a record -> calls of each kind."""
TURNS = 20
"""Of each kind of call."""
PARTITIONS = 4
BATCH = 2_147_483_647
STEADY_RATE = 200e6
"""Bytes per second that runs are fitted to after a second of writing; of what one process reaches at saturation."""
BARE, ROUTER = "bare positional", "router"
Call = Callable[[confluent_kafka.Producer, bytes, int], None]


def _bare(producer: confluent_kafka.Producer, value: bytes, count: int) -> None:
    for _ in range(count):
        producer.produce("t", value, None, 3)


def _short(producer: confluent_kafka.Producer, value: bytes, count: int) -> None:
    for _ in range(count):
        producer.produce("t", value)


def _reported(producer: confluent_kafka.Producer, value: bytes, count: int) -> None:
    for _ in range(count):
        producer.produce("t", value, on_delivery=_ignore)


def _ignore(_error: object, _message: confluent_kafka.Message) -> None:
    pass


CALLS: dict[str, tuple[str, Call]] = {
    BARE: (DEFAULT, _bare),
    "default": (DEFAULT, _short),
    ROUTER: (EVENKEEL, _short),
    "default, on_delivery": (DEFAULT, _reported),
    "router, on_delivery": (EVENKEEL, _reported),
}


def _parked(arm: str, bootstrap: str) -> confluent_kafka.Producer:
    """A producer that sends nothing for a minute, with a table in force."""
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "linger.ms": 60_000,
        "batch.size": BATCH,
        "batch.num.messages": 1_000_000,
        "queue.buffering.max.messages": 10_000_000,
        "queue.buffering.max.kbytes": 2_097_151,
    }
    if arm == DEFAULT:
        producer = confluent_kafka.Producer(config)
    else:
        producer = Producer({**config, "evenkeel.topics": "t", "evenkeel.heartbeat.ms": 0})
        run = producer._state.runs["t"]  # noqa: SLF001 - no keeper here
        run.follow([1.0] * PARTITIONS)
        run.adapt(STEADY_RATE, run.seconds, BATCH)
    producer.list_topics("t", timeout=10)
    for partition in range(PARTITIONS):
        # The first record of a partition without any wakes the client's thread: some 40 us of the batch, which no
        # call of a kind that keeps to one partition would pay here.
        confluent_kafka.Producer.produce(producer, "t", b"x", None, partition)
    return producer


def time_calls(bootstrap: str, size: int, seed: int) -> dict[str, float]:
    """CPU nanoseconds of one call of each kind, the median of its turns; what changes meanwhile changes for all."""
    producers = {name: _parked(arm, bootstrap) for name, (arm, _) in CALLS.items()}
    spent: dict[str, list[float]] = {name: [] for name in CALLS}
    each, value = SIZES[size] // TURNS, bytes(size)
    gc.disable()
    try:
        for turn, name in interleave(tuple(CALLS), TURNS + 1, seed):
            began = time.thread_time_ns()
            CALLS[name][1](producers[name], value, each)
            if turn:  # the first warms up
                spent[name].append((time.thread_time_ns() - began) / each)
    finally:
        gc.enable()
        for producer in producers.values():
            producer.purge()
            producer.poll(0)
            producer.close()
    return {name: statistics.median(found) for name, found in spent.items()}


def main(arguments: Sequence[str]) -> None:
    """One round."""
    seed = int(arguments[0])
    mock = confluent_kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    for topic in ("t", ROUTES_TOPIC, HEARTBEATS_TOPIC):
        mock.produce(topic, b"x")
    mock.flush(10)
    port = next(one.port for one in mock.list_topics(timeout=10).brokers.values() if one.port > 0)
    found = [
        {"size": size, "call": name, "nanoseconds": cost}
        for size in SIZES
        for name, cost in time_calls(f"127.0.0.1:{port}", size, seed).items()
    ]
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
