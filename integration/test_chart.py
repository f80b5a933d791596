"""The chart on a real API server: every object is accepted, rights are enough and no more, policies bite."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenkeel import names
from evenkeel.cli import uninstall
from evenkeel.errors import ConfigurationError
from evenkeel.kube.client import Kube
from evenkeel.kube.resources import NODE, NODE_CACHE, POD
from integration.apiserver.server import ApiServer, Kubectl, KubectlError, await_kinds, await_right

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "charts" / "evenkeel"
SYSTEM = "chart-system"
TEAM = "chart-team"
RELEASE = "evenkeel"
OPERATOR, CACHE, UNINSTALL = "evenkeel-operator", "evenkeel-node-cache", "evenkeel-uninstall"
TIMEOUT = ("--timeout-seconds", "30")

Object = dict[str, Any]


def account(name: str) -> str:
    return f"system:serviceaccount:{SYSTEM}:{name}"


class Helm:
    """Helm as admin."""

    def __init__(self, program: Path, kubeconfig: Path) -> None:
        self._words: list[str | Path] = [program, "--kubeconfig", kubeconfig, "--namespace", SYSTEM]

    def __call__(self, *words: str | Path) -> str:
        done = subprocess.run([*self._words, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def helm(kube_binaries: Path, apiserver: ApiServer) -> Helm:
    return Helm(kube_binaries / "helm", apiserver.kubeconfig())


@pytest.fixture(scope="module")
def chart(crds: Kubectl, helm: Helm) -> Iterator[Kubectl]:
    """The chart installed, without its CRDs, which the server has; kubectl as admin."""
    for name in (SYSTEM, TEAM):
        crds("create", "namespace", name)
    helm("install", RELEASE, CHART, "--set", "crds.enabled=false")
    hooks = helm("get", "hooks", RELEASE)
    accounts = [item for item in yaml.safe_load_all(hooks) if item and item["kind"] != "Job"]
    crds("apply", "-f", "-", stdin="\n---\n".join(json.dumps(item) for item in accounts))
    yield crds
    helm("uninstall", RELEASE, "--no-hooks")
    crds("delete", "clusterrole,clusterrolebinding", UNINSTALL)
    for name in (SYSTEM, TEAM):
        crds("delete", "namespace", name, "--wait=false")


def apply(kubectl: Kubectl, *items: Object) -> None:
    for item in items:
        kubectl("apply", "-f", "-", stdin=json.dumps(item))


def build_pod(name: str, **spec: Any) -> Object:
    containers = [{"name": "main", "image": "example/image:1"}]
    meta = {"name": name, "namespace": TEAM, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers, **spec}}


def build_node(name: str) -> Object:
    labels = {"kubernetes.io/hostname": name, names.LABEL_CACHE_NODE: "true"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


Connect = Callable[..., AbstractAsyncContextManager[Kube]]


@pytest.fixture
def connect(chart: Kubectl, apiserver: ApiServer, monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Our own client with a token of one of the chart's accounts; kubectl would ask for more than a patch."""

    @asynccontextmanager
    async def connected(name: str, *bound: str) -> AsyncIterator[Kube]:
        token = chart("create", "token", name, "-n", SYSTEM, *bound).strip()
        monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig_for(token, name)))
        kube = await Kube.connect()
        try:
            yield kube
        finally:
            await kube.close()

    return connected


def test_every_object_of_the_chart_is_accepted(crds: Kubectl, helm: Helm) -> None:
    crds("create", "namespace", "chart-dry-run")
    text = helm("template", RELEASE, CHART, "--namespace", "chart-dry-run", "--kube-version", "1.34.0")
    crds(
        "apply",
        "--server-side",
        "--dry-run=server",
        "--force-conflicts",
        "--warnings-as-errors",
        "-f",
        "-",
        stdin=text,
    )
    crds("delete", "namespace", "chart-dry-run", "--wait=false")


def test_without_node_cache_a_restricted_namespace_has_nothing_to_warn_of(crds: Kubectl, helm: Helm) -> None:
    crds("create", "namespace", "chart-restricted")
    crds("label", "namespace", "chart-restricted", "pod-security.kubernetes.io/warn=restricted")
    settings = ("--set", "nodeCache.enabled=false,crds.enabled=false")
    place = ("--namespace", "chart-restricted", "--kube-version", "1.34.0")
    text = helm("template", RELEASE, CHART, *place, *settings)
    crds("apply", "--server-side", "--dry-run=server", "--warnings-as-errors", "-f", "-", stdin=text)
    crds("delete", "namespace", "chart-restricted", "--wait=false")


