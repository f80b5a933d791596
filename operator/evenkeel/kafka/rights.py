"""The least rights of Evenkeel's principals on a Kafka with ACLs; tried on a real cluster.

Write and Read imply Describe. What is not listed is not needed: no groups, no idempotent write.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from evenkeel import names


class Principal(StrEnum):
    """Who logs in."""

    OBSERVE = "observe"
    """The keeper: measures, claims, publishes routes, makes Evenkeel's own topics, follows journals."""
    MOVE = "move"
    """The keeper when it moves replicas and makes, changes or deletes users' topics."""
    DATASET = "dataset"
    """The jobs of one dataset."""


class ResourceKind(StrEnum):
    """Kinds of Kafka resources, as kafka-acls spells them."""

    CLUSTER = "cluster"
    TOPIC = "topic"
    TRANSACTIONAL_ID = "transactional-id"


@dataclass(frozen=True, slots=True)
class Right:
    """One allowed operation."""

    kind: ResourceKind
    name: str
    """Name, prefix, or `*`."""
    operation: str
    prefixed: bool = False


def list_rights(principal: Principal, dataset_uid: str = "") -> tuple[Right, ...]:
    """What a principal needs; a dataset's depend on its UID."""
    match principal:
        case Principal.OBSERVE:
            return tuple(_observe())
        case Principal.MOVE:
            return tuple(_move())
        case Principal.DATASET:
            return tuple(_dataset(dataset_uid))


def _observe() -> Iterable[Right]:
    for operation in ("Describe", "DescribeConfigs"):
        yield Right(ResourceKind.CLUSTER, "kafka-cluster", operation)
        yield Right(ResourceKind.TOPIC, "*", operation)
    for prefix in (names.ROUTES_TOPIC.removesuffix("routes"), names.DATASET_TOPIC_PREFIX):
        for operation in ("Create", "Read"):
            yield Right(ResourceKind.TOPIC, prefix, operation, prefixed=True)
    yield Right(ResourceKind.TOPIC, names.ROUTES_TOPIC.removesuffix("routes"), "Write", prefixed=True)
    for operation in ("Describe", "Write"):
        yield Right(ResourceKind.TRANSACTIONAL_ID, names.TRANSACTIONAL_PREFIX, operation, prefixed=True)


def _move() -> Iterable[Right]:
    for operation in ("Describe", "Alter", "AlterConfigs", "DescribeConfigs"):
        yield Right(ResourceKind.CLUSTER, "kafka-cluster", operation)
    for operation in ("Describe", "DescribeConfigs", "Alter", "AlterConfigs", "Create", "Delete"):
        yield Right(ResourceKind.TOPIC, "*", operation)


def _dataset(uid: str) -> Iterable[Right]:
    yield Right(ResourceKind.TOPIC, names.ROUTES_TOPIC, "Read")
    yield Right(ResourceKind.TOPIC, names.HEARTBEATS_TOPIC, "Write")
    prefix = names.dataset_topic(uid, "")
    for operation in ("Read", "Write"):
        yield Right(ResourceKind.TOPIC, prefix, operation, prefixed=True)
