"""Which topics a KafkaTopic of Strimzi manages: two that set one topic would fight. Pure.

Written after Strimzi's documentation of the Topic Operator: it takes up KafkaTopics that carry the label
`strimzi.io/cluster`, unless the annotation `strimzi.io/managed` says `false`; `spec.topicName` is the name in
Kafka, `metadata.name` where that is absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from evenkeel.api.balanced_topic import BalancedTopic
from evenkeel.controller.store import Object

KIND = "KafkaTopic"
LABEL_CLUSTER = "strimzi.io/cluster"
ANNOTATION_MANAGED = "strimzi.io/managed"
_SERVICE = re.compile(r"(?:^|\.)([a-z0-9][-a-z0-9]*)-kafka-(?:bootstrap|brokers)(?:\.|:|$)")
"""Strimzi's services of a cluster NAME: `NAME-kafka-bootstrap`, and `NAME-kafka-brokers` behind the brokers' names."""


def topic_name(item: Object) -> str:
    """The name in Kafka of a KafkaTopic's topic."""
    return str((item.get("spec") or {}).get("topicName") or item["metadata"]["name"])


def is_managing(item: Object) -> bool:
    """Whether Strimzi acts on this KafkaTopic."""
    meta = item["metadata"]
    managed = (meta.get("annotations") or {}).get(ANNOTATION_MANAGED, "true")
    return bool((meta.get("labels") or {}).get(LABEL_CLUSTER)) and managed.lower() != "false"


def find_manager(topic: BalancedTopic, bootstrap: Iterable[str], items: Iterable[Object]) -> str | None:
    """`namespace/name` of the KafkaTopic that manages the topic of a BalancedTopic, or None.

    Args:
        topic: the BalancedTopic.
        bootstrap: addresses of its Kafka cluster.
        items: all KafkaTopics.
    """
    name = topic.spec.topic_name
    clusters = strimzi_clusters(bootstrap)
    rivals = [
        item
        for item in items
        if topic_name(item) == name and is_managing(item) and _is_same_kafka(item, clusters, topic)
    ]
    return min((f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in rivals), default=None)


def strimzi_clusters(bootstrap: Iterable[str]) -> Sequence[str]:
    """Names of the Strimzi clusters that addresses belong to, as far as they show it."""
    return sorted({found.group(1) for address in bootstrap if (found := _SERVICE.search(address))})


def _is_same_kafka(item: Object, clusters: Sequence[str], topic: BalancedTopic) -> bool:
    """Whether both speak of one Kafka cluster; where nothing tells them apart they do, for that harms nobody."""
    theirs, ours = (item.get("status") or {}).get("topicId"), topic.status.topic_id
    if theirs and theirs == ours:
        return True  # ids are random: an address of somebody's own choice may look like another cluster's
    if clusters:
        return item["metadata"]["labels"][LABEL_CLUSTER] in clusters
    return not theirs or not ours or theirs == ours
