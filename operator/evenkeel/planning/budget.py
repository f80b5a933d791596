"""Which moves to make where not all are allowed: those that bring the most per byte."""

from __future__ import annotations

from collections.abc import Sequence

from evenkeel.planning.moves_mandatory import Change
from evenkeel.planning.moves_plan import Refusal
from evenkeel.reasons import Reason


def choose_affordable(
    changes: Sequence[Change], budget_bytes: int | None, most: int
) -> tuple[list[Change], list[Refusal]]:
    """As many as number and bytes allow, in the order they were found.

    What is wanted for itself (brokers to be emptied, another number of replicas) comes first, then the moves with
    the largest gain per byte. Any part of them is as safe as all: no move relies on space that another frees.
    """
    kept = list(changes[:most])
    if budget_bytes is None or sum(change.bytes for change in kept) <= budget_bytes:
        return kept, []
    order = sorted(range(len(kept)), key=lambda i: (kept[i].gain > 0, -_worth(kept[i]), i))
    chosen, spent = set(), 0
    for i in order:
        if spent + kept[i].bytes <= budget_bytes:
            chosen.add(i)
            spent += kept[i].bytes
    left = sum(change.bytes for change in kept) - spent
    what = f"{len(kept) - len(chosen)} moves of {left} bytes are beyond the budget of {budget_bytes} bytes"
    refusal = Refusal("budget", Reason.MOVE_BUDGET_TOO_SMALL, what)
    return [change for i, change in enumerate(kept) if i in chosen], [refusal]


def _worth(change: Change) -> float:
    return change.gain / change.bytes if change.bytes else float("inf")
