"""Whether what a plan was made from still holds, by the newest snapshot. What is unknown contradicts nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from evenkeel.domain.exchange import Policy
from evenkeel.domain.moves import Batch, DesiredPlan, Move, MoveKind
from evenkeel.domain.snapshot import Broker, ClusterSnapshot, Partition, Topic
from evenkeel.planning.movable import is_ours_or_internal
from evenkeel.planning.moves_outlook import with_running_moves
from evenkeel.planning.peak import Course
from evenkeel.planning.space import build_space

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A fact that a plan was made from and that does not hold any more."""

    message: str
    """Names the move, what was planned from and what is."""
    passing: bool = False
    """It may be as before in a minute: a broker that restarts."""


def judge_plan(plan: DesiredPlan, snapshot: ClusterSnapshot, policy: Policy) -> Contradiction | None:
    """What contradicts a plan that has not begun; None: nothing does."""
    return judge_batches(plan.batches, plan.cluster_id, snapshot, policy)


def judge_batches(
    batches: Sequence[Batch], cluster_id: str | None, snapshot: ClusterSnapshot, policy: Policy
) -> Contradiction | None:
    """The first lasting contradiction, else the first passing one.

    Args:
        batches: none of which has begun.
        cluster_id: Kafka's name for the cluster that they were planned for; None: not known.
        snapshot: what was measured.
        policy: `exclude_topics`, `drain`, `max_fill_percent`.
    """
    if None not in (cluster_id, snapshot.cluster_id) and cluster_id != snapshot.cluster_id:
        message = f"clusterId: the plan is for cluster {cluster_id}, this is {snapshot.cluster_id}"
        return Contradiction(message)
    found = list(_find_contradictions(batches, snapshot, policy))
    lasting = [one for one in found if not one.passing]
    if lasting or found:
        return (lasting or found)[0]
    return _judge_peaks(batches, snapshot, policy)


def _find_contradictions(
    batches: Sequence[Batch], snapshot: ClusterSnapshot, policy: Policy
) -> Iterator[Contradiction]:
    moves = [move for batch in batches for move in batch.moves]
    partitions = index_partitions(moves, snapshot)
    brokers = {broker.id: broker for broker in snapshot.brokers}
    topics = {topic.name: topic for topic in snapshot.topics}
    for move in moves:
        topic = topics.get(move.topic)
        if move.topic in policy.exclude_topics:
            yield Contradiction(f"topic {move.topic} is in spec.balance.excludeTopics")
        elif is_ours_or_internal(move.topic) or (topic is not None and topic.internal):
            yield Contradiction(f"topic {move.topic} is internal, or belongs to a TrainingDataset")
        else:
            yield from _judge_topic(move, topic)
            partition = partitions.get((move.topic, move.partition))
            yield from _judge_source(move, partition)
            yield from _judge_receiver(move, brokers, policy)


def index_partitions(moves: Sequence[Move], snapshot: ClusterSnapshot) -> dict[Key, Partition]:
    """Partitions of the topics of these moves."""
    topics = {move.topic for move in moves}
    return {(one.topic, one.partition): one for one in snapshot.partitions if one.topic in topics}


def _judge_topic(move: Move, topic: Topic | None) -> Iterator[Contradiction]:
    now = topic.topic_id if topic is not None else None
    if None not in (move.topic_id, now) and now != move.topic_id:
        yield Contradiction(
            f"topic {move.topic} was made again: it has id {now}, planned for {move.topic_id}"
        )


def _judge_source(move: Move, partition: Partition | None) -> Iterator[Contradiction]:
    where = f"{move.topic}-{move.partition}"
    if partition is None:
        yield Contradiction(f"{where} is not there any more")
        return
    if partition.adding or partition.removing:
        return  # somebody moves it; where it ends up is seen later
    local = move.kind is MoveKind.DIRECTORY
    if partition.replicas != move.source and (local or partition.replicas != move.target):
        now, then = list(partition.replicas), list(move.source)
        yield Contradiction(f"{where} lies on brokers {now}, planned from {then}")
    elif local and move.copied_to is not None and move.freed_dir is not None:
        path = partition.replica_dirs.get(move.copied_to)
        if path not in (None, move.freed_dir, move.target_dir):
            what = f"{where} lies in {path} of broker {move.copied_to}, planned from {move.freed_dir}"
            yield Contradiction(what)


def _judge_receiver(move: Move, brokers: Mapping[int, Broker], policy: Policy) -> Iterator[Contradiction]:
    if move.copied_to is None:
        return
    broker, where = brokers.get(move.copied_to), f"{move.topic}-{move.partition}"
    if move.copied_to in policy.drain and move.kind is not MoveKind.DIRECTORY:
        yield Contradiction(f"broker {move.copied_to}, which is to receive {where}, is to be drained")
    if broker is None:
        yield Contradiction(
            f"broker {move.copied_to}, which is to receive {where}, is not known", passing=True
        )
    elif broker.fenced or not broker.online:
        yield Contradiction(f"broker {broker.id}, which is to receive {where}, is offline", passing=True)
    elif broker.log_dirs:
        yield from _judge_dirs(move, broker)


def _judge_dirs(move: Move, broker: Broker) -> Iterator[Contradiction]:
    where = f"{move.topic}-{move.partition}"
    dirs = [one for one in broker.log_dirs if move.target_dir in (None, one.path)]
    if not dirs:
        what = f"broker {broker.id} has no log directory {move.target_dir}, which is to receive {where}"
        yield Contradiction(what)
    elif all(one.cordoned for one in dirs):
        yield Contradiction(f"{dirs[0].path} of broker {broker.id}, which is to receive {where}, is cordoned")
    elif not any(one.online for one in dirs):
        what = f"{dirs[0].path} of broker {broker.id}, which is to receive {where}, is offline"
        yield Contradiction(what, passing=True)


def _judge_peaks(batches: Sequence[Batch], snapshot: ClusterSnapshot, policy: Policy) -> Contradiction | None:
    """Whether a batch would fill a volume above the limit, with the sizes of now."""
    space = build_space(snapshot)
    partitions = index_partitions([move for batch in batches for move in batch.moves], snapshot)
    course = Course(space, with_running_moves(snapshot, space)[1])
    for batch in batches:
        moves = [
            _resize(move, partitions)
            for move in batch.moves
            if move.copied_to is None or _is_known(move, space.index, space.sole)
        ]
        for peak in course.run(moves, batch.seconds):
            if peak.fill * 100 > policy.max_fill_percent:
                limit = f"limit {policy.max_fill_percent} %"
                what = f"batch {batch.number + 1} would fill {peak.volume} to {peak.fill:.1%}, {limit}"
                # What a plan before it has moved away lies there for a minute or two, until Kafka deletes it.
                return Contradiction(what, passing=True)
    return None


def _is_known(move: Move, index: Mapping[tuple[int, str], int], sole: Mapping[int, int]) -> bool:
    if move.copied_to is None or move.target_dir is None:
        return move.copied_to in sole
    return (move.copied_to, move.target_dir) in index


def _resize(move: Move, partitions: Mapping[Key, Partition]) -> Move:
    """The move with the bytes that the partition has now."""
    partition = partitions.get((move.topic, move.partition))
    if partition is None:
        return move
    size = max(partition.replica_bytes.values(), default=move.bytes)
    freed = partition.replica_bytes.get(move.freed_on, move.freed_bytes) if move.freed_on is not None else 0
    return replace(move, bytes=size if move.copied_to is not None else 0, freed_bytes=freed)
