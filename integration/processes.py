"""Processes of test servers, and waiting on a condition with a deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class ServerError(RuntimeError):
    """A server process ended, or did not do what was waited for; the message ends with its log."""


class Process:
    """One running program in a session of its own, its output appended to a log file.

    Ctrl-C in a terminal does not reach it: the owner stops it, after its own clean-up has begun.
    """

    def __init__(
        self, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        self._begin = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def output(self) -> str:
        """What this process (not an earlier one with the same log) has written."""
        with self.log.open("rb") as handle:
            handle.seek(self._begin)
            return handle.read().decode(errors="replace")

    def wait(self, seconds: float) -> int:
        """Exit status of a program that ends by itself.

        Raises:
            ServerError: it still runs after `seconds`.
        """
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise ServerError(f"{self.log.stem}: still runs after {seconds:g} s") from error

    def freeze(self) -> None:
        """Stop its clock: it keeps its sockets and answers nothing."""
        self._child.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._child.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._child.kill()
        self._child.wait()

    def stop(self, seconds: float = 10) -> None:
        """SIGTERM, then SIGKILL after `seconds`; returns when it is gone."""
        if self.running:
            self.thaw()
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(seconds)
        if self.running:
            self.kill()


def wait_until(
    what: str,
    probe: Callable[[], T | None],
    *,
    seconds: float = 60,
    every: float = 0.05,
    processes: Sequence[Process] = (),
) -> T:
    """Call `probe` until it gives something true -> that.

    The last look begins after the deadline: one that a standing machine cut short costs nothing.

    Raises:
        ServerError: nothing true within `seconds`, or one of `processes` has ended.
    """
    deadline = time.monotonic() + seconds
    while True:
        late = time.monotonic() > deadline
        found = probe()
        if found:
            return found
        for process in processes:
            if not process.running:
                raise ServerError(f"waiting for {what}: a process ended\n{process.output()[-3000:]}")
        if late:
            tails = "\n".join(process.output()[-1500:] for process in processes)
            raise ServerError(f"waiting for {what}: not within {seconds:g} s\n{tails}")
        time.sleep(every)
