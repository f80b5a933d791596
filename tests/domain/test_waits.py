from __future__ import annotations

import pytest

from evenkeel.domain.waits import Waits


@pytest.mark.parametrize(
    ("now", "calm", "exceeds"),
    [
        (Waits(5.0, 21.0), Waits(5.0, 10.0), True),
        (Waits(50.0, 20.0), Waits(5.0, 10.0), False),
        (Waits(11.0, None), Waits(5.0, 10.0), True),
        (Waits(11.0, 90.0), Waits(5.0, None), True),
        (Waits(10.0, 90.0), Waits(5.0, None), False),
        (Waits(None, 90.0), Waits(5.0, None), False),
        (Waits(11.0), Waits(), False),
        (Waits(), Waits(5.0), False),
    ],
)
def test_percentiles_are_compared_where_both_are_told_and_means_else(
    now: Waits, calm: Waits, *, exceeds: bool
) -> None:
    assert now.exceed(calm, 2.0) is exceeds
