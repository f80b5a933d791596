from __future__ import annotations

import pytest

from evenkeel.keeper.settling import settle, settle_permille


@pytest.mark.parametrize(
    ("value", "before", "told"),
    [(7.4, None, 5), (7.6, None, 10), (8.7, 5, 5), (8.8, 5, 10), (0.0, 5, 0), (43, 40, 40), (100, 95, 100)],
)
def test_a_value_is_told_anew_once_it_is_past_the_next_edge(
    value: float, before: int | None, told: int
) -> None:
    assert settle(value, 5, before) == told


def test_a_fraction_is_told_in_thousandths_and_an_unknown_one_stays_unknown() -> None:
    assert settle_permille(0.4312, None) == 430
    assert settle_permille(0.4336, 430) == 430
    assert settle_permille(None, 430) is None
