"""After a plan: the first replica of what was moved leads, as the plan spread leaders."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from evenkeel.domain.connection import Connection
from evenkeel.domain.moves import Move, MoveKind
from evenkeel.kafka.answers import TopicAnswer, TopicPartition
from evenkeel.kafka.moves import MovesAdmin

log = logging.getLogger(__name__)
SECONDS = 10.0


def find_elections(
    moves: Sequence[Move], topics: Mapping[str, TopicAnswer], online: Collection[int]
) -> tuple[TopicPartition, ...]:
    """Partitions that were moved and that another than their first replica leads, though it is alive and in sync.

    What the plan did not come to, because it was cancelled or refused, keeps its leader.

    Args:
        moves: of the plan that has ended.
        topics: as Kafka has them now.
        online: brokers that are up.
    """
    known = {
        (name, one.partition): one
        for name in {move.topic for move in moves}
        if name in topics
        for one in topics[name].partitions
    }
    wanted = {
        (move.topic, move.partition): move.target for move in moves if move.kind is not MoveKind.DIRECTORY
    }
    return tuple(
        key
        for key, target in wanted.items()
        if (one := known.get(key)) is not None
        and one.replicas
        and one.replicas == target
        and one.leader != one.replicas[0]
        and one.replicas[0] in one.isr
        and one.replicas[0] in online
    )


def elect_leaders(connection: Connection, moves: Sequence[Move]) -> int:
    """Look, and have preferred leaders elected; returns how many partitions were asked for.

    What Kafka refuses is logged: leaders elsewhere cost evenness of load and nothing else.

    Raises:
        EvenkeelError: Kafka does not answer, or the right is missing.
    """
    with MovesAdmin(connection, move=True, timeout=SECONDS) as admin:
        online = {broker.id for broker in admin.describe_cluster().brokers if not broker.fenced}
        due = find_elections(moves, admin.describe_topics(), online)
        refused = admin.elect_preferred(due) if due else {}
    for (topic, partition), error in refused.items():
        log.warning("leader not elected topic=%s partition=%d why=%s", topic, partition, error.message)
    log.info("preferred leaders elected partitions=%d refused=%d", len(due), len(refused))
    return len(due)
