"""Route or move: whether new bytes heal an imbalance in time, or replicas have to move (design section 6).

Both answers are times. Routing needs as long as it takes until the inflow that is measured, led by the weights
that are in force, has brought every volume within `leave_percent`. It must be done before the deadline, and
before a volume reaches `max_fill_percent`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from evenkeel.domain.exchange import Policy
from evenkeel.domain.snapshot import ClusterSnapshot, Incoming, Partition, Topic
from evenkeel.planning.inflow import unsteered_shares
from evenkeel.planning.levels import Flags
from evenkeel.planning.moves_plan import Choice, Cure, MovesRequest
from evenkeel.planning.retention import DEFAULT_HORIZON_SECONDS, look_ahead_seconds, topic_retention
from evenkeel.planning.space import Floats, Space, add_to_replicas
from evenkeel.reasons import Reason

FARTHEST_SECONDS = 365 * 86_400
"""Beyond a year nothing is said."""
SLOWEST = 1e-3
"""Of the deviation, taken away in the time that is looked ahead: with less routing is taken to heal nothing."""


BEGINNING = 0.1
"""Of the time looked ahead: over it the deviation still falls as it begins."""
SLOWER = 1.25
"""Simulated keepers need this much longer on average (0.6 to 1.7 of it): weights keep a slack, caps bind longer."""


@dataclass(frozen=True, slots=True)
class _Rates:
    """Bytes per second on each volume."""

    net: Floats
    """All that comes by the weights in force, less what retention deletes."""
    steered: float
    """Steered bytes of all topics, before replication."""
    ahead: float
    """Seconds for which the weights were made."""
    ends: float
    """Seconds until the first planned bytes are written; infinite where none are steered."""
    lasting: Floats
    """The part of `net` that goes on when all planned bytes are written."""
    over: float
    """Seconds until they are."""


def choose_cure(snapshot: ClusterSnapshot, space: Space, policy: Policy, request: MovesRequest) -> Choice:
    """Route, move or nothing, with both times.

    Args:
        snapshot: what was measured.
        space: its volumes.
        policy: band and limit.
        request: `routed`, `routes` and `deadline_seconds`.
    """
    some = written_volumes(snapshot, space, request.drain)
    deviation = plain_deviation(space.used, space.capacity, some)
    rates = _rates(snapshot, space, request)
    limit = _limit_seconds(space, rates, policy.max_fill_percent / 100)
    routing = _routing_seconds(space, rates, some, policy.leave_percent / 100)
    reason, cure = _judge(deviation, policy, request, routing, limit, rates)
    return Choice(
        cure=cure,
        reason=reason,
        message=_sentence(reason, deviation, policy, routing, limit, request.deadline_seconds),
        routing_seconds=None if routing is None else round(routing),
        limit_seconds=None if limit is None else round(limit),
        deadline_seconds=request.deadline_seconds,
    )


def _judge(
    deviation: float,
    policy: Policy,
    request: MovesRequest,
    routing: float | None,
    limit: float | None,
    rates: _Rates,
) -> tuple[Reason, Cure]:
    threshold = policy.leave_percent if request.continuing else policy.enter_percent
    if deviation <= threshold / 100 and limit != 0.0:
        return Reason.BELOW_THRESHOLD, Cure.NONE
    if limit is not None and (routing is None or limit <= routing) and limit <= request.deadline_seconds:
        return Reason.LIMIT_COMES_FIRST, Cure.MOVE
    if rates.steered <= 0:
        return Reason.NO_INFLOW_KNOWN, Cure.MOVE
    if routing is None or routing > request.deadline_seconds:
        return Reason.ROUTING_TOO_SLOW, Cure.MOVE
    return Reason.ROUTING_HEALS, Cure.ROUTE


def _sentence(
    reason: Reason,
    deviation: float,
    policy: Policy,
    routing: float | None,
    limit: float | None,
    deadline: float,
) -> str:
    first = "no volume reaches" if limit is None else f"the first volume reaches in {_told(limit)}"
    needs = "never levels the disks" if routing is None else f"needs {_told(routing)}"
    numbers = (
        f"routing {needs}, the deadline is {_told(deadline)}, and {first} {policy.max_fill_percent} %"
        f" (deviation {deviation:.1%})"
    )
    lead = {
        Reason.BELOW_THRESHOLD: "nothing to heal",
        Reason.LIMIT_COMES_FIRST: "replicas have to move before a disk is too full",
        Reason.NO_INFLOW_KNOWN: "no steered inflow is known that could heal",
        Reason.ROUTING_TOO_SLOW: "routing is too slow",
        Reason.ROUTING_HEALS: "new bytes heal this",
    }[reason]
    return f"{lead}: {numbers}"


def _told(seconds: float) -> str:
    """Two significant digits of a handy unit."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.0f} s"


