"""What the examples, and the README's simplest use, say is what a real API server with our definitions takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.apiserver.server import Kubectl
from tests.architecture.test_docs import declarations, training

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))
ALL = [*FILES, *sorted(EXAMPLES.glob("routing/*.yaml"))]
DRY_RUN = ("apply", "--server-side", "--dry-run=server", "--warnings-as-errors", "-f")
IMAGE = "registry.example/team/training:1"


@pytest.fixture(scope="module")
def namespaces(crds: Kubectl) -> Iterator[Kubectl]:
    """The namespaces of the examples, the restricted profile enforced where they say so."""
    crds("create", "namespace", "kafka")
    crds("apply", "-f", "-", stdin=_namespace())
    yield crds
    crds("delete", "namespace", "kafka", "team-vision", "--wait=false")


def _namespace() -> str:
    found = [
        item for path in FILES for item in yaml.safe_load_all(path.read_text()) if item["kind"] == "Namespace"
    ]
    (item,) = found
    return json.dumps(item)


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_example_is_accepted(namespaces: Kubectl, path: Path) -> None:
    text = path.read_text().replace("IMAGE_TRAINING", IMAGE)
    assert "dry run" in namespaces(*DRY_RUN, "-", stdin=text)


def test_training_pods_are_admitted_where_pods_are_restricted(namespaces: Kubectl) -> None:
    job: dict[str, Any] = yaml.safe_load((EXAMPLES / "40-training.yaml").read_text())
    template = job["spec"]["template"]
    template["spec"]["containers"][0]["image"] = IMAGE
    meta = {**template["metadata"], "name": "rank-0", "namespace": "team-vision"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
    assert "dry run" in namespaces(*DRY_RUN, "-", stdin=json.dumps(pod))


def test_simplest_use_is_accepted(crds: Kubectl, namespace: str) -> None:
    _, job = training()
    for item in (*declarations(), job):
        assert "dry run" in crds("-n", namespace, *DRY_RUN, "-", stdin=json.dumps(item))