def test_helm_alone_installs_the_definitions_and_keeps_them(
    own_apiserver: ApiServer, kube_binaries: Path
) -> None:
    admin, helm = own_apiserver.kubectl(), Helm(kube_binaries / "helm", own_apiserver.kubeconfig())
    helm("install", RELEASE, CHART, "--create-namespace")
    await_kinds(admin, "balancedclusters.evenkeel.dev")
    cluster = ROOT / "tests" / "data" / "api" / "valid" / "cluster-smallest.yaml"
    admin("apply", "-n", "default", "-f", str(cluster))
    helm("upgrade", RELEASE, CHART, "--set", "operator.replicas=2")
    helm("uninstall", RELEASE, "--no-hooks")
    assert admin("get", "balancedclusters", "-A", "-o", "name").split() == [
        "balancedcluster.evenkeel.dev/main"
    ]


def test_definitions_by_kubectl_and_the_rest_by_helm(chart: Kubectl) -> None:
    chart("apply", "--server-side", "-f", str(ROOT / "crds"))
    assert chart("get", "deployment", "-n", SYSTEM, "-o", "name").split() == [f"deployment.apps/{OPERATOR}"]


@pytest.mark.parametrize(
    "right",
    [
        ("list", "balancedclusters.evenkeel.dev"),
        ("watch", "nodecaches.evenkeel.dev"),
        ("patch", "trainingdatasets.evenkeel.dev", "--subresource=status"),
        ("patch", "balancedtopics.evenkeel.dev"),
        ("create", "nodecaches.evenkeel.dev"),
        ("create", "rolebindings.rbac.authorization.k8s.io"),
        ("patch", "deployments.apps"),
        ("create", "jobs.batch"),
        ("delete", "jobs.batch"),
        ("create", "events.events.k8s.io"),
    ],
    ids=" ".join,
)
def test_operator_may(chart: Kubectl, right: tuple[str, ...]) -> None:
    assert chart("auth", "can-i", *right, "-n", TEAM, "--as", account(OPERATOR)).strip() == "yes"


@pytest.mark.parametrize(
    "right",
    [
        ("get", "secrets"),
        ("list", "secrets"),
        ("delete", "trainingdatasets.evenkeel.dev"),
        ("patch", "trainingdatasets.evenkeel.dev"),
        ("patch", "nodecaches.evenkeel.dev", "--subresource=status"),
        ("delete", "persistentvolumeclaims"),
        ("create", "pods"),
        ("delete", "nodes"),
        ("create", "clusterroles.rbac.authorization.k8s.io"),
        ("create", "pods", "--subresource=exec"),
    ],
    ids=" ".join,
)
def test_operator_may_not(chart: Kubectl, right: tuple[str, ...]) -> None:
    with pytest.raises(KubectlError):
        chart("auth", "can-i", *right, "-n", TEAM, "--as", account(OPERATOR))


def test_operator_may_give_a_keeper_its_two_config_maps_but_no_secrets(chart: Kubectl) -> None:
    def role(resource: str) -> str:
        rules = [{"apiGroups": [""], "resources": [resource], "verbs": ["get", "list", "watch", "patch"]}]
        header = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
        return json.dumps(
            {**header, "metadata": {"name": f"gives-{resource}", "namespace": TEAM}, "rules": rules}
        )

    as_operator = ("--as", account(OPERATOR), "apply", "--server-side", "-f", "-")
    chart(*as_operator, stdin=role("configmaps"))
    with pytest.raises(KubectlError, match="attempting to grant RBAC permissions not currently held"):
        chart(*as_operator, stdin=role("secrets"))


