"""A docker daemon that answers and can run privileged containers, whatever the machine is.

The one that answers is used as it is. Where none does, Debian's is installed and started, by the
service manager or, where there is none, by itself. kind's nodes are privileged containers; on a
machine whose own capabilities are incomplete runc refuses those, so there (and only there) a small
OCI runtime in front of runc drops what the machine cannot give.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.provision import apt, cache, steps

RUNTIME = "evenkeel"
RUNTIME_SOURCE = Path(__file__).with_name("limited_runc.py")
RUNTIME_PATH = Path("/usr/local/lib/evenkeel/limited-runc")
SETTINGS = Path("/etc/docker/daemon.json")
DAEMON_PID = Path("/var/run/docker.pid")
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
# A cluster of four nodes was counted at 73 instances; two of them come near the kernel's default of 128.
INOTIFY_INSTANCES = 1024
START_SECONDS = 180.0
ANSWER_SECONDS = 60.0
"""A daemon that is not there says so at once; one on a machine that builds on all cores may take long."""
_PACKAGES = {"dockerd": "docker.io", "iptables": "iptables"}


def plan_changes() -> list[str]:
    """What `ensure` would change on this machine outside the cache directory, a sentence each."""
    changes: list[str] = []
    running = answers()
    if not running:
        changes += [f"install the Debian package {name}" for name in apt.missing(_PACKAGES)]
    if _needs_runtime(running):
        changes += [f"add an OCI runtime {RUNTIME_PATH}", f"make it docker's default runtime in {SETTINGS}"]
    if not running:
        how = "systemctl" if _service_manager() else "itself, without a service manager"
        changes.append(
            f"start the docker daemon by {how}; its images and containers go to its default folder"
        )
    if _needs_inotify():
        changes.append(f"raise {INOTIFY} to {INOTIFY_INSTANCES} until the next boot")
    return changes


def ensure() -> None:
    """Make docker answer and able to run kind's nodes.

    Raises:
        steps.StepFailed: it cannot be installed, started or configured; the message says what to do.
    """
    with cache.locked("docker"):
        running = answers()
        if not running:
            _need_root("start docker")
            apt.ensure(_PACKAGES)
            apt.ensure({"docker": "docker-cli"})  # from Debian 13 on a package of its own
        if _needs_runtime(running):
            _need_root("add an OCI runtime to docker")
            _install_runtime(running=running)
        if not running:
            with steps.step("docker daemon"):
                _start()
        if _needs_inotify():
            INOTIFY.write_text(f"{INOTIFY_INSTANCES}\n")


def call(*words: str | Path, stdin: bytes | None = None, timeout: float | None = None) -> str:
    """`docker WORDS` -> its standard output.

    Raises:
        steps.StepFailed: docker is not there, or said no.
    """
    return steps.run(["docker", *words], stdin=stdin, timeout=timeout)


def answers() -> bool:
    """Whether a docker daemon answers this user."""
    try:
        call("version", "--format", "{{.Server.Version}}", timeout=ANSWER_SECONDS)
    except steps.StepFailed:
        return False
    return True


def has_image(tag: str) -> bool:
    """Whether docker's store holds an image of this name."""
    return bool(call("image", "ls", "--quiet", "--no-trunc", tag).strip())


def missing_capabilities(status: str) -> int:
    """How many of the kernel's capabilities a `/proc/PID/status` text lacks in its bounding set."""
    known = int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1
    bounding = next(line.split()[1] for line in status.splitlines() if line.startswith("CapBnd:"))
    return known - (int(bounding, 16) & ((1 << known) - 1)).bit_count()


def merge_settings(text: str) -> str:
    """The content of daemon.json with our runtime as the default one; everything else stays.

    Raises:
        steps.StepFailed: it is not a JSON object, or names another default runtime than runc.
    """
    try:
        settings = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise steps.StepFailed(f"{SETTINGS}: not JSON: {error}") from error
    if not isinstance(settings, dict):
        raise steps.StepFailed(f"{SETTINGS}: an object is expected, got {type(settings).__name__}")
    if settings.get("default-runtime", "runc") not in {"runc", RUNTIME}:
        raise steps.StepFailed(
            f"{SETTINGS}: default-runtime is {settings['default-runtime']!r}, runc is needed"
        )
    settings.setdefault("runtimes", {})[RUNTIME] = {"path": str(RUNTIME_PATH)}
    settings["default-runtime"] = RUNTIME
    return json.dumps(settings, indent=2) + "\n"


