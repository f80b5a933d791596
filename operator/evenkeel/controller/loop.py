"""The one reconcile loop: takes what is dirty in batches, plans each key from the store, carries it out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime

from evenkeel.controller.act import NotLeaderError
from evenkeel.controller.health import Metrics
from evenkeel.controller.plan import Moment, Plan
from evenkeel.controller.store import Key, Store
from evenkeel.errors import EvenkeelError
from evenkeel.process.logs import current_object

BATCH_SECONDS = 0.05
"""How long a batch gathers: one change rarely comes alone."""
CONCURRENT = 5
FIRST_BACKOFF = 1.0
LONGEST_BACKOFF = 60.0
QUIET_FAILURES = 2
log = logging.getLogger(__name__)

Planner = Callable[[Store, Key, Moment], Plan | None]
"""Gathers from the store and plans; None: the object is gone."""
CarryOut = Callable[[Key, Plan], Awaitable[float | None]]


class Loop:
    """Runs while this process leads; `run` is cancelled or returns when `held()` turns False."""

    def __init__(
        self,
        store: Store,
        planners: Mapping[str, Planner],
        carry_out: CarryOut,
        metrics: Metrics,
        *,
        needed: Iterable[str] = (),
    ) -> None:
        self._store = store
        self._planners = planners
        self._carry_out = carry_out
        self._metrics = metrics
        self._needed = tuple(needed)
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}

    async def run(self, held: Callable[[], bool]) -> None:
        """Reconcile until `held()` is False; ends only between two objects."""
        try:
            while held():
                await self._wait()
                if not held():
                    return
                if self._store.is_listed(self._needed):
                    await self._batch(held)
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(1.0):
                await self._store.changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(BATCH_SECONDS)

    async def _batch(self, held: Callable[[], bool]) -> None:
        keys = [key for key in self._store.take_dirty() if key.kind in self._planners]
        self._metrics.dirty.set(len(keys))
        slots = asyncio.Semaphore(CONCURRENT)

        async def one(key: Key) -> None:
            async with slots:
                if held():
                    await self._reconcile(key)
                else:
                    self._store.mark([key])

        await asyncio.gather(*(one(key) for key in keys))
        self._metrics.dirty.set(self._store.dirty_count())

    async def _reconcile(self, key: Key) -> None:
        current_object.set(str(key))
        began = time.monotonic()
        outcome = "ok"
        try:
            plan = self._planners[key.kind](self._store, key, Moment(datetime.now(UTC)))
            again = await self._carry_out(key, plan) if plan is not None else None
            self._failures.pop(key, None)
            self._again(key, again)
        except NotLeaderError:
            outcome = "lost"
            self._store.mark([key])
        except EvenkeelError as error:
            outcome = "retry" if error.retry else "refused"
            self._back_off(key, error)
        except Exception as error:
            # One object that we do not understand must not stop the others.
            outcome = "error"
            log.exception("reconcile failed")
            self._back_off(key, error)
        self._metrics.reconciles.labels(kind=key.kind, outcome=outcome).inc()
        self._metrics.reconcile_seconds.labels(kind=key.kind).observe(time.monotonic() - began)

    def _back_off(self, key: Key, error: Exception) -> None:
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        passing = isinstance(error, EvenkeelError) and error.retry
        wait = (
            min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(failures - 1, 6)) if passing else LONGEST_BACKOFF
        )
        level = logging.INFO if passing and failures <= QUIET_FAILURES else logging.WARNING
        log.log(level, "reconcile put off failures=%d retry_s=%.0f why=%s", failures, wait, error)
        self._again(key, wait)

    def _again(self, key: Key, seconds: float | None) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(seconds, self._store.mark, [key])