async def test_operator_may_take_its_gate_away_and_narrow_the_affinity(
    chart: Kubectl, connect: Connect
) -> None:
    apply(
        chart,
        build_pod("waiting", schedulingGates=[{"name": "team.example/quota"}, {"name": names.GATE_WARM}]),
    )
    terms = [{"matchExpressions": [{"key": names.LABEL_CACHE_NODE, "operator": "In", "values": ["true"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    release = [
        {"op": "test", "path": "/spec/schedulingGates/1/name", "value": names.GATE_WARM},
        {"op": "remove", "path": "/spec/schedulingGates/1"},
        {"op": "add", "path": "/spec/affinity", "value": {"nodeAffinity": required}},
    ]
    async with connect(OPERATOR) as kube:
        await kube.patch_json(POD, "waiting", release, TEAM)
    left = json.loads(chart("get", "pod", "waiting", "-n", TEAM, "-o", "json"))["spec"]
    assert left["schedulingGates"] == [{"name": "team.example/quota"}]
    assert left["affinity"] == {"nodeAffinity": required}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"spec": {"schedulingGates": [{"name": names.GATE_WARM}]}},
            "scheduling gate evenkeel.dev/warm only",
        ),
        ({"metadata": {"labels": {"app": "other"}}}, "may not change a pod's metadata"),
        ({"metadata": {"annotations": {"a": "b"}}}, "may not change a pod's metadata"),
        ({"metadata": {"finalizers": ["a.example/b"]}}, "may not change a pod's metadata"),
        ({"spec": {"activeDeadlineSeconds": 1}}, "scheduling gates and affinity only"),
        ({"spec": {"nodeSelector": {"a": "b"}}}, "scheduling gates and affinity only"),
        ({"spec": {"containers": [{"name": "main", "image": "example/other:1"}]}}, "gates and affinity only"),
    ],
    ids=lambda value: (
        next(iter(value)) + "." + next(iter(next(iter(value.values())))) if isinstance(value, dict) else ""
    ),
)
async def test_operator_may_change_nothing_else_of_a_pod(
    chart: Kubectl, connect: Connect, body: Object, message: str
) -> None:
    apply(
        chart,
        build_pod("theirs", schedulingGates=[{"name": "team.example/quota"}, {"name": names.GATE_WARM}]),
    )
    async with connect(OPERATOR) as kube:
        with pytest.raises(ConfigurationError, match=message):
            await kube.patch_merge(POD, "theirs", body, TEAM)


async def test_operator_may_label_nodes_in_its_own_domains(chart: Kubectl, connect: Connect) -> None:
    apply(chart, build_node("labelled"))
    warm = f"{names.WARM_LABEL_PREFIX}0123456789abcdef0123"
    changes = {"metadata": {"labels": {names.LABEL_CACHE_NODE: None, warm: "true"}}}
    async with connect(OPERATOR) as kube:
        await kube.patch_merge(NODE, "labelled", changes)
    labels = json.loads(chart("get", "node", "labelled", "-o", "json"))["metadata"]["labels"]
    assert labels == {"kubernetes.io/hostname": "labelled", warm: "true"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"metadata": {"labels": {"nvidia.com/gpu.present": "true"}}},
            "evenkeel.dev/ and warm.evenkeel.dev/ only",
        ),
        (
            {"metadata": {"labels": {"kubernetes.io/hostname": None}}},
            "evenkeel.dev/ and warm.evenkeel.dev/ only",
        ),
        (
            {"metadata": {"labels": {"evenkeel.dev.example/x": "true"}}},
            "evenkeel.dev/ and warm.evenkeel.dev/ only",
        ),
        ({"metadata": {"annotations": {"a": "b"}}}, "nothing but labels"),
        ({"spec": {"unschedulable": True}}, "nothing but labels"),
        ({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, "nothing but labels"),
    ],
    ids=["foreign", "removed", "lookalike", "annotation", "cordon", "taint"],
)
async def test_operator_may_change_nothing_else_of_a_node(
    chart: Kubectl, connect: Connect, body: Object, message: str
) -> None:
    apply(chart, build_node("theirs"))
    async with connect(OPERATOR) as kube:
        with pytest.raises(ConfigurationError, match=message):
            await kube.patch_merge(NODE, "theirs", body)


def test_others_are_not_bound_by_the_operators_policies(chart: Kubectl) -> None:
    apply(chart, build_node("free"))
    chart("label", "node", "free", "anything=goes")


@pytest.fixture(scope="module")
def caches(chart: Kubectl) -> Kubectl:
    for name in ("cache-a", "cache-b"):
        apply(chart, build_node(name))
        uid = json.loads(chart("get", "node", name, "-o", "json"))["metadata"]["uid"]
        cache = {
            "apiVersion": names.GROUP_VERSION,
            "kind": "NodeCache",
            "metadata": {"name": name},
            "spec": {"nodeUID": uid},
        }
        apply(chart, cache)
    return chart


async def write_status(kube: Kube, name: str) -> None:
    status = {"endpoint": "http://10.0.0.1:7443", "observedGeneration": 1}
    await kube.patch_merge(NODE_CACHE, name, {"status": status}, subresource="status")


