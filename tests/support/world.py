"""A store with objects as an API server would give them, and the plans that follow from it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel import names
from evenkeel.controller import triggers
from evenkeel.controller.conditions import prune
from evenkeel.controller.gather import Context, build_planners
from evenkeel.controller.plan import Moment, Plan
from evenkeel.controller.pods import Images
from evenkeel.controller.store import Key, Store
from evenkeel.controller.views import Views
from evenkeel.domain import codec, envelope
from evenkeel.domain.exchange import ClaimReport, DatasetReport, Desired, Report, SealReport, TopicReport

Object = dict[str, Any]
START = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
DIGEST = "ab" * 32
OLD = "2026-01-01T00:00:00Z"
OWN = ("BalancedCluster", "BalancedTopic", "RebalancePlan", "TrainingDataset")
KEPT = {"data", "binaryData"}
SEAL = SealReport(DIGEST, records=100, shards=2, data_bytes=1000, rejected=0, journal_offset=9)


class World:
    """Objects are put by `add`; `run` plans a key and stores what the plan would write."""

    def __init__(self) -> None:
        self.store = Store(triggers.affected)
        self.context = Context(Views(self.store), Images("control:1", "data:1"), "installation-1")
        self.planners = build_planners(self.context)
        self.now = START
        self._versions = itertools.count(1)

    def add(self, item: Mapping[str, Any]) -> Object:
        """Put an object; metadata that the API server would set is filled in."""
        meta = {
            "uid": f"uid-{item['metadata']['name']}",
            "generation": 1,
            "creationTimestamp": OLD if item["kind"] in OWN else self.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            **item["metadata"],
            "resourceVersion": str(next(self._versions)),
        }
        whole = {**item, "metadata": meta}
        self.store.put("MODIFIED", whole)
        return whole

    def change(self, kind: str, name: str, *, namespace: str = "data", **parts: Any) -> Object:
        """Replace top-level parts of an object, such as `status`; metadata is merged."""
        item = self.get(kind, name, namespace)
        assert item is not None
        meta = {**item["metadata"], **parts.pop("metadata", {})}
        return self.add({**item, **parts, "metadata": meta})

    def get(self, kind: str, name: str, namespace: str = "data") -> Object | None:
        """A stored object."""
        item = self.store.get(kind, namespace, name)
        return None if item is None else dict(item)

    def plan(self, kind: str, name: str, namespace: str = "data") -> Plan:
        """The plan for one key."""
        key = triggers.PRELOAD if kind == triggers.PRELOAD.kind else Key(kind, namespace, name)
        found = self.planners[kind](self.store, key, Moment(self.now))
        assert found is not None
        return found

    def run(self, kind: str, name: str, namespace: str = "data", *, patches: bool = False) -> Plan:
        """Plan, and write children, removals, patches if wanted, and status into the store."""
        plan = self.plan(kind, name, namespace)
        for child in plan.children:
            meta = child.body["metadata"]
            present = self.store.get(child.resource.kind, meta.get("namespace", ""), meta["name"])
            if present is None or not child.create_only:
                # As a server-side apply: what others own (a keeper's report, a status) stays.
                kept = {
                    key: item
                    for key, item in (present or {}).items()
                    if key in KEPT and not KEPT & child.body.keys()
                }
                status = {"status": present["status"]} if present and "status" in present else {}
                self.add({**child.resource.header(), **kept, **status, **child.body})
        for removal in plan.removals:
            item = self.store.get(removal.resource.kind, removal.namespace or "", removal.name)
            assert item is not None
            self.store.put("DELETED", item)
        if patches:
            self._patch(plan)
        if plan.status is not None:
            self.change(kind, name, namespace=namespace, status=prune(plan.status))
        return plan

    def _patch(self, plan: Plan) -> None:
        for patch in plan.patches:
            assert not isinstance(patch.body, tuple)
            item = self.get(patch.resource.kind, patch.name, patch.namespace or "")
            assert item is not None
            meta = dict(patch.body.get("metadata", {}))
            assert meta.pop("resourceVersion", None) in (None, item["metadata"]["resourceVersion"])
            spec = {**item["spec"], **patch.body["spec"]} if "spec" in patch.body else item["spec"]
            self.change(
                patch.resource.kind, patch.name, namespace=patch.namespace or "", metadata=meta, spec=spec
            )

    def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self.now += timedelta(seconds=seconds)

    def keeper_runs(self, cluster: str = "kafka") -> None:
        """The Deployment's pod is available."""
        self.change("Deployment", names.keeper_name(cluster), status={"availableReplicas": 1})

    def desired(self, cluster: str = "kafka") -> Desired:
        """What the operator told the keeper last."""
        item = self.get("ConfigMap", names.desired_name(cluster))
        assert item is not None
        return codec.loads(Desired, envelope.unpack(names.DESIRED_KEY, item) or "")

    def report(self, cluster: str = "kafka", **parts: Any) -> None:
        """Write a report of a measured, healthy cluster with `parts` changed."""
        version = self.desired(cluster).version
        values = {
            "desired_version": version,
            "claim": ClaimReport(held=True, owner=f"data/{cluster}", epoch=1),
            "measured": True,
            "cluster_id": "kafka-1",
            "brokers": 3,
            **parts,
        }
        packed = envelope.pack(names.REPORT_KEY, codec.dumps(Report(**values)))
        self.change("ConfigMap", names.report_name(cluster), **packed)

    def condition(
        self, kind: str, name: str, type_: str = "Ready", namespace: str = "data"
    ) -> tuple[str, str]:
        """`(status, reason)`, empty where absent."""
        item = self.get(kind, name, namespace) or {}
        for one in (item.get("status") or {}).get("conditions") or ():
            if one["type"] == type_:
                return one["status"], one["reason"]
        return "", ""

    def message(self, kind: str, name: str, type_: str = "Ready", namespace: str = "data") -> str:
        """A condition's sentence."""
        conditions = (self.get(kind, name, namespace) or {"status": {}})["status"]["conditions"]
        return next(str(one["message"]) for one in conditions if one["type"] == type_)


