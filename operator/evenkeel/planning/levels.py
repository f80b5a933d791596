"""Fill of volumes while moves are planned, and the band that they should end in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from evenkeel.planning.space import Floats


class Levels:
    """Bytes on each volume after the moves so far, and at their worst moment."""

    def __init__(self, capacity: Floats, used: Floats) -> None:
        self.capacity = capacity
        self.used = used.copy()
        self._highest = used.copy()
        self.mean = float(used.sum() / capacity.sum())

    def fills(self) -> Floats:
        """Fill of each volume after the moves."""
        return np.asarray(self.used / self.capacity)

    def deviation(self) -> float:
        """Largest |fill / mean fill - 1|; 0 in an empty cluster."""
        if self.mean <= 0:
            return 0.0
        return float(np.max(np.abs(self.fills() / self.mean - 1)))

    def peak(self) -> float:
        """Highest fill of any volume, if all copies lie there before any original is gone."""
        return float(np.max(self._highest / self.capacity))

    def peak_with(self, target: int, size: int) -> float:
        """Peak of one volume with another copy."""
        return float((self._highest[target] + size) / self.capacity[target])

    def move(self, source: int, target: int, size: int) -> None:
        """Count a move; the source's bytes stay in the peak."""
        self.used[source] -= size
        self.used[target] += size
        self._highest[target] += size


@dataclass(frozen=True, slots=True)
class Band:
    """Bytes between which each volume counts as level."""

    low: Floats
    high: Floats
    start: Floats

    def lower_bound(self) -> int:
        """Bytes that have to leave volumes above the band, or to reach those below; whichever is more."""
        out = np.maximum(self.start - self.high, 0).sum()
        into = np.maximum(self.low - self.start, 0).sum()
        return int(max(out, into))

    def worst(self, levels: Levels, skip: Collection[int]) -> tuple[int, bool] | None:
        """The volume furthest outside, as a share of its capacity, and whether it is above."""
        above = (levels.used - self.high) / levels.capacity
        below = (self.low - levels.used) / levels.capacity
        outside = np.maximum(above, below)
        outside[list(skip)] = 0
        volume = int(np.argmax(outside))
        if outside[volume] <= 1e-12:  # noqa: PLR2004 - rounding
            return None
        return volume, bool(above[volume] > below[volume])

    def outside(self, levels: Levels, volume: int, change: float = 0.0) -> float:
        """How far the volume stands outside, as a share of its capacity, if its bytes change so."""
        size = levels.used[volume] + change
        return float(max(size - self.high[volume], self.low[volume] - size, 0.0) / levels.capacity[volume])

    def surplus(self, levels: Levels, volume: int) -> float:
        """Bytes that must leave."""
        return float(levels.used[volume] - self.high[volume])

    def deficit(self, levels: Levels, volume: int) -> float:
        """Bytes that must come."""
        return float(self.low[volume] - levels.used[volume])

    def room(self, levels: Levels, volume: int) -> float:
        """Bytes that may come without leaving the band above."""
        return float(self.high[volume] - levels.used[volume])

    def spare(self, levels: Levels, volume: int) -> float:
        """Bytes that may leave without leaving the band below."""
        return float(levels.used[volume] - self.low[volume])

    def receivers(self, levels: Levels) -> list[int]:
        """Volumes below the top of the band, the emptiest first."""
        order = np.argsort((levels.used - self.high) / levels.capacity, kind="stable")
        return [int(v) for v in order if levels.used[v] < self.high[v]]

    def givers(self, levels: Levels) -> list[int]:
        """Volumes above the bottom of the band, the fullest first."""
        order = np.argsort((self.low - levels.used) / levels.capacity, kind="stable")
        return [int(v) for v in order if levels.used[v] > self.low[v]]


def find_band(levels: Levels, tolerance: float) -> Band:
    """Volumes are level within `tolerance` of the mean fill, relative to it."""
    even = levels.mean * levels.capacity
    return Band(low=even * (1 - tolerance), high=even * (1 + tolerance), start=levels.used.copy())
