"""From raw answers to a ClusterSnapshot: pure, and nothing unknown becomes a zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from evenkeel import names
from evenkeel.domain.exchange import BrokerPlace
from evenkeel.domain.snapshot import Broker, ClusterSnapshot, LogDir, Partition, Throttle, Topic
from evenkeel.errors import EvenkeelError
from evenkeel.kafka.answers import (
    BrokerAnswer,
    DirAnswer,
    OffsetSpan,
    PartitionAnswer,
    TopicAnswer,
    TopicPartition,
)
from evenkeel.keeper.expiry import Expiry
from evenkeel.keeper.growth import Growth, broker_bytes
from evenkeel.keeper.inflow import Inflow, build_incoming
from evenkeel.keeper.measurement import Measurement
from evenkeel.planning.retention import Horizons

THROTTLE_ROLES = ("leader", "follower")
THROTTLED_REPLICAS = "replication.throttled.replicas"
_NONE: Mapping[Any, Any] = {}
"""Shared by all partitions that have none."""


def assemble(
    measurement: Measurement,
    growth: Growth,
    *,
    places: Iterable[BrokerPlace] = (),
    inflow: Inflow | None = None,
    horizons: Horizons | None = None,
    before: ClusterSnapshot | None = None,
) -> ClusterSnapshot:
    """Build the snapshot.

    Args:
        measurement: the answers, last known ones included; those are told with their age.
        growth: history of rates, this measurement included.
        places: where brokers run, as far as the operator knows.
        inflow: planned writes, and what routers said.
        horizons: how far ahead the measurement looked for what expires.
        before: the last snapshot; tells the directories of brokers that do not answer now.
    """
    known, inflow = {place.broker: place for place in places}, inflow or Inflow()
    paths = {broker.id: broker.log_dirs for broker in before.brokers} if before else {}
    brokers = tuple(
        _broker(answer, measurement, known.get(answer.id), paths.get(answer.id, ()), inflow)
        for answer in sorted(measurement.cluster.brokers, key=lambda answer: answer.id)
    )
    topics = tuple(
        _topic(topic, measurement.configs.get(name)) for name, topic in sorted(measurement.topics.items())
    )
    expiry = Expiry(measurement, growth, topics, horizons or Horizons())
    return ClusterSnapshot(
        brokers=brokers,
        partitions=_partitions(measurement, growth, inflow, expiry),
        incoming=build_incoming(measurement, growth, inflow),
        topics=topics,
        taken_at_ms=measurement.taken_at_ms,
        cluster_id=measurement.cluster.cluster_id,
        throttles=_throttles(measurement),
        unknown=tuple(_unknown(measurement, brokers)),
    )


def _broker(
    answer: BrokerAnswer,
    measurement: Measurement,
    place: BrokerPlace | None,
    paths: tuple[LogDir, ...],
    inflow: Inflow,
) -> Broker:
    dirs = measurement.dirs.get(answer.id)
    volumes = place.volumes if place else {}
    if isinstance(dirs, tuple):
        log_dirs = tuple(_log_dir(entry, volumes, up=not answer.fenced) for entry in dirs)
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
        measured_at_ms=measurement.kept_dirs.get(answer.id),
        load={"roundTripMs": trip} if (trip := inflow.round_trips_ms.get(answer.id)) is not None else {},
    )


def _log_dir(entry: DirAnswer, volumes: Mapping[str, str], *, up: bool) -> LogDir:
    return LogDir(
        path=entry.path,
        total_bytes=entry.total_bytes,
        usable_bytes=entry.usable_bytes,
        online=entry.online and up,
        cordoned=entry.cordoned,
        volume=volumes.get(entry.path),
    )


def _topic(answer: TopicAnswer, config: Mapping[str, str] | None) -> Topic:
    known = config or {}

    def number(key: str) -> int | None:
        return int(known[key]) if key in known else None

    return Topic(
        name=answer.name,
        internal=answer.internal or answer.name.startswith(names.INTERNAL_PREFIX),
        cleanup_policy=known.get("cleanup.policy", "delete"),
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        segment_bytes=number("segment.bytes"),
        segment_ms=number("segment.ms"),
        file_delete_delay_ms=number("file.delete.delay.ms"),
        min_isr=number("min.insync.replicas"),
        remote_storage=known.get("remote.storage.enable") == "true",
        throttled_replicas={
            role: value for role in THROTTLE_ROLES if (value := known.get(f"{role}.{THROTTLED_REPLICAS}"))
        },
        topic_id=answer.topic_id or None,
    )


def _partitions(
    measurement: Measurement, growth: Growth, inflow: Inflow, expiry: Expiry
) -> tuple[Partition, ...]:
    spans, sizes = measurement.spans(), broker_bytes(measurement)
    dirs, futures = _replica_dirs(measurement), _future_replicas(measurement)
    return tuple(
        _partition(
            (name, entry.partition),
            entry,
            measurement,
            growth,
            inflow,
            expiry,
            span=spans.get((name, entry.partition)),
            sizes=_replica_bytes((name, entry.partition), entry, sizes),
            dirs=dirs.get((name, entry.partition), {}),
            futures=futures.get((name, entry.partition), {}),
        )
        for name, topic in sorted(measurement.topics.items())
        for entry in topic.partitions
    )


def _partition(
    key: TopicPartition,
    entry: PartitionAnswer,
    measurement: Measurement,
    growth: Growth,
    inflow: Inflow,
    expiry: Expiry,
    *,
    span: OffsetSpan | None,
    sizes: Mapping[int, int],
    dirs: Mapping[int, str],
    futures: Mapping[int, tuple[str, int]],
) -> Partition:
    moving = measurement.reassignments
    change = moving.get(key) if not isinstance(moving, EvenkeelError) else None
    adding = change.adding if change else ()
    size = sizes.get(entry.leader) if entry.leader is not None else None
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
        future_dirs={broker: path for broker, (path, _) in futures.items()} if futures else _NONE,
        future_bytes={broker: copied for broker, (_, copied) in futures.items()} if futures else _NONE,
        log_start=span.start if span else None,
        end=span.end if span else None,
        offsets_at_ms=measurement.kept_offsets.get(entry.leader) if entry.leader is not None else None,
        bytes_per_second=growth.partition_rate(key),
        unsteered_bytes_per_second=inflow.unsteered.get(key),
        expiring_bytes=expiry.of(key, span, size),
    )


def _replica_bytes(
    key: TopicPartition, entry: PartitionAnswer, sizes: Mapping[int, Mapping[TopicPartition, int]]
) -> dict[int, int]:
    """Broker -> bytes, of the replicas whose broker told them."""
    return {
        broker: size for broker in entry.replicas if (size := sizes.get(broker, _NONE).get(key)) is not None
    }


def _still_inbound(adding: tuple[int, ...], sizes: Mapping[int, int], size: int | None) -> int | None:
    """Bytes that adding replicas have still to copy; None: nothing is added, or the size is unknown."""
    if not adding or size is None:
        return None
    return sum(max(0, size - sizes.get(broker, 0)) for broker in adding)


def _replica_dirs(measurement: Measurement) -> dict[TopicPartition, dict[int, str]]:
    found: dict[TopicPartition, dict[int, str]] = {}
    for broker, answer in measurement.dirs.items():
        if isinstance(answer, tuple) and len(answer) > 1:
            for directory in answer:
                for key in directory.replica_bytes:
                    found.setdefault(key, {})[broker] = directory.path
    return found


def _future_replicas(measurement: Measurement) -> dict[TopicPartition, dict[int, tuple[str, int]]]:
    """Copies that move between directories of a broker: partition -> broker -> target and bytes so far."""
    found: dict[TopicPartition, dict[int, tuple[str, int]]] = {}
    for broker, answer in measurement.dirs.items():
        for directory in answer if isinstance(answer, tuple) else ():
            for key, copied in directory.future_bytes.items():
                found.setdefault(key, {})[broker] = directory.path, copied
    return found


def _throttles(measurement: Measurement) -> tuple[Throttle, ...]:
    return tuple(
        Throttle(broker, rate, role)
        for broker, rates in sorted(measurement.throttles.items())
        if not isinstance(rates, EvenkeelError)
        for role, rate in sorted(rates.items(), reverse=True)
    )


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
    if any(isinstance(rates, EvenkeelError) for rates in measurement.throttles.values()):
        yield "throttles"
