"""Limits on a test broker's disk, as a busy or rented one has them. Needs root.

Bytes per second are limited by the block controller of cgroups. Alone that would slow nobody who writes: the
page cache takes what the disk does not, up to a share of all memory. So the disk's dirty pages are limited too
(bdi, `strict_limit`), after which writers wait as they do on a large machine that writes for long.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from integration.kafka.cluster import KafkaCluster

BLKIO = Path("/sys/fs/cgroup/blkio")
BDI = Path("/sys/class/bdi")
DIRTY_BYTES = 4 * 1024 * 1024
"""Of one disk: about what a second of the limits used here writes."""


def explain_missing() -> str:
    """Why disks cannot be limited here; empty: they can.

    With version 2 of cgroups the root has no limits and a broker would need a group of its own.
    """
    if not (BLKIO / "blkio.throttle.write_bps_device").exists():
        return "limits need version 1 of cgroups with the blkio controller at /sys/fs/cgroup/blkio"
    if not os.access(BLKIO / "blkio.throttle.write_bps_device", os.W_OK):
        return "limits need root"
    return ""


@contextlib.contextmanager
def limited(
    cluster: KafkaCluster, brokers: Sequence[int], *, write: int = 0, read: int = 0
) -> Iterator[None]:
    """Disks of `brokers` take at most `write` and give at most `read` bytes per second (0: no limit).

    Raises:
        OSError: the kernel refuses; see `explain_missing`.
    """
    devices = [_device(cluster.log_dir(broker)) for broker in brokers]
    try:
        for device in devices:
            _limit(device, "write", write)
            _limit(device, "read", read)
            if write:
                (BDI / device / "strict_limit").write_text("1")
                (BDI / device / "max_bytes").write_text(str(DIRTY_BYTES))
        yield
    finally:
        for device in devices:
            with contextlib.suppress(OSError):  # the disk may be gone with its cluster
                _limit(device, "write", 0)
                _limit(device, "read", 0)
                (BDI / device / "max_ratio").write_text("100")
                (BDI / device / "strict_limit").write_text("0")


def forget_pages(folder: Path) -> None:
    """Write out the files below `folder` and drop them from the page cache, so that the next reader waits."""
    for path in sorted(folder.rglob("*.log")):
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)


def _device(path: Path) -> str:
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def _limit(device: str, kind: str, size: int) -> None:
    (BLKIO / f"blkio.throttle.{kind}_bps_device").write_text(f"{device} {size}")
