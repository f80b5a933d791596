"""Files that survive a power cut, and what their disk has left. All calls block: use them off the loop."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from evenkeel.nodecache.layout import TEMPORARY

BLOCK = 4 * 1024 * 1024
_DIRECTORY_MODE = 0o755
_FILE_MODE = 0o644


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """A file system's size, in bytes."""

    total: int
    usable: int
    """What an unprivileged process may still write."""


def read_disk(path: Path) -> DiskSpace:
    """Space of the file system on which `path` lies."""
    stat = os.statvfs(path)
    return DiskSpace(stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize)


def make_folder(path: Path) -> None:
    """A folder that pods of any user can read, its name synced."""
    path.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
    path.chmod(_DIRECTORY_MODE)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file: temporary name, sync, rename, sync of the folder."""
    temporary = temporary_name(path)
    handle = create_file(temporary)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def temporary_name(path: Path) -> Path:
    """A name beside `path` that nobody else uses and that a restart sweeps away."""
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}{TEMPORARY}")


def create_file(path: Path) -> int:
    """Open a new world-readable file for writing -> descriptor."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    os.fchmod(handle, _FILE_MODE)
    return handle


def hash_file(path: Path) -> str:
    """SHA-256 hex of what the disk holds, not of what the page cache remembers where that can be dropped."""
    total = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while block := file.read(BLOCK):
            total.update(block)
    return total.hexdigest()


def remove_folder(path: Path) -> None:
    """Remove a folder with all in it; the folder above goes too when nothing else is in it."""
    shutil.rmtree(path)
    try:
        path.parent.rmdir()
    except OSError:
        return  # other revisions of the dataset are there
