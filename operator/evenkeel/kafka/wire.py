"""What a measurement asks, in kafka-python's own protocol classes.

kafka-python's admin methods ask brokers one after another, fetch all metadata again for each list of offsets
and turn every partition into a dictionary: 10,000 partitions on 50 brokers cost minutes. Its codec itself
decodes 10,000 partitions in 5 ms, so requests are built and answers read here.
"""

from __future__ import annotations

import functools
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import errors as theirs
from kafka.admin import ConfigResourceType
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from evenkeel.domain.topic_id import topic_id_text
from evenkeel.kafka.answers import (
    BrokerAnswer,
    BrokerRates,
    ClusterAnswer,
    DirAnswer,
    PartitionAnswer,
    ReassignmentAnswer,
    TopicAnswer,
    TopicPartition,
)

LATEST, EARLIEST = -1, -2
_LEADER_NOT_AVAILABLE = 5
_UNLIMITED_RATE = 2**63 - 1
"""Kafka's default of both throttle rates: none."""
RATES = {
    "leader.replication.throttled.rate": "leader",
    "follower.replication.throttled.rate": "follower",
}
"""Settings of a broker -> which side of the copying they slow down."""
LEADER_RATE, FOLLOWER_RATE = RATES
DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
"""Slows copies between directories of one broker down."""
LISTS = {
    "leader": "leader.replication.throttled.replicas",
    "follower": "follower.replication.throttled.replicas",
}
"""Role -> setting of a topic that names the replicas whose copying is slowed down."""
_DYNAMIC_TOPIC, _DYNAMIC_BROKER = 1, 2
"""Where a value comes from: set on this very topic, or broker."""


def cluster_request() -> Any:
    """Identity and brokers, those included that the controller has not heard from."""
    return DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)


def parse_cluster(response: Any) -> ClusterAnswer:
    """Answer to `cluster_request`."""
    check(response.error_code, response.error_message)
    brokers = (
        BrokerAnswer(raw.broker_id, raw.host, raw.port, raw.rack, bool(raw.is_fenced))
        for raw in response.brokers
    )
    return ClusterAnswer(response.cluster_id, tuple(brokers))


