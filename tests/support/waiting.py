"""Waiting on conditions with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LOOK_SECONDS = 0.005


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Return when the condition holds; TimeoutError when it does not in time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - files and threads set no event
            await asyncio.sleep(LOOK_SECONDS)
