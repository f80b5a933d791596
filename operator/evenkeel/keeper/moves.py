"""The moves planner's result for the report, steady while nothing much changes."""

from __future__ import annotations

from dataclasses import replace

from evenkeel.domain.exchange import MovesReport
from evenkeel.domain.moves import ProposedPlan
from evenkeel.keeper.settling import settle_permille, settle_seconds
from evenkeel.planning.moves import MovesPlan

ALIKE = 0.05
"""Plans whose bytes differ by less than this share are told as one."""


def build_moves_report(
    plan: MovesPlan, before: MovesReport | None = None, proposal: ProposedPlan | None = None
) -> MovesReport:
    """What to tell; `before` itself where the difference would only be noise.

    Args:
        plan: the newest.
        before: what was told last.
        proposal: that stands.
    """
    choice = plan.choice
    last = before or MovesReport(plan.reason, plan.message)
    found = MovesReport(
        reason=plan.reason,
        message=plan.message,
        cure=choice.cure.value if choice is not None else None,
        routing_seconds=settle_seconds(choice.routing_seconds if choice else None, last.routing_seconds),
        limit_seconds=settle_seconds(choice.limit_seconds if choice else None, last.limit_seconds),
        proposal=proposal,
        moves=len(plan.moves),
        move_bytes=plan.bytes,
        deviation_before_permille=settle_permille(plan.deviation_before, last.deviation_before_permille),
        deviation_after_permille=settle_permille(plan.deviation_after, last.deviation_after_permille),
    )
    if before is None:
        return found
    near = abs(found.move_bytes - before.move_bytes) <= ALIKE * before.move_bytes
    same = replace(found, message=before.message, moves=before.moves, move_bytes=before.move_bytes) == before
    return before if near and same else found
