"""File systems of chosen sizes inside a node: what a Kafka broker takes for a disk of its own.

An ext4 image in the node's own storage, mounted there through a loop device, so that docker rights
suffice. It is gone with the node. Loop devices belong to the whole machine; the kernel frees ours
when the last mount of it ends, and `wait_detached` makes sure of it.
"""

from __future__ import annotations

import time
from pathlib import Path

from scripts.provision import cache, docker, steps

SMALLEST_MEBIBYTES = 8
DETACH_SECONDS = 60.0
_FOLDER = "evenkeel-disks"
_SCRIPTS = Path(__file__).resolve().parent / "disk"


def make_disk(node: str, name: str, mebibytes: int, path: str, owner: int = 0) -> None:
    """Mount an empty ext4 file system of `mebibytes` at `path` of the node, owned by the user `owner`.

    Pods that start later see it by hostPath or a local volume. What is mounted already stays; after a
    restart of the node the same call mounts the same file system again, content included.

    Raises:
        steps.StepFailed: no file system can be made or mounted in the node.
        ValueError: size or path cannot be used.
    """
    if mebibytes < SMALLEST_MEBIBYTES:
        raise ValueError(f"mebibytes: {mebibytes}: at least {SMALLEST_MEBIBYTES}")
    if not path.startswith("/"):
        raise ValueError(f"path: {path!r}: an absolute path in the node")
    with cache.locked("loop-devices"):
        _script(node, "make", _image(node, name), str(mebibytes), path, str(owner))


def remove_disk(node: str, name: str, path: str) -> None:
    """Unmount what `make_disk` mounted at `path` and delete it; nothing happens where it is not.

    Raises:
        steps.StepFailed: something still uses it.
    """
    _script(node, "remove", _image(node, name), path)


def attached(cluster: str) -> list[str]:
    """The machine's loop devices that hold disks of the cluster's nodes, such as `loop3`."""
    found = []
    for backing in sorted(Path("/sys/block").glob("loop*/loop/backing_file")):
        try:
            image = backing.read_text()
        except OSError:  # detached in between
            continue
        if f"{_FOLDER}/{cluster}-" in image:
            found.append(backing.parts[3])
    return found


def wait_detached(cluster: str) -> None:
    """Wait until the machine holds no loop device of the cluster.

    Raises:
        steps.StepFailed: some are left after `DETACH_SECONDS`.
    """
    deadline = time.monotonic() + DETACH_SECONDS
    while left := attached(cluster):
        if time.monotonic() > deadline:
            raise steps.StepFailed(f"loop devices of {cluster} are left: {', '.join(left)}")
        time.sleep(0.1)


def _image(node: str, name: str) -> str:
    return f"/var/lib/{_FOLDER}/{node}/{name}.img"


def _script(node: str, script: str, *arguments: str) -> None:
    # Sent along, not kept in the node image: kind's own image has none of ours.
    text = (_SCRIPTS / script).read_bytes()
    docker.call("exec", "--interactive", node, "bash", "-s", "--", *arguments, stdin=text)
