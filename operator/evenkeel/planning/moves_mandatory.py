"""Moves that are wanted for themselves: brokers to be emptied, and topics that get another number of replicas.

They come before those that level the volumes, and go where these want bytes anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evenkeel.domain.moves import MoveKind
from evenkeel.domain.snapshot import ClusterSnapshot, Partition, Topic
from evenkeel.errors import InputError
from evenkeel.planning.levels import Goal, Levels
from evenkeel.planning.movable import Key, Movable, Replica, Seats, is_ours_or_internal, is_settled
from evenkeel.planning.moves_plan import Refusal
from evenkeel.planning.space import Floats, Space
from evenkeel.reasons import Reason


@dataclass(frozen=True, slots=True)
class Change:
    """One move in terms of the planner."""

    kind: MoveKind
    partition: Partition
    bytes: int
    """Copied."""
    lasting: float
    """Of a copy, at the end of the horizon."""
    leaves: int | None = None
    """Broker that gives the replica up."""
    source: int | None = None
    """Volume it leaves."""
    freed: int = 0
    """Bytes that lie there now."""
    seat: int | None = None
    gain: float = 0.0

    def apply(self, levels: Levels, seats: Seats) -> None:
        """Count it."""
        if self.source is not None:
            levels.remove(self.source, self.lasting)
        if self.seat is not None:
            levels.add(int(seats.volumes[self.seat]), self.lasting, self.bytes)


def plan_removals(
    snapshot: ClusterSnapshot, space: Space, wanted: Mapping[str, int], fills: Floats, seats: Seats
) -> tuple[list[Change], list[Refusal]]:
    """One replica less of each partition that has more than is wanted: from its fullest volume, racks kept.

    Raises:
        InputError: a wanted number is below 1.
    """
    topics = {topic.name: topic for topic in snapshot.topics}
    changes: list[Change] = []
    refusals: list[Refusal] = []
    for topic, count in sorted(wanted.items()):
        if count < 1:
            what = f"replication[{topic}]: must be at least 1, not {count}"
            raise InputError(what, reason=Reason.INVALID_SPEC)
        refused = _refuse_topic(topic, topics.get(topic), count, len(set(seats.brokers.tolist())))
        if refused is not None:
            refusals.append(refused)
            continue
        changes += [
            _removal(partition, space, fills, seats)
            for partition in _partitions(snapshot, topic)
            if len(partition.replicas) > count and is_settled(partition, _out_of_sync(partition))
        ]
    return changes, refusals


def _refuse_topic(name: str, topic: Topic | None, count: int, brokers: int) -> Refusal | None:
    subject = f"topic/{name}"
    if is_ours_or_internal(name) or (topic is not None and topic.internal):
        return Refusal(
            subject, Reason.INTERNAL_TOPIC, "replicas of internal topics and of our own are left alone"
        )
    if count > brokers:
        what = f"{count} replicas are wanted, and {brokers} brokers may hold one"
        return Refusal(subject, Reason.REPLICATION_ABOVE_BROKERS, what)
    if topic is not None and topic.min_isr is not None and count < topic.min_isr:
        what = f"{count} replicas are wanted, and min.insync.replicas is {topic.min_isr}: nothing could be written"
        return Refusal(subject, Reason.REPLICATION_BELOW_MIN_ISR, what)
    return None


def _partitions(snapshot: ClusterSnapshot, topic: str) -> list[Partition]:
    found = [partition for partition in snapshot.partitions if partition.topic == topic]
    return sorted(found, key=lambda one: one.partition)


def _out_of_sync(partition: Partition) -> tuple[int, ...]:
    """The one replica that may lag where one is to go: it is the one that goes."""
    behind = [one for one in partition.replicas if one not in partition.isr] if partition.isr else []
    return tuple(behind) if len(behind) == 1 else ()


def _removal(partition: Partition, space: Space, fills: Floats, seats: Seats) -> Change:
    behind = _out_of_sync(partition)

    def rank(broker: int) -> tuple[bool, bool, int, float, int]:
        rest = {seats.rack_of[one] for one in partition.replicas if one != broker}
        volume = space.locate(partition, broker)
        fill = 2.0 if volume is None else float(fills[volume])
        return (broker not in behind, broker == partition.leader, -len(rest), -fill, broker)

    broker = min(partition.replicas, key=rank)
    size = partition.replica_bytes.get(broker, 0)
    return Change(
        kind=MoveKind.REMOVE,
        partition=partition,
        bytes=0,
        lasting=float(size),
        leaves=broker,
        source=space.locate(partition, broker),
        freed=size,
    )


def wanted_additions(
    snapshot: ClusterSnapshot, wanted: Mapping[str, int], refusals: list[Refusal]
) -> list[Partition]:
    """Partitions that lack a replica, the largest first."""
    refused = {one.subject for one in refusals}
    found = [
        partition
        for topic, count in wanted.items()
        if f"topic/{topic}" not in refused
        for partition in _partitions(snapshot, topic)
        if len(partition.replicas) < count and is_settled(partition)
    ]
    return sorted(found, key=lambda one: (-size_of(one), one.topic, one.partition))


def size_of(partition: Partition) -> int:
    """Bytes of a whole replica."""
    return max(partition.replica_bytes.values(), default=0)


class Placer:
    """Puts what must go somewhere where it is wanted most. Levels change with each.

    Args:
        seats: where replicas may go.
        levels: how full the volumes are.
        goal: how full they should be.
        limit: bytes that no volume may pass at any moment.
    """

    def __init__(self, seats: Seats, levels: Levels, goal: Goal, limit: Floats) -> None:
        self._seats = seats
        self._levels = levels
        self._goal = goal
        self._limit = limit
        self.refusals: list[Refusal] = []

    def empty(self, movable: Movable, drain: tuple[int, ...]) -> list[Change]:
        """All that may go from these brokers; of a partition on two of them one in this plan."""
        changes: dict[Key, Change] = {}
        for index in movable.on_brokers(drain):
            replica = movable.replicas[index]
            change = None if replica.key in changes else self._drain(replica)
            if change is not None:
                movable.use(replica.key)
                changes[replica.key] = change
        return list(changes.values())

    def _drain(self, replica: Replica) -> Change | None:
        partition = replica.partition
        seat = self._seat(self._seats.for_move(replica), replica.bytes)
        subject = f"partition/{partition.topic}-{partition.partition}"
        if seat is None:
            what = f"no broker may take the replica of {replica.bytes} bytes from broker {replica.broker}"
            self.refusals.append(Refusal(subject, Reason.DRAIN_BLOCKED, what))
            return None
        freed = partition.replica_bytes.get(replica.broker, 0)
        change = Change(
            kind=MoveKind.BROKER,
            partition=partition,
            bytes=replica.bytes,
            lasting=replica.lasting,
            leaves=replica.broker,
            source=replica.volume,
            freed=freed,
            seat=seat,
        )
        change.apply(self._levels, self._seats)
        return change

    def add(self, partition: Partition, lasting: float) -> Change | None:
        """One replica more."""
        size = size_of(partition)
        seat = self._seat(self._seats.for_addition(partition), size)
        if seat is None:
            subject = f"partition/{partition.topic}-{partition.partition}"
            what = f"no broker may take another replica of {size} bytes"
            self.refusals.append(Refusal(subject, Reason.NO_FEASIBLE_MOVE, what))
            return None
        change = Change(kind=MoveKind.ADD, partition=partition, bytes=size, lasting=lasting, seat=seat)
        change.apply(self._levels, self._seats)
        return change

    def _seat(self, allowed: np.ndarray[tuple[int], np.dtype[np.bool_]], size: int) -> int | None:
        """The seat whose volume lacks most, of those whose peak allows it."""
        volumes, levels = self._seats.volumes, self._levels
        open_ = np.flatnonzero(allowed & (levels.highest[volumes] + size <= self._limit[volumes]))
        if not len(open_):
            return None
        there = volumes[open_]
        lack = (self._goal.level[there] - levels.used[there]) / levels.capacity[there]
        return int(open_[np.argmax(lack)])
