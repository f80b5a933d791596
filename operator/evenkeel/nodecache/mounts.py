"""Read-only bind mounts by the mount system calls of Linux 5.12, and the table of what is mounted.

`mount(MS_BIND)` and a remount do not serve: the copy that propagates to the host is made at the bind and
stays writable. open_tree, mount_setattr and move_mount make the mount read-only before anybody sees it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # the same on x86_64 and arm64
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 4
_READ_ONLY, _NO_SUID, _NO_DEVICES = 1, 2, 4
_UMOUNT_NOFOLLOW = 8
_CLONE_NEWNET = 0x40000000
_MOST_LAYERS = 64
MOUNT_TABLE = Path("/proc/self/mountinfo")

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd"))


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of mountinfo."""

    root: str
    """Folder within its file system that is mounted."""
    target: str
    options: frozenset[str]


class Mounts(Protocol):
    """What the mounter needs of the kernel."""

    def table(self) -> tuple[Mount, ...]:
        """Everything that is mounted now."""

    def bind(self, root: Path, folders: Sequence[str], target: Path) -> None:
        """Mount `root/folders...` read-only at `target`."""

    def unmount(self, target: Path) -> None:
        """Unmount until nothing is mounted at `target`."""


class KernelMounts:
    """The real one. Raises OSError."""

    def table(self) -> tuple[Mount, ...]:
        """Everything that is mounted in this process's namespace."""
        return parse_mount_table(MOUNT_TABLE.read_text())

    def bind(self, root: Path, folders: Sequence[str], target: Path) -> None:
        """Mount read-only; no part of the way below `root` may be a symbolic link.

        The cache process is the one that strangers talk to: were it taken over, it could put links there.
        """
        with _open_below(root, folders) as source:
            flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH
            tree = _check(_libc.syscall(_OPEN_TREE, source, b"", flags))
            try:
                _make_read_only(tree)
                place = os.fsencode(target)
                _check(_libc.syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, place, _MOVE_MOUNT_F_EMPTY_PATH))
            finally:
                os.close(tree)

    def unmount(self, target: Path) -> None:
        """Unmount all layers."""
        for _ in range(_MOST_LAYERS):
            if _libc.umount2(os.fsencode(target), _UMOUNT_NOFOLLOW) == 0:
                continue
            code = ctypes.get_errno()
            if code in (errno.EINVAL, errno.ENOENT):  # not a mount point, not there
                return
            raise OSError(code, os.strerror(code), str(target))
        raise OSError(errno.EBUSY, f"still mounted after {_MOST_LAYERS} unmounts", str(target))


def parse_mount_table(text: str) -> tuple[Mount, ...]:
    """Parse mountinfo (proc_pid_mountinfo(5))."""
    rows = (line.split() for line in text.splitlines())
    return tuple(Mount(_unescape(row[3]), _unescape(row[4]), frozenset(row[5].split(","))) for row in rows)


def leave_network() -> None:
    """Give this process a network namespace without interfaces. Call it before any thread is made.

    The containers of a pod share one network namespace, so a privileged one has to leave it by itself.

    Raises:
        OSError: no right to.
    """
    _check(_libc.unshare(_CLONE_NEWNET))


@contextmanager
def _open_below(root: Path, folders: Sequence[str]) -> Iterator[int]:
    handle = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            inner = os.open(folder, flags, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _make_read_only(tree: int) -> None:
    attributes = _MountAttributes(_READ_ONLY | _NO_SUID | _NO_DEVICES, 0, 0, 0)
    size = ctypes.sizeof(attributes)
    _check(_libc.syscall(_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), size))


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), text)
