"""Fill of volumes while moves are planned, and the band that they should end in."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenkeel.planning.space import Floats, Ints

Flags = NDArray[np.bool_]
TINY = 1e-9
"""Of a capacity: rounding of sums of bytes."""
STEPS = 60
"""Halvings of an interval of fills: as fine as a double."""
HIGHEST_FILL = 16.0
"""Above any fill that is asked for; more than 1 where more will come than there is room for."""


class Levels:
    """Bytes on each volume after the moves so far, and at their worst moment.

    Args:
        capacity: bytes of each volume.
        used: bytes that lie (or will lie) there without any move.
        highest: bytes at the worst moment before the first move; absent: `used`.
    """

    def __init__(self, capacity: Floats, used: Floats, highest: Floats | None = None) -> None:
        self.capacity = capacity
        self.used = used.copy()
        self.highest = used.copy() if highest is None else highest.copy()

    def copy(self) -> Levels:
        """The same, to try something on."""
        return Levels(self.capacity, self.used, self.highest)

    def fills(self) -> Floats:
        """Fill of each volume after the moves."""
        return np.asarray(self.used / self.capacity)

    def peak(self) -> float:
        """Highest fill of any volume, if all copies lie there before any original is gone."""
        return float(np.max(self.highest / self.capacity))

    def add(self, volume: int, lasting: float, copied: float) -> None:
        """A copy comes: `lasting` bytes at the end, `copied` at the worst moment."""
        self.used[volume] += lasting
        self.highest[volume] += copied

    def remove(self, volume: int, lasting: float) -> None:
        """A replica goes; at the worst moment it is still there."""
        self.used[volume] -= lasting


@dataclass(frozen=True, slots=True)
class Bounds:
    """What moves can make of each volume, and of each group of volumes that racks tie together."""

    floor: Floats
    """Bytes of each volume that no move takes away."""
    ceiling: Floats
    """Bytes above which no move can bring the volume; infinite where it may receive."""
    group: Ints
    """Rack of each volume (a broker without rack is one of its own)."""
    group_floor: Floats
    group_ceiling: Floats


@dataclass(frozen=True, slots=True)
class Goal:
    """How full each volume should be, in bytes."""

    capacity: Floats
    level: Floats
    """Even fill times capacity: the middle of the band."""
    low: Floats
    high: Floats
    in_play: Flags
    """Volumes that moves can bring to the level; only these count for the deviation."""

    def deviation(self, used: Floats) -> float:
        """Largest |fill / mean fill - 1| over the volumes in play, over all where none is; 0 when empty."""
        some = self.in_play if bool(self.in_play.any()) else np.ones(len(used), dtype=bool)
        level = self.level if bool(self.in_play.any()) else self.capacity * (used.sum() / self.capacity.sum())
        if float(level[some].sum()) <= 0:
            return 0.0
        return float(np.max(np.abs(used[some] / level[some] - 1)))

    def surplus(self, used: Floats) -> Floats:
        """Bytes of each volume above the band."""
        return np.maximum(used - self.high, 0.0)

    def deficit(self, used: Floats) -> Floats:
        """Bytes that each volume lacks to the band."""
        return np.maximum(self.low - used, 0.0)

    def least_moved(self, used: Floats) -> float:
        """Bytes that have to leave volumes above the band, or to reach those below; whichever is more."""
        return max(float(self.surplus(used).sum()), float(self.deficit(used).sum()))

    def outside(self, used: Floats) -> Floats:
        """How far each volume stands outside the band, as a share of its capacity."""
        return np.asarray(np.maximum(self.surplus(used), self.deficit(used)) / self.capacity)

    def worst(self, used: Floats, skip: Collection[int]) -> tuple[int, bool] | None:
        """The volume furthest outside, and whether it is above; None: all that matter are within."""
        above = (used - self.high) / self.capacity
        below = (self.low - used) / self.capacity
        outside = np.maximum(above, below)
        outside[list(skip)] = 0.0
        volume = int(np.argmax(outside))
        return None if outside[volume] <= TINY else (volume, bool(above[volume] >= below[volume]))

    def without_deficits(self) -> Goal:
        """The same band, open below: nothing is too empty."""
        return replace(self, low=np.zeros(len(self.low)))


def find_goal(capacity: Floats, total: float, bounds: Bounds, tolerance: float) -> Goal:
    """Volumes equally full as far as moves can bring them, with a band of `tolerance` of that fill.

    One fill for all, each volume clipped to its bounds, and the volumes of each rack together to the rack's:
    a rack that cannot take or give enough has a fill of its own.

    Args:
        capacity: bytes of each volume.
        total: bytes on all of them at the end.
        bounds: what moves can make of them.
        tolerance: half width of the band, relative to the fill.
    """
    count = len(bounds.group_floor)

    def clipped(fill: Floats) -> Floats:
        return np.clip(fill * capacity, bounds.floor, np.maximum(bounds.floor, bounds.ceiling))

    def in_groups(fill: Floats) -> Floats:
        return np.asarray(np.bincount(bounds.group, clipped(fill), minlength=count), dtype=np.float64)

    def bytes_at(fill: float) -> Floats:
        return np.clip(in_groups(np.full(len(capacity), fill)), bounds.group_floor, bounds.group_ceiling)

    common = _bisect(lambda fill: float(bytes_at(fill).sum()) < total)
    wanted, free = bytes_at(common), in_groups(np.full(len(capacity), common))
    fills = np.full(count, common)
    for one in np.flatnonzero(np.abs(wanted - free) > TINY * total):
        fills[one] = _bisect(_reaches(in_groups, len(capacity), int(one), float(wanted[one])))
    level = fills[bounds.group] * capacity
    margin = TINY * capacity
    in_play = (bounds.floor < level - margin) & (bounds.ceiling > level + margin)
    low, high = level * (1 - tolerance), level * (1 + tolerance)
    # A rack with a fill of its own that can still reach the band of all is to reach that.
    whole_low, whole_high = common * capacity * (1 - tolerance), common * capacity * (1 + tolerance)
    low = np.where((low < whole_low) & (whole_low <= level), whole_low, low)
    high = np.where((high > whole_high) & (whole_high >= level), whole_high, high)
    return Goal(
        capacity=capacity,
        level=level,
        low=np.minimum(low, np.maximum(bounds.ceiling, 0.0)),
        high=np.maximum(high, bounds.floor + tolerance * level),
        in_play=in_play,
    )


def _reaches(
    in_groups: Callable[[Floats], Floats], volumes: int, group: int, wanted: float
) -> Callable[[float], bool]:
    """Whether a fill leaves the group below what it should hold."""
    return lambda fill: float(in_groups(np.full(volumes, fill))[group]) < wanted


def _bisect(too_low: Callable[[float], bool]) -> float:
    """The fill at which `too_low` turns false."""
    low, high = 0.0, HIGHEST_FILL
    for _ in range(STEPS):
        middle = (low + high) / 2
        if too_low(middle):
            low = middle
        else:
            high = middle
    return high
