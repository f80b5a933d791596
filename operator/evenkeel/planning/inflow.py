"""What will be written: the steerable bytes W_t of each topic, and everything that comes without us (u_v)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenkeel.domain.exchange import TopicRouting
from evenkeel.domain.snapshot import ClusterSnapshot, Incoming, Partition, Topic
from evenkeel.planning.retention import kept_bytes, look_ahead_seconds, topic_retention
from evenkeel.planning.space import Floats, Space, add_to_replicas, copied_bytes, inbound_bytes

FEW_PERCENT = 20
"""Below this share of a topic's inflow weights hardly decide where its bytes lie (design section 3)."""
FLOOR_FACTOR = 3.0
"""W >= 3 x (largest - mean fill) x C for unplanned inflow: with less, weights would follow the noise of fills."""
CALM_FILL = 0.003
"""Differences of fill above this are no noise (disks of a level cluster: 0.2 %), and the floor grows no more:
an imbalance of a tenth of the disks would be healed by what is written in 0.3 C, instead of by what there is."""
CALM_SHARE, CALM_WIDTH = 0.05, 0.006
"""Where the fullest volume is no further from the mean than noise brings it, W is this share of C: nothing is to
be won, and weights stay nearly even. It falls off as a bell of this width."""
LEAST_ROOM = 0.02
"""What is expected is not cut to less than this share of all capacity: full disks too want to be levelled."""
LEAST_SHARE = 1e-5
"""Least W as a share of all capacity; below it the program would only amplify rounding."""


@dataclass(frozen=True, slots=True)
class Inflow:
    """Expected bytes of one topic within the horizon, before replication."""

    steerable: float
    unsteered: float
    planned: bool
    """From the plan of a running ingest; otherwise extrapolated from a rate."""


def gather_inflow(snapshot: ClusterSnapshot, routed: Mapping[str, TopicRouting]) -> dict[str, Inflow]:
    """Inflow of every topic of which something is known; topics not in `routed` are all unsteered."""
    topics = {topic.name: topic for topic in snapshot.topics}
    counts: dict[str, int] = {}
    for partition in snapshot.partitions:
        counts[partition.topic] = counts.get(partition.topic, 0) + 1
    default = max(
        (routing.horizon_seconds for routing in routed.values()), default=TopicRouting().horizon_seconds
    )
    result = {}
    for incoming in snapshot.incoming:
        routing = routed.get(incoming.topic)
        horizon = routing.horizon_seconds if routing else default
        total = _total(incoming, topics.get(incoming.topic), horizon, counts.get(incoming.topic, 0))
        if total is not None:
            share = min(100, max(0, incoming.steered_percent)) / 100 if routing else 0.0
            planned = incoming.planned_bytes is not None
            result[incoming.topic] = Inflow(total * share, total * (1 - share), planned)
    return result


def _total(incoming: Incoming, topic: Topic | None, horizon: float, partitions: int) -> float | None:
    """Bytes written within the horizon that are still there at its end; None: unknown, not guessed."""
    if incoming.planned_bytes is not None:
        return float(incoming.planned_bytes)
    if incoming.bytes_per_second is None:
        return None
    retention = topic_retention(topic)
    seconds = look_ahead_seconds(horizon, retention, incoming.observed_seconds)
    return kept_bytes(incoming.bytes_per_second, seconds, retention, partitions)


def expect_inflow(
    snapshot: ClusterSnapshot, routed: Mapping[str, TopicRouting], space: Space, max_fill: float
) -> dict[str, Inflow]:
    """What a plan goes by: `gather_inflow`, within the room that `limit_inflow` finds."""
    return limit_inflow(gather_inflow(snapshot, routed), snapshot, space, max_fill)


