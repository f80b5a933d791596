"""Raw answers of one measurement, before anything is made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from evenkeel.errors import EvenkeelError
from evenkeel.kafka.answers import (
    ClusterAnswer,
    DirAnswer,
    OffsetSpan,
    ReassignmentAnswer,
    TopicAnswer,
    TopicPartition,
)

CONFIG_KEYS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "segment.bytes",
    "segment.ms",
    "file.delete.delay.ms",
    "min.insync.replicas",
    "remote.storage.enable",
    "unclean.leader.election.enable",
    "compression.type",
    "max.message.bytes",
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
"""Topic settings that every measurement asks for."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the brokers said; an exception where one did not answer."""

    taken_at_ms: int
    cluster: ClusterAnswer
    topics: Mapping[str, TopicAnswer]
    dirs: Mapping[int, tuple[DirAnswer, ...] | EvenkeelError]
    """By broker; a broker that was not asked, because it is fenced, is absent."""
    offsets: Mapping[int, Mapping[TopicPartition, OffsetSpan] | EvenkeelError]
    """By leader."""
    configs: Mapping[str, Mapping[str, str] | None]
    reassignments: Mapping[TopicPartition, ReassignmentAnswer] | EvenkeelError
    configs_error: EvenkeelError | None = None
    """Why no settings were told at all."""
    kept_from: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    """First offset that retention will keep at the end of the horizon; None: it keeps nothing."""
    throttles: Mapping[int, Mapping[str, int] | EvenkeelError] = field(default_factory=dict)
    """By broker: replication throttles in bytes per second, as far as set: `leader`, `follower`."""
    kept_dirs: Mapping[int, int] = field(default_factory=dict)
    """Brokers whose `dirs` are what they said last, and when that was (ms); filled by `LastKnown`."""
    kept_offsets: Mapping[int, int] = field(default_factory=dict)
    """Leaders whose `offsets` are what they said last, and when that was (ms)."""

    def spans(self) -> dict[TopicPartition, OffsetSpan]:
        """Offsets of all partitions that were told."""
        found: dict[TopicPartition, OffsetSpan] = {}
        for answer in self.offsets.values():
            if not isinstance(answer, EvenkeelError):
                found.update(answer)
        return found

    def empty_topics(self) -> frozenset[str]:
        """Topics of which it is known that they hold no record."""
        spans = self.spans()

        def is_empty(key: TopicPartition) -> bool:
            return key in spans and spans[key].start == spans[key].end

        return frozenset(
            name
            for name, topic in self.topics.items()
            if all(is_empty((name, entry.partition)) for entry in topic.partitions)
        )

    def errors(self) -> Iterator[tuple[str, EvenkeelError]]:
        """Every missing answer with its subject."""
        for broker, answer in self.dirs.items():
            if isinstance(answer, EvenkeelError):
                yield f"broker/{broker}", answer
        for broker, offsets in self.offsets.items():
            if isinstance(offsets, EvenkeelError):
                yield f"broker/{broker}", offsets
        if isinstance(self.reassignments, EvenkeelError):
            yield "", self.reassignments
        if self.configs_error is not None:
            yield "", self.configs_error
