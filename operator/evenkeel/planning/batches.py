"""Moves in batches of at most a minute, so that a plan can be stopped, and a failure costs little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from evenkeel.domain.moves import Batch, Move, MoveKind
from evenkeel.planning.peak import Course
from evenkeel.planning.space import Floats, Space

BATCH_SECONDS = 60.0
"""A batch is expected to last no longer, unless one replica alone does."""

WORTH = 0.97
"""The largest replicas first instead of those that help most, where that takes at most this part of the time."""

Lane = tuple[str, int]
"""What copies share: sending, receiving, or copying between directories of one broker."""


def plan_batches(
    moves: Sequence[Move], throttle_bytes_per_second: int, space: Space, start: Floats
) -> tuple[Batch, ...]:
    """Each move into the first batch whose brokers have time for it.

    A batch lasts as long as its busiest broker: what it sends or receives over the throttle, which holds in each
    direction (KIP-73) and for copies between directories. A replica that alone takes more than a minute begins a
    batch of its own; beside it only what other brokers copy in the same time. One after the other, replicas of
    50 GB would take a cluster of 50 brokers 25 times as long. The order of the moves is kept, unless
    the largest first is faster.

    Args:
        moves: no partition twice.
        throttle_bytes_per_second: per broker and direction.
        space: volumes, for the peaks.
        start: bytes on each before the first batch.
    """
    drafts = _pack(moves, throttle_bytes_per_second)
    by_size = _pack(sorted(moves, key=lambda move: -move.bytes), throttle_bytes_per_second)
    if _seconds(by_size) < WORTH * _seconds(drafts):
        drafts = by_size
    course, result = Course(space, start), []
    for number, draft in enumerate(drafts):
        result.append(
            Batch(
                number=number,
                moves=tuple(draft.moves),
                seconds=draft.seconds,
                bytes=sum(move.bytes for move in draft.moves),
                peaks=course.run(draft.moves, draft.seconds),
            )
        )
    return tuple(result)


def _pack(moves: Sequence[Move], throttle: int) -> list[_Draft]:
    """First fit."""
    drafts: list[_Draft] = []
    for move in moves:
        lanes, seconds = _lanes(move), move.bytes / throttle
        draft = next((one for one in drafts if one.takes(lanes, seconds)), None)
        if draft is None:
            draft = _Draft(max(BATCH_SECONDS, seconds))
            drafts.append(draft)
        draft.add(move, lanes, seconds)
    return drafts


def _seconds(drafts: Sequence[_Draft]) -> float:
    return sum(draft.seconds for draft in drafts)


@dataclass(slots=True)
class _Draft:
    """A batch while it is filled."""

    longest: float
    """Seconds that it may last: a minute, or what the replica that began it takes."""
    moves: list[Move] = field(default_factory=list)
    busy: dict[Lane, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return max(self.busy.values(), default=0.0)

    def takes(self, lanes: Sequence[Lane], seconds: float) -> bool:
        return all(self.busy.get(lane, 0.0) + seconds <= self.longest for lane in lanes)

    def add(self, move: Move, lanes: Sequence[Lane], seconds: float) -> None:
        self.moves.append(move)
        for lane in lanes:
            self.busy[lane] = self.busy.get(lane, 0.0) + seconds


def _lanes(move: Move) -> list[Lane]:
    if move.kind is MoveKind.DIRECTORY and move.copied_to is not None:
        return [("directories", move.copied_to)]
    lanes = []
    if move.copied_from is not None:
        lanes.append(("sends", move.copied_from))
    if move.copied_to is not None:
        lanes.append(("receives", move.copied_to))
    return lanes
