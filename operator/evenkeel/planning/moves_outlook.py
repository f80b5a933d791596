"""Where volumes stand when moves begin to count: now, or at the end of the horizon that routing looks ahead to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evenkeel.domain.exchange import Policy
from evenkeel.domain.snapshot import ClusterSnapshot, Partition
from evenkeel.planning.inflow import expect_inflow, unsteered_shares
from evenkeel.planning.moves_plan import MovesRequest
from evenkeel.planning.route_or_move import expiry_seconds, seconds_ahead
from evenkeel.planning.routing import RoutesPlan
from evenkeel.planning.space import Floats, Space, copied_bytes, inbound_bytes

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Outlook:
    """Bytes on volumes, and how replicas change until then."""

    used: Floats
    """At the end of the horizon; now where nothing is routed."""
    highest: Floats
    """The more of now and then, and of what moves that run already bring."""
    growth: Mapping[Key, float]
    """Partition -> bytes by which each of its replicas changes."""

    def grow(self, partition: Partition) -> float:
        """Bytes by which each replica of the partition changes."""
        return self.growth.get((partition.topic, partition.partition), 0.0)


def build_outlook(
    snapshot: ClusterSnapshot,
    space: Space,
    policy: Policy,
    request: MovesRequest,
    until_seconds: float | None = None,
) -> Outlook:
    """Levels from which moves start: `until_seconds` from now, and no later than weights look ahead."""
    now, highest = with_running_moves(snapshot, space)
    growth: Mapping[Key, float] = {}
    if request.routed and request.routes is not None:
        growth = _growth(snapshot, space, policy, request, request.routes, until_seconds)
    used = now.copy()
    for partition in snapshot.partitions:
        change = growth.get((partition.topic, partition.partition))
        if change is None:
            continue
        for broker in partition.replicas:
            volume = space.locate(partition, broker)
            if volume is not None:
                used[volume] += max(change, -partition.replica_bytes.get(broker, 0))
    used = np.maximum(used, 0.0)
    return Outlook(used=used, highest=np.maximum(highest, used), growth=growth)


def with_running_moves(snapshot: ClusterSnapshot, space: Space) -> tuple[Floats, Floats]:
    """Bytes once the moves that run now have ended, and at their worst moment."""
    ended, highest = space.used, space.used
    for partition in snapshot.partitions:
        for volume, coming in inbound_bytes(space, partition):
            ended[volume] += coming
            highest[volume] += coming
        for broker in partition.removing:
            if (gone := space.locate(partition, broker)) is not None:
                ended[gone] -= partition.replica_bytes.get(broker, 0)
        for volume, size in copied_bytes(space, partition):
            ended[volume] += size
            highest[volume] += max(0, size)  # what is freed at the end is still there meanwhile
    return np.maximum(ended, 0.0), highest


def _growth(
    snapshot: ClusterSnapshot,
    space: Space,
    policy: Policy,
    request: MovesRequest,
    routes: RoutesPlan,
    until: float | None,
) -> dict[Key, float]:
    """Steered bytes by the weights in force, the rest as it was seen, less what retention deletes."""
    inflow = expect_inflow(snapshot, request.routed, space, policy.max_fill_percent / 100)
    topics = {topic.name: topic for topic in snapshot.topics}
    parts = {
        incoming.topic: _part(until, seconds_ahead(incoming, topics.get(incoming.topic), request))
        for incoming in snapshot.incoming
    }
    growth: dict[Key, float] = {}
    for topic, partitions in snapshot.group_partitions(inflow).items():
        found = routes.topics.get(topic)
        weights = found.weights if found is not None and found.active else ()
        steered = inflow[topic].steerable * parts[topic]
        loose = inflow[topic].unsteered * parts[topic] + (0.0 if weights else steered)
        for partition, share in zip(partitions, unsteered_shares(partitions), strict=True):
            led = weights[partition.partition] * steered if weights else 0.0
            growth[topic, partition.partition] = led + share * loose
    looked = expiry_seconds(snapshot, request)
    for partition in snapshot.partitions:
        if partition.expiring_bytes:
            key = partition.topic, partition.partition
            part = _part(until, looked[partition.topic])
            growth[key] = growth.get(key, 0.0) - part * partition.expiring_bytes
    return growth


def _part(until: float | None, ahead: float) -> float:
    return 1.0 if until is None else min(1.0, until / ahead)
