"""Latencies of brokers, compared with the one in the middle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median

from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.errors import RetryableError
from evenkeel.reasons import Reason

DEADBAND = 1.25
"""A quarter more or less than the median is no difference: repeated measurements of equal brokers vary so."""
FLOOR_MS = 1.0
"""Latencies below a millisecond are equal: their ratio says nothing of a disk."""
FARTHEST = 3.0
"""Eight times the median is as bad as it gets: beyond, the bounds of a partition's share decide anyway."""


def read_load(snapshot: ClusterSnapshot, name: str) -> dict[int, float]:
    """The number `name` of each broker that has it; what is not finite or below 0 is not known."""
    return {
        broker.id: value
        for broker in snapshot.brokers
        if (value := broker.load.get(name)) is not None and math.isfinite(value) and value >= 0
    }


def doublings(latencies: Mapping[int, float]) -> dict[int, float]:
    """How many times each latency is the double of the median, beyond the deadband; within -3 and 3."""
    if not latencies:
        return {}
    middle = max(FLOOR_MS, median(latencies.values()))
    return {broker: _distance(max(FLOOR_MS, value) / middle) for broker, value in latencies.items()}


def _distance(ratio: float) -> float:
    far = math.log2(ratio)
    beyond = min(FARTHEST, max(0.0, abs(far) - math.log2(DEADBAND)))
    return math.copysign(beyond, far)


def nothing_known(score: str, what: str) -> RetryableError:
    """The error of a score whose numbers nobody has measured."""
    return RetryableError(f"score {score}: {what}", reason=Reason.SNAPSHOT_INCOMPLETE)
