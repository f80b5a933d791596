"""From raw answers to a ClusterSnapshot: pure, and nothing unknown becomes a zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from evenkeel import names
from evenkeel.domain.exchange import BrokerPlace
from evenkeel.domain.snapshot import Broker, ClusterSnapshot, Incoming, LogDir, Partition, Topic
from evenkeel.errors import EvenkeelError
from evenkeel.kafka.answers import BrokerAnswer, DirAnswer, OffsetSpan, PartitionAnswer, TopicPartition
from evenkeel.keeper.collector import UNLIMITED, retention_ms
from evenkeel.keeper.growth import Growth, leader_bytes, replica_bytes
from evenkeel.keeper.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Inflow:
    """What we know about coming writes that Kafka cannot tell."""

    routed: frozenset[str] = frozenset()
    """Topics whose producers may be steered."""
    ingests: Mapping[str, int | None] = field(default_factory=dict)
    """Data topic -> bytes that its ingest has still to write (0: sealed); None: no plan yet."""


def assemble(
    measurement: Measurement,
    growth: Growth,
    *,
    places: Iterable[BrokerPlace] = (),
    inflow: Inflow | None = None,
    before: ClusterSnapshot | None = None,
) -> ClusterSnapshot:
    """Build the snapshot.

    Args:
        measurement: the answers.
        growth: history of rates, this measurement included.
        places: where brokers run, as far as the operator knows.
        inflow: planned writes.
        before: the last snapshot; tells the directories of brokers that do not answer now.
    """
    known = {place.broker: place for place in places}
    paths = {broker.id: broker.log_dirs for broker in before.brokers} if before else {}
    brokers = tuple(
        _broker(answer, measurement, known.get(answer.id), paths.get(answer.id, ()))
        for answer in sorted(measurement.cluster.brokers, key=lambda answer: answer.id)
    )
    return ClusterSnapshot(
        brokers=brokers,
        partitions=_partitions(measurement, growth),
        incoming=_incoming(measurement, growth, inflow or Inflow()),
        topics=tuple(
            _topic(name, topic.internal, measurement.configs.get(name))
            for name, topic in sorted(measurement.topics.items())
        ),
        taken_at_ms=measurement.taken_at_ms,
        cluster_id=measurement.cluster.cluster_id,
        unknown=tuple(_unknown(measurement, brokers)),
    )


def _broker(
    answer: BrokerAnswer, measurement: Measurement, place: BrokerPlace | None, paths: tuple[LogDir, ...]
) -> Broker:
    dirs = measurement.dirs.get(answer.id)
    volumes = place.volumes if place else {}
    if isinstance(dirs, tuple):
        log_dirs = tuple(_log_dir(entry, volumes) for entry in dirs)
    else:
        # Known by name from an earlier answer, unknown in size: never empty, never zero.
        log_dirs = tuple(LogDir(entry.path, online=not answer.fenced, volume=entry.volume) for entry in paths)
    return Broker(
        id=answer.id,
        rack=answer.rack,
        host=answer.host,
        node=place.node if place else None,
        online=not answer.fenced,
        fenced=answer.fenced,
        log_dirs=log_dirs,
    )


def _log_dir(entry: DirAnswer, volumes: Mapping[str, str]) -> LogDir:
    return LogDir(
        path=entry.path,
        total_bytes=entry.total_bytes,
        usable_bytes=entry.usable_bytes,
        online=entry.online,
        cordoned=entry.cordoned,
        volume=volumes.get(entry.path),
    )


def _topic(name: str, internal: bool, config: Mapping[str, str] | None) -> Topic:  # noqa: FBT001 - private
    known = config or {}

    def number(key: str) -> int | None:
        return int(known[key]) if key in known else None

    return Topic(
        name=name,
        internal=internal or name.startswith(names.INTERNAL_PREFIX),
        cleanup_policy=known.get("cleanup.policy", "delete"),
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        segment_bytes=number("segment.bytes"),
        min_isr=number("min.insync.replicas"),
        remote_storage=known.get("remote.storage.enable") == "true",
    )


def _partitions(measurement: Measurement, growth: Growth) -> tuple[Partition, ...]:
    spans, sizes, leaders = measurement.spans(), replica_bytes(measurement), leader_bytes(measurement)
    dirs = _replica_dirs(measurement)
    return tuple(
        _partition(
            (name, entry.partition),
            entry,
            measurement,
            growth,
            span=spans.get((name, entry.partition)),
            sizes=sizes.get((name, entry.partition), {}),
            dirs=dirs.get((name, entry.partition), {}),
            size=leaders.get((name, entry.partition)),
        )
        for name, topic in sorted(measurement.topics.items())
        for entry in topic.partitions
    )


def _partition(
    key: TopicPartition,
    entry: PartitionAnswer,
    measurement: Measurement,
    growth: Growth,
    *,
    span: OffsetSpan | None,
    sizes: Mapping[int, int],
    dirs: Mapping[int, str],
    size: int | None,
) -> Partition:
    moving = measurement.reassignments
    change = moving.get(key) if not isinstance(moving, EvenkeelError) else None
    adding = change.adding if change else ()
    return Partition(
        topic=key[0],
        partition=key[1],
        leader=entry.leader,
        replicas=entry.replicas,
        isr=entry.isr,
        adding=adding,
        removing=change.removing if change else (),
        replica_bytes=sizes,
        replica_dirs=dirs,
        adding_bytes=_still_inbound(adding, sizes, size),
        log_start=span.start if span else None,
        end=span.end if span else None,
        bytes_per_second=growth.partition_rate(key),
        expiring_bytes=_expiring(key, measurement, span, size),
    )


def _still_inbound(adding: tuple[int, ...], sizes: Mapping[int, int], size: int | None) -> int | None:
    """Bytes that adding replicas have still to copy; None: nothing is added, or the size is unknown."""
    if not adding or size is None:
        return None
    return sum(max(0, size - sizes.get(broker, 0)) for broker in adding)


def _expiring(
    key: TopicPartition, measurement: Measurement, span: OffsetSpan | None, size: int | None
) -> int | None:
    """Bytes that retention deletes within the horizon, as the share of offsets that go.

    Sizes within a partition are taken as even. Retention by bytes frees nothing that new bytes do not
    replace, except what is above it already.
    """
    config = measurement.configs.get(key[0])
    age = retention_ms(config)
    if span is None or size is None or age is None or config is None:
        return None
    records = span.end - span.start
    gone = 0
    if age != UNLIMITED and records > 0:
        if key not in measurement.kept_from:
            return None
        kept = measurement.kept_from[key]
        first = span.end if kept is None else min(max(kept, span.start), span.end)
        gone = size * (first - span.start) // records
    limit = int(config.get("retention.bytes", "-1"))
    deletes = "delete" in config.get("cleanup.policy", "delete")
    return max(gone, size - limit) if limit >= 0 and deletes else gone


def _replica_dirs(measurement: Measurement) -> dict[TopicPartition, dict[int, str]]:
    found: dict[TopicPartition, dict[int, str]] = {}
    for broker, answer in measurement.dirs.items():
        if isinstance(answer, tuple) and len(answer) > 1:
            for directory in answer:
                for key in directory.replica_bytes:
                    found.setdefault(key, {})[broker] = directory.path
    return found


def _incoming(measurement: Measurement, growth: Growth, inflow: Inflow) -> tuple[Incoming, ...]:
    return tuple(
        _topic_inflow(name, growth, inflow)
        for name, topic in sorted(measurement.topics.items())
        if not topic.internal and not name.startswith(names.INTERNAL_PREFIX)
    )


def _topic_inflow(name: str, growth: Growth, inflow: Inflow) -> Incoming:
    steered = 100 if name in inflow.routed else 0
    if name in inflow.ingests:
        planned = inflow.ingests[name]
        # The remaining planned bytes of an ingest are all that comes: no rate beside them.
        return Incoming(name, 0.0 if planned is not None else None, planned, steered)
    rate = growth.topic_rate(name)
    observed = growth.observed_seconds() if rate is not None else None
    return Incoming(name, rate, None, steered, observed)


def _unknown(measurement: Measurement, brokers: tuple[Broker, ...]) -> Iterable[str]:
    for index, broker in enumerate(brokers):
        if not isinstance(measurement.dirs.get(broker.id), tuple):
            yield f"brokers[{index}].logDirs"
    spans = measurement.spans()
    position = 0
    for name, topic in sorted(measurement.topics.items()):
        for entry in topic.partitions:
            if (name, entry.partition) not in spans:
                yield f"partitions[{position}].end"
            position += 1
    for index, name in enumerate(sorted(measurement.topics)):
        if measurement.configs.get(name) is None:
            yield f"topics[{index}].cleanupPolicy"
    if isinstance(measurement.reassignments, EvenkeelError):
        yield "partitions.adding"