def namespace_object(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def own(kind: str, name: str, spec: Mapping[str, Any], namespace: str = "data", **meta: Any) -> Object:
    """An object of one of our kinds."""
    metadata = {"name": name, "namespace": namespace, **meta}
    return {"apiVersion": names.GROUP_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def cluster(name: str = "kafka", namespace: str = "data", **spec: Any) -> Object:
    return own("BalancedCluster", name, {"bootstrapServers": ["kafka:9092"], **spec}, namespace)


def secured_cluster(name: str = "kafka") -> Object:
    return cluster(
        name,
        security={"protocol": "SaslPlaintext", "saslMechanism": "ScramSha512"},
        credentials={"observe": {"secretName": "observe"}, "move": {"secretName": "move"}},
    )


def topic(name: str, topic_name: str = "events", namespace: str = "data", **spec: Any) -> Object:
    return own("BalancedTopic", name, {"topicName": topic_name, **spec}, namespace)


def dataset(name: str = "digits", namespace: str = "data", **spec: Any) -> Object:
    source = {"type": "Volume", "format": "ImageFolder", "volume": {"claimName": "pictures", "path": "train"}}
    return own("TrainingDataset", name, {"source": source, **spec}, namespace)


def node(name: str, *, gpus: int = 0, **labels: str) -> Object:
    status = {"allocatable": {names.GPU_RESOURCE: str(gpus)}} if gpus else {}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def gated_pod(name: str, *datasets: str, owner: str = "", gpus: int = 0, **spec: Any) -> Object:
    """A pod behind our gate that mounts datasets."""
    volumes = [
        {"name": each, "csi": {"driver": names.CSI_DRIVER, "volumeAttributes": {"dataset": each}}}
        for each in datasets
    ]
    limits = {"resources": {"limits": {names.GPU_RESOURCE: str(gpus)}}} if gpus else {}
    meta: Object = {"name": name, "namespace": "data", "labels": {names.LABEL_DATASET: "yes"}}
    if owner:
        meta["ownerReferences"] = [{"uid": owner, "controller": True, "name": owner, "kind": "Job"}]
    body = {
        "schedulingGates": [{"name": names.GATE_WARM}],
        "containers": [{"name": "train", "image": "train:1", **limits}],
        "volumes": volumes,
        **spec,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}


def ready_world(*items: Object, **dataset_report: Any) -> World:
    """A measured plaintext cluster `data/kafka` and `items`, whose topics and datasets the keeper reports."""
    world = World()
    world.add(namespace_object("data"))
    world.add(cluster())
    for item in items:
        world.add(item)
    settle(world)
    settle(world)
    world.keeper_runs()
    report_all(world, **dataset_report)
    settle(world)
    return world


def settle(world: World) -> None:
    """One round over all our objects."""
    for kind in (triggers.TOPIC, triggers.DATASET, triggers.CLUSTER):
        for item in list(world.store.all(kind)):
            world.run(kind, item["metadata"]["name"], item["metadata"]["namespace"])


def report_all(world: World, **dataset_report: Any) -> None:
    """Every declared topic exists and every dataset's topics are ready."""
    told = world.desired()
    topics = tuple(
        TopicReport(one.name, exists=True, topic_id="t", partitions=6, replication_factor=2)
        for one in told.topics
    )
    reports = (DatasetReport(one.uid, **{"topics_ready": True, **dataset_report}) for one in told.datasets)
    world.report(topics=topics, datasets=tuple(reports))
