"""Which topics can be routed at all, and the columns of those that can."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from scipy import sparse

from evenkeel.domain.exchange import Policy, TopicRouting
from evenkeel.domain.snapshot import ClusterSnapshot, Partition
from evenkeel.errors import InputError
from evenkeel.names import INTERNAL_PREFIX
from evenkeel.planning.program import LEADER_FACTOR, Columns, least_relaxation
from evenkeel.planning.space import Floats, Space, unplaced
from evenkeel.reasons import Reason

BETA = 500.0
"""Sharpness of the weights: 1 % of fill changes a weight by exp(5). Tried: facts, routing."""
LEAST_BETA = 0.5
"""Sharpness where Storage counts nothing: 10 % of fill change a weight by 5 %. Not 0, for the prices that
keep volumes below the ceiling and brokers within their caps are measured in it, and would have no bound."""
STORAGE = "Storage"
"""The score that is no cost: its weight scales beta."""
RELAXATION_SLACK = 1e-6

Refusal = tuple[Reason, str]


def refuse_topic(
    topic: str,
    snapshot: ClusterSnapshot,
    space: Space,
    routing: TopicRouting,
    partitions: list[Partition],
    *,
    costed: bool = False,
) -> Refusal | None:
    """Why a topic cannot be routed, or None. `costed`: a score other than Storage gave its costs."""
    if not partitions:
        return Reason.TOPIC_MISSING, f"topic {topic} is not in the snapshot"
    numbers = sorted(partition.partition for partition in partitions)
    if numbers != list(range(len(numbers))):
        return Reason.SNAPSHOT_INCOMPLETE, f"topic {topic}: partitions 0 to {numbers[-1]} are not all known"
    return (
        _refuse_kind(topic, snapshot)
        or _refuse_scores(topic, routing, costed=costed)
        or _refuse_sizes(topic, space, partitions)
        or _refuse_inflow(topic, snapshot)
        or _refuse_places(topic, snapshot, space, partitions)
    )


def _refuse_kind(topic: str, snapshot: ClusterSnapshot) -> Refusal | None:
    settings = next((found for found in snapshot.topics if found.name == topic), None)
    if topic.startswith(INTERNAL_PREFIX) or (settings and settings.internal):
        return Reason.INTERNAL_TOPIC, f"topic {topic} is internal; internal topics are never routed"
    if settings and "compact" in settings.cleanup_policy:
        return Reason.COMPACTED, f"topic {topic} is compacted: its records must stay with their keys"
    return None


def _refuse_scores(topic: str, routing: TopicRouting, *, costed: bool) -> Refusal | None:
    for score in routing.scores:
        if score.weight < 0:
            return (
                Reason.INVALID_SPEC,
                f"topic {topic}: weight {score.weight} of score {score.name} is below 0",
            )
    asked = [score.name for score in routing.scores if score.weight > 0]
    if not asked:
        return Reason.DISABLED, f"topic {topic}: no score has a weight above 0"
    if storage_weight(routing) == 0 and not costed:
        return Reason.NO_SCORES, f"topic {topic}: none of its scores can be used: {', '.join(asked)}"
    return None


def _refuse_sizes(topic: str, space: Space, partitions: list[Partition]) -> Refusal | None:
    unknown = (*space.unknown, *unplaced(space, tuple(partitions)))
    if unknown:
        named = ", ".join(unknown[:3])
        return (
            Reason.SNAPSHOT_INCOMPLETE,
            f"topic {topic}: {len(unknown)} sizes not measured, such as {named}",
        )
    if not space.volumes:
        return Reason.SNAPSHOT_INCOMPLETE, f"topic {topic}: no volume was measured"
    return None


def _refuse_inflow(topic: str, snapshot: ClusterSnapshot) -> Refusal | None:
    incoming = next((found for found in snapshot.incoming if found.topic == topic), None)
    if incoming is None or (incoming.planned_bytes is None and incoming.bytes_per_second is None):
        return Reason.NO_INFLOW_KNOWN, f"topic {topic}: nothing is known of what will be written to it"
    if incoming.steered_percent <= 0:
        return Reason.NOT_STEERED, f"topic {topic}: none of its inflow comes through a router without keys"
    return None


def _refuse_places(
    topic: str, snapshot: ClusterSnapshot, space: Space, partitions: list[Partition]
) -> Refusal | None:
    led = [partition for partition in partitions if has_leader(partition)]
    if not led:
        return Reason.NO_LEADERS, f"topic {topic}: no partition has a leader"
    places = {
        frozenset(space.locate(partition, broker) for broker in partition.replicas) for partition in led
    }
    if len(places) > 1:
        return None
    if min(len(partition.replicas) for partition in led) >= len(snapshot.brokers):
        count = len(snapshot.brokers)
        what = (
            f"topic {topic} has a replica on each of the {count} brokers; "
            f"replication factor {count - 1} or a broker more would help"
        )
        return Reason.REPLICATED_EVERYWHERE, what
    return Reason.NOTHING_TO_DO, f"topic {topic}: all partitions with a leader lie on the same volumes"


def has_leader(partition: Partition) -> bool:
    """Whether the partition can be written."""
    return partition.leader is not None and partition.leader >= 0


def storage_weight(routing: TopicRouting) -> float:
    """Weight of the Storage score, 1.0 for 100 percent."""
    return sum(score.weight for score in routing.scores if score.name == STORAGE) / 100


def stopped(space: Space, partitions: Iterable[Partition], policy: Policy) -> tuple[int, ...]:
    """Partitions of which a replica's volume is above maxFillPercent, as measured now."""
    full = np.flatnonzero(space.used > space.capacity * policy.max_fill_percent / 100)
    volumes = set(full.tolist())
    return tuple(
        sorted(
            partition.partition
            for partition in partitions
            if any(space.locate(partition, broker) in volumes for broker in partition.replicas)
        )
    )


