"""Numbers of runs put together: medians with their range, shares of what could be recovered."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """Of equal runs."""

    median: float
    lowest: float
    highest: float
    runs: int


def summarise(values: Sequence[float]) -> Summary:
    """Median, range and number.

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("no runs to summarise")
    return Summary(statistics.median(values), min(values), max(values), len(values))


def spread(fills: Sequence[float]) -> float:
    """Largest less smallest fill."""
    return max(fills) - min(fills)


def recovered(uniform: float, optimal: float, reached: float, least: float = 0.01) -> float | None:
    """Share of (uniform - optimal) that was recovered; None where less than `least` could be.

    Above 1 a run ended below the optimum (disks also get what is not the topic's, or less of it);
    below 0 it was worse than equal shares.
    """
    possible = uniform - optimal
    return None if possible < least else (uniform - reached) / possible


def percentile(values: Sequence[float], percent: float) -> float:
    """By linear interpolation between the nearest ranks.

    Raises:
        ValueError: no values, or a percent outside 0 to 100.
    """
    if not values or not 0 <= percent <= 100:
        raise ValueError(f"percentile {percent} of {len(values)} values")
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    lower = int(place)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (ordered[upper] - ordered[lower]) * (place - lower)
