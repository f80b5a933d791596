"""Stored objects as models: parsed once per version, because every plan reads many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from evenkeel import names
from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.api.balanced_topic import BalancedTopic
from evenkeel.api.meta import Resource
from evenkeel.api.node_cache import NodeCache
from evenkeel.api.rebalance_plan import RebalancePlan
from evenkeel.api.training_dataset import TrainingDataset
from evenkeel.controller import places, strimzi
from evenkeel.controller.places import BrokerPodsFound
from evenkeel.controller.store import Object, Store
from evenkeel.controller.strimzi import find_manager
from evenkeel.domain import codec, envelope
from evenkeel.domain.exchange import Desired, Report
from evenkeel.errors import InputError
from evenkeel.reasons import Reason

PARSED_LIMIT = 50_000
"""Parsed values kept; beyond it all are dropped, which also lets those of deleted objects go."""
T = TypeVar("T")
Model = TypeVar("Model", bound=Resource)


class Views:
    """Reads the store as typed values; keeps each parsed value as long as its object does not change."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._parsed: dict[tuple[str, str], tuple[str, Any]] = {}

    def clusters(self) -> list[BalancedCluster]:
        """All clusters."""
        return self._all(BalancedCluster)

    def topics(self, namespace: str | None = None) -> list[BalancedTopic]:
        """All topics, or those of a namespace."""
        return self._all(BalancedTopic, namespace)

    def datasets(self, namespace: str | None = None) -> list[TrainingDataset]:
        """All datasets, or those of a namespace."""
        return self._all(TrainingDataset, namespace)

    def plans(self, namespace: str | None = None) -> list[RebalancePlan]:
        """All plans of moves, or those of a namespace."""
        return self._all(RebalancePlan, namespace)

    def caches(self) -> list[NodeCache]:
        """All node caches."""
        return self._all(NodeCache)

    def cluster(self, namespace: str, name: str) -> BalancedCluster | None:
        """One cluster, or None."""
        return self._one(BalancedCluster, namespace, name)

    def topic(self, namespace: str, name: str) -> BalancedTopic | None:
        """One topic, or None."""
        return self._one(BalancedTopic, namespace, name)

    def dataset(self, namespace: str, name: str) -> TrainingDataset | None:
        """One dataset, or None."""
        return self._one(TrainingDataset, namespace, name)

    def plan(self, namespace: str, name: str) -> RebalancePlan | None:
        """One plan of moves, or None."""
        return self._one(RebalancePlan, namespace, name)

    def topics_named(self, topic: str) -> list[BalancedTopic]:
        """All resources that declare this Kafka topic, the older first."""
        kind = BalancedTopic.__name__
        items = [item for item in self.store.all(kind) if item["spec"].get("topicName") == topic]
        found = (self._try(BalancedTopic, item) for item in items)
        return sorted((one for one in found if one is not None), key=_age)

    def manager(self, topic: BalancedTopic, cluster: BalancedCluster) -> str | None:
        """The KafkaTopic of Strimzi that manages the topic, as `namespace/name`."""
        return find_manager(topic, cluster.spec.bootstrap_servers, self.store.all(strimzi.KIND))

    def managed_elsewhere(self, topics: Iterable[BalancedTopic], cluster: BalancedCluster) -> frozenset[str]:
        """UIDs of those topics that a KafkaTopic of Strimzi manages."""
        named: dict[str, list[Object]] = {}
        for item in self.store.all(strimzi.KIND):
            named.setdefault(strimzi.topic_name(item), []).append(item)
        servers = cluster.spec.bootstrap_servers
        rivals = ((one, named.get(one.spec.topic_name)) for one in topics)
        return frozenset(
            one.metadata.uid
            for one, items in rivals
            if items and find_manager(one, servers, items) is not None
        )

    def broker_pods(self, cluster: BalancedCluster) -> BrokerPodsFound | None:
        """The pods of the brokers, where the cluster says how to find them; None before they were looked for."""
        meta = cluster.metadata
        item = self.store.get(places.KIND, meta.namespace or "", meta.name)
        return None if item is None or cluster.spec.brokers is None else item["found"]

    def desired(self, cluster: BalancedCluster) -> Desired | None:
        """What the keeper was told last, as the API server has it; None before that."""
        name = names.desired_name(cluster.metadata.name)
        return self._exchanged(Desired, cluster, name, names.DESIRED_KEY)

    def report(self, cluster: BalancedCluster) -> Report | None:
        """What the keeper said last; None before that.

        Raises:
            InputError: the report cannot be read, as when the keeper is of another version.
        """
        name = names.report_name(cluster.metadata.name)
        return self._exchanged(Report, cluster, name, names.REPORT_KEY)

    def namespace_labels(self, namespace: str) -> dict[str, str]:
        """Labels of a namespace; empty if it is gone."""
        item = self.store.get("Namespace", "", namespace)
        return dict((item or {"metadata": {}})["metadata"].get("labels") or {})

    def _all(self, model: type[Model], namespace: str | None = None) -> list[Model]:
        kind = model.__name__
        found = [self._try(model, item) for item in self.store.all(kind, namespace)]
        return sorted((one for one in found if one is not None), key=_age)

    def _one(self, model: type[Model], namespace: str, name: str) -> Model | None:
        item = self.store.get(model.__name__, namespace, name)
        return None if item is None else self._parse(model.__name__, item, lambda raw: read_model(model, raw))

    def _try(self, model: type[Model], item: Object) -> Model | None:
        # An object that cannot be read has its own condition; it must not stop the plans of others.
        try:
            return self._parse(model.__name__, item, lambda raw: read_model(model, raw))
        except InputError:
            return None

    def _exchanged(self, kind: type[T], cluster: BalancedCluster, name: str, key: str) -> T | None:
        item = self.store.get("ConfigMap", cluster.metadata.namespace or "", name)
        if item is None or not _is_owned(item, cluster.metadata.uid):
            return None

        def read(raw: Object) -> T | None:
            text = envelope.unpack(key, raw)
            return None if not text else codec.loads(kind, text)

        return self._parse(key, item, read)

    def _parse(self, kind: str, item: Object, read: Callable[[Object], T]) -> T:
        meta = item["metadata"]
        slot, version = (kind, str(meta["uid"])), str(meta.get("resourceVersion", ""))
        known = self._parsed.get(slot)
        if known is None or known[0] != version or not version:
            known = (version, read(item))
            if len(self._parsed) >= PARSED_LIMIT:
                self._parsed.clear()
            self._parsed[slot] = known
        return cast("T", known[1])


def read_model(model: type[Model], item: Object) -> Model:
    """An object as its model.

    Raises:
        InputError: reason InvalidSpec; names the field.
    """
    try:
        return model.model_validate(item)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{where}: {first['msg']}", reason=Reason.INVALID_SPEC) from error


def _age(item: Resource) -> tuple[str, str]:
    """The older first; the UID decides within a second."""
    created = item.metadata.creation_timestamp
    return (created.isoformat() if created else "", item.metadata.uid)


def _is_owned(item: Object, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences") or ())
