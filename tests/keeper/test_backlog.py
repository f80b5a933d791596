from __future__ import annotations

import pytest

from evenkeel.keeper.backlog import Backlog
from evenkeel.keeper.routes import Ingest

PLANNED = 1000


def ingest(remaining: int, offset: int = 5) -> Ingest:
    return Ingest(offset, PLANNED, remaining)


@pytest.mark.parametrize(
    ("remaining", "on_disk", "told"),
    [
        (1000, 0, 1000),
        (1000, 400, 600),
        (700, 400, 600),
        (600, 400, 600),
        (500, 400, 500),
        (1000, 1300, 0),
        (0, 1000, 0),
    ],
)
def test_bytes_on_disk_that_the_journal_does_not_know_yet_are_written(
    remaining: int, on_disk: int, told: int
) -> None:
    backlog = Backlog()
    backlog.remaining("t", ingest(PLANNED), 0)
    assert backlog.remaining("t", ingest(remaining), on_disk) == told


def test_what_lay_there_when_the_plan_came_is_no_progress() -> None:
    backlog = Backlog()
    assert backlog.remaining("t", ingest(PLANNED), 300) == PLANNED
    assert backlog.remaining("t", ingest(PLANNED), 500) == 800


def test_another_plan_begins_anew() -> None:
    backlog = Backlog()
    backlog.remaining("t", ingest(PLANNED), 0)
    assert backlog.remaining("t", ingest(PLANNED, offset=9), 1000) == PLANNED


def test_without_a_plan_or_a_measurement_the_journal_counts() -> None:
    backlog = Backlog()
    assert backlog.remaining("t", Ingest(), 10) is None
    assert backlog.remaining("t", ingest(700), None) == 700
