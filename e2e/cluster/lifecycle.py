"""Start and remove a kind cluster: one control plane and some workers, everything from this machine.

A cluster that is up as asked is used again; anything else of the same name, such as what an
interrupted start left, is deleted first. Its kubeconfig is in the cache directory, never in ~/.kube.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.cluster import disks, hiccups, nodeimage
from scripts.provision import again, cache, docker, gotools, steps

DEFAULT_NAME = "evenkeel-demo"
CREATE_SECONDS = 600.0
READY_SECONDS = 300
BOOT_SECONDS = 60.0
DELETE_SECONDS = 60.0
ACCOUNT_SECONDS = 120
STATUS_SECONDS = 5.0
"""A cluster that is stopped says nothing at all; `status` should not take long to find out."""
_LABEL = "io.x-k8s.kind.cluster"
# A dead node is noticed within 12 s and its pods leave it 5 s later; Kubernetes' own 40 s and 300 s would
# make each fault test last minutes.
_FAST_FAILURE = (
    {
        "kind": "ClusterConfiguration",
        "controllerManager": {"extraArgs": {"node-monitor-period": "2s", "node-monitor-grace-period": "12s"}},
        "apiServer": {
            "extraArgs": {
                "default-not-ready-toleration-seconds": "5",
                "default-unreachable-toleration-seconds": "5",
            }
        },
    },
    {"kind": "KubeletConfiguration", "nodeStatusUpdateFrequency": "2s"},
)


@dataclass(frozen=True)
class Shape:
    """What a running cluster must agree with to be used again."""

    image: str
    workers: int
    fast_failure: bool


@dataclass(frozen=True)
class Cluster:
    """A running cluster; `nodes` has the control plane first. A node is a docker container of the same name."""

    name: str
    kubeconfig: Path
    nodes: tuple[str, ...]

    @property
    def workers(self) -> tuple[str, ...]:
        """The nodes that run pods."""
        return self.nodes[1:]

    def kubectl(
        self,
        *words: str | Path,
        stdin: str | None = None,
        timeout: float | None = 120.0,
        patience: float = hiccups.HICCUP_SECONDS,
    ) -> str:
        """`kubectl WORDS` against this cluster -> its standard output.

        Said again for `patience` seconds where the API server is away for a moment and nothing can be done
        twice by it; `timeout` is that of one try, and a `wait` that is said again waits its whole time again.

        Raises:
            steps.StepFailed: kubectl ended with an error, or ran past `timeout` seconds.
        """
        command = [gotools.ensure() / "kubectl", "--kubeconfig", self.kubeconfig, *words]
        # Its own cache would otherwise be made in ~/.kube.
        env = {"KUBECACHEDIR": str(cache.root() / "kubectl")}
        body = None if stdin is None else stdin.encode()
        return again.again(
            lambda: steps.run(command, env=env, stdin=body, timeout=timeout),
            lambda said: hiccups.is_repeatable([str(word) for word in words], said),
            seconds=patience,
        )

    def make_namespace(self, name: str) -> None:
        """A namespace in which pods can be made: the account that they need comes a moment after it.

        Raises:
            steps.StepFailed: the API server refuses it, or nobody makes the account.
        """
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.kubectl("apply", "--filename", "-", stdin=json.dumps(space))
        limit = f"--timeout={ACCOUNT_SECONDS}s"
        self.kubectl(
            "--namespace", name, "wait", "--for=create", "serviceaccount/default", limit,
            timeout=ACCOUNT_SECONDS + 10.0,
        )  # fmt: skip


@dataclass(frozen=True)
class Status:
    """Node name -> `Ready`, `NotReady`, or `unknown` where the API server does not say."""

    name: str
    kubeconfig: Path
    nodes: dict[str, str]

    @property
    def ready(self) -> bool:
        """Whether there is a cluster and all its nodes are ready."""
        return bool(self.nodes) and set(self.nodes.values()) == {"Ready"}


def up(name: str = DEFAULT_NAME, workers: int = 3, fast_failure: bool = False) -> Cluster:  # noqa: FBT001, FBT002 - a flag of the command
    """A cluster with all nodes and system pods ready; one that is up in this shape is returned as it is.

    Raises:
        steps.StepFailed: docker, the image or the cluster cannot be had.
        ValueError: the name or the number of workers cannot be used.
    """
    check_shape(name, workers)
    docker.ensure()
    shape = Shape(nodeimage.ensure(), workers, fast_failure)
    with cache.locked(f"cluster-{name}"):
        if not _matches(name, shape):
            _delete(name)
            _create(name, shape)
    return find(name)


def down(name: str = DEFAULT_NAME) -> None:
    """Remove the cluster and everything of it on this machine; nothing happens where there is none.

    Raises:
        steps.StepFailed: docker refuses, or loop devices of the cluster are left.
    """
    with cache.locked(f"cluster-{name}"):
        if docker.answers():
            _delete(name)
        disks.wait_detached(name)


def find(name: str) -> Cluster:
    """The cluster as docker knows it, running or not."""
    return Cluster(name, _folder(name) / "kubeconfig", tuple(sorted(_containers(name), key=_position)))


def status(name: str = DEFAULT_NAME) -> Status:
    """What docker and the API server say about the cluster's nodes; no nodes where there is none."""
    cluster = find(name) if docker.answers() else Cluster(name, _folder(name) / "kubeconfig", ())
    said = _node_conditions(cluster) if cluster.nodes else {}
    return Status(name, cluster.kubeconfig, {node: said.get(node, "unknown") for node in cluster.nodes})


