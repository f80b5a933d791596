from __future__ import annotations

import pytest
from confluent_kafka.admin import AclBinding, ResourcePatternType, ResourceType

from evenkeel import names
from evenkeel.kafka.rights import Principal, Right, list_rights
from integration.kafka import rights as proven

KINDS = {
    ResourceType.BROKER: "cluster",
    ResourceType.TOPIC: "topic",
    ResourceType.TRANSACTIONAL_ID: "transactional-id",
}
UID = "some-uid"


def plain(binding: AclBinding) -> tuple[str, str, str, bool]:
    operation = binding.operation.name.replace("_", "").lower()
    prefixed = binding.resource_pattern_type is ResourcePatternType.PREFIXED
    return KINDS[binding.restype], binding.name, operation, prefixed


def told(right: Right) -> tuple[str, str, str, bool]:
    return right.kind.value, right.name, right.operation.lower(), right.prefixed


@pytest.mark.parametrize(
    ("principal", "bindings"),
    [
        (Principal.OBSERVE, proven.observe_rights()),
        (Principal.MOVE, proven.move_rights()),
        (Principal.DATASET, proven.dataset_rights(prefix=names.dataset_topic(UID, ""))),
    ],
)
def test_what_is_printed_is_what_was_tried_on_a_real_cluster(
    principal: Principal, bindings: list[AclBinding]
) -> None:
    assert {told(right) for right in list_rights(principal, UID)} == {plain(one) for one in bindings}
