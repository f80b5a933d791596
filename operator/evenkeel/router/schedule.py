"""In which order partitions take their turns: a byte-weighted, smooth schedule.

Stride scheduling: every partition has the virtual time of its next turn; a turn of n quanta moves it by
n / weight. After any number of bytes a partition is at most about one run away from its share. First
turns are spread by the phase and a golden-ratio step, so that the light partitions of one disk do not all
come at once, and so that the union of n routers at phases (i + 1/2)/n is as even as one router.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

GOLDEN = 0.6180339887498949
CREDIT_LIMIT = 8.0
"""Quanta that a partition may be ahead or behind when a new table comes."""


class Schedule:
    """Turns by weight. One quantum is the length of an ordinary run in bytes; not thread safe."""

    __slots__ = ("_credits", "_heap", "_virtual", "_weights", "phase")

    def __init__(
        self,
        weights: Sequence[float],
        phase: float,
        *,
        virtual: float = 0.0,
        credit: Mapping[int, float] | None = None,
    ) -> None:
        """`weights` by partition, any scale, at least one above 0; `phase` in [0, 1).

        `virtual` and `credit` continue an earlier schedule: see `successor`.
        """
        self.phase = phase
        self._virtual = virtual
        self._credits = dict(credit or {})
        whole = sum(weights)
        self._weights = {p: weight / whole for p, weight in enumerate(weights) if weight > 0}
        self._heap = [
            (virtual + self._credits.pop(p, (phase + p * GOLDEN) % 1.0) / weight, p)
            for p, weight in self._weights.items()
        ]
        heapq.heapify(self._heap)

    def successor(self, weights: Sequence[float]) -> Schedule:
        """A schedule by new weights in which what each partition is ahead or behind survives."""
        credit = dict(self._credits)
        for due, p in self._heap:
            ahead = (due - self._virtual) * self._weights[p]
            credit[p] = min(CREDIT_LIMIT, max(-CREDIT_LIMIT, ahead))
        return Schedule(weights, self.phase, virtual=self._virtual, credit=credit)

    def __len__(self) -> int:
        """Partitions that have turns."""
        return len(self._weights)

    def __contains__(self, partition: int) -> bool:
        return partition in self._weights

    def pick(self) -> int:
        """The partition whose turn is due."""
        return self._heap[0][1]

    def advance(self, partition: int, quanta: float) -> int:
        """Account a turn of this length, and pick the next."""
        # Called with cold caches (see router.runs): what it does not touch is what it saves.
        self._virtual += quanta
        heap = self._heap
        due, first = heap[0]
        if first == partition:
            heapq.heapreplace(heap, (due + quanta / self._weights[first], first))
        elif partition in self._weights:  # its turn began by the schedule before this one
            heap[:] = [(due + quanta / self._weights[p] if p == partition else due, p) for due, p in heap]
            heapq.heapify(heap)
        return heap[0][1]
