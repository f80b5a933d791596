from __future__ import annotations

import pytest

from evenkeel.domain.moves import Move
from evenkeel.domain.waits import Waits
from evenkeel.keeper.moving.pace import Harm, first_rate, next_rate, write_rate
from evenkeel.keeper.moving.settings import MoveSettings

MB = 1_000_000
MOVES = [
    Move("t", 0, (1,), (3,), 1, copied_to=3, copied_from=1),
    Move("t", 1, (2,), (3,), 1, copied_to=3, copied_from=2),
    Move("t", 2, (1,), (2,), 1, copied_to=2, copied_from=1),
]
WRITTEN = {("t", 0): 4.0 * MB, ("t", 1): 5.0 * MB, ("t", 2): 8.0 * MB}
AUTO, FIXED = MoveSettings(), MoveSettings(bytes_per_second=3 * MB)
BUSY = MoveSettings(write_rates=WRITTEN)
CALM, LATE = Harm(), Harm(out_of_sync=True)


def test_the_busiest_receiver_counts() -> None:
    assert write_rate(MOVES, BUSY) == 9.0 * MB


@pytest.mark.parametrize(
    ("settings", "before", "wanted"),
    [(AUTO, 0, 10 * MB), (AUTO, 40 * MB, 40 * MB), (BUSY, 0, 18 * MB), (FIXED, 40 * MB, 3 * MB)],
)
def test_a_batch_begins_carefully(settings: MoveSettings, before: int, wanted: int) -> None:
    assert first_rate(MOVES, settings, before) == wanted


@pytest.mark.parametrize(
    ("settings", "harm", "seconds", "share", "wanted"),
    [
        (AUTO, CALM, 60, 1.0, 40),
        (AUTO, CALM, 59, 1.0, 20),
        (AUTO, CALM, 60, 0.3, 20),
        (AUTO, LATE, 60, 1.0, 10),
        (AUTO, LATE, 14, 1.0, 20),
        (AUTO, Harm(waits=Waits(5.0, 21.0), calm=Waits(5.0, 10.0)), 20, 1.0, 10),
        (AUTO, Harm(waits=Waits(5.0, 19.0), calm=Waits(5.0, 10.0)), 60, 1.0, 40),
        (AUTO, Harm(waits=Waits(5.0, 21.0)), 60, 1.0, 40),
        (BUSY, LATE, 60, 1.0, 18),
        (FIXED, LATE, 60, 1.0, 3),
    ],
)
def test_a_batch_is_paced_by_what_others_suffer(
    settings: MoveSettings, harm: Harm, seconds: float, share: float, wanted: int
) -> None:
    copied = round(share * 20 * MB * seconds)
    assert next_rate(20 * MB, MOVES, settings, harm, seconds, copied) == wanted * MB


def test_neither_end_is_passed() -> None:
    assert next_rate(MB, MOVES, AUTO, LATE, 60, 0) == MB
    assert next_rate(900 * MB, MOVES, AUTO, CALM, 60, 10**12) == 1000 * MB


def test_what_is_written_meanwhile_raises_the_throttle_at_once() -> None:
    assert next_rate(10 * MB, MOVES, BUSY, CALM, 1, 0) == 18 * MB
