from __future__ import annotations

from typing import Any

import pytest

from evenkeel import names
from evenkeel.cli import uninstall
from evenkeel.cli.uninstall import Deadline, Operator, RefusedError
from evenkeel.errors import RetryableError
from evenkeel.kube import resources
from evenkeel.kube.failures import KindAbsentError
from evenkeel.kube.resources import Resource

OPERATOR = Operator("system", "evenkeel-operator", "app.kubernetes.io/component=operator")
OURS = {names.LABEL_MANAGED_BY: names.MANAGED_BY}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uninstall, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(uninstall, "RETRY_SECONDS", 0.001)


class FakeKube:
    """Objects by kind; a Deployment that is scaled to 0 or deleted loses its pods at once."""

    def __init__(self, *objects: dict[str, Any], absent: tuple[str, ...] = ()) -> None:
        self.objects = list(objects)
        self.absent = absent
        self.calls: list[str] = []
        self.failures = 0
        self.caches_answer = True

    async def list(self, resource: Resource, **options: Any) -> list[dict[str, Any]]:
        if resource.kind in self.absent:
            raise KindAbsentError(f"{resource.plural} not served")
        if self.failures:
            self.failures -= 1
            raise RetryableError("the API server is busy")
        labels = [part.split("=") for part in options.get("label_selector", "").split(",") if part]
        return [
            item
            for item in self.objects
            if item["kind"] == resource.kind
            and all(item["metadata"].get("labels", {}).get(key) == value for key, value in labels)
        ]

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        return self._find(resource, name, namespace)

    async def delete(self, resource: Resource, name: str, namespace: str | None = None) -> None:
        self.calls.append(f"delete {resource.kind} {name}")
        self.objects = [item for item in self.objects if item is not self._find(resource, name, namespace)]
        self._end_pods(resource, name)

    async def patch_merge(
        self, resource: Resource, name: str, body: Any, namespace: str | None = None
    ) -> None:
        self.calls.append(f"patch {resource.kind} {name}")
        item = self._find(resource, name, namespace)
        assert item is not None
        if resource is resources.NODE_CACHE:
            item["spec"].update(body["spec"])
            if self.caches_answer:
                item["status"] = {"revisions": []}
        elif "spec" in body:
            item["spec"]["replicas"] = body["spec"]["replicas"]
            if item["spec"]["replicas"] == 0:
                self._end_pods(resource, name)
        for key, value in body.get("metadata", {}).get("labels", {}).items():
            assert value is None
            del item["metadata"]["labels"][key]
        if "finalizers" in body.get("metadata", {}):
            item["metadata"]["finalizers"] = body["metadata"]["finalizers"]

    def _find(self, resource: Resource, name: str, namespace: str | None) -> dict[str, Any] | None:
        wanted = (resource.kind, name, namespace)
        return next((item for item in self.objects if identity(item) == wanted), None)

    def _end_pods(self, resource: Resource, name: str) -> None:
        if resource is resources.DEPLOYMENT:
            self.objects = [item for item in self.objects if not identity(item)[1].startswith(f"{name}-pod")]


def identity(item: dict[str, Any]) -> tuple[str, str, str | None]:
    meta = item["metadata"]
    return item["kind"], meta["name"], meta.get("namespace")


def build(kind: str, name: str, namespace: str | None = None, **more: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "labels": dict(more.pop("labels", {})), "resourceVersion": "7"}
    if namespace:
        meta["namespace"] = namespace
    if "finalizers" in more:
        meta["finalizers"] = more.pop("finalizers")
    return {"kind": kind, "metadata": meta, "spec": {}, **more}


