"""How scenarios wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
POLL_SECONDS = 0.5


def wait_until(what: str, probe: Callable[[], T | None], seconds: float) -> T:
    """Call `probe` until it gives something true -> that.

    The last look begins after the deadline: one that a standing machine cut short costs nothing.

    Raises:
        AssertionError: nothing true within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while True:
        late = time.monotonic() > deadline
        if found := probe():
            return found
        assert not late, f"{what}: not within {seconds:.0f} s"
        time.sleep(POLL_SECONDS)
