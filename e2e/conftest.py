"""The bare cluster of test_cluster.py, from nothing; removed after it unless EVENKEEL_KEEP=1.

Two clusters at once would starve two cores, so it goes before the scenarios' one comes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from e2e.cluster import lifecycle, loading
from e2e.cluster.lifecycle import Cluster
from scripts.provision import docker, images

NAME = "evenkeel-test"
# Of a test alone: making the cluster from nothing takes minutes and is no test's fault. It ends what hangs; the
# waits of a test have limits of their own.
TEST_SECONDS = 400


# The bare cluster first; then what the demo left as it left it, before anything is broken; removing all last.
ORDER = (
    "cluster",
    "demo",
    "wait",
    "loads",
    "rebalance",
    "second_cluster",
    "bad_input",
    "exactness",
    "delete",
    "kill",
    "uninstall",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    mine = [item for item in items if here in item.path.parents]
    for item in mine:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS, func_only=True))
    ordered = iter(sorted(mine, key=lambda item: ORDER.index(item.path.stem.removeprefix("test_"))))
    items[:] = [next(ordered) if item in mine else item for item in items]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """1 + 3 nodes that notice a dead node within 12 s."""
    if os.environ.get("CI") != "true" and not docker.answers():
        pytest.skip("docker does not answer; start it, or let `e2e/cluster/cluster up` do so as root")
    yield lifecycle.up(NAME, workers=3, fast_failure=True)
    if os.environ.get("EVENKEEL_KEEP") != "1":
        lifecycle.down(NAME)


@pytest.fixture(scope="module")
def kubectl(cluster: Cluster) -> Callable[..., str]:
    """`kubectl(*words, stdin=None)` -> standard output; raises StepFailed with what kubectl said."""
    return cluster.kubectl


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own."""
    name = f"test-{uuid4().hex[:8]}"
    cluster.make_namespace(name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")


@pytest.fixture
def apply(cluster: Cluster, namespace: str) -> Callable[..., None]:
    """`apply(*objects)`: Kubernetes objects as dictionaries, into the test's namespace."""

    def apply_objects(*objects: dict[str, Any]) -> None:
        body = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        cluster.kubectl("apply", "--namespace", namespace, "--filename", "-", stdin=body)

    return apply_objects


@pytest.fixture(scope="module")
def python_image(cluster: Cluster) -> str:
    """An image with python3, present on the workers."""
    image = images.base_image()
    loading.load(image, cluster.name, cluster.workers)
    return image
