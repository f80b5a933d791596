"""An API server of clusters and plans in memory, as `kubectl evenkeel` meets it; its objects; a screen to read."""

from __future__ import annotations

import copy
import io
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from evenkeel import names
from evenkeel.cli.kubectl.screen import Screen
from evenkeel.kube.client import Kube
from evenkeel.kube.failures import ConflictError, failure
from evenkeel.kube.resources import Resource

NAMESPACE = "kafka"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
Object = dict[str, Any]


class PlanApi(Kube):
    """Objects with resource versions; `interfere` runs before each write, `forbidden` are verbs that are refused."""

    def __init__(self, *objects: Object) -> None:
        self.objects = {self._key(one): copy.deepcopy(one) for one in objects}
        self.version = 100
        self.writes: list[Object] = []
        self.interfere: Callable[[PlanApi], object] | None = None
        self.forbidden: tuple[str, ...] = ()
        self.changes: list[tuple[str, Object]] = []

    async def list(self, resource: Resource, *, namespace: str | None = None, **_: Any) -> list[Object]:
        self._check("list", resource)
        return [
            copy.deepcopy(one)
            for one in self.objects.values()
            if one["kind"] == resource.kind and one["metadata"]["namespace"] == namespace
        ]

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        self._check("get", resource)
        return copy.deepcopy(self.objects.get((resource.kind, name)))

    async def patch_merge(
        self, resource: Resource, name: str, body: Mapping[str, Any], namespace: str | None = None, **_: Any
    ) -> Object:
        self._check("patch", resource)
        if self.interfere is not None:
            self.interfere(self)
        item = self.objects[resource.kind, name]
        for key, value in body["metadata"].items():
            if item["metadata"][key] != value:
                raise ConflictError(f"{key} is {item['metadata'][key]}, not {value}")
        self.writes.append(dict(body))
        return self.change(resource.kind, name, spec=body["spec"])

    def change(self, kind: str, name: str, **parts: Mapping[str, Any]) -> Object:
        """Somebody changes `spec` or `status`."""
        item = self.objects[kind, name]
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        for part, value in parts.items():
            item[part] = {**item.get(part, {}), **value}
        return item

    async def watch(self, resource: Resource, **_: Any) -> AsyncIterator[tuple[str, Object]]:
        self._check("watch", resource)
        for kind, item in self.changes:
            yield kind, copy.deepcopy(item)

    def _check(self, verb: str, resource: Resource) -> None:
        if verb in self.forbidden:
            text = f'User "alice" cannot {verb} resource "{resource.plural}"'
            raise failure(403, f'{{"message": {text!r}}}'.replace("'", '"'), verb.upper())

    @staticmethod
    def _key(item: Object) -> tuple[str, str]:
        return item["kind"], item["metadata"]["name"]


class Terminal:
    """A screen whose text can be read; `answer` is what the person types, None: nobody sits there."""

    def __init__(self, answer: str | None = None) -> None:
        self.questions: list[str] = []
        self._answer = answer
        self._out, self._err = io.StringIO(), io.StringIO()
        ask = None if answer is None else self._ask
        self.screen = Screen(self._console(self._out), self._console(self._err), ask)

    @property
    def out(self) -> str:
        """Standard output."""
        return self._out.getvalue()

    @property
    def err(self) -> str:
        """Standard error."""
        return self._err.getvalue()

    def _ask(self, question: str) -> str:
        self.questions.append(question)
        return self._answer or ""

    @staticmethod
    def _console(file: io.StringIO) -> Console:
        return Console(file=file, width=110, color_system=None, force_terminal=False, legacy_windows=False)


