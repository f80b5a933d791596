"""How fast one router writes to one topic of late."""

from __future__ import annotations

from collections import deque

WINDOW_SECONDS = 60.0
"""As long as the keeper's window over heartbeats, so that both mean the same by a rate."""
IDLE_SECONDS = 10.0
"""After this long without a byte the mean starts anew: silence before is no part of the rate."""
FADE = 0.9
"""By how much the rate that runs are fitted to falls per sample, so that bursts find their length again."""


class RateMeter:
    """Samples of a growing counter."""

    __slots__ = ("_active", "_samples", "burst")

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()
        self._active = 0.0
        self.burst = 0.0
        """Bytes per second between the two newest samples, falling slowly."""

    def add(self, now: float, total: int) -> None:
        """The counter stands at `total` at the monotonic second `now`."""
        samples = self._samples
        if samples:
            then, before = samples[-1]
            if now <= then:
                return
            if total > before:
                if now - self._active > IDLE_SECONDS:
                    self._samples = samples = deque(((then, before),))
                self._active = now
            self.burst = max((total - before) / (now - then), self.burst * FADE)
        else:
            self._active = now
        samples.append((now, total))
        while now - samples[0][0] > WINDOW_SECONDS and len(samples) > 2:  # noqa: PLR2004 - a mean needs two
            samples.popleft()

    @property
    def mean(self) -> float | None:
        """Bytes per second over the last minute, or since writing began; None: not known yet."""
        if len(self._samples) < 2:  # noqa: PLR2004 - as above
            return None
        (start, low), (end, high) = self._samples[0], self._samples[-1]
        return (high - low) / (end - start)
