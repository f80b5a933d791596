"""The operator as a process against a real API server, and what a test plays: keeper, kubelet, cache."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenkeel import names
from evenkeel.domain import codec, envelope
from evenkeel.domain.exchange import ClaimReport, DatasetReport, Desired, Report, TopicReport, VolumeReport
from integration.apiserver.server import Kubectl, KubectlError
from integration.processes import Process, wait_until

Object = dict[str, Any]
GROUP = names.GROUP_VERSION
REPOSITORY = Path(__file__).resolve().parents[1]
WAIT = 60.0
"""For what takes a second or two, or a Lease of 15 s that has to run out first."""


def cluster(name: str = "kafka", **spec: Any) -> dict[str, Any]:
    body = {"bootstrapServers": ["kafka:9092"], **spec}
    return {"apiVersion": GROUP, "kind": "BalancedCluster", "metadata": {"name": name}, "spec": body}


def topic(name: str, topic_name: str, **spec: Any) -> dict[str, Any]:
    body = {"topicName": topic_name, **spec}
    return {"apiVersion": GROUP, "kind": "BalancedTopic", "metadata": {"name": name}, "spec": body}


class OperatorProcess:
    """`evenkeel operator` with a kubeconfig; started by the constructor."""

    def __init__(self, kubeconfig: Path, namespace: str, log: Path, **variables: str) -> None:
        environment = {
            "KUBECONFIG": str(kubeconfig),
            "EVENKEEL_NAMESPACE": namespace,
            "EVENKEEL_CONTROL_IMAGE": "evenkeel-control:test",
            "EVENKEEL_DATA_IMAGE": "evenkeel-data:test",
            "EVENKEEL_METRICS_PORT": "0",
            "EVENKEEL_RELIST_SECONDS": "3",
            "EVENKEEL_ABSENT_SECONDS": "0.5",
            "PYTHONPATH": str(REPOSITORY / "operator"),
            **variables,
        }
        self.process = Process([sys.executable, "-m", "evenkeel", "operator"], log, environment)

    def port(self) -> int:
        """Where its metrics are."""
        found = wait_until(
            "the operator's port",
            lambda: re.search(r"metrics_port=(\d+)", self.process.output()),
            seconds=WAIT,
            processes=[self.process],
        )
        return int(found.group(1))

    def probe(self, path: str) -> int:
        """HTTP status of /healthz or /readyz; 0: no answer in time."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port()}{path}", timeout=15) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except (OSError, http.client.HTTPException):
            return 0

    def metrics(self) -> dict[str, float]:
        """`name{labels}` -> value."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port()}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def writes(self) -> float:
        """How often it has written to the API server; the Lease is not counted."""
        return sum(
            value for name, value in self.metrics().items() if name.startswith("evenkeel_writes_total")
        )

    def is_leader(self) -> bool | None:
        """Whether this process leads; None: it does not answer in time."""
        try:
            return self.metrics().get("evenkeel_leader") == 1.0
        except (OSError, http.client.HTTPException):
            return None


@dataclass(frozen=True, slots=True)
class Api:
    """Objects of one namespace through kubectl, as dicts."""

    kubectl: Kubectl
    namespace: str

    def apply(self, *bodies: Mapping[str, Any]) -> None:
        """Server-side apply as a user."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})
        self.kubectl("apply", "-n", self.namespace, "--server-side", "-f", "-", stdin=text)

    def get(self, kind: str, name: str) -> Object | None:
        """One object, None if it is absent."""
        text = self.kubectl("get", kind, name, "-n", self.namespace, "--ignore-not-found", "-o", "json")
        return None if not text else dict(json.loads(text))

    def list(self, kind: str, selector: str = "") -> list[Object]:
        """All objects of a kind in the namespace (or cluster-wide kinds)."""
        words = ["get", kind, "-n", self.namespace, "-o", "json", *(["-l", selector] if selector else [])]
        return list(json.loads(self.kubectl(*words))["items"])

    def delete(self, kind: str, name: str) -> None:
        """Delete without waiting."""
        self.kubectl("delete", kind, name, "-n", self.namespace, "--wait=false")

    def patch_status(self, kind: str, name: str, status: Mapping[str, Any]) -> None:
        """What a kubelet, controller or node cache would write."""
        body = json.dumps({"status": status})
        self.kubectl(
            "patch", kind, name, "-n", self.namespace, "--subresource=status", "--type=merge", "-p", body
        )

    def condition(self, kind: str, name: str, type_: str = "Ready") -> tuple[str, str]:
        """`(status, reason)`; empty strings while it is absent."""
        item = self.get(kind, name) or {}
        for one in (item.get("status") or {}).get("conditions") or ():
            if one["type"] == type_:
                return one["status"], one["reason"]
        return "", ""

    def await_condition(self, kind: str, name: str, wanted: tuple[str, str], type_: str = "Ready") -> None:
        """Wait for `(status, reason)`."""
        seen: list[tuple[str, str]] = []

        def probe() -> bool:
            seen.append(self.condition(kind, name, type_))
            return seen[-1] == wanted

        try:
            wait_until(f"{kind} {name} {type_} {wanted}", probe, seconds=WAIT, every=0.2)
        except RuntimeError as error:
            raise AssertionError(f"{error}; last seen {seen[-1]}: {self.get(kind, name)}") from error

    def await_object(self, kind: str, name: str) -> Object:
        """Wait until it exists."""
        return wait_until(f"{kind} {name}", lambda: self.get(kind, name), seconds=WAIT, every=0.2)

    def await_absent(self, kind: str, name: str) -> None:
        """Wait until it is gone."""
        wait_until(f"the end of {kind} {name}", lambda: self.get(kind, name) is None, seconds=WAIT, every=0.2)


