"""When volumes will be full, if inflow and retention go on as they are. A forecast, not a plan: nobody acts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evenkeel.domain.snapshot import ClusterSnapshot, Partition, Topic
from evenkeel.planning.retention import HALF, Retention, topic_retention
from evenkeel.planning.space import Floats, Space, build_space

DAY_SECONDS = 86_400.0
FARTHEST_DAYS = 365
"""A forecast beyond a year is none."""
LEAST_OBSERVED_SECONDS = 600
"""Rates watched for less are not extrapolated over days."""


def forecast_days(snapshot: ClusterSnapshot) -> dict[tuple[int, str], int | None]:
    """(broker, log dir path) -> whole days until its volume is full.

    A partition grows at its rate until retention takes as much as comes, or shrinks to that size within its
    retention. None: never within a year, or inflow is not known. Volumes of which nothing is known are left out.

    Raises:
        InputError: the snapshot holds an impossible value.
    """
    space = build_space(snapshot)
    levels = _levels(snapshot, space)
    full = levels >= space.capacity[:, None] * (1 - 1e-9)
    days: dict[tuple[int, str], int | None] = {}
    for place, volume in space.index.items():
        row = full[volume]
        days[place] = int(np.argmax(row)) if bool(row.any()) else None
    return days


def _levels(snapshot: ClusterSnapshot, space: Space) -> Floats:
    """Bytes of each volume at the end of days 0..365: volumes x days.

    A size that changes evenly from now until some time is a slope that ends there: slopes are added up by the
    day on which they end.
    """
    slopes = np.zeros((len(space.volumes), FARTHEST_DAYS + 2))
    steps = np.zeros(len(space.volumes))
    topics = {topic.name: topic for topic in snapshot.topics}
    planned = _planned(snapshot)
    known = _trusted(snapshot)
    retentions = {name: topic_retention(topics.get(name)) for name in {p.topic for p in snapshot.partitions}}
    for partition in snapshot.partitions:
        rate, change = _course(partition, retentions[partition.topic], topics, known)
        for broker in partition.replicas:
            volume = space.locate(partition, broker)
            if volume is not None:
                steps[volume] += planned.get(partition.topic, 0.0)
                _add_slope(slopes[volume], rate, change)
    growth = np.cumsum(slopes[:, ::-1], axis=1)[:, ::-1]
    grown = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(growth[:, 1:-1], axis=1)], axis=1)
    levels: Floats = (space.used + steps)[:, None] + grown
    return levels


def _add_slope(row: Floats, rate: float, change: float) -> None:
    """Bytes per day until `change` bytes have come or gone; the last day takes what is left."""
    if rate == 0.0:
        return
    days = change / rate
    if days >= FARTHEST_DAYS:
        row[FARTHEST_DAYS] += rate
        return
    whole = int(days)
    row[whole] += rate
    rest = change - whole * rate
    row[whole + 1] += rest
    row[whole] -= rest


def _course(
    partition: Partition, retention: Retention, topics: Mapping[str, Topic], known: frozenset[str]
) -> tuple[float, float]:
    """Bytes per day by which a replica changes, and by how many it changes in all (may be infinite)."""
    rate = partition.bytes_per_second
    if rate is None or partition.topic not in known or partition.topic not in topics:
        return 0.0, 0.0
    size = max(partition.replica_bytes.values(), default=0)
    end = _final_size(rate, retention)
    if end is None:
        return rate * DAY_SECONDS, np.inf
    if end >= size:
        return rate * DAY_SECONDS, end - size
    if retention.age_ms is None:
        return 0.0, 0.0  # above retention.bytes: Kafka frees it within minutes, and it comes back
    return (end - size) / max(1.0, retention.age_ms / 1000 / DAY_SECONDS), end - size


def _final_size(rate: float, retention: Retention) -> float | None:
    """Size of a partition once retention takes as much as comes; None: it grows for ever."""
    overhang = HALF * retention.segment_at(rate)
    sizes = []
    if retention.age_ms is not None:
        sizes.append(rate * (retention.age_ms + retention.delete_delay_ms) / 1000 + overhang)
    if retention.limit_bytes is not None:
        sizes.append(retention.limit_bytes + overhang)
    return min(sizes, default=None)


def _trusted(snapshot: ClusterSnapshot) -> frozenset[str]:
    """Topics whose rate was watched long enough; of an ingest comes what is planned, however fast it is now."""
    return frozenset(
        incoming.topic
        for incoming in snapshot.incoming
        if incoming.bytes_per_second is not None
        and incoming.planned_bytes is None
        and (incoming.observed_seconds is None or incoming.observed_seconds >= LEAST_OBSERVED_SECONDS)
    )


def _planned(snapshot: ClusterSnapshot) -> dict[str, float]:
    """Bytes that running ingests have still to write, per partition, as if evenly and at once."""
    counts: dict[str, int] = {}
    for partition in snapshot.partitions:
        counts[partition.topic] = counts.get(partition.topic, 0) + 1
    return {
        incoming.topic: incoming.planned_bytes / counts[incoming.topic]
        for incoming in snapshot.incoming
        if incoming.planned_bytes and incoming.topic in counts
    }
