"""From the planner's changes to moves as they are shown, stored and run."""

from __future__ import annotations

from collections.abc import Sequence

from evenkeel.domain.moves import Move, MoveKind
from evenkeel.domain.snapshot import ClusterSnapshot, Partition, Topic
from evenkeel.planning.movable import Seats
from evenkeel.planning.moves_mandatory import Change
from evenkeel.planning.retention import DELETE_DELAY_MS


def build_moves(snapshot: ClusterSnapshot, seats: Seats, changes: Sequence[Change]) -> list[Move]:
    """One move per change, in their order."""
    topics = {topic.name: topic for topic in snapshot.topics}
    return [_build(seats, change, topics.get(change.partition.topic)) for change in changes]


def _build(seats: Seats, change: Change, topic: Topic | None) -> Move:
    partition = change.partition
    delay = topic.file_delete_delay_ms if topic is not None else None
    receiver = None if change.seat is None else int(seats.brokers[change.seat])
    path = None
    if change.seat is not None and receiver in seats.several:
        path = seats.paths[change.seat]
    return Move(
        topic=partition.topic,
        partition=partition.partition,
        source=partition.replicas,
        target=_target(partition, change, receiver),
        bytes=change.bytes,
        target_dir=path,
        kind=change.kind,
        copied_to=receiver,
        copied_from=_sender(partition, change),
        freed_on=change.leaves,
        freed_dir=partition.replica_dirs.get(change.leaves) if change.leaves is not None else None,
        freed_bytes=change.freed,
        freed_after_ms=DELETE_DELAY_MS if delay is None else delay,
        topic_id=topic.topic_id if topic is not None else None,
    )


def _target(partition: Partition, change: Change, receiver: int | None) -> tuple[int, ...]:
    if change.kind is MoveKind.REMOVE:
        return tuple(one for one in partition.replicas if one != change.leaves)
    if change.kind is MoveKind.ADD and receiver is not None:
        return (*partition.replicas, receiver)
    if receiver is None:
        return partition.replicas
    return tuple(receiver if one == change.leaves else one for one in partition.replicas)


def _sender(partition: Partition, change: Change) -> int | None:
    """Followers fetch from the leader, whichever replica goes; between directories a broker copies for itself."""
    if change.seat is None:
        return None
    return change.leaves if change.kind is MoveKind.DIRECTORY else partition.leader