class KeeperDouble:
    """Writes reports as a keeper would: by patching the ConfigMap."""

    def __init__(self, api: Api, cluster: str) -> None:
        self._api = api
        self._cluster = cluster
        self.report = Report(
            desired_version="",
            claim=ClaimReport(held=True, owner=f"{api.namespace}/{cluster}", epoch=1),
            measured=True,
            cluster_id="kafka-1",
            brokers=3,
            volumes=tuple(VolumeReport(broker, "/data", 1000, 500) for broker in (1, 2, 3)),
            deviation_permille=0,
            max_fill_permille=500,
        )

    def start(self) -> None:
        """The Deployment's pod is available."""
        name = names.keeper_name(self._cluster)
        self._api.await_object("deployment", name)
        counts = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1}
        self._api.patch_status("deployment", name, counts)

    def desired(self) -> Desired:
        """What the operator tells."""
        item = self._api.await_object("configmap", names.desired_name(self._cluster))
        return codec.loads(Desired, envelope.unpack(names.DESIRED_KEY, item) or "")

    def await_desired(self, what: str, accept: Callable[[Desired], bool]) -> Desired:
        """Wait until the operator tells something."""

        def probe() -> Desired | None:
            found = self.desired()
            return found if accept(found) else None

        return wait_until(what, probe, seconds=WAIT, every=0.2)

    def say(self, **changes: Any) -> None:
        """Report the same as before but for `changes`; the version is what was read."""
        wanted = self.desired()
        self.report = replace(self.report, desired_version=wanted.version, **changes)
        body = json.dumps(envelope.pack(names.REPORT_KEY, codec.dumps(self.report)))
        name = names.report_name(self._cluster)
        self._api.await_object("configmap", name)
        self._api.kubectl("patch", "configmap", name, "-n", self._api.namespace, "--type=merge", "-p", body)

    def say_all_well(self, **dataset: Any) -> None:
        """Every topic exists, every dataset's topics are ready; `dataset` changes all dataset reports."""
        wanted = self.desired()
        topics = tuple(
            TopicReport(
                one.name, exists=True, topic_id="t", partitions=one.partitions or 12, replication_factor=2
            )
            for one in wanted.topics
        )
        datasets = tuple(
            DatasetReport(one.uid, **{"topics_ready": True, **dataset}) for one in wanted.datasets
        )
        self.say(topics=topics, datasets=datasets)


def render_chart(helm: Path, namespace: str, *templates: str) -> str:
    """Some templates of the chart as a cluster would get them."""
    shown = [word for name in templates for word in ("--show-only", f"templates/{name}")]
    chart = REPOSITORY / "charts" / "evenkeel"
    done = subprocess.run(
        [helm, "template", "evenkeel", chart, "--namespace", namespace, "--kube-version", "1.34.0", *shown],
        capture_output=True, text=True, check=False, env={**os.environ, "HELM_CACHE_HOME": "/nonexistent"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


StartOperator = Callable[..., OperatorProcess]
"""What the fixture `start_operator` gives: keyword arguments are variables of the process."""


def exists(api: Api, kind: str, name: str) -> bool:
    """Whether an object is there; an API server that is away counts as no."""
    try:
        return api.get(kind, name) is not None
    except KubectlError:
        return False
