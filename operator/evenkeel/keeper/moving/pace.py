"""How fast copies may be: `Auto` begins carefully, doubles while nobody suffers, halves when somebody does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from evenkeel.domain.moves import Move
from evenkeel.domain.waits import Waits
from evenkeel.keeper.moving.settings import (
    LEAST_BYTES_PER_SECOND,
    MOST_BYTES_PER_SECOND,
    START_BYTES_PER_SECOND,
    MoveSettings,
)

HALVE_SECONDS = 15.0
"""Kafka's quota is a mean over about 10 s: the effect of a change is not seen sooner."""
USED = 0.5
"""A throttle of which copies use this share or more is what holds them up."""
HARM = 2.0
"""Producers may wait so many times as long as before the moves (design section 6)."""


@dataclass(frozen=True, slots=True)
class Harm:
    """Whether anybody suffers."""

    out_of_sync: bool = False
    """Replicas that do not move have fallen behind on the brokers that copy."""
    waits: Waits | None = None
    """How long producers wait; None: nobody tells."""
    calm: Waits | None = None
    """Before the moves."""

    @property
    def suffered(self) -> bool:
        """Replicas or producers."""
        if self.out_of_sync or self.waits is None or self.calm is None:
            return self.out_of_sync
        return self.waits.exceed(self.calm, HARM)


def write_rate(moves: Iterable[Move], settings: MoveSettings) -> float:
    """What producers write to the partitions that one broker receives, bytes per second, at most.

    A throttle below it would never let the copy arrive.
    """
    received: dict[int, float] = defaultdict(float)
    for move in moves:
        if move.copied_to is not None:
            received[move.copied_to] += settings.write_rates.get((move.topic, move.partition), 0.0)
    return max(received.values(), default=0.0)


def first_rate(moves: Iterable[Move], settings: MoveSettings, before: int) -> int:
    """For a batch that begins; `before`: what the last batch ended with, 0 for none."""
    if settings.bytes_per_second is not None:
        return settings.bytes_per_second
    floor = max(START_BYTES_PER_SECOND, round(2 * write_rate(moves, settings)))
    return min(MOST_BYTES_PER_SECOND, max(floor, before))


def next_rate(
    now: int,
    moves: Iterable[Move],
    settings: MoveSettings,
    harm: Harm,
    unchanged_seconds: float,
    copied_bytes: int,
) -> int:
    """For a batch that runs.

    Args:
        now: throttle in force, bytes per second.
        moves: those under way.
        settings: fixed or Auto.
        harm: what was seen.
        unchanged_seconds: for how long `now` has been in force.
        copied_bytes: what has been copied in that time: a throttle that does not hold copies up is not raised.
    """
    if settings.bytes_per_second is not None:
        return settings.bytes_per_second
    needed = round(2 * write_rate(moves, settings))
    if harm.suffered:
        if unchanged_seconds < HALVE_SECONDS:
            return now
        return max(LEAST_BYTES_PER_SECOND, min(needed, now), now // 2)
    held_up = copied_bytes >= USED * now * unchanged_seconds
    if unchanged_seconds >= settings.pace_seconds and held_up:
        return max(min(MOST_BYTES_PER_SECOND, 2 * now), needed)
    return max(now, needed)
