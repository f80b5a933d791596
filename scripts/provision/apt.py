"""Debian packages of the machine, and Debian file systems made from packages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.provision import again, cache, steps

SUITE = "bookworm"
RECIPE = "2"  # counts up when the way in which a root file system is made changes
_LOCKED = "Could not get lock"
# A machine that has just started may be installing its own updates.
_PATIENT = ("-o", "DPkg::Lock::Timeout=300")
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_UNREAD = ("doc", "man", "info", "locale")


def find(command: str) -> Path | None:
    """A command of this machine; administrators' folders count even when PATH lacks them."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS])
    found = shutil.which(command, path=path)
    return Path(found) if found else None


def missing(tools: Mapping[str, str]) -> list[str]:
    """The packages of `tools` (command -> package) whose command is not there."""
    return sorted({package for command, package in tools.items() if find(command) is None})


def ensure(tools: Mapping[str, str]) -> None:
    """Install what is missing of `tools` (command -> package).

    Raises:
        steps.StepFailed: not root, no apt, or apt failed.
    """
    with cache.locked("apt"):
        packages = missing(tools)
        if packages:
            _install(packages)


def _install(packages: Sequence[str]) -> None:
    apt = find("apt-get")
    if apt is None:
        raise steps.StepFailed(f"missing: {' '.join(packages)}; install them, this machine has no apt")
    if os.geteuid() != 0:
        raise steps.StepFailed(
            f"missing: {' '.join(packages)}; as root: apt-get install {' '.join(packages)}"
        )
    with steps.step(f"packages {' '.join(packages)}"):
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        again.again(
            lambda: steps.run([apt, "-qq", "update"], env=quiet), is_passing, seconds=again.DOWNLOAD_SECONDS
        )
        # dpkg that was interrupted wants to be mended by hand.
        words = ["install", "--yes", "--no-install-recommends", *packages]
        again.download([apt, "-qq", *_PATIENT, *words], env=quiet, whole=True)


def is_passing(said: str) -> bool:
    """Whether apt ended for a broken transfer, or because another apt reads its lists right now."""
    return _LOCKED in said or again.is_broken_transfer(said)


def root_archive(name: str, packages: Sequence[str], unread: Sequence[str] = _UNREAD) -> Path:
    """A tar file with Debian's smallest root file system and `packages`, made once per list of packages.

    `unread` names the folders of /usr/share that are left out.

    Raises:
        steps.StepFailed: the packages cannot be had.
    """

    def build(target: Path) -> None:
        ensure({"mmdebstrap": "mmdebstrap"})
        options = ["--variant=minbase", "--components=main", f"--include={','.join(packages)}"]
        options += [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in unread]
        # Debian 12 else installs usrmerge, and with it 57 MB of Perl.
        options.append("--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr")
        # Java's packages link manual pages and fail where their folder is not.
        options.append('--essential-hook=mkdir -p "$1/usr/share/man/man1"')
        with steps.step(f"Debian root file system: {name}"):
            again.download(["mmdebstrap", *options, SUITE, target / "root.tar", *_mirror()])

    return (
        cache.entry(f"root-{name}", cache.digest([SUITE, RECIPE, *packages, "without", *unread]), build)
        / "root.tar"
    )


def _mirror() -> list[str]:
    """Where apt gets this suite from, if it does: a machine may reach no other mirror."""
    apt = find("apt-get")
    if apt is None:
        return []
    said = steps.run(
        [apt, "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"]
    )
    return parse_mirror(said)


def parse_mirror(targets: str) -> list[str]:
    """The address of the suite's main component in `apt-get indextargets`, or nothing (mmdebstrap's default)."""
    for line in targets.splitlines():
        words = line.split()
        if len(words) == 3 and words[:2] == [SUITE, "main"]:
            return [words[2]]
    return []
