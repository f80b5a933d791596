"""Keeps turning: a thread for Kafka, so that a sick cluster never blocks probes, watches and reports."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from evenkeel.domain.exchange import Desired, Report
from evenkeel.errors import EvenkeelError
from evenkeel.keeper.cycle import Cycle
from evenkeel.keeper.exchange import Exchange
from evenkeel.keeper.health import Metrics

log = logging.getLogger(__name__)
FOLLOW_SECONDS = 0.5
"""Pause between two looks into the journals."""
RETRY_SECONDS = 5.0
"""Pause after a turn that could not measure."""
REPORT_SECONDS = 5.0
"""A report is written at most this often."""
CHECK_SECONDS = 60.0
"""An unchanged report is looked at this often: its ConfigMap may have been emptied or made again."""
RELEASE_SECONDS = 20.0
"""Moves may take so long to be cancelled once the process is to stop; a pod has 30 s."""
STUCK_SECONDS = 300.0
"""A turn that takes longer hangs: every call inside has a shorter limit."""


@dataclass(slots=True)
class Beat:
    """What the two sides of the loop share; each field is written by one side only."""

    desired: Desired | None = None
    report: Report | None = None
    turned_at: float = 0.0
    measured_at: float | None = None


class Loop:
    """The running keeper.

    Args:
        exchange: where Desired comes from and Report goes.
        metrics: filled after every turn.
        wall_ms: wall clock, milliseconds since the epoch.
        monotonic: clock of intervals.
    """

    def __init__(
        self,
        exchange: Exchange,
        metrics: Metrics,
        *,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exchange = exchange
        self._metrics = metrics
        self._wall_ms = wall_ms
        self._monotonic = monotonic
        self.beat = Beat(turned_at=monotonic())
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()

    def healthy(self) -> bool:
        """Whether turns are still made."""
        return self._monotonic() - self.beat.turned_at < STUCK_SECONDS

    def ready(self) -> bool:
        """Whether the newest measurement is younger than three intervals."""
        desired, measured_at = self.beat.desired, self.beat.measured_at
        if desired is None or measured_at is None:
            return False
        return self._monotonic() - measured_at <= 3 * desired.policy.interval_seconds

    async def run(self, stop: asyncio.Event) -> None:
        """Turn until `stop` is set, then end what is under way."""
        before = await self._exchange.read_report()
        cycle = Cycle(wall_ms=self._wall_ms, monotonic=self._monotonic, before=before)
        tasks = [
            asyncio.create_task(self._watch(), name="watch"),
            asyncio.create_task(self._turn(cycle), name="turn"),
            asyncio.create_task(self._write(before), name="write"),
            asyncio.create_task(stop.wait(), name="stop"),
        ]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.beat.desired is not None and self.beat.desired.release:
            await self._release(cycle, self.beat.desired)
        cycle.close()
        await self._last_write()
        for task in done:
            task.result()  # a task that ended by itself failed: the process ends and is started again

    async def _release(self, cycle: Cycle, desired: Desired) -> None:
        """The pod is often told to stop before the turn that gives the claim back, or while moves are cancelled."""
        until = self._monotonic() + RELEASE_SECONDS
        self._take(cycle, await _in_thread(cycle.run, desired))
        while cycle.cleaning and self._monotonic() < until:
            await asyncio.sleep(FOLLOW_SECONDS)
            self._take(cycle, await _in_thread(cycle.follow, desired))

    async def _watch(self) -> None:
        async for desired in self._exchange.watch():
            if self.beat.desired is None or desired != self.beat.desired:
                log.info("desired changed version=%s", desired.version)
                self.beat.desired = desired
                self._wake.set()

    async def _turn(self, cycle: Cycle) -> None:
        await self._wake.wait()
        while True:
            self._wake.clear()
            desired = self.beat.desired
            assert desired is not None
            began = self._monotonic()
            self._take(cycle, await _in_thread(cycle.run, desired))
            self._metrics.cycle_seconds.set(self._monotonic() - began)
            failed = cycle.measured_at is None or cycle.measured_at < began
            interval = (
                min(RETRY_SECONDS, desired.policy.interval_seconds)
                if failed
                else desired.policy.interval_seconds
            )
            await self._follow(cycle, desired, began + interval)

    async def _follow(self, cycle: Cycle, desired: Desired, until: float) -> None:
        """Look into the journals until the next turn is due or something changed."""
        while not self._wake.is_set() and self._monotonic() < until:
            try:
                async with asyncio.timeout(min(FOLLOW_SECONDS, max(0.0, until - self._monotonic()))):
                    await self._wake.wait()
            except TimeoutError:
                self._take(cycle, await _in_thread(cycle.follow, desired))

    def _take(self, cycle: Cycle, report: Report | None) -> None:
        self.beat.turned_at = self._monotonic()
        self.beat.measured_at = cycle.measured_at
        self._metrics.count_drops(cycle.scores.take_drops())
        if report is not None and report != self.beat.report:
            self.beat.report = report
            self._metrics.show(report)
            self._changed.set()

    async def _write(self, written: Report | None) -> None:
        while True:
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                written = await self._exchange.read_report()
            self._changed.clear()
            report = self.beat.report
            if report is not None and report != written:
                try:
                    await self._exchange.write(report)
                except EvenkeelError as error:
                    log.warning("report not written why=%s", error.message)
                    self._changed.set()
                else:
                    written = report
            await asyncio.sleep(REPORT_SECONDS)

    async def _last_write(self) -> None:
        if self.beat.report is None:
            return
        try:
            await self._exchange.write(self.beat.report)
        except EvenkeelError as error:
            log.warning("last report not written why=%s", error.message)


async def _in_thread(call: Callable[[Desired], Report | None], desired: Desired) -> Report | None:
    """Run a turn in a thread; a cancelled keeper waits for its end, since a thread cannot be stopped."""
    task = asyncio.create_task(asyncio.to_thread(call, desired))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
