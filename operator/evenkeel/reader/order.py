"""The order of an epoch: position -> record, as a function of (digest, seed, epoch) alone.

Shards are permuted and laid end to end; the records of that line are permuted within blocks. Rank and
world size only choose positions, so that any number of ranks reads the same epoch, and a run that
stopped with 8 ranks goes on with 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenkeel.reader.permutation import Permutation

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Places:
    """Where records lie: two arrays of equal length."""

    shards: Positions
    """Index of the shard in the manifest."""
    rows: Positions
    """Number among the shard's live records."""


class EpochOrder:
    """The order of one epoch.

    Args:
        live: live records per shard, in the manifest's order.
        digest: of the revision.
        seed: chosen by the user; another seed is another order.
        epoch: 0, 1, ...
        block: records that are permuted together; None: the whole epoch. A block is what must be at hand
            at once when shards are fetched rather than local.
    """

    def __init__(
        self, live: Sequence[int], *, digest: str, seed: int, epoch: int, block: int | None = None
    ) -> None:
        self._key = f"{digest}:{seed}:{epoch}"
        self.records = sum(live)
        self._block = block or max(1, self.records)
        count = len(live)
        self._line = Permutation(max(1, count), f"{self._key}:shards")(np.arange(count, dtype=np.int64))
        self._ends = np.cumsum(np.asarray(live, dtype=np.int64)[self._line])

    def locate(self, positions: Positions) -> Places:
        """Places of the records at `positions` (each in 0..records-1); O(log shards) each."""
        line = np.empty_like(positions)
        blocks = positions // self._block
        for number in np.unique(blocks):
            chosen = blocks == number
            start = int(number) * self._block
            size = min(self._block, self.records - start)
            permutation = Permutation(size, f"{self._key}:block:{number}")
            line[chosen] = start + permutation(positions[chosen] - start)
        at = np.searchsorted(self._ends, line, side="right")
        starts = np.concatenate((np.zeros(1, dtype=np.int64), self._ends))[at]
        return Places(shards=self._line[at], rows=line - starts)


def rank_positions(start: int, end: int, rank: int, world_size: int) -> Positions:
    """Positions of the step [start, end) that belong to `rank`: every `world_size`-th, so that counts differ by 1 at most."""
    return np.arange(start + rank, end, world_size, dtype=np.int64)
