"""The chart, rendered by Helm."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from scripts.provision import cache, gotools

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "evenkeel"
RELEASE = "evenkeel"
NAMESPACE = "evenkeel-system"
KUBE_VERSION = "1.34.0"

Document = Mapping[str, Any]


def find_helm() -> Path:
    """Helm where it was built already; unit tests build nothing."""
    found = cache.root() / "gotools" / gotools.key() / "helm"
    given = os.environ.get("EVENKEEL_KUBE_BIN")
    candidates = ([Path(given) / "helm"] if given else []) + [found]
    return next((path for path in candidates if path.is_file()), None) or _unavailable()


def _unavailable() -> NoReturn:
    reason = "Helm is not built: python3 scripts/provision/gotools.py"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def render(*settings: str, release: str = RELEASE) -> subprocess.CompletedProcess[str]:
    """`helm template` with `--set` for each setting."""
    words = [word for setting in settings for word in ("--set", setting)]
    target = ["template", release, CHART, "--namespace", NAMESPACE, "--kube-version", KUBE_VERSION]
    return subprocess.run([find_helm(), *target, *words], capture_output=True, text=True, check=False)


@functools.cache
def rendered(*settings: str) -> tuple[Document, ...]:
    """All objects, hooks included."""
    done = render(*settings)
    assert done.returncode == 0, done.stderr
    return tuple(item for item in yaml.safe_load_all(done.stdout) if item)


def of_kind(documents: Sequence[Document], *kinds: str) -> list[Document]:
    """Those of some kinds."""
    return [item for item in documents if item["kind"] in kinds]


def pod_specs(documents: Sequence[Document]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name of the workload and its pod."""
    for item in of_kind(documents, "Deployment", "DaemonSet", "Job"):
        yield item["metadata"]["name"], item["spec"]["template"]["spec"]
