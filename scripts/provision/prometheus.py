"""Prometheus and its node exporter, from Debian's packages, without installing them. For tests only."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.provision import apt, cache, steps

PACKAGES = ("prometheus", "prometheus-node-exporter")


def ensure() -> Path:
    """The folder with the programs `prometheus` and `prometheus-node-exporter`, fetched once.

    Raises:
        steps.StepFailed: there is no apt, or it does not have the packages.
    """
    return cache.entry("prometheus", cache.digest([apt.SUITE, *PACKAGES]), _build) / "usr" / "bin"


def _build(target: Path) -> None:
    tool = apt.find("apt-get")
    if tool is None:
        raise steps.StepFailed(f"packages {' '.join(PACKAGES)} come by apt, and this machine has none")
    with steps.step("Prometheus"):
        # Unpacked and not installed: the packages would start services on this machine.
        try:
            steps.run([tool, "-qq", "download", *PACKAGES], cwd=target)
        except steps.StepFailed:
            steps.run([tool, "-qq", "update"])
            steps.run([tool, "-qq", "download", *PACKAGES], cwd=target)
        for package in sorted(target.glob("*.deb")):
            steps.run(["dpkg-deb", "--extract", package, target])
            package.unlink()


if __name__ == "__main__":
    sys.stdout.write(f"{ensure()}\n")
