from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Desired, Owner, Report
from evenkeel.keeper import loop as loop_module
from evenkeel.keeper.health import Metrics
from evenkeel.keeper.loop import Loop

REPORT = Report(desired_version="v")
DESIRED = Desired(owner=Owner("i", "u", "ns/c"), connection=Connection(("k:1",)), release=True)


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


class Leaving:
    """A cycle that needs some turns to cancel moves before it gives the claim back."""

    measured_at = None

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.scores = self

    @property
    def cleaning(self) -> bool:
        return self.turns > 0

    def take_drops(self) -> dict[object, int]:
        return {}

    def run(self, _: Desired) -> Report:
        return REPORT

    def follow(self, _: Desired) -> Report:
        self.turns -= 1
        return replace(REPORT, released=not self.cleaning)


@pytest.mark.parametrize(("turns", "released"), [(3, True), (10**9, False)])
async def test_moves_are_cancelled_before_the_process_ends(
    monkeypatch: pytest.MonkeyPatch, turns: int, *, released: bool
) -> None:
    monkeypatch.setattr(loop_module, "FOLLOW_SECONDS", 0.0)
    monkeypatch.setattr(loop_module, "RELEASE_SECONDS", 0.5)
    keeper = Loop(Place(), Metrics())
    await keeper._release(Leaving(turns), DESIRED)  # type: ignore[arg-type]
    assert keeper.beat.report is not None
    assert keeper.beat.report.released is released