def build_columns(
    topic: str,
    snapshot: ClusterSnapshot,
    space: Space,
    partitions: list[Partition],
    stop: tuple[int, ...],
    routing: TopicRouting,
    steerable: float,
    costs: Mapping[int, float] | None = None,
    beta: float = BETA,
) -> Columns:
    """Columns of one topic; caps are relaxed by the smallest common factor where they are impossible.

    Stopped partitions are open only where no other has a leader.

    `costs` are k_p by partition, weighted and added up (empty or None: all equal); `beta` is the sharpness
    towards fills before the Storage score's weight scales it.

    Raises:
        InputError: a partition has no cost, or one that is not finite, or beta is not above 0.
    """
    led = sorted((p for p in partitions if has_leader(p)), key=lambda p: p.partition)
    usable = [partition for partition in led if partition.partition not in set(stop)] or led
    caps, limits, names = _build_caps(snapshot, space, usable)
    columns = Columns(
        topic=topic,
        partitions=len(partitions),
        open=np.array([partition.partition for partition in usable], dtype=np.int64),
        on_volume=_on_volume(space, usable),
        caps=caps,
        limits=limits,
        cap_names=names,
        steerable=steerable,
        beta=_check_beta(topic, beta, storage_weight(routing)),
        costs=_build_costs(topic, usable, costs),
    )
    factor = least_relaxation(columns)
    if factor <= 1.0 + RELAXATION_SLACK:
        return columns
    return replace(columns, limits=limits * factor * (1 + RELAXATION_SLACK), relaxed=factor)


def _check_beta(topic: str, beta: float, weight: float) -> float:
    if not (math.isfinite(beta) and beta > 0):
        raise InputError(f"topic {topic}: beta must be a finite number above 0, not {beta}")
    return max(LEAST_BETA, beta * weight)


def _build_costs(topic: str, partitions: list[Partition], costs: Mapping[int, float] | None) -> Floats:
    """k_p per column, its least 0: a cost that is equal everywhere changes nothing."""
    if not costs:
        return np.zeros(len(partitions))
    for partition in partitions:
        cost = costs.get(partition.partition)
        if cost is None or not math.isfinite(cost):
            raise InputError(
                f"topic {topic}: cost of partition {partition.partition} must be a number, not {cost}"
            )
    found = np.array([costs[partition.partition] for partition in partitions], dtype=np.float64)
    return np.asarray(found - found.min())


def _on_volume(space: Space, partitions: list[Partition]) -> sparse.csr_matrix:
    places = [
        (volume, column)
        for column, partition in enumerate(partitions)
        for broker in partition.replicas
        if (volume := space.locate(partition, broker)) is not None
    ]
    return _incidence(places, (len(space.volumes), len(partitions)))


def _build_caps(
    snapshot: ClusterSnapshot, space: Space, partitions: list[Partition]
) -> tuple[sparse.csr_matrix, np.ndarray[tuple[int], np.dtype[np.float64]], tuple[str, ...]]:
    """Leader share of broker b <= kappa_b, replicated inflow share <= RF kappa_b; vacuous rows left out."""
    replication = max(len(partition.replicas) for partition in partitions)
    leads: dict[int, list[int]] = {}
    holds: dict[int, list[int]] = {}
    for column, partition in enumerate(partitions):
        leads.setdefault(partition.leader if partition.leader is not None else -1, []).append(column)
        for broker in partition.replicas:
            holds.setdefault(broker, []).append(column)
    shares = _fair_shares(snapshot, space)
    places: list[tuple[int, int]] = []
    limits: list[float] = []
    names: list[str] = []
    for word, members, factor in (("leader", leads, 1), ("replica", holds, replication)):
        for broker, columns in sorted(members.items()):
            limit = factor * shares.get(broker, LEADER_FACTOR / len(snapshot.brokers))
            if limit < 1.0:
                places += [(len(limits), column) for column in columns]
                limits.append(limit)
                names.append(f"{word} share of broker {broker}")
    matrix = _incidence(places, (len(limits), len(partitions)))
    return matrix, np.array(limits, dtype=np.float64), tuple(names)


def _fair_shares(snapshot: ClusterSnapshot, space: Space) -> dict[int, float]:
    """kappa_b = 2 max(1/B, C_b/C)."""
    capacity = space.broker_capacity()
    whole = sum(capacity.values())
    count = len(snapshot.brokers)
    return {
        broker.id: LEADER_FACTOR * max(1 / count, capacity.get(broker.id, 0.0) / whole)
        for broker in snapshot.brokers
    }


def _incidence(places: list[tuple[int, int]], shape: tuple[int, int]) -> sparse.csr_matrix:
    rows = [row for row, _ in places]
    columns = [column for _, column in places]
    return sparse.csr_matrix((np.ones(len(places)), (rows, columns)), shape=shape)
