"""Skew a cluster the way uneven partitions do: records in a topic with explicit assignments."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from scipy.optimize import nnls

from scripts.provision.steps import StepFailed

VALUE_BYTES = 512 * 1024
PARTITIONS_PER_PAIR = 3
FLUSH_SECONDS = 300.0
CREATE_SECONDS = 90.0
"""The client's own limit of 60 s says what is wrong; this one only ends the wait."""


def plan_pairs(wanted: Mapping[int, int]) -> dict[tuple[int, int], int]:
    """Bytes per pair of brokers so that each broker gets the bytes in `wanted` -> {(leader, follower): bytes}.

    Non-negative least squares; pairs of no weight are left out.
    """
    brokers = sorted(wanted)
    pairs = list(combinations(brokers, 2))
    matrix = np.array([[float(broker in pair) for pair in pairs] for broker in brokers])
    amounts, _ = nnls(matrix, np.array([float(wanted[broker]) for broker in brokers]))
    return {pair: int(amount) for pair, amount in zip(pairs, amounts, strict=True) if amount > VALUE_BYTES}


def write_ballast(bootstrap: str, topic: str, wanted: Mapping[int, int], seed: int = 0) -> int:
    """Create `topic` (RF 2) and write until each broker holds about its bytes of `wanted` -> bytes written.

    Raises:
        StepFailed: a record was not acknowledged.
        KafkaException: the topic cannot be created.
    """
    pairs = plan_pairs(wanted)
    assignments: list[list[int]] = []
    amounts: list[int] = []
    for (first, second), size in pairs.items():
        for i in range(PARTITIONS_PER_PAIR):
            assignments.append([first, second] if i % 2 == 0 else [second, first])
            amounts.append(size // PARTITIONS_PER_PAIR)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, len(assignments), replica_assignment=assignments, config={"retention.ms": "-1"})
    admin.create_topics([new])[topic].result(timeout=CREATE_SECONDS)
    _write(bootstrap, topic, amounts, random.Random(seed))
    return sum(amounts)


def _write(bootstrap: str, topic: str, amounts: Sequence[int], source: random.Random) -> None:
    failures: list[KafkaError] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20, "log_level": 3})
    value = source.randbytes(VALUE_BYTES)
    for partition, amount in enumerate(amounts):
        for _ in range(amount // VALUE_BYTES):
            while len(producer) > 64:  # keeps the client's memory at 32 MiB
                producer.poll(0.1)
            producer.produce(topic, value, None, partition, note)
    left = producer.flush(FLUSH_SECONDS)
    if failures or left:
        raise StepFailed(f"ballast: {left} records unacknowledged, {len(failures)} failed: {failures[:1]}")
