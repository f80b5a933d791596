"""Saying a command again where what stopped it passes by itself: only what is safe to say twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from scripts.provision import steps

T = TypeVar("T")
PAUSE_SECONDS = 1.0
DOWNLOAD_SECONDS = 60.0
_BROKEN_TRANSFERS = (
    "after connection broken by",  # pip
    "IncompleteRead",
    "Connection broken",
    "Read timed out",
    "Could not transfer artifact",  # Maven
    "Failed to fetch",  # apt
    "Temporary failure",
    "i/o timeout",  # Go, docker
    "TLS handshake timeout",
    "unexpected EOF",
    "connection reset by peer",
    "502 Bad Gateway",
    "503 Service Unavailable",
    "504 Gateway",
)


def again(
    call: Callable[[], T],
    passes: Callable[[str], bool],
    *,
    seconds: float,
    monotonic: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> T:
    """`call()`, repeated while it fails with a message of which `passes` is true; each failure is printed.

    Args:
        call: safe to repeat after such a failure.
        passes: whether a failure with this message passes by itself.
        seconds: how long after the first failure another try may begin.
        monotonic: clock in seconds.
        pause: waits between two tries.

    Raises:
        steps.StepFailed: the last failure, or at once one that does not pass.
    """
    deadline: float | None = None
    while True:
        try:
            return call()
        except steps.StepFailed as error:
            if not passes(str(error)):
                raise
            deadline = monotonic() + seconds if deadline is None else deadline
            if monotonic() > deadline:
                raise
            steps.say(f"said again after: {str(error).rpartition(chr(10))[2][:200]}")
        pause(PAUSE_SECONDS)


def is_broken_transfer(said: str) -> bool:
    """Whether a command that downloads ended because a connection did, and not for what it fetched."""
    return any(mark in said for mark in _BROKEN_TRANSFERS)


def download(command: list[Any], **options: Any) -> str:
    """`steps.run` for a command that downloads: again where a transfer broke.

    Raises:
        steps.StepFailed: as `steps.run`.
    """
    return again(lambda: steps.run(command, **options), is_broken_transfer, seconds=DOWNLOAD_SECONDS)
