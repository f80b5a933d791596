"""One line per step of a script, with its time; the output of commands goes to a log file."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from scripts.provision import cache

_printing = threading.Lock()


class StepFailed(RuntimeError):  # noqa: N818 - what happened, as in TimeoutExpired
    """A command of a step ended with an error; the message carries the end of its output."""


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """Print `title` and how long the body took, also when it fails."""
    began = time.monotonic()
    outcome = "failed"
    try:
        yield
        outcome = "ok"
    finally:
        say(f"{title:<58} {outcome:>6} {time.monotonic() - began:7.1f} s")


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
) -> str:
    """Run a command -> its standard output.

    `env` is added to the process environment. Output is kept in `logs/` of the cache as well.

    Raises:
        StepFailed: the command cannot be started, ended with an error, or ran past `timeout`.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            input=stdin if stdin is not None else b"",
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StepFailed(f"{words[0]}: {error}") from error
    _log(words, done.stdout + done.stderr)
    if done.returncode != 0:
        tail = (done.stdout + done.stderr).decode(errors="replace").strip()[-2000:]
        raise StepFailed(f"{' '.join(words)}: exit {done.returncode}\n{tail}")
    return done.stdout.decode(errors="replace")


def _log(words: Sequence[str], output: bytes) -> None:
    path = cache.root() / "logs" / f"{Path(words[0]).name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as handle:
        handle.write(f"$ {' '.join(words)}\n".encode() + output + b"\n")
