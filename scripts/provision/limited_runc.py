"""runc for a machine whose capability bounding set is incomplete; installed by docker.py as a program.

`docker run --privileged` and `docker exec --privileged` ask for every capability that the kernel
knows; runc then ends with "unable to apply caps: operation not permitted". This drops from the
OCI specification what the machine cannot give and becomes runc.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

# Names in the order of their numbers in the kernel (include/uapi/linux/capability.h).
NAMES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL",
    "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
    "PERFMON", "BPF", "CHECKPOINT_RESTORE",
)  # fmt: skip


def find_specification(arguments: list[str]) -> Path | None:
    """The file in which this call of runc says what to run, None for calls that run nothing."""
    commands = [word for word in arguments if word in {"create", "run", "exec"}]
    if not commands:
        return None
    option = "--process" if commands[0] == "exec" else "--bundle"
    for word, following in itertools.pairwise(arguments):
        if word == option:
            return Path(following) if option == "--process" else Path(following) / "config.json"
    return None


def limit(specification: dict[str, Any], bounding: int) -> dict[str, Any]:
    """The specification (of a container, or of a process in one) without the capabilities outside `bounding`."""
    process = specification.get("process", specification)
    held = process.get("capabilities") or {}
    given = {f"CAP_{name}" for number, name in enumerate(NAMES) if bounding >> number & 1}
    for kind, wanted in held.items():
        held[kind] = [name for name in wanted or [] if name in given]
    return specification


def main(arguments: list[str]) -> None:
    """Limit the specification in place and become runc; docker gave the same arguments to us."""
    path = find_specification(arguments)
    if path is not None and path.is_file():
        status = Path("/proc/self/status").read_text()
        bounding = next(line.split()[1] for line in status.splitlines() if line.startswith("CapBnd:"))
        path.write_text(json.dumps(limit(json.loads(path.read_text()), int(bounding, 16))))
    runc = shutil.which("runc", path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if runc is None:
        sys.exit("runc is not on this machine")
    os.execv(runc, [runc, *arguments])  # noqa: S606 - becoming runc is the purpose


if __name__ == "__main__":
    main(sys.argv[1:])
