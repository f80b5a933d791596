"""Starts, asks and ends the process of one score. Every call has a deadline, and no call outlives it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

from evenkeel.domain import codec
from evenkeel.errors import InputError, RetryableError
from evenkeel.keeper.score_messages import ScoreReply
from evenkeel.reasons import Reason

KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE")
"""All that a score sees of the keeper's environment: names of secrets and tokens are not among them."""
CHUNK = 65_536
LONGEST = 4 * 1024 * 1024
"""Longest reply, in bytes: a cost for each of 10,000 partitions is a tenth of it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a score may take."""

    call_seconds: float = 2.0
    """For all topics of one cycle together."""
    start_seconds: float = 20.0
    """For importing its package, once."""
    memory_bytes: int = 512 * 1024 * 1024
    """Address space: NumPy and SciPy take half of it."""


class ScoreProcess:
    """The process of one score. Used by one thread.

    Args:
        name: the score.
        limits: time and memory.
    """

    def __init__(self, name: str, limits: Limits) -> None:
        self._name = name
        self._limits = limits
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Of the running process; None: none runs."""
        return self._child.pid if self._child is not None else None

    def ask(self, request: bytes) -> ScoreReply:
        """Send one request and wait for its reply; starts the process where none runs.

        Raises:
            RetryableError: it could not be loaded, ended, or gave no reply in time; the process is gone.
            InputError: its reply is not one; the process is gone.
        """
        try:
            if self._child is None:
                self._start()
            deadline = time.monotonic() + self._limits.call_seconds
            self._send(request + b"\n", deadline)
            return self._receive(deadline)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Kill the process and what it started; nothing happens where none runs."""
        child, self._child = self._child, None
        if child is None:
            return
        if child.returncode is None:  # nobody has asked for it: the number still is this group's
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # its own group, by start_new_session
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _start(self) -> None:
        words = [self._name, str(self._limits.memory_bytes), str(self._limits.call_seconds)]
        try:
            self._child = subprocess.Popen(  # noqa: S603 - our own module; the name is one word of the list
                [sys.executable, "-P", "-m", "evenkeel.keeper.score_worker", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise self._failed(f"its process cannot be started: {error.strerror}") from error
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        reply = self._receive(time.monotonic() + self._limits.start_seconds)
        if reply.failure:
            raise self._failed(f"cannot be loaded: {reply.failure}")

    def _send(self, data: bytes, deadline: float) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        pipe, rest = self._child.stdin.fileno(), memoryview(data)
        while rest:
            self._wait(pipe, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(pipe, rest[:CHUNK]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError as error:
                raise self._ended() from error

    def _receive(self, deadline: float) -> ScoreReply:
        assert self._child is not None
        assert self._child.stdout is not None
        pipe, found = self._child.stdout.fileno(), bytearray()
        while not found.endswith(b"\n"):
            self._wait(pipe, select.POLLIN, deadline)
            chunk = os.read(pipe, CHUNK)
            if not chunk:
                raise self._ended()
            found += chunk
            if len(found) > LONGEST:
                what = f"score {self._name}: its reply is longer than {LONGEST} bytes"
                raise InputError(what, reason=Reason.SCORE_INVALID)
        try:
            return codec.loads(ScoreReply, bytes(found))
        except InputError as error:
            what = f"score {self._name}: its reply is not one: {error.message}"
            raise InputError(what, reason=Reason.SCORE_INVALID) from error

    def _wait(self, pipe: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(pipe, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            limit = self._limits.call_seconds
            what = f"score {self._name}: no answer within {limit:g} s"
            raise RetryableError(what, reason=Reason.SCORE_TIMED_OUT)

    def _failed(self, what: str) -> RetryableError:
        return RetryableError(f"score {self._name}: {what}", reason=Reason.SCORE_FAILED)

    def _ended(self) -> RetryableError:
        """The process has closed its pipes. It stays a zombie, so that what it started can be ended by its group."""
        assert self._child is not None
        handle = os.pidfd_open(self._child.pid)
        try:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll(1000)
            found = os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        finally:
            os.close(handle)
        if found is None:
            return self._failed("its process closed its pipes")
        code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        return self._failed(f"its process ended with exit code {code}")


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    # The same modules as here; one thread each, for every thread of a numeric library takes address space.
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**kept, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
