"""What the keeper of a cluster is told, from the resources that belong to it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from evenkeel import names
from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.api.balanced_topic import BalancedTopic
from evenkeel.api.meta import ObjectRef, Resource, State
from evenkeel.api.training_dataset import TrainingDataset
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import (
    BrokerPlace,
    Deletion,
    DeletionPolicy,
    Desired,
    DesiredDataset,
    DesiredTopic,
    Owner,
)
from evenkeel.domain.moves import DesiredPlan


def build_connection(cluster: BalancedCluster, *, folder: str, move_folder: str | None = None) -> Connection:
    """How a pod reaches Kafka; `folder` is where its Secret is mounted below CREDENTIALS_PATH."""
    security = cluster.spec.security
    secured = cluster.spec.credentials is not None
    return Connection(
        bootstrap_servers=tuple(sorted(cluster.spec.bootstrap_servers)),
        protocol=security.protocol,
        sasl_mechanism=security.sasl_mechanism,
        ca_certificates=security.ca_certificates,
        credentials_path=f"{names.CREDENTIALS_PATH}/{folder}" if secured else None,
        move_credentials_path=f"{names.CREDENTIALS_PATH}/{move_folder}" if secured and move_folder else None,
    )


def build_desired(
    cluster: BalancedCluster,
    topics: Sequence[BalancedTopic],
    datasets: Sequence[TrainingDataset],
    installation: str,
    *,
    elsewhere: Collection[str] = (),
    places: Sequence[BrokerPlace] = (),
    plan: DesiredPlan | None = None,
    propose: bool = True,
) -> Desired:
    """Sealed `Desired` of a cluster.

    Args:
        cluster: the cluster.
        topics: all that it admits, the older first; those without a status.clusterRef are not told yet, but
            no younger one speaks for their topic meanwhile.
        datasets: the same.
        installation: who this operator is.
        elsewhere: UIDs of topics that somebody else manages: routed, and neither changed nor deleted.
        places: where its brokers run.
        plan: the RebalancePlan that is not finished.
        propose: whether a new one is welcome.
    """
    mine = [topic for topic in topics if belongs(topic.status.cluster_ref, topic, cluster)]
    waiting = {topic.metadata.uid for topic in topics if topic.status.cluster_ref is None}
    ours = {topic.metadata.uid for topic in mine}
    rivals = [topic for topic in topics if topic.metadata.uid in ours | waiting]
    owned = [topic for topic in owners(rivals) if topic.metadata.uid in ours]
    living = [topic for topic in owned if topic.metadata.deletion_timestamp is None]
    going = cluster.metadata.deletion_timestamp is not None
    return Desired(
        owner=Owner(installation, cluster.metadata.uid, cluster.key),
        connection=build_connection(cluster, folder="observe", move_folder="move"),
        policy=cluster.spec.policy(),
        paused=cluster.spec.state is State.PAUSED,
        topics=tuple(
            build_topic(topic, managed=topic.metadata.uid not in elsewhere)
            for topic in sorted(living, key=lambda one: one.spec.topic_name)
        ),
        datasets=build_datasets(
            [one for one in datasets if belongs(one.status.cluster_ref, one, cluster)], mine
        ),
        deletions=tuple(
            Deletion(one.spec.topic_name, one.metadata.uid, one.status.topic_id)
            for one in sorted(owned, key=lambda one: one.spec.topic_name)
            if is_topic_to_delete(one) and one.metadata.uid not in elsewhere
        ),
        places=tuple(places),
        plan=None if going else plan,
        propose=propose and not going,
        release=going,
    ).sealed()


def build_topic(topic: BalancedTopic, *, managed: bool = True) -> DesiredTopic:
    """A topic as declared; one that is paused, or not managed by us, is only measured and routed."""
    spec = topic.spec
    active = managed and spec.state is State.ACTIVE
    return DesiredTopic(
        owner_uid=topic.metadata.uid,
        name=spec.topic_name,
        partitions=spec.partitions if active else None,
        replication_factor=spec.replication_factor if active else None,
        config={entry.name: entry.value for entry in sorted(spec.config, key=lambda one: one.name)}
        if active
        else {},
        routing=spec.routing.domain(),
        create=active,
    )


def build_datasets(
    datasets: Iterable[TrainingDataset], topics: Iterable[BalancedTopic]
) -> tuple[DesiredDataset, ...]:
    """Datasets that go on, by UID. Of several on one BalancedTopic only the oldest, which comes first.

    One whose BalancedTopic was never there is left out: topics of its own are not what it asked for.
    `topics` holds those that are being deleted too, for their data must outlive them.
    """
    by_name = {(one.metadata.namespace or "", one.metadata.name): one for one in topics}
    found: list[DesiredDataset] = []
    taken: set[str] = set()
    for dataset in datasets:
        topic = data_topic(dataset, by_name)
        wants = dataset.spec.topic_ref is not None
        if dataset.metadata.deletion_timestamp is not None or (wants and (topic is None or topic in taken)):
            continue
        taken |= {topic} if topic is not None else set()
        found.append(build_dataset(dataset, topic))
    return tuple(sorted(found, key=lambda one: one.uid))


def build_dataset(dataset: TrainingDataset, topic: str | None) -> DesiredDataset:
    """A dataset on a BalancedTopic's topic or its own; its journal is followed until its revision is known."""
    return DesiredDataset(
        uid=dataset.metadata.uid,
        name=dataset.key,
        replication_factor=dataset.spec.storage.replication_factor,
        partitions=dataset.spec.storage.partitions,
        data_topic=topic,
        follow=dataset.status.revision is None,
    )


def data_topic(dataset: TrainingDataset, topics: Mapping[tuple[str, str], BalancedTopic]) -> str | None:
    """The Kafka topic of the BalancedTopic that `topicRef` names; None without one.

    Status remembers it: the data stays where it is when the BalancedTopic is deleted.
    """
    ref = dataset.spec.topic_ref
    if ref is None:
        return None
    found = topics.get((dataset.metadata.namespace or "", ref.name))
    if found is not None:
        return found.spec.topic_name
    return dataset.status.topics.data if dataset.status.topics is not None else None


def owners(topics: Iterable[BalancedTopic]) -> list[BalancedTopic]:
    """Of several resources on one topic of one cluster the owner; `topics` has the older first.

    The oldest that stays: one that is being deleted leaves the topic to another that declares it.
    """
    first: dict[str, BalancedTopic] = {}
    for topic in sorted(topics, key=lambda one: one.metadata.deletion_timestamp is not None):
        first.setdefault(topic.spec.topic_name, topic)
    return list(first.values())


def is_topic_to_delete(topic: BalancedTopic) -> bool:
    """Whether the resource goes away and takes its topic with it."""
    going = topic.metadata.deletion_timestamp is not None and names.FINALIZER in topic.metadata.finalizers
    return going and topic.spec.deletion_policy is DeletionPolicy.DELETE


def belongs(ref: ObjectRef | None, item: Resource, cluster: BalancedCluster) -> bool:
    """Whether `ref`, a status.clusterRef of `item`, names this cluster."""
    if ref is None:
        return False
    return cluster.key == f"{ref.namespace or item.metadata.namespace}/{ref.name}"


def config_map_data(packed: dict[str, Any]) -> dict[str, Any]:
    """A packed value for a server-side apply, where what is absent is removed."""
    parts = {part: {key: item for key, item in packed[part].items() if item is not None} for part in packed}
    return {part: items for part, items in parts.items() if items}
