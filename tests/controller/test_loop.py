from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from evenkeel.controller import loop as loops
from evenkeel.controller.act import NotLeaderError
from evenkeel.controller.health import Metrics
from evenkeel.controller.loop import Loop
from evenkeel.controller.plan import Plan
from evenkeel.controller.store import Key, Store
from evenkeel.errors import InputError, RetryableError
from tests.support.waiting import until

A, B = Key("Thing", "n", "a"), Key("Thing", "n", "b")


class Rig:
    """A loop whose writes are recorded; `behave` decides what carrying out a key does."""

    def __init__(self) -> None:
        self.store = Store(lambda *_: ())
        self.store.listed("Thing")
        self.done: list[Key] = []
        self.held = True
        self.behave: Callable[[Key], float | None] = lambda _: None
        self.metrics = Metrics()
        self.loop = Loop(
            self.store, {"Thing": lambda *_: Plan()}, self._carry_out, self.metrics, needed=["Thing"]
        )

    async def _carry_out(self, key: Key, _plan: Plan) -> float | None:
        self.done.append(key)
        return self.behave(key)

    def outcome(self, name: str) -> float:
        value = self.metrics.registry.get_sample_value(
            "evenkeel_reconciles_total", {"kind": "Thing", "outcome": name}
        )
        return value or 0.0


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(loops, "BATCH_SECONDS", 0.001)
    monkeypatch.setattr(loops, "FIRST_BACKOFF", 0.01)
    made = Rig()
    task = asyncio.create_task(made.loop.run(lambda: made.held))
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_dirty_keys_are_reconciled_once(rig: Rig) -> None:
    rig.store.mark([A, B])
    await until(lambda: len(rig.done) == 2)
    assert rig.done == [A, B]
    assert rig.outcome("ok") == 2


async def test_keys_of_no_planner_are_dropped(rig: Rig) -> None:
    rig.store.mark([Key("Other", "", "x"), A])
    await until(lambda: rig.done == [A])


async def test_busy_outside_is_tried_again(rig: Rig) -> None:
    def fail_twice(_: Key) -> None:
        if len(rig.done) < 3:
            raise RetryableError("busy")

    rig.behave = fail_twice
    rig.store.mark([A])
    await until(lambda: rig.outcome("ok") == 1)
    assert rig.outcome("retry") == 2


async def test_one_refused_or_broken_object_does_not_stop_others(rig: Rig) -> None:
    def behave(key: Key) -> None:
        if key == A:
            raise InputError("spec.x: invalid") if len(rig.done) == 1 else ValueError("bug")

    rig.behave = behave
    rig.store.mark([A, B])
    await until(lambda: B in rig.done)
    rig.store.mark([A])
    await until(lambda: rig.outcome("error") == 1)
    assert rig.outcome("refused") == 1


async def test_key_is_looked_at_again_when_asked(rig: Rig) -> None:
    rig.behave = lambda _: 0.01 if len(rig.done) < 3 else None
    rig.store.mark([A])
    await until(lambda: len(rig.done) == 3)


async def test_lost_lease_leaves_the_key_dirty(rig: Rig) -> None:
    def lose(_: Key) -> None:
        rig.held = False
        raise NotLeaderError("not leading")

    rig.behave = lose
    rig.store.mark([A])
    await until(lambda: rig.outcome("lost") == 1)
    await until(lambda: rig.store.dirty_count() == 1)
    assert rig.done == [A]


async def test_nothing_is_planned_before_all_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "BATCH_SECONDS", 0.001)
    made = Rig()
    made.store._listed.clear()
    task = asyncio.create_task(made.loop.run(lambda: True))
    made.store.mark([A])
    await asyncio.sleep(0.05)
    assert made.done == []
    made.store.listed("Thing")
    await until(lambda: made.done == [A])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
