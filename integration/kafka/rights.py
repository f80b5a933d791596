"""The rights of Evenkeel's three principals on a Kafka with ACLs, and how to grant them.

Least rights that sufficed on a real cluster; Write and Read imply Describe. `evenkeel acl` prints
the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

OBSERVE, MOVE, DATASET = "observe", "move", "dataset"
# The topics of a dataset begin with `evenkeel-<20 hex of its UID's SHA-256>-`.
DATASET_PREFIX = "evenkeel-0123456789abcdef0123-"
_OWN = ("__evenkeel_", "evenkeel-")


def observe_rights(principal: str = OBSERVE) -> list[AclBinding]:
    """Measure, publish routes, hold the claim, create our own topics, follow journals."""
    return [
        _cluster(principal, AclOperation.DESCRIBE),  # log dirs, list reassignments
        _cluster(principal, AclOperation.DESCRIBE_CONFIGS),  # without it broker configs are an empty dict
        _topics(principal, AclOperation.DESCRIBE, "*"),
        _topics(principal, AclOperation.DESCRIBE_CONFIGS, "*"),
        *(_topics(principal, AclOperation.CREATE, prefix) for prefix in _OWN),
        *(_topics(principal, AclOperation.READ, prefix) for prefix in _OWN),
        _topics(principal, AclOperation.WRITE, "__evenkeel_"),
        _transactions(principal, AclOperation.DESCRIBE, "evenkeel-"),
        _transactions(principal, AclOperation.WRITE, "evenkeel-"),
    ]


def move_rights(principal: str = MOVE) -> list[AclBinding]:
    """Reassign, elect, throttle; create, change and (deletionPolicy Delete) delete users' topics."""
    cluster = (
        AclOperation.DESCRIBE,
        AclOperation.ALTER,
        AclOperation.ALTER_CONFIGS,
        AclOperation.DESCRIBE_CONFIGS,
    )
    topics = (
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER,
        AclOperation.ALTER_CONFIGS,
        AclOperation.CREATE,
        AclOperation.DELETE,
    )
    return [
        *(_cluster(principal, operation) for operation in cluster),
        *(_topics(principal, operation, "*") for operation in topics),
    ]


def dataset_rights(principal: str = DATASET, prefix: str = DATASET_PREFIX) -> list[AclBinding]:
    """Read the routes, write heartbeats, read and write the dataset's own topics; nothing else."""
    return [
        _topic(principal, AclOperation.READ, "__evenkeel_routes"),
        _topic(principal, AclOperation.WRITE, "__evenkeel_heartbeats"),
        _topics(principal, AclOperation.READ, prefix),
        _topics(principal, AclOperation.WRITE, prefix),
    ]


def grant(admin_config: Mapping[str, Any], rights: Iterable[AclBinding]) -> None:
    """Create the ACLs as the superuser of `admin_config`; those that exist stay.

    Raises:
        confluent_kafka.KafkaException: the cluster refuses one.
    """
    admin = AdminClient(dict(admin_config))
    for result in admin.create_acls(list(rights)).values():
        result.result(timeout=60)


def revoke(admin_config: Mapping[str, Any], rights: Iterable[AclBinding]) -> None:
    """Take exactly these ACLs away.

    Raises:
        confluent_kafka.KafkaException: the cluster refuses.
    """
    from confluent_kafka.admin import AclBindingFilter

    filters = [
        AclBindingFilter(
            right.restype, right.name, right.resource_pattern_type, right.principal,
            right.host, right.operation, right.permission_type,
        )
        for right in rights
    ]  # fmt: skip
    admin = AdminClient(dict(admin_config))
    for result in admin.delete_acls(filters).values():
        result.result(timeout=60)


def _allow(
    principal: str, kind: ResourceType, name: str, pattern: ResourcePatternType, operation: AclOperation
) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{principal}", "*", operation, AclPermissionType.ALLOW)


def _cluster(principal: str, operation: AclOperation) -> AclBinding:
    # confluent-kafka calls Kafka's Cluster resource BROKER.
    return _allow(principal, ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, operation)


def _topic(principal: str, operation: AclOperation, name: str) -> AclBinding:
    return _allow(principal, ResourceType.TOPIC, name, ResourcePatternType.LITERAL, operation)


def _topics(principal: str, operation: AclOperation, prefix: str) -> AclBinding:
    if prefix == "*":
        return _topic(principal, operation, "*")
    return _allow(principal, ResourceType.TOPIC, prefix, ResourcePatternType.PREFIXED, operation)


def _transactions(principal: str, operation: AclOperation, prefix: str) -> AclBinding:
    return _allow(principal, ResourceType.TRANSACTIONAL_ID, prefix, ResourcePatternType.PREFIXED, operation)
