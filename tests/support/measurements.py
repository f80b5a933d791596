"""Builder of measurements: three brokers, one topic `t` of one partition on brokers 1 and 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenkeel.errors import EvenkeelError
from evenkeel.kafka.answers import (
    BrokerAnswer,
    ClusterAnswer,
    DirAnswer,
    OffsetSpan,
    PartitionAnswer,
    ReassignmentAnswer,
    TopicAnswer,
    TopicPartition,
)
from evenkeel.keeper.measurement import Measurement

MIB = 1024**2
CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def build_measurement(
    *,
    end: int = 100,
    taken_at_ms: int = 0,
    fenced: Sequence[int] = (),
    dirs: Mapping[int, EvenkeelError] | None = None,
    replica_bytes: Mapping[int, int] | None = None,
    offsets: Mapping[int, Mapping[TopicPartition, OffsetSpan] | EvenkeelError] | None = None,
    configs: Mapping[str, Mapping[str, str] | None] | None = None,
    reassignments: Mapping[TopicPartition, ReassignmentAnswer] | None = None,
    kept_from: Mapping[TopicPartition, int | None] | None = None,
) -> Measurement:
    sizes = {1: MIB, 2: MIB, **(replica_bytes or {})}
    found: dict[int, tuple[DirAnswer, ...] | EvenkeelError] = {
        broker: (
            DirAnswer(
                "/data",
                online=True,
                total_bytes=1000 * MIB,
                usable_bytes=400 * MIB,
                replica_bytes={("t", 0): sizes[broker]} if broker in sizes else {},
            ),
        )
        for broker in (1, 2, 3)
        if broker not in fenced
    }
    found.update(dirs or {})
    row = PartitionAnswer(0, 1, (1, 2), (1, 2))
    return Measurement(
        taken_at_ms=taken_at_ms,
        cluster=ClusterAnswer(
            "cluster",
            tuple(
                BrokerAnswer(number, "host", 9092, f"rack{number}", fenced=number in fenced)
                for number in (3, 1, 2)
            ),
        ),
        topics={"t": TopicAnswer("t", "topic-id", internal=False, partitions=(row,))},
        dirs=found,
        offsets=offsets if offsets is not None else {1: {("t", 0): OffsetSpan(0, end)}},
        configs=configs if configs is not None else {"t": CONFIG},
        reassignments=reassignments if reassignments is not None else {},
        kept_from=kept_from or {},
    )