def limit_inflow(
    inflow: Mapping[str, Inflow], snapshot: ClusterSnapshot, space: Space, max_fill: float
) -> dict[str, Inflow]:
    """The same with unplanned inflow cut to the room that is left up to `max_fill` (a fraction of capacity).

    A horizon that ends after the disks are full levels a future that never comes: they would fill in proportion
    to their sizes, with the differences that are there now, until the fullest one stops.
    """
    copies = {topic: _copies(space, rows) for topic, rows in snapshot.group_partitions(inflow).items()}
    coming = {topic: copies[topic] * (one.steerable + one.unsteered) for topic, one in inflow.items()}
    planned = sum(coming[topic] for topic, one in inflow.items() if one.planned)
    unplanned = sum(coming.values()) - planned
    leaving = sum(
        one.expiring_bytes * _copies(space, [one]) for one in snapshot.partitions if one.expiring_bytes
    )
    whole = float(space.capacity.sum())
    room = max(max_fill * whole - float(space.used.sum()) + leaving - planned, LEAST_ROOM * whole)
    if unplanned <= room:
        return dict(inflow)
    factor = room / unplanned
    return {
        topic: one
        if one.planned
        else replace(one, steerable=one.steerable * factor, unsteered=one.unsteered * factor)
        for topic, one in inflow.items()
    }


def _copies(space: Space, partitions: Sequence[Partition]) -> float:
    """Replicas on known volumes, on the average of these partitions."""
    placed = [sum(space.locate(one, broker) is not None for broker in one.replicas) for one in partitions]
    return sum(placed) / len(placed) if placed else 0.0


def base_bytes(snapshot: ClusterSnapshot, space: Space, inflow: Mapping[str, Inflow]) -> Floats:
    """u_v: bytes on each volume at the end of the horizon without the steerable ones.

    used + bytes still inbound by moves + unsteered inflow - what retention deletes (design section 5).
    """
    change = np.zeros(len(space.volumes))
    for partition in snapshot.partitions:
        for volume, size in inbound_bytes(space, partition):
            change[volume] += size
        for volume, copied in copied_bytes(space, partition):
            change[volume] += copied
        if partition.expiring_bytes:
            add_to_replicas(change, space, partition, -float(partition.expiring_bytes))
    unsteered = {topic: expected.unsteered for topic, expected in inflow.items() if expected.unsteered > 0}
    for topic, partitions in snapshot.group_partitions(unsteered).items():
        _add_unsteered(change, space, partitions, unsteered[topic])
    return np.maximum(space.used + change, 0.0)


def _add_unsteered(change: Floats, space: Space, partitions: list[Partition], total: float) -> None:
    for partition, share in zip(partitions, unsteered_shares(partitions), strict=True):
        add_to_replicas(change, space, partition, total * share)


def unsteered_shares(partitions: Sequence[Partition]) -> list[float]:
    """Part of a topic's unsteered inflow that each partition gets, as it was seen; even where that is not known.

    What routers brought is left out where it is known apart: it followed our own weights.
    """
    rates = [_unsteered_rate(partition) for partition in partitions]
    known = [rate for rate in rates if rate is not None]
    whole = sum(known)
    if len(known) < len(rates) or whole <= 0:
        return [1 / len(partitions)] * len(partitions)
    return [(rate or 0.0) / whole for rate in rates]


def _unsteered_rate(partition: Partition) -> float | None:
    apart = partition.unsteered_bytes_per_second
    return partition.bytes_per_second if apart is None else apart


def apply_floor(
    inflow: Mapping[str, Inflow], topics: tuple[str, ...], base: Floats, capacity: Floats
) -> dict[str, float]:
    """W_t of the routed topics: as expected, but never so little that one broker would take all.

    The floor holds for unplanned inflow together and is shared in proportion to what each topic expects.
    """
    whole = float(capacity.sum())
    gap = float(np.max(base / capacity) - base.sum() / whole)
    calm = CALM_SHARE * math.exp(-((gap / CALM_WIDTH) ** 2))
    floor = (FLOOR_FACTOR * min(CALM_FILL, gap) + calm) * whole
    unplanned = [topic for topic in topics if not inflow[topic].planned]
    expected = sum(inflow[topic].steerable for topic in unplanned)
    result = {}
    for topic in topics:
        size = inflow[topic].steerable
        if not inflow[topic].planned and expected < floor:
            size = floor * size / expected if expected > 0 else floor / len(unplanned)
        result[topic] = max(size, LEAST_SHARE * whole)
    return result


def expected_bytes(
    inflow: Mapping[str, Inflow], topics: tuple[str, ...], capacity: Floats
) -> dict[str, float]:
    """W_t of the routed topics as expected, without the floor."""
    least = LEAST_SHARE * float(capacity.sum())
    return {topic: max(inflow[topic].steerable, least) for topic in topics}