def _needs_runtime(running: bool) -> bool:  # noqa: FBT001 - private, named at each call
    status = Path("/proc/self/status")
    if running:
        daemon = _daemon()
        if daemon is None:  # another machine's, or another namespace's: nothing of ours to change
            return False
        status = Path(f"/proc/{daemon}/status")
    try:
        if missing_capabilities(status.read_text()) == 0:
            return False
    except OSError:  # hidden from this user, or gone: nothing is known to be wrong
        return False
    if _default_runtime(running) != RUNTIME:
        return True
    # An older text of the program still works; only root can bring it up to date.
    return os.geteuid() == 0 and not (RUNTIME_PATH.is_file() and RUNTIME_PATH.read_bytes() == _runtime_text())


def _default_runtime(running: bool) -> str:  # noqa: FBT001
    if running:
        return call("info", "--format", "{{.DefaultRuntime}}").strip()
    text = SETTINGS.read_text() if SETTINGS.is_file() else "{}"
    with contextlib.suppress(json.JSONDecodeError, AttributeError):
        return str(json.loads(text).get("default-runtime", "runc"))
    return "runc"


def _install_runtime(*, running: bool) -> None:
    text = merge_settings(SETTINGS.read_text() if SETTINGS.is_file() else "")
    _write(RUNTIME_PATH, _runtime_text(), mode=0o755)
    _write(SETTINGS, text.encode(), mode=0o644)
    daemon = _daemon()
    if not running or daemon is None:
        return
    os.kill(daemon, signal.SIGHUP)  # docker reads both keys again without a restart
    _wait("docker did not take its new default runtime", lambda: _default_runtime(running=True) == RUNTIME)


def _runtime_text() -> bytes:
    interpreter = Path("/usr/bin/python3")
    chosen = interpreter if interpreter.is_file() else Path(sys.executable)
    # -I -S: nothing of the caller's Python environment, and 10 ms instead of 40 per container
    return f"#!{chosen} -IS\n".encode() + RUNTIME_SOURCE.read_bytes()


def _write(path: Path, content: bytes, *, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(content)
    beside.chmod(mode)
    beside.replace(path)


def _start() -> None:
    if _service_manager():
        steps.run(["systemctl", "enable", "--now", "docker"])
        _wait("dockerd was started by systemctl and does not answer", answers)
        return
    binary = apt.find("dockerd")
    if binary is None:
        raise steps.StepFailed("dockerd is not on this machine and its package did not bring it")
    log = cache.root() / "logs" / "dockerd.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    with log.open("ab") as output:
        process = subprocess.Popen(
            [binary], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True, cwd="/", env={**os.environ, "PATH": path},
        )  # fmt: skip
    (cache.root() / "dockerd.pid").write_text(f"{process.pid}\n")

    def up() -> bool:
        if process.poll() is not None:
            tail = log.read_text(errors="replace")[-2000:]
            raise steps.StepFailed(f"dockerd ended with status {process.returncode}\n{tail}")
        return answers()

    _wait(f"dockerd does not answer; its log is {log}", up)
    process.returncode = 0  # it stays: no warning about a child that still runs


def _wait(complaint: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise steps.StepFailed(f"{complaint} (waited {START_SECONDS:.0f} s)")
        time.sleep(0.2)


def _daemon() -> int | None:
    """The process id of this machine's dockerd, None where docker runs elsewhere."""
    if os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock") != "unix:///var/run/docker.sock":
        return None
    try:
        pid = int(DAEMON_PID.read_text())
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, ValueError):
        return None
    return pid if name == "dockerd" else None


def _service_manager() -> bool:
    return Path("/run/systemd/system").is_dir() and shutil.which("systemctl") is not None


def _needs_inotify() -> bool:
    try:
        return os.access(INOTIFY, os.W_OK) and int(INOTIFY.read_text()) < INOTIFY_INSTANCES
    except (OSError, ValueError):
        return False


def _need_root(what: str) -> None:
    if os.geteuid() != 0:
        raise steps.StepFailed(f"root is needed to {what}; or start docker and let this user use it")


if __name__ == "__main__":
    for change in plan_changes():
        steps.say(change)
    ensure()
