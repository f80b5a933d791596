"""How a table ages: past its time or budget it is mixed towards uniform, never dropped at once.

The collector's likeliest death is a sick cluster: old weights beat uniform writes into the fullest disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenkeel.domain.table import RouteTable

END = 10.0
"""At this multiple of its limit nothing of a table's weights is left."""


@dataclass(frozen=True, slots=True)
class Effective:
    """What to do just now."""

    weights: tuple[float, ...] | None
    """Shares by partition, sum 1; None: leave it to the client's own partitioner."""
    mix: float
    """0: the table's weights as they are; 1: nothing of them is left."""


def overrun(table: RouteTable, *, now_ms: int, written_bytes: int, own_rate: float | None = None) -> float:
    """Age and written bytes as a multiple of the table's limits, whichever is larger.

    A router has the share of the budget that it has of the rate behind the table.
    """
    age = max(0, now_ms - table.taken_at_ms) / max(1, table.valid_ms)
    if table.budget_bytes is None:
        return age
    share = 1.0
    if table.bytes_per_second and own_rate is not None:
        share = min(1.0, own_rate / table.bytes_per_second)
    return max(age, written_bytes / max(1.0, table.budget_bytes * share))


def effective_weights(
    table: RouteTable,
    *,
    now_ms: int,
    written_bytes: int,
    own_rate: float | None = None,
    led: Sequence[bool] = (),
) -> Effective:
    """The weights in force now.

    Args:
        table: the newest valid one.
        now_ms: wall clock.
        written_bytes: what this router wrote to the topic since it took the table.
        own_rate: what this router writes to the topic, bytes per second; None: not known, the whole budget is
            its own.
        led: by partition, whether it has a leader; empty: not known, all are taken to have one.
    """
    over = overrun(table, now_ms=now_ms, written_bytes=written_bytes, own_rate=own_rate)
    mix = min(1.0, max(0.0, (over - 1) / (END - 1)))
    count = len(table.weights)
    stop = set(table.stop)
    usable = [p for p in range(count) if not led or (p < len(led) and led[p])]
    open_ = [p for p in usable if p not in stop]
    if not open_:  # stop holds only as long as an unstopped partition has a leader
        return Effective(None, 1.0)
    if mix >= 1.0 and not stop:
        return Effective(None, 1.0)
    whole = sum(table.weights[p] for p in open_)
    if whole <= 0:
        mix, whole = 1.0, 1
    weights = [0.0] * count
    for p in open_:
        weights[p] = (1 - mix) * table.weights[p] / whole + mix / len(open_)
    return Effective(tuple(weights), mix)
