"""The image of a kind node: kind's own where it can be pulled, else Kubernetes from Go modules on Debian packages."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

from e2e.cluster import components
from scripts.provision import cache, docker, gotools, images, steps

# Of the release notes of the kind version in go.mod; the newest image with the Kubernetes of go.mod.
KIND_IMAGE = "kindest/node:v1.34.11@sha256:44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d"
HERE = Path(__file__).resolve().parent
NODE = HERE / "node"
PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "containerd", "runc", "containernetworking-plugins", "iptables", "nftables",
    "conntrack", "ipset", "iproute2", "iputils-ping", "ethtool", "socat", "mount", "util-linux", "kmod", "procps",
    "ca-certificates", "hostname", "jq", "curl", "libseccomp2", "ebtables", "psmisc", "netbase", "e2fsprogs",
)  # fmt: skip
_BUILDER = "evenkeel-node-build"
_PROGRAMS = {"kubelet": "usr/bin", "kubeadm": "usr/bin", "kubectl": "usr/bin", "crictl": "usr/local/bin"}
_ENTRYPOINT = 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]'


def ensure() -> str:
    """The name of a node image that docker has.

    Raises:
        steps.StepFailed: it can neither be pulled nor built.
    """
    tag = built_tag()
    with cache.locked("node-image"):
        if docker.has_image(tag):
            return tag
        if images.pull(KIND_IMAGE):
            return KIND_IMAGE
        _build(tag)
    return tag


def built_tag() -> str:
    """The name of the image that is built here, from the content of everything that goes into it."""
    root = images.debian_tag("node-root", PACKAGES)
    key = cache.digest([gotools.key(), NODE, HERE / "components.py", Path(__file__), root])
    return f"evenkeel/kind-node:{gotools.kubernetes_version()}-{key[:8]}"


def root_image() -> str:
    """Debian with systemd, containerd and what kubelet calls: the node image without Kubernetes."""
    return images.debian_image("node-root", PACKAGES)


def _build(tag: str) -> None:
    programs, root, version = gotools.ensure(), root_image(), gotools.kubernetes_version()
    wanted = components.wanted_images(programs, version)
    with tempfile.TemporaryDirectory(dir=cache.root()) as folder:
        work = Path(folder)
        with steps.step("images of the Kubernetes components"):
            _write_component_archive(work, wanted, programs, root)
        pause = next(name for name in wanted if "/pause:" in name)
        _write_node_archive(work, programs, {"@PAUSE@": pause, "@VERSION@": version})
        with steps.step("node image"):
            _assemble(tag, root, work)


def _write_component_archive(work: Path, wanted: list[str], programs: Path, root: str) -> None:
    """components.tar: a `docker save` of all images that a node starts by itself."""
    xtables = work / "xtables.tar"
    components.collect_xtables(root, NODE / "collect-xtables", xtables)
    listed = components.list_components(wanted, gotools.kubernetes_version())
    for component in listed:
        components.build(component, programs, xtables, work)
    docker.call("save", "--output", work / "components.tar", *(component.tag for component in listed))


def _write_node_archive(work: Path, programs: Path, values: dict[str, str]) -> None:
    """node.tar: node/files with its placeholders filled in, and the programs of a node."""
    files, filled = NODE / "files", work / "filled"
    with tarfile.open(work / "node.tar", "w") as tar:
        for path in sorted(path for path in files.rglob("*") if path.is_file()):
            text = path.read_text()
            for placeholder, value in values.items():
                text = text.replace(placeholder, value)
            filled.write_text(text)
            _add(tar, filled, str(path.relative_to(files)), executable="bin" in path.parts)
        for name, folder in _PROGRAMS.items():
            _add(tar, programs / name, f"{folder}/{name}", executable=True)


def _add(tar: tarfile.TarFile, source: Path, name: str, *, executable: bool) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = source.stat().st_size, 0o755 if executable else 0o644
    with source.open("rb") as body:
        tar.addfile(entry, body)


def _assemble(tag: str, root: str, work: Path) -> None:
    docker.call("rm", "--force", "--volumes", _BUILDER)  # of a build that was interrupted
    try:
        docker.call(
            "run", "--detach", "--name", _BUILDER, "--privileged", "--network", "none",
            "--stop-signal", "SIGRTMIN+3", "--tmpfs", "/tmp", "--tmpfs", "/run",
            "--entrypoint", "sleep", root, "infinity",
        )  # fmt: skip
        docker.call("exec", _BUILDER, "mkdir", "/provision")
        for source in (work / "node.tar", work / "components.tar", NODE / "setup", NODE / "preload"):
            docker.call("cp", source, f"{_BUILDER}:/provision/")
        docker.call("exec", _BUILDER, "tar", "-C", "/", "-xf", "/provision/node.tar")
        docker.call("exec", _BUILDER, "/provision/setup")
        docker.call("exec", _BUILDER, "/provision/preload")
        docker.call("exec", _BUILDER, "rm", "-rf", "/provision")
        docker.call("commit", "--change", _ENTRYPOINT, "--change", "CMD []", _BUILDER, tag)
    finally:
        docker.call("rm", "--force", "--volumes", _BUILDER)
