"""The images that kubeadm starts in a node, each of one layer, from the programs of scripts/provision/gotools.py.

Not needed where kind's own node image can be pulled: it brings them.
"""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from scripts.provision import docker, gotools, images, steps

_COLLECTOR = "evenkeel-xtables"
PATH_SETTING = "ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Component:
    """One image: `programs` in `folder`; `entrypoint` unless the pod names its command; `xtables` adds iptables."""

    tag: str
    programs: tuple[str, ...]
    entrypoint: str = ""
    folder: str = "usr/local/bin"
    xtables: bool = False


def list_components(wanted: list[str], version: str) -> list[Component]:
    """What to build for the image names that kubeadm wants (the pause image's name is containerd's setting too).

    Raises:
        steps.StepFailed: kubeadm wants an image that nothing here makes.
    """
    by_name = {"etcd": ("etcd", "etcdctl")}
    found = []
    for tag in wanted:
        name = tag.rpartition(":")[0].rpartition("/")[2]
        programs = by_name.get(name, (name,))
        if unknown := set(programs) - set(gotools.PROGRAMS):
            raise steps.StepFailed(
                f"kubeadm wants {tag}, and there is no program {', '.join(sorted(unknown))}"
            )
        folder = "" if name in {"coredns", "pause"} else "usr/local/bin"
        entrypoint = "" if name == "etcd" else f"/{folder}/{name}".replace("//", "/")
        found.append(Component(tag, programs, entrypoint, folder, xtables=name == "kube-proxy"))
    cni = Component(f"evenkeel/cni:{version}", ("evenkeel-cni",), "/usr/local/bin/evenkeel-cni", xtables=True)
    return [*found, cni]


def wanted_images(programs: Path, version: str) -> list[str]:
    """The images that this kubeadm puts into its static pods and add-ons."""
    said = steps.run([programs / "kubeadm", "config", "images", "list", "--kubernetes-version", version])
    return said.split()


def build(component: Component, programs: Path, xtables: Path, work: Path) -> None:
    """Import the image of `component`; `xtables` is the tar of node/collect-xtables."""
    archive = work / f"{component.programs[0]}.tar"
    if component.xtables:
        shutil.copyfile(xtables, archive)
    with tarfile.open(archive, "a") as tar:
        _add_folders(tar, [] if component.xtables else ["tmp", component.folder])
        for program in component.programs:
            entry = tarfile.TarInfo(f"{component.folder}/{program}".removeprefix("/"))
            source = programs / program
            entry.size, entry.mode = source.stat().st_size, 0o755
            with source.open("rb") as body:
                tar.addfile(entry, body)
    changes = [PATH_SETTING, *([f'ENTRYPOINT ["{component.entrypoint}"]'] if component.entrypoint else [])]
    images.import_root(component.tag, archive, changes)
    archive.unlink()


def collect_xtables(root_image: str, script: Path, target: Path) -> None:
    """Run node/collect-xtables in the node's root image -> the tar file `target`."""
    docker.call("rm", "--force", "--volumes", _COLLECTOR)  # of a build that was interrupted
    try:
        options = ["--interactive", "--name", _COLLECTOR, "--network", "none"]
        docker.call("run", *options, root_image, "bash", "-s", stdin=script.read_bytes())
        docker.call("cp", f"{_COLLECTOR}:/xtables.tar", target)
    finally:
        docker.call("rm", "--force", "--volumes", _COLLECTOR)


def _add_folders(tar: tarfile.TarFile, folders: list[str]) -> None:
    for folder in filter(None, folders):
        entry = tarfile.TarInfo(folder)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(entry)