def check_shape(name: str, workers: int) -> None:
    """Refuse what kind would refuse late.

    Raises:
        ValueError: with the argument, its value and the limit.
    """
    if (
        not name
        or len(name) > 40
        or not all(part.isalnum() and part == part.lower() for part in name.split("-"))
    ):
        raise ValueError(f"name: {name!r}: up to 40 lower-case letters, digits and single hyphens")
    if not 1 <= workers <= 20:
        raise ValueError(f"workers: {workers}: between 1 and 20")


def configuration(shape: Shape) -> dict[str, object]:
    """kind's configuration for this shape."""
    roles = ["control-plane", *["worker"] * shape.workers]
    patches = [json.dumps(patch) for patch in _FAST_FAILURE] if shape.fast_failure else []
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": role} for role in roles],
        "kubeadmConfigPatches": patches,
    }


def _create(name: str, shape: Shape) -> None:
    folder = _folder(name)
    folder.mkdir(parents=True)
    setting = folder / "kind.json"  # kind reads YAML, of which JSON is a part
    setting.write_text(json.dumps(configuration(shape), indent=2))
    with steps.step(f"kind cluster {name}, 1 + {shape.workers} nodes"):
        kind = gotools.ensure() / "kind"
        words = ["create", "cluster", "--name", name, "--image", shape.image]
        files: list[str | Path] = ["--config", setting, "--kubeconfig", folder / "kubeconfig"]
        # kind removes the nodes of a start that failed.
        again.again(
            lambda: steps.run([kind, *words, *files], timeout=CREATE_SECONDS),
            _starts_late,
            seconds=BOOT_SECONDS,
        )
    with steps.step("all nodes and system pods ready"):
        _wait_ready(find(name))
    # Written last: a start that was interrupted is not taken for a cluster.
    (folder / "shape.json").write_text(json.dumps(asdict(shape)))


def _wait_ready(cluster: Cluster) -> None:
    limit = f"--timeout={READY_SECONDS}s"
    waits: Sequence[Sequence[str]] = (
        ("wait", "--for=condition=Ready", "nodes", "--all", limit),
        ("--namespace", "kube-system", "rollout", "status", "deployment/coredns", limit),
        ("--namespace", "kube-system", "wait", "--for=condition=Ready", "pods", "--all", limit),
    )
    for words in waits:
        cluster.kubectl(*words, timeout=READY_SECONDS + 10.0)


def _delete(name: str) -> None:
    folder = _folder(name)
    (folder / "shape.json").unlink(missing_ok=True)
    if _containers(name):
        with steps.step(f"delete kind cluster {name}"):
            kind, words = gotools.ensure() / "kind", ["delete", "cluster", "--name", name]
            files: list[str | Path] = ["--kubeconfig", folder / "kubeconfig"]
            again.again(lambda: steps.run([kind, *words, *files]), _ends_late, seconds=DELETE_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def _starts_late(said: str) -> bool:
    """Whether kind gave up waiting for systemd in a node, as it does after half a minute on any machine."""
    return "could not find a log line that matches" in said


def _ends_late(said: str) -> bool:
    """Whether docker gave up waiting for a container that it has killed: on a busy machine that takes longer."""
    return "did not receive an exit event" in said or "is already in progress" in said


def _matches(name: str, shape: Shape) -> bool:
    marker = _folder(name) / "shape.json"
    return marker.is_file() and json.loads(marker.read_text()) == asdict(shape) and status(name).ready


def _node_conditions(cluster: Cluster) -> dict[str, str]:
    path = '{range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
    try:
        said = cluster.kubectl(
            "get", "nodes", "--request-timeout=10s", "--output", f"jsonpath={path}", patience=STATUS_SECONDS
        )
    except steps.StepFailed:
        return {}
    words = (line.split() for line in said.splitlines())
    return {parts[0]: "Ready" if parts[1:] == ["True"] else "NotReady" for parts in words if parts}


def _containers(name: str) -> list[str]:
    return docker.call("ps", "--all", "--filter", f"label={_LABEL}={name}", "--format", "{{.Names}}").split()


def _position(node: str) -> tuple[bool, int, str]:
    """kind calls them NAME-control-plane, NAME-worker, NAME-worker2, ..."""
    number = node.rpartition("worker")[2] if "-worker" in node else ""
    return not node.endswith("-control-plane"), int(number) if number.isdigit() else 1, node


def _folder(name: str) -> Path:
    return cache.root() / "clusters" / name
