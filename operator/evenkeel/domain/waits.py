"""How long producers wait for brokers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waits:
    """Round trips of Produce requests to the broker that answers most slowly, milliseconds."""

    mean_ms: float | None = None
    """None: nobody tells."""
    p99_ms: float | None = None
    """99th percentile; None: nobody tells (Kafka's Java client knows means only)."""

    def exceed(self, calm: Waits, times: float) -> bool:
        """Whether they are more than `times` those of `calm`.

        Percentiles are held against percentiles where both are told, else means against means: producers that
        begin or cease to tell one of them say nothing by that.
        """
        if self.p99_ms is not None and calm.p99_ms is not None:
            return self.p99_ms > times * calm.p99_ms
        return self.mean_ms is not None and calm.mean_ms is not None and self.mean_ms > times * calm.mean_ms
