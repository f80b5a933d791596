"""Levelling: an exact answer where the cluster is small, a search where it is not."""

from __future__ import annotations

from evenkeel.planning.moves_exact import solve_small
from evenkeel.planning.moves_mandatory import Change
from evenkeel.planning.moves_plan import MoveKind
from evenkeel.planning.moves_search import Board, Search, Step, refine


def level_out(board: Board, most: int) -> list[Change]:
    """At most `most` moves, those that bring most first; the board is changed by them."""
    pairs = solve_small(board)
    if pairs is None or len(pairs) > most:
        return [_change(board, step) for step in refine(board, Search(board, most).run())]
    steps = []
    left = dict(pairs)
    while left:
        index = min(left, key=lambda i: (-_worth(board, i, left[i]), i))
        source = board.replica(index).volume
        assert source is not None
        steps.append(board.take(index, source, left.pop(index)))
    return [_change(board, step) for step in steps]


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
