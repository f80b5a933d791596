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


def budget_share(table: RouteTable, rate: float | None) -> float:
    """Which part of a table's byte budget one router may use, 0 to 1.

    The budget is that of all routers together; one that writes a tenth of their bytes has a tenth of it.

    Args:
        table: the one in force.
        rate: bytes per second that this router writes of late; None: not known.
    """
    if not table.bytes_per_second or rate is None:
        return 1.0
    return min(1.0, rate / table.bytes_per_second)


def overrun(table: RouteTable, *, now_ms: int, written_bytes: int, share: float = 1.0) -> float:
    """Age and written bytes as a multiple of the table's limits, whichever is larger."""
    age = max(0, now_ms - table.taken_at_ms) / max(1, table.valid_ms)
    if table.budget_bytes is None:
        return age
    return max(age, written_bytes / max(1.0, share * table.budget_bytes))


def mixture(table: RouteTable, *, now_ms: int, written_bytes: int, share: float = 1.0) -> float:
    """How far the weights are mixed towards uniform: 0 up to the limits, 1 at ten times."""
    spent = overrun(table, now_ms=now_ms, written_bytes=written_bytes, share=share)
    return min(1.0, max(0.0, (spent - 1) / (END - 1)))


def effective_weights(
    table: RouteTable, *, now_ms: int, written_bytes: int, share: float = 1.0, led: Sequence[bool] = ()
) -> Effective:
    """The weights in force now.

    Args:
        table: the newest valid one.
        now_ms: wall clock.
        written_bytes: what this router wrote to the topic since it took the table.
        share: its part of the table's budget, 0 to 1.
        led: by partition, whether it has a leader; empty: not known, all are taken to have one. Longer than
            the table where the topic has grown since: what is mixed in is uniform over the new ones too.
    """
    mix = mixture(table, now_ms=now_ms, written_bytes=written_bytes, share=share)
    known = (*table.weights, *[0] * (len(led) - len(table.weights)))
    stop = set(table.stop)
    usable = [p for p in range(len(known)) if not led or (p < len(led) and led[p])]
    open_ = [p for p in usable if p not in stop]
    if not open_:  # stop holds only as long as an unstopped partition has a leader
        return Effective(None, 1.0)
    if mix >= 1.0 and not stop:
        return Effective(None, 1.0)
    whole = sum(known[p] for p in open_)
    if whole <= 0:
        mix, whole = 1.0, 1
    weights = [0.0] * len(known)
    for p in open_:
        weights[p] = (1 - mix) * known[p] / whole + mix / len(open_)
    return Effective(tuple(weights), mix)