def written_volumes(snapshot: ClusterSnapshot, space: Space, drain: Collection[int]) -> Flags:
    """Volumes of brokers that are up and stay: those that new bytes come to."""
    stays = {broker.id for broker in snapshot.brokers if broker.online and not broker.fenced} - set(drain)
    return np.array([bool(stays & set(volume.brokers)) for volume in space.volumes], dtype=bool)


def plain_deviation(used: Floats, capacity: Floats, some: Flags) -> float:
    """Largest |fill / mean fill - 1| over some volumes, whatever moves can change of them; 0 where all are empty."""
    if not bool(some.any()) or float(used[some].sum()) <= 0:
        return 0.0
    mean = float(used[some].sum() / capacity[some].sum())
    return float(np.max(np.abs(used[some] / capacity[some] / mean - 1)))


def _rates(snapshot: ClusterSnapshot, space: Space, request: MovesRequest) -> _Rates:
    topics = {topic.name: topic for topic in snapshot.topics}
    groups = snapshot.group_partitions({incoming.topic for incoming in snapshot.incoming})
    net, steered, ahead, ends = np.zeros(len(space.volumes)), 0.0, 0.0, math.inf
    lasting, over = np.zeros(len(space.volumes)), 0.0
    for incoming in snapshot.incoming:
        horizon = seconds_ahead(incoming, topics.get(incoming.topic), request)
        rate = _rate(incoming, horizon)
        partitions = groups[incoming.topic]
        if rate <= 0 or not partitions:
            continue
        led = _steered_part(incoming, request) * rate
        for partition, here in zip(
            partitions, _spread(incoming, partitions, request, rate, led), strict=True
        ):
            add_to_replicas(net, space, partition, here)
            if incoming.planned_bytes is None:
                add_to_replicas(lasting, space, partition, here)
        steered += led
        over = max(over, (incoming.planned_bytes or 0) / rate)
        ahead = max(ahead, horizon) if led > 0 else ahead
        if led > 0 and incoming.planned_bytes is not None:
            ends = min(ends, incoming.planned_bytes / rate)
    looked = expiry_seconds(snapshot, request)
    for partition in snapshot.partitions:
        if partition.expiring_bytes:
            rate = partition.expiring_bytes / looked[partition.topic]
            add_to_replicas(net, space, partition, -rate)
            add_to_replicas(lasting, space, partition, -rate)
    return _Rates(net, steered, max(ahead, 1.0), ends, lasting, over)


def expiry_seconds(snapshot: ClusterSnapshot, request: MovesRequest) -> dict[str, float]:
    """Topic -> for how long its expiring bytes were looked ahead (planning.retention.Horizons)."""
    topics = {topic.name: topic for topic in snapshot.topics}
    observed = {one.topic: one.observed_seconds for one in snapshot.incoming}
    wanted = {name: float(routing.horizon_seconds) for name, routing in request.routed.items()}
    return {
        name: max(
            1.0,
            look_ahead_seconds(
                wanted.get(name, DEFAULT_HORIZON_SECONDS),
                topic_retention(topics.get(name)),
                observed.get(name),
            ),
        )
        for name in {partition.topic for partition in snapshot.partitions if partition.expiring_bytes}
    }


