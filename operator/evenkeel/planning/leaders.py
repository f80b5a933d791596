"""Preferred leaders after moves: partitions that move anyway are led by brokers that lead little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from evenkeel.domain.moves import Move, MoveKind
from evenkeel.domain.snapshot import ClusterSnapshot


def spread_leaders(snapshot: ClusterSnapshot, moves: Sequence[Move]) -> tuple[Move, ...]:
    """The same moves, with the replica first whose broker leads least.

    Where the preferred leader's replica moves, and where its broker leads more than the mean and another one less.
    Only the order of the moved partition's replicas changes: that costs no bytes.
    """
    leads = Counter(partition.replicas[0] for partition in snapshot.partitions)
    mean = len(snapshot.partitions) / len(snapshot.brokers)
    result = []
    for move in moves:
        if move.kind is not MoveKind.DIRECTORY:
            leads[move.source[0]] -= 1
            crowded = leads[move.source[0]] + 1 > mean > min(leads[one] + 1 for one in move.target)
            if crowded or move.target[0] != move.source[0]:
                move = _with_best_leader(move, leads)  # noqa: PLW2901
            leads[move.target[0]] += 1
        result.append(move)
    return tuple(result)


def _with_best_leader(move: Move, leads: Counter[int]) -> Move:
    best = min(move.target, key=lambda broker: (leads[broker], move.target.index(broker)))
    if leads[best] >= leads[move.target[0]]:
        return move
    order = list(move.target)
    at = order.index(best)
    order[0], order[at] = order[at], order[0]
    return replace(move, target=tuple(order))
