"""In which order runs are made: interleaved, so that a machine that changes its mood troubles all alike."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def interleave(arms: Sequence[T], repeats: int, seed: int) -> list[tuple[int, T]]:
    """(repeat, arm) in rounds of all arms, each round shuffled by the seed."""
    rng = random.Random(seed)
    result: list[tuple[int, T]] = []
    for repeat in range(repeats):
        order = list(arms)
        rng.shuffle(order)
        result += [(repeat, arm) for arm in order]
    return result


class Estimate:
    """Time left, from the time that earlier runs took."""

    def __init__(self, total: int, first_guess: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`total` runs; `first_guess` seconds for one until the first is done."""
        self._total = total
        self._guess = first_guess
        self._clock = clock
        self._began = clock()
        self.done = 0

    def finish(self) -> None:
        """One more run is done."""
        self.done += 1

    @property
    def seconds_left(self) -> float:
        """Of all runs that are not done."""
        each = (self._clock() - self._began) / self.done if self.done else self._guess
        return each * (self._total - self.done)
