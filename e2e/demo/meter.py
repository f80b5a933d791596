"""How much memory a run takes of the machine, sampled once a second."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

MEMINFO = Path("/proc/meminfo")
SAMPLE_SECONDS = 1.0


def available_bytes(text: str) -> int:
    """MemAvailable of a /proc/meminfo text: what programs could still take."""
    (line,) = (line for line in text.splitlines() if line.startswith("MemAvailable:"))
    return int(line.split()[1]) * 1024


class Meter:
    """Samples from entry to exit."""

    def __init__(self) -> None:
        self._start = self._lowest = available_bytes(MEMINFO.read_text())
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="meter", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    @property
    def peak_bytes(self) -> int:
        """What was taken at most since the start, by whomever."""
        return max(0, self._start - self._lowest)

    def _sample(self) -> None:
        while not self._end.wait(SAMPLE_SECONDS):
            self._lowest = min(self._lowest, available_bytes(MEMINFO.read_text()))
