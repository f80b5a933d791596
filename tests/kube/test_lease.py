from __future__ import annotations

import asyncio
from typing import Any

import pytest

from evenkeel.errors import ConfigurationError, RetryableError
from evenkeel.kube.client import Kube
from evenkeel.kube.failures import ConflictError, NotFoundError
from evenkeel.kube.lease import Lease, LeaseTimes

TIMES = LeaseTimes(duration=15, deadline=10, period=0.01)


class LeaseServer(Kube):
    """One Lease with optimistic locking; `trouble` is raised instead of an answer."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.trouble: Exception | None = None
        self.writes = 0

    async def get(self, *_: Any) -> dict[str, Any] | None:
        self._fail()
        return None if self.lease is None else {**self.lease, "metadata": dict(self.lease["metadata"])}

    async def create(self, _resource: Any, body: Any, **_: Any) -> dict[str, Any]:
        self._fail()
        if self.lease is not None:
            raise ConflictError("exists")
        return self._store(body)

    async def replace(self, _resource: Any, body: Any) -> dict[str, Any]:
        self._fail()
        if self.lease is None:
            raise NotFoundError("gone")
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise ConflictError("changed")
        return self._store(body)

    def _store(self, body: Any) -> dict[str, Any]:
        self.version += 1
        self.writes += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return self.lease

    def _fail(self) -> None:
        if self.trouble is not None:
            raise self.trouble


class SlowServer(LeaseServer):
    """Answers its first renewal when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def replace(self, resource: Any, body: Any) -> dict[str, Any]:
        self.asked.set()
        await self.answer
        return await super().replace(resource, body)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> LeaseServer:
    return LeaseServer()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def candidate(server: LeaseServer, clock: Clock, identity: str) -> Lease:
    return Lease(server, "system", "lease", identity, times=TIMES, clock=clock)


async def test_first_candidate_creates_it(server: LeaseServer, clock: Clock) -> None:
    lease = candidate(server, clock, "a")
    assert not lease.held()
    await lease.acquire()
    assert lease.held()
    assert server.lease is not None
    assert server.lease["spec"]["holderIdentity"] == "a"


async def test_second_waits_a_whole_duration_from_what_it_saw(server: LeaseServer, clock: Clock) -> None:
    first, second = candidate(server, clock, "a"), candidate(server, clock, "b")
    await first.acquire()
    assert not await second._try_acquire()
    clock.now += 14
    assert not await second._try_acquire()
    clock.now += 1
    assert not first.held()
    assert await second._try_acquire()
    assert second.epoch == first.epoch + 1


async def test_renewal_moves_the_wait(server: LeaseServer, clock: Clock) -> None:
    first, second = candidate(server, clock, "a"), candidate(server, clock, "b")
    await first.acquire()
    await second._try_acquire()
    clock.now += 9
    assert await first._renew()
    clock.now += 9
    assert not await second._try_acquire()
    assert first.held()


async def test_holder_stops_believing_when_nothing_answers(server: LeaseServer, clock: Clock) -> None:
    lease = candidate(server, clock, "a")
    await lease.acquire()
    server.trouble = RetryableError("away")
    holding = asyncio.create_task(lease.hold())
    await asyncio.sleep(0.05)
    assert not holding.done()
    clock.now += 10
    await asyncio.wait_for(holding, 2)
    assert not lease.held()


async def test_holder_steps_down_when_another_took_it(server: LeaseServer, clock: Clock) -> None:
    first, second = candidate(server, clock, "a"), candidate(server, clock, "b")
    await first.acquire()
    await second._try_acquire()
    clock.now += 15
    assert await second._try_acquire()
    clock.now -= 15  # the first one's clock stood still
    assert first.held()
    await asyncio.wait_for(first.hold(), 2)
    assert not first.held()
    assert second.held()


async def test_foreign_annotation_does_not_cost_the_lease(server: LeaseServer, clock: Clock) -> None:
    lease = candidate(server, clock, "a")
    await lease.acquire()
    assert server.lease is not None
    server._store({**server.lease, "metadata": {**server.lease["metadata"], "annotations": {"x": "y"}}})
    assert await lease._renew()
    assert lease.held()


async def test_release_lets_the_next_lead_after_a_second(server: LeaseServer, clock: Clock) -> None:
    first, second = candidate(server, clock, "a"), candidate(server, clock, "b")
    await first.acquire()
    await first.release()
    assert not first.held()
    assert await second._try_acquire()


async def test_release_of_what_is_not_held_writes_nothing(server: LeaseServer, clock: Clock) -> None:
    first = candidate(server, clock, "a")
    await first.release()
    await first.acquire()
    clock.now += 11
    await first.release()
    assert server.writes == 1


async def test_missing_right_is_raised(server: LeaseServer, clock: Clock) -> None:
    server.trouble = ConfigurationError("forbidden")
    with pytest.raises(ConfigurationError):
        await candidate(server, clock, "a").acquire()


@pytest.mark.parametrize("steps", range(4))
async def test_a_cancellation_that_comes_with_an_answer_is_not_lost(clock: Clock, steps: int) -> None:
    server = SlowServer()
    lease = candidate(server, clock, "a")
    await lease.acquire()
    holding = asyncio.create_task(lease.hold())
    await server.asked.wait()
    server.answer.set_result(None)
    for _ in range(steps):  # how far the answer has come
        await asyncio.sleep(0)
    holding.cancel()
    await asyncio.wait([holding], timeout=1)
    assert holding.cancelled()
