"""csi-sanity, the conformance test of CSI drivers, built from its Go module. For integration tests only."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.provision import again, cache, gotools, steps

MODULE = "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@v5.6.0"


def ensure() -> Path:
    """The program, built once (half a minute).

    Raises:
        steps.StepFailed: there is no Go of this machine, or the module cannot be had.
    """
    return cache.entry("csi-sanity", cache.digest([MODULE]), _build) / "csi-sanity"


def _build(target: Path) -> None:
    compiler = gotools.host_go()
    if compiler is None:
        raise steps.StepFailed(f"{MODULE} needs Go {'.'.join(map(str, gotools.OLDEST_GO))} or newer")
    with steps.step("csi-sanity"):
        again.download([compiler, "install", MODULE], env={"GOBIN": str(target), "CGO_ENABLED": "0"})


if __name__ == "__main__":
    sys.stdout.write(f"{ensure()}\n")
