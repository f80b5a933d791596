"""Disks of test brokers: small ext4 file systems in files, or plain directories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

MIB = 1024 * 1024
_BALLAST = "ballast"


class Disk:
    """One log dir. With a size in MiB it is a file system of its own, mounted at `path`."""

    def __init__(self, path: Path, size_mib: int | None) -> None:
        self.path = path
        self.size_mib = size_mib
        path.mkdir(parents=True)
        if size_mib is not None:
            _mount(path, size_mib)
        self.log_dir.mkdir()

    @property
    def log_dir(self) -> Path:
        """A directory below the mount point, where `lost+found` is not in Kafka's way."""
        return self.path / "data"

    def total_bytes(self) -> int:
        """Size of the file system, as Kafka reports it."""
        facts = os.statvfs(self.path)
        return facts.f_blocks * facts.f_frsize

    def usable_bytes(self) -> int:
        """Free bytes, as Kafka reports them."""
        facts = os.statvfs(self.path)
        return facts.f_bavail * facts.f_frsize

    def fill(self, size: int | None, fraction: float | None) -> int:
        """Set the ballast file to `size` bytes, or so that `fraction` of the disk is used -> its bytes.

        Raises:
            ValueError: a plain directory, which shares its disk with the machine; or not exactly one
                of size and fraction; or a fraction outside 0 to 1.
            OSError: there is no room for `size`.
        """
        if self.size_mib is None:
            raise ValueError(f"{self.path} is a plain directory: give BrokerSpec.disks a size in MiB")
        if (size is None) == (fraction is None):
            raise ValueError("fill takes either size or fraction")
        ballast = self.path / _BALLAST
        ballast.unlink(missing_ok=True)
        if fraction is not None:
            size = self._ballast_for(fraction)
        assert size is not None
        with ballast.open("wb") as handle:
            if size > 0:
                os.posix_fallocate(handle.fileno(), 0, size)
        return size

    def _ballast_for(self, fraction: float) -> int:
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction is {fraction}, must be 0 to 1")
        total, usable = self.total_bytes(), self.usable_bytes()
        wanted = int(fraction * total) - (total - usable)
        # One block may go to the index of a file of many extents.
        return max(0, min(wanted, usable - 4096))


def may_mount() -> bool:
    """Whether disks of a chosen size can be had here."""
    return os.geteuid() == 0 and Path("/dev/loop-control").exists()


def _mount(path: Path, size_mib: int) -> None:
    image = path.with_suffix(".img")
    with image.open("wb") as handle:
        handle.truncate(size_mib * MIB)
    for command in (
        ["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", str(image)],
        ["mount", "-o", "loop,noatime", str(image), str(path)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OSError(f"{command[0]} of a {size_mib} MiB disk: {done.stderr.strip()}")