def topics_request(names: Sequence[str] | None) -> Any:
    """Metadata of the named topics; of all where None."""
    wanted = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(
        topics=wanted,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def parse_topics(response: Any) -> dict[str, TopicAnswer]:
    """Topics that exist and may be seen, by name."""
    lists: dict[tuple[int, ...], tuple[int, ...]] = {}
    return {
        raw.name: _topic(raw, lists)
        for raw in response.topics
        if raw.error_code in (0, _LEADER_NOT_AVAILABLE)
    }


def _topic(raw: Any, lists: dict[tuple[int, ...], tuple[int, ...]]) -> TopicAnswer:
    """`lists` holds each list of brokers once: a cluster has far fewer of them than partitions."""

    def shared(brokers: Sequence[int]) -> tuple[int, ...]:
        found = tuple(brokers)
        return lists.setdefault(found, found)

    partitions = sorted(raw.partitions, key=lambda entry: entry.partition_index)
    return TopicAnswer(
        sys.intern(raw.name),
        topic_id_text(raw.topic_id),
        bool(raw.is_internal),
        tuple(
            PartitionAnswer(
                entry.partition_index,
                entry.leader_id if entry.leader_id >= 0 else None,
                shared(entry.replica_nodes),
                shared(entry.isr_nodes),
            )
            for entry in partitions
        ),
    )


def log_dirs_request(*, replicas: bool = True) -> Any:
    """All log directories of the broker that is asked, with all replicas on them or with none."""
    return DescribeLogDirsRequest(topics=None if replicas else [])


def parse_log_dirs(response: Any) -> tuple[DirAnswer, ...]:
    """Directories of one broker. None at all is Kafka's way of saying that a right is missing."""
    check(response.error_code)
    return tuple(_dir(raw) for raw in response.results)


def _dir(raw: Any) -> DirAnswer:
    """An offline directory answers with error 56, sizes -1 and no topics: failed, never empty.

    Brokers before 3.3 do not tell sizes: the schema's default of -1 stands for them too.
    """
    current: dict[TopicPartition, int] = {}
    future: dict[TopicPartition, int] = {}
    for topic in raw.topics:
        name = sys.intern(topic.name)
        for entry in topic.partitions:
            target = future if entry.is_future_key else current
            target[name, entry.partition_index] = entry.partition_size
    total, usable = raw.total_bytes, raw.usable_bytes
    return DirAnswer(
        path=raw.log_dir,
        online=raw.error_code == 0,
        total_bytes=total if total >= 0 else None,
        usable_bytes=usable if usable >= 0 else None,
        cordoned=bool(raw.is_cordoned),
        replica_bytes=current,
        future_bytes=future,
    )


def offsets_request(times: Mapping[TopicPartition, int]) -> Any:
    """First offset that is not older than each partition's time (ms), or LATEST or EARLIEST."""
    rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (topic, partition), at in times.items():
        rows[topic].append((partition, at))
    kind = ListOffsetsRequest.ListOffsetsTopic
    topics = [
        kind(name=topic, partitions=[_wanted(number, at) for number, at in found])
        for topic, found in rows.items()
    ]
    return ListOffsetsRequest(isolation_level=0, topics=topics, min_version=1)


@functools.lru_cache(maxsize=16_384)
def _wanted(partition: int, at: int) -> Any:
    """One row of a request. Most rows are alike, and making one takes longer than all else about it."""
    return ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(partition_index=partition, timestamp=at)


def parse_offsets(response: Any) -> dict[TopicPartition, int]:
    """Offsets of the partitions that were told; -1: all records are older than asked.

    Raises:
        kafka.errors.AuthorizationError: none was told, for want of a right.
    """
    found: dict[TopicPartition, int] = {}
    failed = set()
    for topic in response.topics:
        name = sys.intern(topic.name)
        for entry in topic.partitions:
            if entry.error_code == 0:
                found[name, entry.partition_index] = entry.offset
            else:
                failed.add(entry.error_code)  # its leader has changed, or it is gone: unknown for now
    if failed and not found:
        check(min(failed))
    return found


def reassignments_request(timeout_ms: int) -> Any:
    """Everything that is on its way to other brokers."""
    return ListPartitionReassignmentsRequest(topics=None, timeout_ms=timeout_ms)


def parse_reassignments(response: Any) -> dict[TopicPartition, ReassignmentAnswer]:
    """Answer to `reassignments_request`."""
    check(response.error_code, response.error_message)
    return {
        (topic.name, entry.partition_index): ReassignmentAnswer(
            tuple(entry.replicas), tuple(entry.adding_replicas), tuple(entry.removing_replicas)
        )
        for topic in response.topics or ()
        for entry in topic.partitions
    }


def topic_configs_request(topics: Sequence[str], keys: Sequence[str]) -> Any:
    """Values in force of `keys` for each topic, defaults included."""
    return _configs_request(ConfigResourceType.TOPIC, topics, keys)


def broker_configs_request(broker: int) -> Any:
    """The throttle rates of the broker that is asked; no other broker tells them."""
    return _configs_request(ConfigResourceType.BROKER, [str(broker)], list(RATES))


def throttles_request(broker: int) -> Any:
    """Every throttle of copying of the broker that is asked."""
    return _configs_request(ConfigResourceType.BROKER, [str(broker)], [*RATES, DIRECTORY_RATE])


def _configs_request(kind: Any, names: Sequence[str], keys: Sequence[str]) -> Any:
    resources = [(kind, name, list(keys)) for name in names]
    return DescribeConfigsRequest(resources=resources, include_synonyms=False)


def parse_topic_configs(response: Any) -> dict[str, dict[str, str] | None]:
    """Settings by topic; None where Kafka tells nothing, as without the right to see them."""
    values: dict[str, str] = {}

    def shared(text: object) -> str:
        return values.setdefault(str(text), str(text))

    return {
        sys.intern(row.resource_name): {
            sys.intern(entry.name): shared(entry.value) for entry in row.configs if entry.value is not None
        }
        if row.error_code == 0 and row.configs
        else None
        for row in response.results
    }


def parse_rates(response: Any) -> dict[str, int]:
    """Throttle rates that are set, bytes per second: `leader`, `follower`."""
    found = parse_throttles(response)
    in_force = {**found.inherited, **found.own}
    return {RATES[name]: value for name, value in in_force.items() if name in RATES}


def parse_throttles(response: Any) -> BrokerRates:
    """Answer to `throttles_request`: what is set for this broker, and what it inherits."""
    own: dict[str, int] = {}
    inherited: dict[str, int] = {}
    for row in response.results:
        check(row.error_code, row.error_message)
        for entry in row.configs:
            if entry.value and int(entry.value) < _UNLIMITED_RATE:
                target = own if entry.config_source == _DYNAMIC_BROKER else inherited
                target[entry.name] = int(entry.value)
    return BrokerRates(own, inherited)


def parse_lists(response: Any) -> dict[str, dict[str, str]]:
    """Throttled replicas by topic and role, as far as set on the topic itself, perhaps to nothing.

    Topics that cannot be asked, as one that was deleted, are absent.
    """
    roles = {key: role for role, key in LISTS.items()}
    return {
        row.resource_name: {
            roles[entry.name]: entry.value or ""
            for entry in row.configs
            if entry.name in roles and entry.config_source == _DYNAMIC_TOPIC
        }
        for row in response.results
        if row.error_code == 0
    }


def check(code: int, message: str | None = None) -> None:
    """Raise the library's error for a code, unless it says that all is well."""
    error = theirs.for_code(code)
    if error is not theirs.NoError:
        raise error(message or "")
