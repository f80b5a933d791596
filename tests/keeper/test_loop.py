from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from evenkeel.domain.exchange import Desired, Report
from evenkeel.keeper import loop as loop_module
from evenkeel.keeper.health import Metrics
from evenkeel.keeper.loop import Loop

REPORT = Report(desired_version="v")


class Place:
    """An exchange whose report may be emptied by others."""

    def __init__(self) -> None:
        self.report: Report | None = None
        self.written = asyncio.Event()

    async def watch(self) -> AsyncIterator[Desired]:
        await asyncio.Event().wait()
        yield  # type: ignore[misc]

    async def read_report(self) -> Report | None:
        return self.report

    async def write(self, report: Report) -> None:
        self.report = report
        self.written.set()

    async def close(self) -> None:
        """Nothing to give back."""


async def test_report_that_somebody_emptied_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(loop_module, "REPORT_SECONDS", 0.0)
    place = Place()
    keeper = Loop(place, Metrics())
    keeper.beat.report = REPORT
    writing = asyncio.create_task(keeper._write(REPORT))
    try:
        await asyncio.wait_for(place.written.wait(), 5)
    finally:
        writing.cancel()
    assert place.report == REPORT
