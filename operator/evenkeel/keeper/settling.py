"""Rounded values that are told anew only once the facts have moved on: a report must not change with noise."""

from __future__ import annotations

HYSTERESIS = 0.75
"""Steps that a value must be away from the one told before: more than the half at which rounding would flip."""
PERMILLE_STEP = 5
"""Fills and deviations are told in steps of half a percent."""
LENGTH_SHARE = 0.1
"""A length of time is told anew when it has changed by more than this share."""


def settle(value: float, step: float, before: int | None) -> int:
    """`value` in whole steps; the value of before as long as it is near enough."""
    if before is not None and abs(value - before) <= HYSTERESIS * step:
        return before
    return round(round(value / step) * step)


def settle_permille(value: float | None, before: int | None) -> int | None:
    """A fraction in thousandths, settled; None stays None."""
    return None if value is None else settle(value * 1000, PERMILLE_STEP, before)


def settle_seconds(value: float | None, before: int | None) -> int | None:
    """A length of time in two significant digits; the one of before while it differs by a tenth of it at most."""
    if value is None:
        return None
    if before is not None and abs(value - before) <= LENGTH_SHARE * before:
        return before
    step = 10.0 ** max(0, len(str(round(value))) - 2)
    return round(round(value / step) * step)
