"""What a user does: applies YAML, waits on conditions and reads them, by kubectl alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from e2e.cluster.lifecycle import Cluster
from evenkeel import names
from scripts.provision.steps import StepFailed

Object = dict[str, Any]
CLUSTER, TOPIC, DATASET, CACHE = (
    f"{plural}.{names.API_GROUP}"
    for plural in ("balancedclusters", "balancedtopics", "trainingdatasets", "nodecaches")
)
DEMO_NAMESPACE = "kafka"
"""Of the demo's BalancedCluster."""
DEMO_CLUSTER = "demo"


@dataclass(frozen=True)
class Said:
    """A condition as it stands."""

    status: str
    reason: str
    message: str


@dataclass(frozen=True)
class User:
    """kubectl in one namespace; an empty one is for kinds without namespace."""

    cluster: Cluster
    namespace: str

    def kubectl(self, *words: str, stdin: str | None = None, timeout: float = 120.0) -> str:
        """`kubectl WORDS` in the namespace; raises StepFailed with what it said."""
        return self.cluster.kubectl("--namespace", self.namespace, *words, stdin=stdin, timeout=timeout)

    def apply(self, *objects: Object) -> None:
        """Apply objects, as a user's GitOps would."""
        body = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("apply", "--filename", "-", stdin=body)

    def edit(self, kind: str, name: str, spec: Object) -> None:
        """Change fields of a spec."""
        self.kubectl("patch", kind, name, "--type=merge", "--patch", json.dumps({"spec": spec}))

    def get(self, kind: str, name: str) -> Object:
        """The object."""
        found: Object = json.loads(self.kubectl("get", kind, name, "--output", "json"))
        return found

    def list(self, kinds: str, selector: str = "") -> list[Object]:
        """The objects that match."""
        words = ["--selector", selector] if selector else []
        found: list[Object] = json.loads(self.kubectl("get", kinds, *words, "--output", "json"))["items"]
        return found

    def condition(self, kind: str, name: str, type_: str = "Ready") -> Said | None:
        """A condition; None: nobody has said it yet."""
        conditions = (self.get(kind, name).get("status") or {}).get("conditions") or ()
        found = next((one for one in conditions if one["type"] == type_), None)
        return None if found is None else Said(found["status"], found["reason"], found["message"])

    def wait_for(self, condition: str, kind: str, name: str, seconds: float) -> None:
        """`kubectl wait --for=condition=...`; fails with what all conditions say."""
        self._wait(f"condition={condition}", kind, name, seconds)

    def wait_reason(self, reason: str, kind: str, name: str, seconds: float, type_: str = "Ready") -> Said:
        """Wait until a condition has this reason -> the condition."""
        path = f'{{.status.conditions[?(@.type=="{type_}")].reason}}'
        self._wait(f"jsonpath={path}={reason}", kind, name, seconds)
        said = self.condition(kind, name, type_)
        assert said is not None
        return said

    def wait_gone(self, kinds: str, selector: str, seconds: float) -> None:
        """Wait until nothing matches any more."""
        self.kubectl(
            "wait", "--for=delete", kinds, "--selector", selector, f"--timeout={seconds:.0f}s",
            timeout=seconds + 30,
        )  # fmt: skip

    def delete(self, kind: str, name: str, seconds: float = 120) -> None:
        """Delete and wait until it is gone; nothing happens where it is not there."""
        self.kubectl(
            "delete", kind, name, "--ignore-not-found", "--wait", f"--timeout={seconds:.0f}s",
            timeout=seconds + 30,
        )  # fmt: skip

    def _wait(self, what: str, kind: str, name: str, seconds: float) -> None:
        try:
            self.kubectl(
                "wait", f"--for={what}", f"{kind}/{name}", f"--timeout={seconds:.0f}s", timeout=seconds + 30
            )
        except StepFailed as error:
            conditions = (self.get(kind, name).get("status") or {}).get("conditions")
            said = json.dumps(conditions, indent=1)
            raise AssertionError(
                f"{kind}/{name}: not {what} within {seconds:.0f} s; it says {said}"
            ) from error


def build_cluster(name: str, addresses: list[str], **spec: Any) -> Object:
    """A BalancedCluster."""
    return _build("BalancedCluster", name, {"bootstrapServers": addresses, **spec})


def build_topic(name: str, **spec: Any) -> Object:
    """A BalancedTopic of the demo's cluster, on the topic of its own name."""
    where = {"name": DEMO_CLUSTER, "namespace": DEMO_NAMESPACE}
    return _build("BalancedTopic", name, {"clusterRef": where, "topicName": name, **spec})


def build_dataset(name: str, claim: str, *, path: str = "", **spec: Any) -> Object:
    """A TrainingDataset of images on a claim, in the demo's cluster, with small topics."""
    source: Object = {"type": "Volume", "format": "ImageFolder", "volume": {"claimName": claim, "path": path}}
    whole = {
        "clusterRef": {"name": DEMO_CLUSTER, "namespace": DEMO_NAMESPACE},
        "source": source,
        "storage": {"partitions": 6, "replicationFactor": 2},
        "ingest": {"parallelism": 1},
    }
    return _build("TrainingDataset", name, whole | spec)


def _build(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": names.GROUP_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