def seconds_ahead(incoming: Incoming, topic: Topic | None, request: MovesRequest) -> float:
    """For how long a topic's weights are made."""
    routing = request.routed.get(incoming.topic)
    seconds = float(routing.horizon_seconds if routing else request.deadline_seconds)
    if incoming.planned_bytes is not None and incoming.bytes_per_second:
        return max(1.0, incoming.planned_bytes / incoming.bytes_per_second)
    return max(1.0, look_ahead_seconds(seconds, topic_retention(topic), incoming.observed_seconds))


def _rate(incoming: Incoming, horizon: float) -> float:
    """Bytes per second before replication; of planned bytes without a measured rate, as if over the horizon."""
    if incoming.bytes_per_second is not None:
        return incoming.bytes_per_second
    return 0.0 if incoming.planned_bytes is None else incoming.planned_bytes / horizon


def _steered_part(incoming: Incoming, request: MovesRequest) -> float:
    routes = request.routes.topics.get(incoming.topic) if request.routes is not None else None
    active = routes is not None and routes.active and incoming.topic in request.routed
    return min(100, max(0, incoming.steered_percent)) / 100 if active else 0.0


def _spread(
    incoming: Incoming, partitions: list[Partition], request: MovesRequest, rate: float, led: float
) -> list[float]:
    """Bytes per second of each partition."""
    rest = [share * (rate - led) for share in unsteered_shares(partitions)]
    if led <= 0 or request.routes is None:
        return rest
    weights = request.routes.topics[incoming.topic].weights
    return [one + weights[partition.partition] * led for one, partition in zip(rest, partitions, strict=True)]


def _limit_seconds(space: Space, rates: _Rates, limit: float) -> float | None:
    """When the first volume reaches the limit if all goes on like this; 0 where one is above already."""
    room = limit * space.capacity - space.used
    if bool((room <= 0).any()):
        return 0.0
    within = _first(room, rates.net)
    if within <= rates.over:
        return within
    left = room - rates.net * rates.over
    first = rates.over + _first(left, rates.lasting)
    return first if first <= FARTHEST_SECONDS else None


def _first(room: Floats, rate: Floats) -> float:
    """Seconds until the first room is used up; infinite where none is."""
    growing = rate > 0
    return float(np.min(room[growing] / rate[growing])) if bool(growing.any()) else math.inf


def _routing_seconds(space: Space, rates: _Rates, some: Flags, leave: float) -> float | None:
    """When the deviation is within `leave`; None: never within a year.

    Weights are made anew in each cycle, to level the disks in the time that is looked ahead from then on. While
    caps bind the deviation falls by a straight line, as steep as it begins; once it could be gone within the time
    looked ahead, each such time divides it by e. A running ingest ends: its weights aim at its end, and what they
    do is done by then.
    """
    now = plain_deviation(space.used, space.capacity, some)
    if now <= leave:
        return 0.0
    if rates.steered <= 0:
        return None
    seconds = min(rates.ahead, rates.ends)

    def after(time: float) -> float:
        return plain_deviation(np.maximum(space.used + rates.net * time, 0.0), space.capacity, some)

    if now - after(seconds) <= SLOWEST * now:
        return None
    if math.isfinite(rates.ends):
        then = after(seconds)
        return seconds * (now - leave) / (now - then) if then <= leave else None
    if leave <= 0:
        return None  # what is divided again and again is never nothing
    fall = max((now - after(BEGINNING * seconds)) / BEGINNING, now - after(seconds))
    bend = min(now, max(leave, fall))
    needed = SLOWER * seconds * ((now - bend) / fall + math.log(bend / leave))
    return needed if needed <= FARTHEST_SECONDS else None
