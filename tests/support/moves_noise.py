"""A cluster in its steady state: retention takes what comes, in whole segments, and fills swing with that."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evenkeel.domain.snapshot import Broker, ClusterSnapshot, LogDir, Partition, Topic
from tests.support.snapshots import GIB

BROKERS, PARTITIONS, REPLICATION, TOTAL = 6, 240, 2, 2000 * GIB
DAY = 86_400


def steady_snapshots(
    deviation: float, step_seconds: int, seconds: int = DAY, segment: int = GIB, seed: int = 1
) -> Iterator[ClusterSnapshot]:
    """One cluster as it is measured again and again.

    Args:
        deviation: of the fullest broker from the mean, on average over time.
        step_seconds: between measurements.
        seconds: how long.
        segment: bytes by which partitions grow before their oldest segment goes.
        seed: of sizes, places, rates and phases.
    """
    random = np.random.default_rng(seed)
    places = [tuple(int(b) for b in random.permutation(BROKERS)[:REPLICATION]) for _ in range(PARTITIONS)]
    sizes = random.uniform(4, 12, PARTITIONS) * GIB
    periods = random.uniform(600, 10_800, PARTITIONS)
    phases = random.uniform(0, 1, PARTITIONS)
    foreign = _foreign(places, sizes, deviation)
    for clock in range(0, seconds, step_seconds):
        swing = ((clock / periods + phases) % 1.0 - 0.5) * segment
        yield _snapshot(places, sizes + swing, foreign, segment, segment / periods, clock)


def _foreign(
    places: list[tuple[int, ...]], sizes: np.ndarray[tuple[int], np.dtype[np.float64]], deviation: float
) -> list[float]:
    """Bytes that are no replicas, so that the fills are as wanted: one broker above, the others below."""
    load = np.zeros(BROKERS)
    for row, size in zip(places, sizes.tolist(), strict=True):
        load[list(row)] += size
    mean = float(load.max()) * 1.2
    wanted = np.full(BROKERS, mean * (1 - deviation / (BROKERS - 1)))
    wanted[0] = mean * (1 + deviation)
    return [float(one) for one in wanted - load]


def _snapshot(
    places: list[tuple[int, ...]],
    sizes: np.ndarray[tuple[int], np.dtype[np.float64]],
    foreign: list[float],
    segment: int,
    rates: np.ndarray[tuple[int], np.dtype[np.float64]],
    clock: int,
) -> ClusterSnapshot:
    load = np.array(foreign)
    for row, size in zip(places, sizes.tolist(), strict=True):
        load[list(row)] += size
    partitions = tuple(
        Partition(
            topic="t",
            partition=number,
            leader=row[0],
            replicas=row,
            isr=row,
            replica_bytes=dict.fromkeys(row, int(size)),
            bytes_per_second=float(rate),
        )
        for number, (row, size, rate) in enumerate(zip(places, sizes.tolist(), rates.tolist(), strict=True))
    )
    brokers = tuple(Broker(b, log_dirs=(LogDir("/d0", TOTAL, TOTAL - int(load[b])),)) for b in range(BROKERS))
    topic = Topic("t", retention_ms=DAY * 1000, segment_bytes=segment, min_isr=1)
    return ClusterSnapshot(brokers, partitions, (), (topic,), taken_at_ms=clock * 1000)
