from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from evenkeel import names
from evenkeel.api.kinds import KINDS
from evenkeel.api.meta import Resource
from evenkeel.controller.settings import read_settings
from tests.support.chart import CHART, NAMESPACE, ROOT, Document, of_kind, pod_specs, render, rendered

OPERATOR = "evenkeel-operator"
CACHE = "evenkeel-node-cache"
UNINSTALL = "evenkeel-uninstall"


def named(kind: str, name: str) -> Document:
    return next(item for item in of_kind(rendered(), kind) if item["metadata"]["name"] == name)


def containers(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*spec.get("initContainers", []), *spec["containers"]]


def container(workload: str, name: str) -> dict[str, Any]:
    spec = dict(pod_specs(rendered()))[workload]
    return next(one for one in containers(spec) if one["name"] == name)


def rules() -> Iterator[tuple[str, dict[str, Any]]]:
    for role in of_kind(rendered(), "Role", "ClusterRole"):
        for rule in role["rules"]:
            yield role["metadata"]["name"], rule


@pytest.mark.parametrize(
    ("setting", "fragments"),
    [
        ("operator.replica=2", ("/operator", "'replica' not allowed")),
        ("crd.enabled=true", ("'crd' not allowed",)),
        ("image.control.pullPolicy=Always", ("/image/control", "'pullPolicy' not allowed")),
        ("nodeCache.tolerations[0].taint=x", ("/nodeCache/tolerations/0", "'taint' not allowed")),
        ("operator.replicas=0", ("/operator/replicas", "minimum: got 0, want 1")),
        ("operator.logLevel=LOUD", ("/operator/logLevel", "DEBUG")),
        ("image.data.tag=latest", ("/image/data/tag",)),
        ("image.data.digest=sha256:12", ("/image/data/digest", "sha256:12")),
        ("nodeCache.storePath=cache", ("/nodeCache/storePath", "'cache'")),
        ("uninstall.timeoutSeconds=5", ("/uninstall/timeoutSeconds", "minimum: got 5, want 30")),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(setting: str, fragments: tuple[str, ...]) -> None:
    done = render(setting)
    assert done.returncode != 0
    for fragment in fragments:
        assert fragment in done.stderr


def test_every_value_is_described_and_every_object_of_values_is_closed() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    open_by_nature = {"global", "affinity"}

    def check(node: dict[str, Any], path: str) -> None:
        if "allOf" in node:
            (target,) = node["allOf"]
            check(schema["$defs"][target["$ref"].rsplit("/", 1)[1]], path)
        if node.get("type") == "object" and path.rsplit(".", 1)[-1] not in open_by_nature:
            assert "additionalProperties" in node, f"{path} takes any key"
        for name, child in node.get("properties", {}).items():
            assert child.get("description"), f"{path}.{name} has no description"
            check(child, f"{path}.{name}")
        if "items" in node:
            check(node["items"], f"{path}[]")

    check(schema, "values")


def test_schema_and_values_name_the_same_fields() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}
    for name, value in values.items():
        if isinstance(value, dict):
            assert set(value) == set(schema["properties"][name]["properties"]), name


def test_definitions_in_the_chart_are_those_of_crds() -> None:
    source, copy = ROOT / "crds", CHART / "files" / "crds"
    assert sorted(path.name for path in copy.iterdir()) == sorted(path.name for path in source.iterdir())
    for path in source.iterdir():
        cure = "run `evenkeel crds --directory charts/evenkeel/files/crds`"
        assert (copy / path.name).read_text() == path.read_text(), cure


@pytest.mark.parametrize("keep", [True, False])
def test_definitions_are_rendered_as_they_are(*, keep: bool) -> None:
    found = of_kind(rendered(f"crds.keep={str(keep).lower()}"), "CustomResourceDefinition")
    for item in found:
        written = yaml.safe_load((ROOT / "crds" / f"{item['spec']['names']['plural']}.yaml").read_text())
        assert item["spec"] == written["spec"]
        assert item["metadata"].get("annotations") == ({"helm.sh/resource-policy": "keep"} if keep else None)
    assert len(found) == len(list((ROOT / "crds").iterdir()))


def test_definitions_can_be_left_to_somebody_else() -> None:
    assert not of_kind(rendered("crds.enabled=false"), "CustomResourceDefinition")


def test_every_object_carries_the_standard_labels_and_none_looks_made_by_the_operator() -> None:
    for item in rendered():
        labels = item["metadata"]["labels"]
        for name in ("name", "instance", "component", "managed-by", "version"):
            assert labels.get(f"app.kubernetes.io/{name}"), item["metadata"]["name"]
        assert labels[names.LABEL_MANAGED_BY] == "Helm"


def test_every_namespaced_object_says_where_it_goes() -> None:
    cluster_wide = (
        "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "CSIDriver",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    )  # fmt: skip
    for item in rendered():
        wanted = None if item["kind"] in cluster_wide else NAMESPACE
        assert item["metadata"].get("namespace") == wanted, item["metadata"]["name"]


def test_node_cache_can_live_in_a_namespace_of_its_own() -> None:
    found = rendered("nodeCache.namespace=caches")
    placed = {
        (item["kind"], item["metadata"].get("namespace"))
        for item in found
        if item["metadata"]["name"] == CACHE
    }
    assert {("DaemonSet", "caches"), ("ServiceAccount", "caches")} <= placed
    (policy,) = [
        item for item in of_kind(found, "ValidatingAdmissionPolicy") if "own-node" in item["metadata"]["name"]
    ]
    assert f"system:serviceaccount:caches:{CACHE}" in policy["spec"]["matchConditions"][0]["expression"]


def test_without_node_cache_nothing_of_it_is_left() -> None:
    for item in rendered("nodeCache.enabled=false"):
        assert item["metadata"]["labels"]["app.kubernetes.io/component"] != "node-cache"


def test_every_container_has_sizes_and_a_policy_for_its_last_words() -> None:
    for workload, spec in pod_specs(rendered()):
        for one in containers(spec):
            assert one["resources"]["requests"].keys() == {"cpu", "memory"}, workload
            assert "memory" in one["resources"]["limits"], workload
            assert one["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_every_container_that_keeps_running_has_probes() -> None:
    for item in of_kind(rendered(), "Deployment", "DaemonSet"):
        for one in item["spec"]["template"]["spec"]["containers"]:
            assert {"livenessProbe", "readinessProbe"} <= one.keys(), one["name"]


@pytest.mark.parametrize("workload", [OPERATOR, UNINSTALL])
def test_pods_are_restricted(workload: str) -> None:
    spec = dict(pod_specs(rendered()))[workload]
    pod = spec["securityContext"]
    assert (pod["runAsNonRoot"], pod["runAsUser"], pod["seccompProfile"]) == (
        True,
        10001,
        {"type": "RuntimeDefault"},
    )
    assert not any("hostPath" in volume for volume in spec["volumes"])
    for one in containers(spec):
        assert_restricted(one)


def test_cache_container_is_restricted_and_only_the_mounter_is_privileged() -> None:
    cache = container(CACHE, "cache")
    assert_restricted(cache)
    assert (cache["securityContext"]["runAsNonRoot"], cache["securityContext"]["runAsUser"]) == (True, 10001)
    privileged = [one["name"] for one in containers(dict(pod_specs(rendered()))[CACHE])
                  if one["securityContext"].get("privileged")]  # fmt: skip
    assert privileged == ["mounter"]
    assert container(CACHE, "prepare")["securityContext"]["capabilities"] == {
        "drop": ["ALL"],
        "add": ["CHOWN"],
    }


def assert_restricted(one: dict[str, Any]) -> None:
    context = one["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_mounts_reach_the_host_from_kubelets_pods_only() -> None:
    shared = [
        (one["name"], mount["mountPath"])
        for _, spec in pod_specs(rendered())
        for one in containers(spec)
        for mount in one.get("volumeMounts", [])
        if mount.get("mountPropagation") == "Bidirectional"
    ]
    assert shared == [("mounter", "/var/lib/kubelet/pods")]


def test_privileged_mounter_gets_no_token() -> None:
    spec = dict(pod_specs(rendered()))[CACHE]
    assert spec["automountServiceAccountToken"] is False
    holders = [one["name"] for one in containers(spec) if "token" in {m["name"] for m in one["volumeMounts"]}]
    assert holders == ["cache"]


def test_folders_of_the_nodes_can_be_elsewhere() -> None:
    found = rendered("nodeCache.kubeletPath=/data/kubelet", "nodeCache.storePath=/data/cache")
    spec = dict(pod_specs(found))[CACHE]
    paths = {volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    assert paths == {
        "/data/cache",
        "/data/kubelet/pods",
        "/data/kubelet/plugins_registry",
        "/data/kubelet/plugins/cache.evenkeel.dev",
    }
    (mounter,) = [one for one in spec["containers"] if one["name"] == "mounter"]
    assert mounter["args"][1:] == [
        "--pods=/data/kubelet/pods",
        "--csi-on-host=/data/kubelet/plugins/cache.evenkeel.dev/csi.sock",
    ]


def test_node_cache_runs_on_marked_nodes_and_never_twice() -> None:
    daemon_set = named("DaemonSet", CACHE)
    assert daemon_set["spec"]["template"]["spec"]["nodeSelector"] == {names.LABEL_CACHE_NODE: "true"}
    assert daemon_set["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}


def test_driver_serves_inline_volumes_and_says_which_pod_asks() -> None:
    spec = named("CSIDriver", names.CSI_DRIVER)["spec"]
    assert spec["volumeLifecycleModes"] == ["Ephemeral"]
    assert (spec["podInfoOnMount"], spec["attachRequired"], spec["requiresRepublish"]) == (True, False, False)


def test_operator_understands_the_variables_that_it_is_given() -> None:
    given = {one["name"]: one.get("value", "x") for one in container(OPERATOR, "operator")["env"]}
    settings = read_settings(given)
    assert settings.control_image == "evenkeel/evenkeel-control:0.1.0"
    assert settings.data_image == "evenkeel/evenkeel-data:0.1.0"
    assert (settings.pull_policy, settings.log_level) == ("IfNotPresent", "INFO")


def test_digest_goes_before_tag() -> None:
    digest = f"sha256:{'a' * 64}"
    found = rendered(f"image.data.digest={digest}", "image.data.tag=v9", "image.control.tag=v9")
    images = {one["image"] for _, spec in pod_specs(found) for one in containers(spec)}
    assert images == {"evenkeel/evenkeel-control:v9", f"evenkeel/evenkeel-data@{digest}"}


def test_no_role_names_secrets_or_wildcards_or_gives_power_over_roles() -> None:
    for name, rule in rules():
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]], name
        assert "secrets" not in rule["resources"], name
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), name


def test_operator_holds_what_it_gives_to_keepers() -> None:
    held = {
        verb
        for name, rule in rules()
        if name == OPERATOR and rule["apiGroups"] == [""] and "configmaps" in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {"get", "list", "watch", "patch"} <= held


def verbs(role: str, resource: str) -> set[str]:
    return {
        verb
        for name, rule in rules()
        if name == role and resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_plans_of_moves_are_for_administrators_and_the_operator() -> None:
    assert verbs("evenkeel-view", "rebalanceplans") == {"get", "list", "watch"}
    assert verbs("evenkeel-edit", "rebalanceplans") == set()
    assert {"create", "patch", "delete"} <= verbs("evenkeel-admin", "rebalanceplans")
    assert verbs(OPERATOR, "rebalanceplans") == {"list", "watch", "create", "patch", "delete"}
    assert verbs(OPERATOR, "rebalanceplans/status") == {"patch"}
    assert verbs(OPERATOR, "balancedclusters/finalizers") == {"update"}
    assert verbs(UNINSTALL, "rebalanceplans") == {"list", "patch"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_people_who_may_view_a_namespace_see_every_kind(kind: type[Resource]) -> None:
    assert verbs("evenkeel-view", kind.definition.plural) == {"get", "list", "watch"}
    assert {"list", "watch"} <= verbs(OPERATOR, kind.definition.plural)


def test_hook_runs_before_the_uninstall_and_cleans_up_after_itself() -> None:
    hooks = [item for item in rendered() if "helm.sh/hook" in item["metadata"].get("annotations", {})]
    assert {item["metadata"]["name"] for item in hooks} == {UNINSTALL}
    assert {item["metadata"]["annotations"]["helm.sh/hook"] for item in hooks} == {"pre-delete"}
    weights = {item["kind"]: int(item["metadata"]["annotations"]["helm.sh/hook-weight"]) for item in hooks}
    assert weights.pop("Job") > max(weights.values())


def test_hook_names_the_operator_that_it_stops() -> None:
    arguments = container(UNINSTALL, "uninstall")["args"]
    assert arguments[0] == "uninstall"
    given = dict(word.removeprefix("--").split("=", 1) for word in arguments[1:])
    assert (given["namespace"], given["operator"]) == (NAMESPACE, OPERATOR)
    wanted = dict(part.split("=") for part in given["selector"].split(","))
    template = named("Deployment", OPERATOR)["spec"]["template"]["metadata"]["labels"]
    assert wanted.items() <= template.items()


def test_long_release_names_fit() -> None:
    done = render(release="r" * 53)
    assert done.returncode == 0
    assert all(len(item["metadata"]["name"]) <= 63 for item in yaml.safe_load_all(done.stdout) if item)
