from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from evenkeel.controller.loop import Loop
from evenkeel.controller.main import Operator
from evenkeel.controller.settings import Settings
from evenkeel.errors import ConfigurationError
from evenkeel.kube.client import Kube


class HeldLease:
    """A Lease that is held until it is told otherwise."""

    epoch = 1

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def held(self) -> bool:
        return True

    async def hold(self) -> None:
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()


class BrokenLoop:
    async def run(self, _held: Callable[[], bool]) -> None:
        raise RuntimeError("a bug")


class EndlessLoop:
    ended = False

    async def run(self, _held: Callable[[], bool]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True


def build_operator(lease: HeldLease) -> Any:
    operator: Any = Operator(cast("Kube", None), Settings("ns", "control:1", "data:1", "me"))
    operator._lease = lease
    return operator


async def test_a_loop_that_fails_is_not_lost_while_the_lease_is_held() -> None:
    with pytest.raises(RuntimeError, match="a bug"):
        await build_operator(HeldLease())._term(cast("Loop", BrokenLoop()))


async def test_a_lease_that_may_not_be_renewed_ends_the_loop() -> None:
    loop = EndlessLoop()
    with pytest.raises(ConfigurationError):
        await build_operator(HeldLease(ConfigurationError("no right")))._term(cast("Loop", loop))
    assert loop.ended