async def test_a_cache_writes_its_own_status_and_no_other(caches: Kubectl, connect: Connect) -> None:
    async with connect(CACHE, "--bound-object-kind=Node", "--bound-object-name=cache-a") as kube:
        await write_status(kube, "cache-a")
        assert len(await kube.list(NODE_CACHE)) >= 2
        with pytest.raises(ConfigurationError, match="on node cache-a may not write NodeCache cache-b"):
            await write_status(kube, "cache-b")
        with pytest.raises(ConfigurationError, match="cannot patch resource"):
            await kube.patch_merge(NODE_CACHE, "cache-a", {"spec": {"wanted": []}})


async def test_a_cache_without_a_node_in_its_token_writes_nothing(caches: Kubectl, connect: Connect) -> None:
    async with connect(CACHE) as kube:
        with pytest.raises(ConfigurationError, match="carries no node"):
            await write_status(kube, "cache-a")


def test_people_who_edit_a_namespace_declare_datasets_but_no_clusters(chart: Kubectl) -> None:
    # The fixture has no controller that adds this role to the cluster's role `edit`.
    chart("create", "rolebinding", "edits", f"--clusterrole={RELEASE}-edit", "--user=alice", "-n", TEAM)
    await_right(chart, "alice", "create", "trainingdatasets.evenkeel.dev", "-n", TEAM)
    may = ("--as", "alice", "auth", "can-i", "create", "-n", TEAM)
    with pytest.raises(KubectlError):
        chart(*may, "balancedclusters.evenkeel.dev")


def run_uninstall(kubectl: Kubectl, apiserver: ApiServer, monkeypatch: pytest.MonkeyPatch) -> int:
    token = kubectl("create", "token", UNINSTALL, "-n", SYSTEM).strip()
    monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig_for(token, "uninstall")))
    selector = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component=operator"
    place = ("--namespace", SYSTEM, "--operator", OPERATOR, "--selector", selector)
    return uninstall.main([*place, *TIMEOUT])


def replicas(kubectl: Kubectl) -> int:
    return int(kubectl("get", "deployment", OPERATOR, "-n", SYSTEM, "-o", "jsonpath={.spec.replicas}"))


def test_uninstall_refuses_while_a_pod_mounts_and_then_removes_what_was_made(
    caches: Kubectl, apiserver: ApiServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    volume = {
        "name": "data",
        "csi": {"driver": names.CSI_DRIVER, "readOnly": True, "volumeAttributes": {"dataset": "d"}},
    }
    apply(caches, build_pod("training", nodeName="cache-a", volumes=[volume]))
    ours = {"namespace": TEAM, "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}}
    apply(
        caches,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "main-report", **ours}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "main-keeper", **ours}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": TEAM}},
        {
            "apiVersion": names.GROUP_VERSION,
            "kind": "BalancedTopic",
            "metadata": {"name": "orders", "namespace": TEAM, "finalizers": [names.FINALIZER]},
            "spec": {"topicName": "orders"},
        },
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": names.LEASE_NAME, "namespace": SYSTEM},
        },
    )
    assert run_uninstall(caches, apiserver, monkeypatch) == uninstall.REFUSED
    assert f"1 pods mount a dataset ({TEAM}/training)" in capsys.readouterr().out
    assert replicas(caches) == 1

    caches("delete", "pod", "training", "-n", TEAM, "--force", "--grace-period=0")
    assert run_uninstall(caches, apiserver, monkeypatch) == 0, capsys.readouterr().out
    assert replicas(caches) == 0
    managed = ("-A", "-l", f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}", "-o", "name")
    assert caches("get", "configmaps,serviceaccounts,deployments,jobs,roles,rolebindings", *managed) == ""
    assert caches("get", "nodecaches", "-o", "name") == ""
    assert caches("get", "lease", "-n", SYSTEM, "-o", "name") == ""
    assert "theirs" in caches("get", "configmap", "-n", TEAM, "-o", "name")
    topic = json.loads(caches("get", "balancedtopic", "orders", "-n", TEAM, "-o", "json"))
    assert "finalizers" not in topic["metadata"]
    for node in json.loads(caches("get", "nodes", "-o", "json"))["items"]:
        assert not [
            key for key in node["metadata"].get("labels", {}) if key.split("/")[0].endswith(names.API_GROUP)
        ]
    assert run_uninstall(caches, apiserver, monkeypatch) == 0, "a second run finds nothing to do"
