"""What a real API server says to crds/: golden objects, defaults, columns, explain and waiting."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenkeel.api.kinds import KINDS
from evenkeel.api.meta import Resource
from integration.apiserver.server import Kubectl, KubectlError

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "data" / "api"
BY_KIND = {model.__name__: model for model in KINDS}
MARK = "# refused: "
READY = {
    "type": "Ready",
    "status": "True",
    "observedGeneration": 1,
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "reason": "Ready",
    "message": "As declared.",
}


def golden(folder: str) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in sorted((GOLDEN / folder).glob("*.yaml"))]


def create(kubectl: Kubectl, document: dict[str, Any], namespace: str) -> dict[str, Any]:
    text = kubectl("create", "-n", namespace, "-o", "json", "-f", "-", stdin=json.dumps(document))
    created: dict[str, Any] = json.loads(text)
    return created


def patch_status(kubectl: Kubectl, namespace: str, name: str, status: dict[str, Any]) -> None:
    patch = json.dumps({"status": status})
    kubectl("patch", *name.split("/"), "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)


@pytest.fixture(scope="module")
def shelf(crds: Kubectl) -> Iterator[str]:
    """One namespace for all golden objects: their names differ."""
    crds("create", "namespace", "golden")
    yield "golden"
    crds("delete", "namespace", "golden", "--wait=false")
    crds("delete", "ncache", "--all")


@pytest.mark.parametrize("path", golden("valid"))
def test_valid_object_is_accepted_and_read_back_the_same(crds: Kubectl, shelf: str, path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    stored = create(crds, document, shelf)
    kind = BY_KIND[document["kind"]]
    model = kind.model_validate(stored)
    assert model.model_dump(mode="json", by_alias=True, exclude_unset=True, include={"spec", "status"}) == {
        "spec": stored["spec"],
        "status": {"observedGeneration": -1},
    }
    assert contains(stored["spec"], document["spec"])
    own = kind.model_validate(document).dump()["spec"]
    assert own == model.dump()["spec"], "defaults of the server and of the model differ"


@pytest.mark.parametrize("path", golden("invalid"))
def test_invalid_object_is_refused_by_field_and_limit(crds: Kubectl, shelf: str, path: Path) -> None:
    text = path.read_text()
    wanted = [line.removeprefix(MARK) for line in text.splitlines() if line.startswith(MARK)]
    *first, last = (json.dumps(document) for document in yaml.safe_load_all(text))
    for document in first:
        crds("create", "-n", shelf, "-f", "-", stdin=document)
    with pytest.raises(KubectlError) as refusal:
        crds("replace" if first else "create", "-n", shelf, "-f", "-", stdin=last)
    assert wanted
    for fragment in wanted:
        assert fragment in str(refusal.value)


def test_definitions_are_established_and_structural(crds: Kubectl) -> None:
    for model in KINDS:
        found = json.loads(crds("get", "crd", f"{model.definition.plural}.evenkeel.dev", "-o", "json"))
        states = {item["type"]: item["status"] for item in found["status"]["conditions"]}
        assert states["Established"] == "True"
        assert "NonStructuralSchema" not in states


def test_applying_again_changes_nothing_and_warns_of_nothing(crds: Kubectl) -> None:
    folder = str(ROOT / "crds")
    before = crds("get", "crd", "-o", "jsonpath={.items[*].metadata.resourceVersion}")
    crds("apply", "--server-side", "--warnings-as-errors", "-f", folder)
    assert crds("get", "crd", "-o", "jsonpath={.items[*].metadata.resourceVersion}") == before


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.__name__)
def test_explain_knows_every_field(crds: Kubectl, model: type[Resource]) -> None:
    short = model.definition.short_name
    assert "<no description>" not in crds("explain", short)
    for part in ("spec", "status"):
        assert "<no description>" not in crds("explain", f"{short}.{part}")
        assert "FIELD" in crds("explain", f"{short}.{part}", "--recursive")


def test_explain_shows_the_values_of_an_enum(crds: Kubectl) -> None:
    shown = crds("explain", "bcl.spec.balance.mode").split()
    assert shown[shown.index("ENUM:") + 1 :][:2] == ["Disabled", "Propose"]


def test_category_lists_every_kind(crds: Kubectl) -> None:
    listed = crds("api-resources", "--categories=evenkeel", "-o", "name").split()
    assert set(listed) == {f"{model.definition.plural}.evenkeel.dev" for model in KINDS}


def test_columns_show_readiness_and_numbers(crds: Kubectl, namespace: str) -> None:
    document = yaml.safe_load((GOLDEN / "valid" / "cluster-smallest.yaml").read_text())
    create(crds, document, namespace)
    patch_status(
        crds,
        namespace,
        "bcl/main",
        {"conditions": [READY], "maxFillPermille": 612, "deviationPermille": 70, "observedGeneration": 1},
    )
    header, line = crds("get", "bcl", "-n", namespace).splitlines()
    assert header.split() == ["NAME", "READY", "REASON", "MAXFILLPERMILLE", "DEVIATIONPERMILLE", "AGE"]
    assert line.split()[:5] == ["main", "True", "Ready", "612", "70"]


def test_waiting_for_ready_ends_when_the_condition_speaks_of_the_newest_spec(
    crds: Kubectl, namespace: str
) -> None:
    create(crds, yaml.safe_load((GOLDEN / "valid" / "topic-smallest.yaml").read_text()), namespace)
    words = ("wait", "--for=condition=Ready", "btp/orders", "-n", namespace)
    with pytest.raises(KubectlError, match="timed out"):
        crds(*words, "--timeout=1s")
    patch_status(crds, namespace, "btp/orders", {"conditions": [READY], "observedGeneration": 1})
    assert "condition met" in crds(*words, "--timeout=30s")


def test_cluster_reference_stays_once_it_is_resolved(crds: Kubectl, namespace: str) -> None:
    document = yaml.safe_load((GOLDEN / "valid" / "dataset-smallest.yaml").read_text())
    create(crds, document, namespace)
    change = ("patch", "tds", "digits", "-n", namespace, "--type=merge", "-p")
    crds(*change, '{"spec": {"clusterRef": {"name": "mistyped"}}}')
    crds(*change, '{"spec": {"clusterRef": {"name": "main"}}}')
    patch_status(crds, namespace, "tds/digits", {"clusterRef": {"name": "main", "namespace": namespace}})
    with pytest.raises(KubectlError, match=r"spec\.clusterRef.*must not change once status\.clusterRef"):
        crds(*change, '{"spec": {"clusterRef": {"name": "other"}}}')


def test_status_is_refused_where_it_breaks_a_bound(crds: Kubectl, namespace: str) -> None:
    create(crds, yaml.safe_load((GOLDEN / "valid" / "topic-smallest.yaml").read_text()), namespace)
    with pytest.raises(KubectlError, match=r"status\.conditions\[0\]\.reason"):
        patch_status(crds, namespace, "btp/orders", {"conditions": [{**READY, "reason": "not a word"}]})


COUNTS = {"records": 10, "shards": 1, "dataBytes": 2**40, "rejectedRecords": 0}
TOPICS = {role: f"evenkeel-0123-{role}" for role in ("data", "journal", "manifest", "rejected")}
INGEST = {"plannedRecords": 10, "plannedBytes": 900, "acknowledgedRecords": 5, "acknowledgedBytes": 450}
HELD = {
    "datasetUID": "uid",
    "digest": "a" * 64,
    "state": "Failed",
    "reason": "ShardCorrupt",
    "message": "No.",
}
STATUSES: dict[str, dict[str, Any]] = {
    "cluster-smallest": {
        "clusterId": "MkU3OEVBNTcwNTJENDM2Qg",
        "brokers": 2,
        "volumes": [
            {"broker": 1, "path": "/data/0", "totalBytes": 2**40, "usedBytes": 0, "node": "worker-1"},
            {"broker": 1, "path": "/data/1"},
        ],
        "deviationPermille": 1200,
        "maxFillPermille": 612,
        "claimOwner": "kafka/main",
        "moves": {
            "reason": "MovesPlanned",
            "message": "Two.",
            "moves": 2,
            "deviationAfterPermille": 12,
            "cure": "Move",
            "routingSeconds": 0,
            "limitSeconds": 9,
            "plan": "main-0123456789",
        },
    },
    "topic-smallest": {
        "clusterRef": {"name": "main", "namespace": "kafka"},
        "topicId": "0f_7dSYjRX2Vfh3s6Zy0zA",
        "partitions": 24,
        "replicationFactor": 2,
        "routes": {
            "ownerEpoch": 3,
            "epoch": 7,
            "predictedMaxFillPermille": 640,
            "optimalMaxFillPermille": 638,
        },
    },
    "plan-smallest": {
        "state": "Running",
        "batch": 1,
        "batches": 2,
        "moves": 4,
        "movesDone": 1,
        "bytes": 2**40,
        "bytesDone": 2**39,
        "percent": 50,
        "etaSeconds": 60,
        "bytesPerSecond": 10_000_000,
        "lastEvent": 3,
    },
    "dataset-smallest": {
        "clusterRef": {"name": "main", "namespace": "kafka"},
        "topics": TOPICS,
        "seed": 2**53 - 1,
        "ingest": {"round": 1, "rejectedRecords": 0, "percent": 50, **INGEST},
        "revision": {"digest": "a" * 64, "schemaDigest": "b" * 64, **COUNTS},
        "preload": {"wantedNodes": 2, "warmNodes": 1},
    },
    "node-cache-empty": {
        "endpoint": "http://10.0.0.7:7443",
        "diskTotalBytes": 2**40,
        "diskUsableBytes": 2**39,
        "revisions": [{"verifiedShards": 1, "totalShards": 2, "verifiedBytes": 64, **HELD}],
    },
}


@pytest.mark.parametrize("name", STATUSES)
def test_status_of_the_model_is_stored_as_written(crds: Kubectl, namespace: str, name: str) -> None:
    document = yaml.safe_load((GOLDEN / "valid" / f"{name}.yaml").read_text())
    document["metadata"]["name"] = namespace  # node caches have no namespace to differ by
    kind = BY_KIND[document["kind"]]
    status = {"observedGeneration": 1, "conditions": [READY], **STATUSES[name]}
    written = kind.model_validate({**document, "status": status}).dump()["status"]
    create(crds, document, namespace)
    applied = {**document, "status": written}
    del applied["spec"]
    words = ("apply", "--server-side", "--subresource=status", "-n", namespace, "-o", "json", "-f", "-")
    stored = json.loads(crds(*words, stdin=json.dumps(applied)))
    crds("delete", document["kind"], namespace, "-n", namespace)
    assert stored["status"] == written
    assert contains(written, status)


def contains(whole: Any, part: Any) -> bool:
    """Whether every value of `part` stands at its place in `whole`."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            name in whole and contains(whole[name], item) for name, item in part.items()
        )
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(contains, whole, part))
    return bool(whole == part)
