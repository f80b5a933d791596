"""Asks a Kafka cluster for everything that a snapshot needs, all brokers at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from evenkeel.domain.connection import Connection
from evenkeel.errors import EvenkeelError
from evenkeel.kafka.admin import Admin
from evenkeel.kafka.answers import ReassignmentAnswer, TopicAnswer, TopicPartition
from evenkeel.keeper.measurement import CONFIG_KEYS, Measurement

UNLIMITED = -1


def gather(
    connection: Connection, *, now_ms: int, config_keys: Iterable[str] = (), horizon_ms: int = 86_400_000
) -> Measurement:
    """Measure once, with a fresh client.

    Args:
        connection: where and how.
        now_ms: wall clock, milliseconds since the epoch.
        config_keys: topic settings wanted beyond CONFIG_KEYS.
        horizon_ms: how far ahead expiring bytes are looked for.

    Raises:
        EvenkeelError: not even brokers and topics could be learned; anything less is in the answer.
    """
    with Admin(connection) as admin:
        cluster = admin.describe_cluster()
        topics = admin.describe_topics()
        online = [broker.id for broker in cluster.brokers if not broker.fenced]
        configs = _gather_configs(admin, topics, sorted({*CONFIG_KEYS, *config_keys}))
        offsets = admin.list_offsets(_leaders(topics, online))
        return Measurement(
            taken_at_ms=now_ms,
            cluster=cluster,
            topics=topics,
            dirs=admin.describe_log_dirs(online, topics),
            offsets=offsets,
            configs=configs,
            reassignments=_gather_reassignments(admin),
            kept_from=_gather_expiry(admin, topics, configs, now_ms + horizon_ms),
        )


def _leaders(topics: Mapping[str, TopicAnswer], online: list[int]) -> dict[TopicPartition, int]:
    return {
        (name, entry.partition): entry.leader
        for name, topic in topics.items()
        for entry in topic.partitions
        if entry.leader is not None and entry.leader in online
    }


def _gather_configs(
    admin: Admin, topics: Mapping[str, TopicAnswer], keys: list[str]
) -> dict[str, dict[str, str] | None]:
    try:
        return admin.describe_topic_configs(sorted(topics), keys)
    except EvenkeelError:
        return dict.fromkeys(topics)


def _gather_reassignments(admin: Admin) -> dict[TopicPartition, ReassignmentAnswer] | EvenkeelError:
    try:
        return admin.list_reassignments()
    except EvenkeelError as error:
        return error


def _gather_expiry(
    admin: Admin,
    topics: Mapping[str, TopicAnswer],
    configs: Mapping[str, Mapping[str, str] | None],
    end_ms: int,
) -> dict[TopicPartition, int | None]:
    """First offset kept at `end_ms`, of partitions whose records expire by time."""
    times: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for name, topic in topics.items():
        retention = retention_ms(configs.get(name))
        if retention is None or retention == UNLIMITED:
            continue
        for entry in topic.partitions:
            if entry.leader is not None:
                times[entry.leader][name, entry.partition] = max(0, end_ms - retention)
    found: dict[TopicPartition, int | None] = {}
    for answer in admin.list_offsets_at(times).values():
        if not isinstance(answer, EvenkeelError):
            found.update(answer)
    return found


def retention_ms(config: Mapping[str, str] | None) -> int | None:
    """Age at which records expire, UNLIMITED where they do not; None: unknown."""
    if config is None:
        return None
    if "delete" not in config.get("cleanup.policy", "delete"):
        return UNLIMITED
    return int(config["retention.ms"]) if "retention.ms" in config else None
