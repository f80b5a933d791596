"""Which moves of a batch may begin now, which have had their turn without beginning, and which wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenkeel.domain.moves import Move
from evenkeel.keeper.moving.flights import check_starts
from evenkeel.keeper.moving.guards import Check, Fitness
from evenkeel.keeper.moving.observation import Observation
from evenkeel.keeper.moving.run import Ended, end_move
from evenkeel.keeper.moving.settings import MoveSettings
from evenkeel.keeper.moving.watch import Timers
from evenkeel.reasons import Reason


@dataclass(frozen=True, slots=True)
class Sifted:
    """Moves of a batch that have not begun, each in one of three places."""

    ready: tuple[Move, ...]
    """May begin."""
    ended: tuple[Ended, ...]
    waits: tuple[Check, ...]
    """Of those that wait: for what."""


def sift(moves: Sequence[Move], seen: Observation, settings: MoveSettings, timers: Timers) -> Sifted:
    """Look at moves that have not begun.

    None is ready while another has waited for less than `settle_seconds`: what passes in a moment would part the
    batch in two that copy one after the other. The rest has its turn when those that began have ended. Fewer
    moves need no more room: the guards have counted all of them.
    """
    checks = check_starts(moves, seen, settings)
    ready, ended, waits, brief = [], [], [], False
    for move in moves:
        check = checks[move.topic, move.partition]
        over = judge(move, check, settings, timers)
        if over is not None:
            ended.append(over)
        elif check.fitness is Fitness.READY:
            ready.append(move)
        else:
            waits.append(check)
            waited = timers.mark(_name_wait(move)) if check.fitness is Fitness.WAIT else 0.0
            brief = brief or waited < settings.settle_seconds
    return Sifted(() if brief else tuple(ready), tuple(ended), tuple(waits))


def judge(move: Move, check: Check, settings: MoveSettings, timers: Timers) -> Ended | None:
    """How the move has ended without having begun; None: it has not."""
    if check.fitness is Fitness.READY:
        return None
    if check.fitness is Fitness.WAIT:
        over = timers.mark(_name_wait(move)) >= settings.patience_seconds
    else:
        over = timers.mark(f"{check.fitness} {move.topic}-{move.partition}") >= settings.settle_seconds
    if not over:
        return None
    reason = Reason.MOVED if check.fitness is Fitness.DONE else check.reason
    return end_move(move, reason, check.message)


def _name_wait(move: Move) -> str:
    return f"wait {move.topic}-{move.partition}"
