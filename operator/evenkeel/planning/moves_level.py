"""Levelling: an exact answer where the cluster is small, a search where it is not."""

from __future__ import annotations

from evenkeel.domain.moves import MoveKind
from evenkeel.planning.levels import TINY
from evenkeel.planning.moves_exact import solve_small
from evenkeel.planning.moves_mandatory import Change
from evenkeel.planning.moves_search import Board, Search, Step, refine

NEAR = 1.02
"""A plan within this of the lower bound is not worth a second look."""


def level_out(board: Board, most: int) -> list[Change]:
    """At most `most` moves, those that bring most first."""
    trial = board.copy()
    steps = refine(trial, Search(trial, most).run())
    reached = float(trial.goal.outside(trial.levels.used).max())
    moved = sum(trial.replica(step.index).bytes for step in steps)
    if reached > TINY or moved > NEAR * board.goal.least_moved(board.levels.used):
        pairs = solve_small(board, reached)
        exact = sum(board.replica(index).bytes for index, _ in pairs) if pairs is not None else 0
        if pairs is not None and len(pairs) <= most and (reached > TINY or exact < moved):
            return [_change(board, step) for step in _in_order(board, pairs)]
    return [_change(trial, step) for step in steps]


def _in_order(board: Board, pairs: list[tuple[int, int]]) -> list[Step]:
    """Those first that bring most per byte."""
    steps = []
    left = dict(pairs)
    while left:
        index = min(left, key=lambda i: (-_worth(board, i, left[i]), i))
        source = board.replica(index).volume
        assert source is not None
        steps.append(board.take(index, source, left.pop(index)))
    return steps


def _worth(board: Board, index: int, seat: int) -> float:
    replica, target = board.replica(index), int(board.seats.volumes[seat])
    assert replica.volume is not None
    return board.gain(replica.volume, target, replica.lasting) / max(1, replica.bytes)


def _change(board: Board, step: Step) -> Change:
    replica = board.replica(step.index)
    inside = int(board.seats.brokers[step.seat]) == replica.broker
    return Change(
        kind=MoveKind.DIRECTORY if inside else MoveKind.BROKER,
        partition=replica.partition,
        bytes=replica.bytes,
        lasting=replica.lasting,
        leaves=replica.broker,
        source=step.source,
        freed=replica.bytes,
        seat=step.seat,
        gain=step.gain,
    )
