"""From plan to published table, and when a table is worth publishing (design section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from evenkeel.domain.table import LARGEST, WEIGHT_SCALE, RouteTable
from evenkeel.errors import InputError
from evenkeel.planning.routing import RoutesPlan

MOVED = 0.05
"""A table is published when a weight moved by more than this share of it (or of an even weight, if larger)."""
HEARTBEAT_MS = 120_000
"""And otherwise this often: routers read only the last 10 minutes when they start."""
FREEZE_SHARE = 0.05
"""Weights of an ingest freeze when less than this share of it remains."""
FASTER = 2.0
"""A table is also published when routers write this many times what it says they write: each takes its part of
the budget by that."""
LEAST_RATE = 64 * 1024
"""Bytes per second of all routers below which none is told: each has the whole budget, and few share it."""


@dataclass(frozen=True, slots=True)
class TableRate:
    """What all routers of a topic do together, as they say."""

    bytes_per_second: float
    """Values, before compression and replication."""
    ratio: float | None = None
    """On-disk bytes per router byte; None: not known, taken as 1."""


def build_table(
    plan: RoutesPlan,
    topic: str,
    owner_epoch: int,
    epoch: int,
    taken_at_ms: int,
    plan_offset: int | None = None,
    rate: TableRate | None = None,
) -> RouteTable:
    """The table of one topic of the plan, weights as integers whose sum is exactly WEIGHT_SCALE.

    `rate` turns the budget, which is planned in bytes on disk, into bytes as routers count them; None: nothing
    is known of routers.

    Raises:
        InputError: the plan does not route this topic.
    """
    routes = plan.topics.get(topic)
    if routes is None or not routes.active:
        why = "it was not asked for" if routes is None else routes.message
        raise InputError(f"no routes for topic {topic}: {why}")
    table = RouteTable(
        topic=topic,
        owner_epoch=owner_epoch,
        epoch=epoch,
        taken_at_ms=taken_at_ms,
        weights=round_weights(routes.weights),
        stop=routes.stop,
        budget_bytes=_router_bytes(routes.budget_bytes, rate),
        bytes_per_second=_told_rate(rate),
        valid_ms=routes.valid_ms,
        plan_offset=plan_offset,
    )
    table.check(len(table.weights))
    return table


def _router_bytes(budget: int | None, rate: TableRate | None) -> int | None:
    if budget is None or rate is None or not rate.ratio:
        return budget
    return min(LARGEST, round(budget / rate.ratio))


def _told_rate(rate: TableRate | None) -> int | None:
    """Two significant digits, so that equal traffic gives equal tables."""
    if rate is None or rate.bytes_per_second < LEAST_RATE:
        return None
    return min(LARGEST, int(float(f"{rate.bytes_per_second:.1e}")))


def round_weights(shares: tuple[float, ...]) -> tuple[int, ...]:
    """Shares as millionths: rounded down, the rest to the largest remainders, lower numbers first."""
    whole = sum(shares)
    exact = [share / whole * WEIGHT_SCALE for share in shares]
    weights = [math.floor(value) for value in exact]
    order = sorted(range(len(exact)), key=lambda i: (weights[i] - exact[i], i))
    for i in order[: WEIGHT_SCALE - sum(weights)]:
        weights[i] += 1
    return tuple(weights)


def should_publish(
    previous: RouteTable | None, table: RouteTable, *, remaining_share: float | None = None
) -> bool:
    """Whether `table` says something that routers do not know yet, or the heartbeat is due.

    Args:
        previous: the last one published for this topic; None: none yet.
        table: the new one.
        remaining_share: of a running ingest what is still to write; below 5 % the weights are frozen.
    """
    if previous is None or len(previous.weights) != len(table.weights):
        return True
    if previous.owner_epoch != table.owner_epoch or previous.plan_offset != table.plan_offset:
        return True
    # Either way round: a clock that was set back must not keep heartbeats from routers.
    if abs(table.taken_at_ms - previous.taken_at_ms) >= min(HEARTBEAT_MS, table.valid_ms // 2):
        return True
    if previous.stop != table.stop or _faster(previous.bytes_per_second, table.bytes_per_second):
        return True
    frozen = remaining_share is not None and remaining_share < FREEZE_SHARE
    return not frozen and _moved(previous.weights, table.weights)


def hold_weights(previous: RouteTable | None, table: RouteTable) -> RouteTable:
    """The table with the weights in force, where none of them would move by more than `MOVED`.

    A heartbeat is no news: small changes that came with it would turn weights to and fro.
    """
    if previous is None or len(previous.weights) != len(table.weights):
        return table
    if _moved(previous.weights, table.weights):
        return table
    return replace(table, weights=previous.weights)


def _faster(old: int | None, new: int | None) -> bool:
    """Whether a router that goes by the old rate would take too much of the budget."""
    return new is not None and (old is None or new > FASTER * old)


def _moved(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    even = WEIGHT_SCALE / len(old)
    return any(abs(b - a) > MOVED * max(a, even) for a, b in zip(old, new, strict=True))
