"""kill -9 of every process of ours, and worse, while a dataset is on its way: it arrives whole, once."""

from __future__ import annotations

import hashlib
import json

import pytest

from e2e.demo import data
from e2e.demo.run import CACHE_PATH
from e2e.scenarios import ingests, kafka, nodes
from e2e.scenarios.conftest import Demo
from e2e.scenarios.ingests import TooLateError, attempts, read_topic, remove, wait_written
from e2e.scenarios.user import (
    CACHE,
    CLUSTER,
    DATASET,
    DEMO_CLUSTER,
    DEMO_NAMESPACE,
    Object,
    User,
    build_dataset,
)
from integration.processes import wait_until

SYSTEM = "evenkeel-system"
NAME = "survivor"
BACK_SECONDS = 120
ARRIVED_SECONDS = 300
"""With processes that start again, each a little later than the last time."""


def find_pods(demo: Demo, component: str, namespace: str) -> list[Object]:
    selector = f"app.kubernetes.io/name=evenkeel,app.kubernetes.io/component={component}"
    return User(demo.cluster, namespace).list("pods", selector)


def kill_managers(demo: Demo, user: User, share: float) -> bool:
    """The operator early in the ingest, the keeper at this share of it; False where it was over too soon."""
    journal = read_topic(user, NAME, "journal")
    (operator,) = find_pods(demo, "operator", SYSTEM)
    (keeper,) = find_pods(demo, "keeper", DEMO_NAMESPACE)
    try:
        wait_written(demo.host_bootstrap, journal, share / 6)
        assert nodes.kill(operator, "operator") == 1
        wait_written(demo.host_bootstrap, journal, share)
    except TooLateError:
        return False
    assert nodes.kill(keeper, "keeper") == 1
    return True


@pytest.mark.timeout(1500, func_only=True)
def test_a_dataset_survives_everybody(demo: Demo, vision: User, administrator: User) -> None:
    ingest = {"parallelism": 2, "messageBytes": "32Ki", "onBadRecord": "Quarantine"}
    for _, share in attempts(0.3):
        vision.apply(build_dataset(NAME, "clipart", ingest=ingest, preload={"mode": "Required"}))
        if kill_managers(demo, vision, share):
            break
        remove(demo, vision, NAME)
    vision.wait_for("Ready", DATASET, NAME, ARRIVED_SECONDS)
    caches = find_pods(demo, "node-cache", SYSTEM)
    assert len(caches) == 2
    for cache in caches:
        assert nodes.kill(cache, "node-cache") == 1
    vision.wait_for("Preloaded", DATASET, NAME, ARRIVED_SECONDS)
    administrator.wait_for("Ready", CLUSTER, DEMO_CLUSTER, BACK_SECONDS)
    found = kafka.read_revision(demo.host_bootstrap, vision.get(DATASET, NAME))
    assert sorted(found) == sorted(kafka.list_images(data.ensure_clipart()))


def test_what_a_node_holds_is_what_was_sealed(vision: User) -> None:
    dataset = vision.get(DATASET, NAME)
    folder, digest = folder_of(dataset), dataset["status"]["revision"]["digest"]
    for cache in vision.list(CACHE):
        node = cache["metadata"]["name"]
        stored = nodes.run(node, 'cat "$1/manifest.json"', folder).encode()
        assert digest.endswith(hashlib.sha256(stored).hexdigest())
        sums = nodes.run(node, 'cd "$1" && sha256sum *.arrow', folder).splitlines()
        promised = [shard["fileDigest"] for shard in json.loads(stored)["shards"]]
        assert [line.split()[0] for line in sums] == promised


def test_a_flipped_byte_is_found_and_repaired(vision: User, demo: Demo) -> None:
    dataset = vision.get(DATASET, NAME)
    (cache, *_) = find_pods(demo, "node-cache", SYSTEM)
    node, shard = cache["spec"]["nodeName"], f"{folder_of(dataset)}/shard-00000.arrow"
    before = nodes.run(node, 'sha256sum "$1"', shard).split()[0]
    # Read-only files do not stop root; a cache that starts checks everything that it holds.
    nodes.run(node, 'printf somebody | dd of="$1" bs=1 seek=100000 conv=notrunc status=none', shard)
    assert nodes.run(node, 'sha256sum "$1"', shard).split()[0] != before
    assert nodes.kill(cache, "node-cache") == 1

    def repaired() -> bool:
        return nodes.run(node, 'sha256sum "$1" 2>/dev/null || true', shard).split()[:1] == [before]

    wait_until("the shard is as before", repaired, seconds=180, every=0.5)
    vision.wait_for("Preloaded", DATASET, NAME, BACK_SECONDS)


@pytest.mark.timeout(1000, func_only=True)
def test_a_broker_that_goes_and_comes_back(demo: Demo, vision: User, administrator: User) -> None:
    name = "patient"
    ingest = {"parallelism": 2, "messageBytes": "32Ki", "onBadRecord": "Quarantine"}
    ingests.begin(demo, vision, build_dataset(name, "clipart", ingest=ingest), share=0.1)
    administrator.delete("pod", "kafka-4-0")
    vision.wait_for("Ready", DATASET, name, ARRIVED_SECONDS)
    administrator.wait_for("Ready", CLUSTER, DEMO_CLUSTER, BACK_SECONDS)
    found = kafka.read_revision(demo.host_bootstrap, vision.get(DATASET, name))
    assert sorted(found) == sorted(kafka.list_images(data.ensure_clipart()))
    remove(demo, vision, name)


def test_afterwards_it_can_go(demo: Demo, vision: User) -> None:
    remove(demo, vision, NAME)


def folder_of(dataset: Object) -> str:
    digest = dataset["status"]["revision"]["digest"].removeprefix("sha256:")
    return f"{CACHE_PATH}/{dataset['metadata']['uid']}/{digest}"
