"""Waiting on conditions with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_SECONDS = 0.005


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Return when the condition holds; TimeoutError when it does not in time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - files and threads set no event
            await asyncio.sleep(LOOK_SECONDS)


def wait_until(what: str, find: Callable[[], T | None], seconds: float = 10.0) -> T:
    """The first thing that `find` gives other than None or False; AssertionError after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        late = time.monotonic() > deadline  # before the look: the last one is never cut short
        if found := find():
            return found
        assert not late, f"no {what} within {seconds:g} s"
        time.sleep(LOOK_SECONDS)
