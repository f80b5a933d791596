"""The moves planner's result for the report, steady while nothing much changes."""

from __future__ import annotations

from dataclasses import replace

from evenkeel.domain.exchange import MovesReport
from evenkeel.keeper.settling import settle_permille
from evenkeel.planning.moves import MovesPlan

ALIKE = 0.05
"""Plans whose bytes differ by less than this share are told as one."""


def build_moves_report(plan: MovesPlan, before: MovesReport | None = None) -> MovesReport:
    """What to tell; `before` itself where the difference would only be noise."""
    found = MovesReport(
        reason=plan.reason,
        message=plan.message,
        moves=len(plan.moves),
        move_bytes=plan.bytes,
        deviation_before_permille=settle_permille(
            plan.deviation_before, before.deviation_before_permille if before else None
        ),
        deviation_after_permille=settle_permille(
            plan.deviation_after, before.deviation_after_permille if before else None
        ),
    )
    if before is None:
        return found
    near = abs(found.move_bytes - before.move_bytes) <= ALIKE * before.move_bytes
    same = replace(found, message=before.message, moves=before.moves, move_bytes=before.move_bytes) == before
    return before if near and same else found
