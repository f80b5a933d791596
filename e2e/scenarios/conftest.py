"""One run of the demo, on whose cluster all scenarios are played; removed at the end unless EVENKEEL_KEEP=1.

With EVENKEEL_REUSE=NAME the cluster NAME, left by an earlier run of the demo, is used as it is and left as it
is: for those who write scenarios.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Timer
from typing import Any
from uuid import uuid4

import pytest

from e2e.cluster import lifecycle
from e2e.cluster.lifecycle import Cluster
from e2e.demo import run
from e2e.kafka import deploy, manifests
from e2e.kafka.manifests import BrokerPlace
from e2e.scenarios.user import DEMO_NAMESPACE, User
from scripts.provision import cache, docker

REUSE = os.environ.get("EVENKEEL_REUSE")
NAME = REUSE or "evenkeel-e2e"
# From nothing, everything built, on two busy cores.
DEMO_SECONDS = 45 * 60
TAIL_LINES = 60


@dataclass(frozen=True)
class Demo:
    """The demo's cluster after the last of its steps."""

    cluster: Cluster
    results: dict[str, Any]
    """The page of results as JSON."""
    bootstrap: tuple[str, ...]
    """Kafka's addresses for pods."""
    host_bootstrap: str
    """Kafka's addresses for this machine, with commas."""


@pytest.fixture(scope="session")
def demo() -> Iterator[Demo]:
    if os.environ.get("CI") != "true" and not docker.answers():
        pytest.skip("docker does not answer; start it, or let `e2e/cluster/cluster up` do so as root")
    if not REUSE:
        run_demo("--yes")
    try:
        yield find_demo()
    finally:
        if not REUSE and os.environ.get("EVENKEEL_KEEP") != "1":
            run_demo("--down")


def run_demo(word: str) -> None:
    """`scripts/demo`, its output into the test's; fails with the last lines of it."""
    command = [sys.executable, cache.REPOSITORY / "scripts" / "demo", word, "--name", NAME]
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        limit = Timer(DEMO_SECONDS, process.kill)
        limit.start()
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            tail.append(line)
        code = process.wait()
        limit.cancel()
    if code != 0:
        pytest.fail(f"scripts/demo {word} ended with {code}:\n{''.join(tail)}", pytrace=False)


def find_demo() -> Demo:
    cluster = lifecycle.find(NAME)
    results = json.loads((cache.root() / "demo" / f"{NAME}.json").read_text())
    places = [
        BrokerPlace(i + 1, cluster.workers[i % len(cluster.workers)], size)
        for i, size in enumerate(run.DISKS_MEBIBYTES)
    ]
    return Demo(cluster, results, tuple(manifests.bootstrap(places)), deploy.host_addresses(cluster, places))


@pytest.fixture(scope="session")
def cluster(demo: Demo) -> Cluster:
    return demo.cluster


@pytest.fixture(scope="session")
def vision(cluster: Cluster) -> User:
    """The team whose datasets the demo ingested."""
    return User(cluster, run.NAMESPACE)


@pytest.fixture(scope="session")
def administrator(cluster: Cluster) -> User:
    """Whoever declared the demo's BalancedCluster."""
    return User(cluster, DEMO_NAMESPACE)


@pytest.fixture(scope="session")
def restarts(cluster: Cluster) -> Callable[[], dict[str, int]]:
    """Containers of operator, keepers and caches -> how often each was started again, by pod."""

    def count() -> dict[str, int]:
        selector = (
            "app.kubernetes.io/name=evenkeel,app.kubernetes.io/component in (operator,keeper,node-cache)"
        )
        pods = json.loads(
            cluster.kubectl("get", "pods", "--all-namespaces", "--selector", selector, "--output", "json")
        )
        return {
            f"{pod['metadata']['name']}/{one['name']}": one["restartCount"]
            for pod in pods["items"]
            for one in pod["status"].get("containerStatuses", ())
        }

    return count


@pytest.fixture(scope="module")
def newcomer(cluster: Cluster) -> Iterator[User]:
    """A team with a namespace of its own, of which nothing stays."""
    user = User(cluster, f"team-{uuid4().hex[:8]}")
    cluster.make_namespace(user.namespace)
    yield user
    cluster.kubectl(
        "delete", "namespace", user.namespace, "--ignore-not-found", "--wait", "--timeout=180s", timeout=210
    )
