"""Cuts a broker off from everybody, by a control group of its own and a rule of the packet filter.

The rule drops what the processes of the group send: nobody gets an answer, no connection can be made. A socket
belongs to the group in which it was made, so a broker has to join before it makes any.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Self

_ROOTS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
_PREFIX = "evenkeel-cut"
_OWNED = re.compile(rf"--path \"?({_PREFIX}-(\d+)-\w+-\d+)\"?")


def explain_missing() -> str:
    """Why brokers cannot be cut off here; empty: they can."""
    if os.geteuid() != 0:
        return "cutting a broker off needs root"
    if _root() is None:
        return "cutting a broker off needs version 2 of cgroups"
    if shutil.which("iptables") is None:
        return "cutting a broker off needs iptables"
    if _iptables("-S", "OUTPUT").returncode != 0:
        return "iptables may not be used here"
    return ""


class Network:
    """The control groups of one cluster's nodes; `name` must be its own in this process. Close it after the cluster."""

    def __init__(self, name: str) -> None:
        root = _root()
        if root is None:
            raise OSError("no cgroups of version 2")
        sweep()
        self._root, self._name = root, name
        self._groups: dict[int, str] = {}
        self._cut: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def join(self, node: int, pid: int) -> None:
        """A node's process that was started just now."""
        group = self._groups.setdefault(node, f"{_PREFIX}-{os.getpid()}-{self._name}-{node}")
        (self._root / group).mkdir(exist_ok=True)
        (self._root / group / "cgroup.procs").write_text(str(pid))

    def cut(self, node: int) -> None:
        """Nothing that it sends arrives any more."""
        self._cut.add(node)
        _change("-I", self._groups[node])

    def mend(self, node: int) -> None:
        """It is there again; connections that wait try again after some seconds."""
        _change("-D", self._groups[node])
        self._cut.discard(node)

    def close(self) -> None:
        """Mend all, remove the groups of nodes that have ended."""
        for node in sorted(self._cut):
            self.mend(node)
        for group in self._groups.values():
            with contextlib.suppress(OSError):  # its broker still runs: the caller closed in the wrong order
                (self._root / group).rmdir()


def sweep() -> None:
    """Remove the rules and groups of processes that are gone."""
    for group, pid in find_owned(_iptables("-S", "OUTPUT").stdout):
        if not _is_alive(pid):
            _change("-D", group)
    root = _root()
    for path in root.glob(f"{_PREFIX}-*") if root is not None else ():
        if not all(_is_alive(pid) for _, pid in find_owned(f"--path {path.name}")):
            with contextlib.suppress(OSError):  # an orphan still runs there: the sweep of workspaces ends it
                path.rmdir()


def find_owned(rules: str) -> list[tuple[str, int]]:
    """Groups that rules, as `iptables -S` lists them, cut off, each with the process that made it."""
    return [(group, int(pid)) for group, pid in _OWNED.findall(rules)]


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _root() -> Path | None:
    return next((root for root in _ROOTS if (root / "cgroup.procs").exists()), None)


def _change(how: str, group: str) -> None:
    done = _iptables(how, "OUTPUT", "-m", "cgroup", "--path", group, "-j", "DROP")
    if done.returncode != 0:
        raise OSError(f"iptables {how} for {group}: {done.stderr.strip()}")


def _iptables(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["iptables", "-w", "10", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)
