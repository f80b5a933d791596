"""A directory, ports and processes of one test server, swept up by the next run if this one dies.

A workspace holds a file lock for as long as its owner lives. A directory whose lock is free was left
by a killed run: its processes are ended, what is mounted below it is unmounted (which detaches the
loop devices) and it is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from integration.processes import Process, wait_until
from scripts.provision import cache

# Below the kernel's range for outgoing connections (32768 and up): such a connection could take a
# port while its broker is down.
_PORTS = range(20000, 30000)
_GONE = ".gone"


def root() -> Path:
    """Where all workspaces are, a folder per kind of server."""
    return cache.root() / "servers"


class Workspace:
    """A fresh directory `path` below the cache, with everything that runs and is mounted in it."""

    def __init__(self, kind: str) -> None:
        parent = root() / kind
        parent.mkdir(parents=True, exist_ok=True)
        sweep(parent)
        self.path = parent / f"{os.getpid()}-{secrets.token_hex(3)}"
        self._lock: IO[str] = _own(self.path)
        self._ports: list[IO[str]] = []
        self._processes: list[Process] = []

    def lease_port(self) -> int:
        """A port on loopback that no other workspace gets while this one is open."""
        folder = cache.root() / "locks" / "ports"
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            port = secrets.choice(_PORTS)
            held = _try_lock(folder / str(port))
            if held is None:
                continue
            if _is_free(port):
                self._ports.append(held)
                return port
            held.close()

    def launch(
        self, name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> Process:
        """Start `command`; its output goes to `<name>.log`."""
        process = Process(command, self.path / f"{name}.log", env)
        (self.path / f"{process.pid}.pid").touch()
        self._processes.append(process)
        return process

    def close(self) -> None:
        """End what still runs, unmount, remove the directory, give the ports back."""
        for process in self._processes:
            if process.running:
                process.kill()
        unmount_below(self.path)
        _discard(self.path)
        for handle in [*self._ports, self._lock]:
            handle.close()
        self._ports.clear()


def sweep(parent: Path) -> None:
    """Remove the workspaces below `parent` whose owners are gone."""
    for path in parent.glob(f".*{_GONE}"):
        shutil.rmtree(path, ignore_errors=True)
    for path in sorted(parent.glob("[!.]*")):
        # Another sweep may be faster.
        with contextlib.suppress(FileNotFoundError):
            lock = _try_lock(path / "lock")
            if lock is not None:
                with lock:
                    _remove(path)


def _remove(path: Path) -> None:
    for record in path.glob("*.pid"):
        _end_orphan(int(record.stem), path)
    unmount_below(path)
    _discard(path)


def _discard(path: Path) -> None:
    """Remove a workspace, out of the sight of other sweeps: its lock file goes with it, and theirs would be new."""
    gone = path.with_name(f".{path.name}{_GONE}")
    path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)  # a sweep may be at it as well


def unmount_below(path: Path) -> None:
    """Unmount every file system below `path`, the innermost first."""
    for point in reversed([point for point in _mount_points() if point.is_relative_to(path)]):
        # A process that was killed a moment ago may not have let go of its files yet.
        wait_until(f"umount {point}", functools.partial(_unmount, point))


def _unmount(point: Path) -> bool:
    return subprocess.run(["umount", str(point)], check=False, capture_output=True).returncode == 0


def _mount_points() -> Iterator[Path]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        yield Path(line.split()[1].replace("\\040", " "))


def _end_orphan(pid: int, path: Path) -> None:
    """Kill `pid` if it is still the process that was started in `path` (pids are used again)."""
    command = Path(f"/proc/{pid}/cmdline")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        if str(path).encode() in command.read_bytes():
            os.kill(pid, signal.SIGKILL)
            wait_until(f"the end of process {pid}", lambda: not command.exists() or not command.read_bytes())


def _own(path: Path) -> IO[str]:
    # Made under another name first: a sweep must never see it without its lock held.
    fresh = path.with_name(f".{path.name}")
    fresh.mkdir()
    lock = _try_lock(fresh / "lock")
    assert lock is not None
    fresh.rename(path)
    return lock


def _try_lock(path: Path) -> IO[str] | None:
    handle = path.open("a")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return None
    return handle


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


if __name__ == "__main__":
    for folder in root().glob("*"):
        sweep(folder)