def build_cluster(name: str = "main", **status: Any) -> Object:
    """A measured BalancedCluster."""
    volumes = [
        {
            "broker": 1,
            "path": "/data",
            "totalBytes": 1_000_000,
            "usedBytes": 600_000,
            "node": "n1",
            "fullInDays": 9,
        },
        {"broker": 2, "path": "/data", "totalBytes": 1_000_000, "usedBytes": 200_000},
        {"broker": 3, "path": "/data"},
    ]
    found = {
        "observedGeneration": 1,
        "brokers": 3,
        "volumes": volumes,
        "maxFillPermille": 600,
        "deviationPermille": 500,
        "conditions": [build_condition("Ready", "True", "Measured", "measured 3 brokers")],
        "moves": {
            "reason": "MovesPlanned",
            "message": "2 moves bring the deviation from 50.0% to 2.0%",
            "moves": 2,
        },
    }
    return _build("BalancedCluster", name, {"bootstrapServers": ["kafka:9092"]}, found | status)


def build_plan(
    name: str = "main-0123456789", cluster: str = "main", made: str = "2026-03-01T10:00:00Z", **parts: Any
) -> Object:
    """A RebalancePlan of two batches that waits for a decision; `spec` and `status` add to it."""
    spec = {
        "clusterRef": {"name": cluster},
        "approval": "Pending",
        "planHash": "0123456789abcdef",
        "kafkaClusterId": "kafka-1",
        "expirationTime": "2026-03-02T10:00:00Z",
        "reason": "MovesPlanned",
        "message": "2 moves bring the deviation from 50.0% to 2.0%",
        "bytes": 200_000,
        "lowerBoundBytes": 190_000,
        "seconds": 150,
        "deviationBeforePermille": 500,
        "deviationAfterPermille": 20,
        "moves": [
            _move(0, "clicks", 0, [1, 2], [3, 2], bytes=150_000, copiedTo=3),
            _move(1, "orders", 7, [1], [2], bytes=50_000, copiedTo=2, targetDir="/[bold]b"),
        ],
        "batches": [
            {"number": 0, "seconds": 60, "bytes": 150_000, "peaks": [{"volume": "3:/data", "permille": 350}]},
            {"number": 1, "seconds": 90, "bytes": 50_000},
        ],
        "fills": [
            {"volume": "1:/data", "beforePermille": 600, "afterPermille": 400, "peakPermille": 600},
            {"volume": "2:/data", "beforePermille": 200, "afterPermille": 250, "peakPermille": 250},
            {"volume": "3:/data", "beforePermille": 200, "afterPermille": 350, "peakPermille": 350},
        ],
    }
    status = {"state": "Proposed", "moves": 2, "batches": 2, "bytes": 200_000}
    return _build(
        "RebalancePlan",
        name,
        spec | parts.get("spec", {}),
        status | parts.get("status", {}),
        creationTimestamp=made,
    )


def build_running(**status: Any) -> Object:
    """The same, approved and half done."""
    some = {
        "state": "Running",
        "batch": 2,
        "movesDone": 1,
        "bytesDone": 150_000,
        "percent": 75,
        "etaSeconds": 90,
        "bytesPerSecond": 10_000_000,
    }
    return build_plan(spec={"approval": "Approved"}, status=some | status)


def build_finished(reason: str = "Moved", message: str = "2 of 2 moves are done", **parts: Any) -> Object:
    """The same at its end."""
    conditions = [build_condition("Ready", "True", reason, message)]
    status = {"state": "Finished", "percent": 100, "movesDone": 2, "conditions": conditions}
    return build_plan(spec={"approval": "Approved"}, status=status, **parts)


def build_condition(kind: str, status: str, reason: str, message: str) -> Object:
    """One condition."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": "2026-03-01T10:00:00Z",
    }


def _move(
    batch: int, topic: str, partition: int, source: list[int], target: list[int], **more: Any
) -> Object:
    return {
        "batch": batch,
        "topic": topic,
        "partition": partition,
        "source": source,
        "target": target,
        **more,
    }


def _build(kind: str, name: str, spec: Object, status: Object, **meta: Any) -> Object:
    uid = f"uid-{name}"
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": uid,
        "resourceVersion": "7",
        "generation": 1,
        **meta,
    }
    header = {"apiVersion": names.GROUP_VERSION, "kind": kind}
    return {**header, "metadata": metadata, "spec": spec, "status": status}
