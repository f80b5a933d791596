"""One line per step of a script, with its time; the output of commands goes to a log file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.provision import cache

_printing = threading.Lock()


class StepFailed(RuntimeError):  # noqa: N818 - what happened, as in TimeoutExpired
    """A command of a step ended with an error; the message carries the end of its output."""


@dataclass(frozen=True)
class Finished:
    """A step that ended well."""

    title: str
    seconds: float


finished: list[Finished] = []
"""Steps of this process that ended well, in the order of their ends."""
_running: set[subprocess.Popen[bytes]] = set()
_starting = threading.Lock()
_stopped = threading.Event()


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """Print `title` and how long the body took, also when it fails."""
    began = time.monotonic()
    outcome = "failed"
    try:
        yield
        outcome = "ok"
    except KeyboardInterrupt:
        outcome = "stopped"
        raise
    finally:
        seconds = time.monotonic() - began
        if outcome == "ok":
            finished.append(Finished(title, seconds))
        if not _stopped.is_set():
            say(f"{title:<58} {outcome:>7} {seconds:7.1f} s")


def say(text: str) -> None:
    """Print one whole line; lines of steps that run side by side do not mix."""
    with _printing:
        print(text, file=sys.stderr, flush=True)


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout: float | None = None,
    whole: bool = False,
) -> str:
    """Run a command -> its standard output.

    `env` is added to the process environment. Output is kept in `logs/` of the cache as well. The command
    gets a process group of its own: Ctrl-C reaches it through `stop` alone, and all of its children with
    it; `whole` lets it end first, for what must not be left half done.

    Raises:
        StepFailed: the command cannot be started, ended with an error, or ran past `timeout`.
    """
    words = [str(word) for word in command]
    try:
        process = _start(words, cwd, {**os.environ, **(env or {})}, whole=whole)
        output, errors = _communicate(process, stdin or b"", timeout, whole=whole)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StepFailed(f"{words[0]}: {error}") from error
    _log(words, output + errors)
    if process.returncode != 0:
        tail = (output + errors).decode(errors="replace").strip()[-2000:]
        raise StepFailed(f"{' '.join(words)}: exit {process.returncode}\n{tail}")
    return output.decode(errors="replace")


def listen() -> None:
    """Let Ctrl-C and SIGTERM raise KeyboardInterrupt in the main thread, whatever the shell has set.

    A shell's background job ignores Ctrl-C otherwise, and a signal sent to it as well; and SIGTERM would end us
    without our commands, whose process groups are their own.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def stop(number: int = signal.SIGINT) -> None:
    """Send a signal to every command that `run` has under way, in whatever thread, and let no other one start."""
    with _starting:
        _stopped.set()
        under_way = list(_running)
    for process in under_way:
        _signal(process, number)


def _start(
    words: list[str], cwd: Path | None, env: Mapping[str, str], *, whole: bool
) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    with _starting:
        if _stopped.is_set():
            raise StepFailed(f"{words[0]}: not started, we are stopping")
        process = subprocess.Popen(
            words, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, process_group=0
        )
        if not whole:
            _running.add(process)
    return process


def _communicate(
    process: subprocess.Popen[bytes], stdin: bytes, timeout: float | None, *, whole: bool
) -> tuple[bytes, bytes]:
    try:
        return process.communicate(stdin, timeout)
    except BaseException as error:
        if whole and isinstance(error, KeyboardInterrupt):
            process.communicate()
        else:
            _abandon(process)
        raise
    finally:
        _running.discard(process)


def _abandon(process: subprocess.Popen[bytes]) -> None:
    _signal(process, signal.SIGKILL)
    process.wait()  # not communicate(): a process that left the group may keep the pipes open
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _log(words: Sequence[str], output: bytes) -> None:
    path = cache.root() / "logs" / f"{Path(words[0]).name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as handle:
        handle.write(f"$ {' '.join(words)}\n".encode() + output + b"\n")
