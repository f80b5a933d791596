from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.cli.words import COMES, HELD, LEAVES, LIMIT, count, draw_change, draw_fill, tell_seconds


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (None, "?"),
        (0, "0 s"),
        (119.4, "119 s"),
        (120, "2 min"),
        (150, "2.5 min"),
        (7200, "2 h"),
        (180_000, "2.1 d"),
    ],
)
def test_durations(seconds: float | None, told: str) -> None:
    assert tell_seconds(seconds) == told


def test_plurals() -> None:
    assert [count(1, "batch"), count(2, "batch"), count(0, "move")] == ["1 batch", "2 batches", "0 moves"]


@pytest.mark.parametrize(
    ("before", "after", "limit", "bar"),
    [
        (500, 500, None, "█████     "),
        (500, 200, None, "██░░░     "),
        (200, 500, 850, "██▓▓▓   ┊ "),
        (900, 900, 850, "█████████ "),
        (0, 0, 999, "         ┊"),
        (1500, 1200, None, "██████████"),
    ],
)
def test_bars(before: int, after: int, limit: int | None, bar: str) -> None:
    assert draw_change(before, after, limit, width=10) == bar


@given(st.integers(0, 2000), st.integers(0, 2000), st.none() | st.integers(0, 1000))
def test_a_bar_has_its_width_and_shows_which_way_it_goes(before: int, after: int, limit: int | None) -> None:
    bar = draw_change(before, after, limit)
    assert len(bar) == 30
    assert not (LEAVES in bar and COMES in bar)
    assert LEAVES not in bar or after < before
    assert COMES not in bar or after > before


def test_what_is_not_known_is_empty() -> None:
    assert set(draw_fill(None, 850)) == {" ", LIMIT}
    assert HELD in draw_fill(500)
