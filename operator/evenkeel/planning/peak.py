"""How full each volume is while batches run, with deleted bytes that still lie there."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from evenkeel.domain.moves import Batch, Move, VolumePeak
from evenkeel.planning.space import Floats, Space


class Course:
    """Bytes on each volume from batch to batch. Deleted replicas keep their space for file.delete.delay.ms.

    Args:
        space: the volumes.
        start: bytes on each before the first batch, with what running moves still bring.
    """

    def __init__(self, space: Space, start: Floats) -> None:
        self._space = space
        self._bytes = start.copy()
        self._clock = 0.0
        self._going: list[tuple[float, int, int]] = []

    def run(self, moves: Iterable[Move], seconds: float) -> tuple[VolumePeak, ...]:
        """One batch: what it brings is there at once, what it frees only after the delay. Peaks where it writes."""
        while self._going and self._going[0][0] <= self._clock:
            _, gone, size = heapq.heappop(self._going)
            self._bytes[gone] -= size
        some = list(moves)
        written: set[int] = set()
        for move in some:
            target = target_volume(self._space, move)
            if target is not None:
                self._bytes[target] += move.bytes
                written.add(target)
        self._clock += seconds
        for move in some:
            source = source_volume(self._space, move)
            if source is not None and move.freed_bytes:
                free_at = self._clock + move.freed_after_ms / 1000
                heapq.heappush(self._going, (free_at, source, move.freed_bytes))
        return tuple(self._peak(volume) for volume in sorted(written))

    def _peak(self, volume: int) -> VolumePeak:
        there, size = self._space.volumes[volume], float(self._bytes[volume])
        return VolumePeak(there.name, round(size), size / there.total_bytes)


def highest_fill(space: Space, start: Floats, batches: Sequence[Batch]) -> float:
    """Highest fill that a volume reaches because a batch writes to it; 0 where none does."""
    course = Course(space, start)
    peaks = [peak.fill for batch in batches for peak in course.run(batch.moves, batch.seconds)]
    return max(peaks, default=0.0)


def target_volume(space: Space, move: Move) -> int | None:
    """Index of the volume that receives; None: nothing is copied."""
    if move.copied_to is None:
        return None
    if move.target_dir is not None:
        return space.index[move.copied_to, move.target_dir]
    return space.sole[move.copied_to]


def source_volume(space: Space, move: Move) -> int | None:
    """Index of the volume that becomes emptier; None: it is away, or not known."""
    if move.freed_on is None:
        return None
    found = space.index.get((move.freed_on, move.freed_dir)) if move.freed_dir is not None else None
    return space.sole.get(move.freed_on) if found is None else found