def build_pod(
    name: str, *, node: str | None = "node-1", phase: str = "Running", driver: str = names.CSI_DRIVER
) -> Any:
    spec = {"volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "data", "csi": {"driver": driver}}]}
    if node is not None:
        spec["nodeName"] = node  # type: ignore[assignment]
    return build("Pod", name, "team", spec=spec, status={"phase": phase})


def installed() -> list[dict[str, Any]]:
    """An operator, a keeper, a dataset's account, a cache, a labelled node, and a user's own objects."""
    return [
        build("Deployment", "evenkeel-operator", "system", spec={"replicas": 2}),
        build("Pod", "evenkeel-operator-pod", "system", labels={"app.kubernetes.io/component": "operator"}),
        build("Deployment", "main-keeper", "kafka", labels=OURS),
        build("Pod", "main-keeper-pod", "kafka", labels=OURS),
        build("Role", "main-keeper", "kafka", labels=OURS),
        build("ConfigMap", "main-report", "kafka", labels=OURS),
        build("ConfigMap", "theirs", "kafka"),
        build("ServiceAccount", "digits-ingest", "team", labels=OURS),
        build("NodeCache", "node-1"),
        build(
            "Node",
            "node-1",
            labels={
                "evenkeel.dev/cache-node": "true",
                "warm.evenkeel.dev/0123456789abcdef0123": "true",
                "kubernetes.io/hostname": "node-1",
            },
        ),
        build("BalancedTopic", "orders", "kafka", finalizers=["theirs.example/x", names.FINALIZER]),
    ]


@pytest.mark.parametrize(
    ("pod", "mounts"),
    [
        (build_pod("running"), True),
        (build_pod("starting", phase="Pending"), True),
        (build_pod("not-scheduled", node=None, phase="Pending"), False),
        (build_pod("succeeded", phase="Succeeded"), False),
        (build_pod("failed", phase="Failed"), False),
        (build_pod("other-driver", driver="secrets-store.csi.k8s.io"), False),
        (build("Pod", "without-volumes", "team", spec={"nodeName": "node-1"}), False),
    ],
    ids=lambda value: value["metadata"]["name"] if isinstance(value, dict) else "",
)
def test_a_pod_mounts_from_its_scheduling_until_it_is_finished(pod: dict[str, Any], *, mounts: bool) -> None:
    assert bool(uninstall.find_mounting([pod])) is mounts


@pytest.mark.parametrize(
    ("finalizers", "kept"),
    [([], None), (["a.example/b"], None), (["a.example/b", names.FINALIZER], ["a.example/b"])],
)
def test_only_our_finalizers_are_removed(finalizers: list[str], kept: list[str] | None) -> None:
    patch = uninstall.build_finalizer_patch(build("BalancedTopic", "orders", "kafka", finalizers=finalizers))
    wanted = None if kept is None else {"metadata": {"finalizers": kept, "resourceVersion": "7"}}
    assert patch == wanted


async def test_everything_that_the_operator_made_goes_and_nothing_else() -> None:
    kube = FakeKube(*installed())
    await uninstall.uninstall(kube, OPERATOR, Deadline(5.0))  # type: ignore[arg-type]
    assert sorted(identity(item)[:2] for item in kube.objects) == [
        ("BalancedTopic", "orders"),
        ("ConfigMap", "theirs"),
        ("Deployment", "evenkeel-operator"),
        ("Node", "node-1"),
    ]
    left = {item["kind"]: item for item in kube.objects}
    assert left["Node"]["metadata"]["labels"] == {"kubernetes.io/hostname": "node-1"}
    assert left["BalancedTopic"]["metadata"]["finalizers"] == ["theirs.example/x"]


async def test_the_operator_stops_before_anything_goes_and_nodes_are_last() -> None:
    kube = FakeKube(*installed())
    await uninstall.uninstall(kube, OPERATOR, Deadline(5.0))  # type: ignore[arg-type]
    assert kube.calls[0] == "patch Deployment evenkeel-operator"
    assert kube.calls[1] == "delete NodeCache node-1"
    assert kube.calls[-2:] == ["patch Node node-1", "delete Lease evenkeel-operator"]


def holding_cache() -> dict[str, Any]:
    held = {"revisions": [{"state": "Warm"}]}
    return build("NodeCache", "node-1", spec={"wanted": [{"digest": "d"}]}, status=held)


async def test_a_cache_is_emptied_before_its_object_goes() -> None:
    kube = FakeKube(*(item for item in installed() if item["kind"] != "NodeCache"), holding_cache())
    await uninstall.uninstall(kube, OPERATOR, Deadline(5.0))  # type: ignore[arg-type]
    assert kube.calls[1:3] == ["patch NodeCache node-1", "delete NodeCache node-1"]


async def test_a_cache_that_never_answers_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(uninstall, "EMPTYING_SECONDS", 0.01)
    kube = FakeKube(*(item for item in installed() if item["kind"] != "NodeCache"), holding_cache())
    kube.caches_answer = False
    await uninstall.uninstall(kube, OPERATOR, Deadline(5.0))  # type: ignore[arg-type]
    assert "delete NodeCache node-1" in kube.calls
    told = capsys.readouterr()
    assert "keeps its copies" in told.out + told.err


async def test_nothing_is_touched_while_a_pod_mounts_a_dataset() -> None:
    kube = FakeKube(*installed(), *(build_pod(f"training-{index}") for index in range(7)))
    with pytest.raises(RefusedError, match=r"7 pods mount a dataset .*team/training-4 and 2 more") as refusal:
        await uninstall.uninstall(kube, OPERATOR, Deadline(5.0))  # type: ignore[arg-type]
    assert "let them finish, or delete them" in str(refusal.value)
    assert kube.calls == []


async def test_the_operator_comes_back_when_a_pod_mounts_meanwhile() -> None:
    kube = FakeKube(*installed())
    find = kube._end_pods

    def start_training(resource: Resource, name: str) -> None:
        find(resource, name)
        kube.objects.append(build_pod("training-0"))

    kube._end_pods = start_training  # type: ignore[method-assign]
    with pytest.raises(RefusedError):
        await uninstall.uninstall(kube, OPERATOR, Deadline(5.0))  # type: ignore[arg-type]
    assert kube.calls == ["patch Deployment evenkeel-operator"] * 2
    assert kube.objects[0]["spec"]["replicas"] == 2


async def test_a_second_run_after_everything_is_gone_changes_nothing() -> None:
    kube = FakeKube(
        absent=("NodeCache", "BalancedCluster", "BalancedTopic", "RebalancePlan", "TrainingDataset")
    )
    await uninstall.uninstall(kube, OPERATOR, Deadline(5.0))  # type: ignore[arg-type]
    assert kube.calls == ["delete Lease evenkeel-operator"]


async def test_a_busy_api_server_is_asked_again() -> None:
    kube = FakeKube(*installed())
    kube.failures = 3
    await uninstall.uninstall(kube, OPERATOR, Deadline(5.0))  # type: ignore[arg-type]
    assert not any(item["kind"] == "NodeCache" for item in kube.objects)


async def test_what_does_not_end_is_named() -> None:
    kube = FakeKube(*installed(), build("Pod", "stuck", "kafka", labels=OURS))
    with pytest.raises(TimeoutError, match="pod kafka/stuck"):
        await uninstall.uninstall(kube, OPERATOR, Deadline(0.1))  # type: ignore[arg-type]


def test_arguments_are_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        uninstall.main([])
    assert end.value.code == 2
    assert "--namespace" in capsys.readouterr().err


@pytest.mark.parametrize("status", [{"state": "Running"}, {"state": "Paused", "batch": 1}])
async def test_moves_that_run_are_a_reason_to_refuse(status: dict[str, Any]) -> None:
    plan = build("RebalancePlan", "main-0123456789", "kafka", status=status)
    kube = FakeKube(*installed(), plan)
    with pytest.raises(RefusedError, match="kafka/main-0123456789"):
        await uninstall.uninstall(kube, OPERATOR, Deadline(5.0))  # type: ignore[arg-type]
    assert kube.calls == []


async def test_plans_that_do_not_run_stay() -> None:
    plans = [
        build("RebalancePlan", state.lower(), "kafka", status={"state": state})
        for state in ("Proposed", "Paused", "Finished")
    ]
    kube = FakeKube(*installed(), *plans)
    await uninstall.uninstall(kube, OPERATOR, Deadline(5.0))  # type: ignore[arg-type]
    assert sum(item["kind"] == "RebalancePlan" for item in kube.objects) == 3


@pytest.mark.parametrize("status", [{}, {"state": "Proposed"}])
def test_an_approved_plan_may_begin_at_any_moment(status: dict[str, Any]) -> None:
    plan = build("RebalancePlan", "main-1", "kafka", spec={"approval": "Approved"}, status=status)
    assert uninstall.find_running([plan]) == ["kafka/main-1"]


@pytest.mark.parametrize(
    ("approval", "state"),
    [("Approved", "Finished"), ("Approved", "Paused"), ("Pending", "Proposed"), ("Rejected", "Proposed")],
)
def test_other_plans_that_have_not_begun_do_not(approval: str, state: str) -> None:
    plan = build("RebalancePlan", "main-1", "kafka", spec={"approval": approval}, status={"state": state})
    assert uninstall.find_running([plan]) == []
