"""The topics that Evenkeel itself makes: their sizes and settings (design sections 3 and 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenkeel import names
from evenkeel.domain.exchange import DesiredDataset

_TEN_MINUTES_MS = "600000"
_HOUR_MS = "3600000"
_DAY_MS = "86400000"
# A log that only its newest record per key matters of, and that starts afresh within minutes for readers.
_STATE = {
    "cleanup.policy": "compact,delete",
    "segment.ms": _TEN_MINUTES_MS,
    "max.compaction.lag.ms": _TEN_MINUTES_MS,
    "retention.ms": _DAY_MS,
}
ROLES = ("data", "journal", "manifest", "rejected")
MIB = 1024 * 1024
RECORD_BYTES = 8 * MIB
"""Largest record of journal, manifest and rejected topics: their writers need 1 MiB at most, and whoever holds a
dataset's credentials must not make the keeper parse more."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it should be."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str] = field(default_factory=dict)


def internal_topics(brokers: int) -> tuple[TopicSpec, ...]:
    """The three topics of every cluster; `brokers` are those online."""
    copies = min(3, max(1, brokers))
    broker_time = {"message.timestamp.type": "LogAppendTime"}
    return (
        # A claim's age is the broker's clock, not that of whoever wrote it. A run of moves is never forgotten: a keeper
        # that was away for days has to know what of it is still in Kafka. Compaction keeps one record per key.
        TopicSpec(names.CONTROL_TOPIC, 1, copies, {**_STATE, **broker_time, "retention.ms": "-1"}),
        TopicSpec(names.ROUTES_TOPIC, 1, copies, _STATE),
        TopicSpec(
            names.HEARTBEATS_TOPIC,
            1,
            copies,
            {"cleanup.policy": "delete", "retention.ms": _HOUR_MS, **broker_time},
        ),
    )


def data_topic(dataset: DesiredDataset) -> str:
    """Where the records of a dataset are: its own topic, or a BalancedTopic's."""
    return dataset.data_topic or names.dataset_topic(dataset.uid, "data")


def journal_topic(dataset: DesiredDataset) -> str:
    """Where the ingests of a dataset write what they did."""
    return names.dataset_topic(dataset.uid, "journal")


def guarded_config(replication_factor: int, role: str = "data") -> dict[str, str]:
    """Settings without which records of a dataset could vanish or change their bytes.

    Args:
        replication_factor: of the topic.
        role: what the topic is for, one of ROLES.
    """
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "unclean.leader.election.enable": "false",
        "compression.type": "producer",
        # A record may have 64 MiB; the producers' own limit is the dataset's maxRecordBytes.
        "max.message.bytes": str(72 * MIB if role == "data" else RECORD_BYTES),
        "min.insync.replicas": str(max(1, replication_factor - 1)),
    }


def topic_role(dataset: DesiredDataset, topic: str) -> str:
    """What a topic of a dataset is for, one of ROLES."""
    own = {names.dataset_topic(dataset.uid, role): role for role in ROLES}
    return own.get(topic, "data")


def dataset_topics(dataset: DesiredDataset, brokers: int) -> tuple[TopicSpec, ...]:
    """The topics of a dataset: data as its storage says, the others one partition each.

    The data topic is left out where it is a BalancedTopic's: that one is created there.
    """
    small = min(3, max(1, brokers))
    copies = dataset.replication_factor or small
    partitions = dataset.partitions or max(12, 6 * brokers)
    data = TopicSpec(data_topic(dataset), partitions, copies, guarded_config(copies))
    others = tuple(
        TopicSpec(names.dataset_topic(dataset.uid, role), 1, small, guarded_config(small, role))
        for role in ROLES
        if role != "data"
    )
    return others if dataset.data_topic is not None else (data, *others)
