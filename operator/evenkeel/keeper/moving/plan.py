"""A plan that was approved: batches of moves and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evenkeel.domain import codec
from evenkeel.domain.moves import Batch, Move
from evenkeel.errors import InputError
from evenkeel.planning.moves_plan import MovesPlan
from evenkeel.reasons import Reason


@dataclass(frozen=True, slots=True)
class ApprovedPlan:
    """What may run. Made by `approve` or `approve_batches`."""

    id: str
    """SHA-256 over the batches and the plan's UID: another move is another plan, whatever its name; and the same
    moves, approved once more, are another plan too."""
    name: str
    """The planner's hash, for people."""
    batches: tuple[tuple[Move, ...], ...]
    cluster_id: str | None = None
    """Kafka's name for the cluster that it was planned for; None: not known."""

    @property
    def moves(self) -> tuple[Move, ...]:
        """All of them in their order."""
        return tuple(move for batch in self.batches for move in batch)


@dataclass(frozen=True, slots=True)
class _Hashed:
    batches: tuple[Batch, ...]
    uid: str | None = None


def approve(plan: MovesPlan, cluster_id: str | None = None) -> ApprovedPlan:
    """The planner's plan as it may run."""
    return approve_batches(plan.hash, [batch.moves for batch in plan.batches], cluster_id)


def approve_batches(
    name: str,
    batches: Iterable[Sequence[Move]],
    cluster_id: str | None = None,
    *,
    uid: str | None = None,
) -> ApprovedPlan:
    """Batches of moves as a plan.

    Args:
        name: the planner's hash.
        batches: moves that run at the same time, in the order of the plan.
        cluster_id: Kafka's name for the cluster that it was planned for; None: not known.
        uid: of the RebalancePlan; a plan that has ended is over for good, one of another UID is another.

    Raises:
        InputError: a partition is in two moves.
    """
    kept = tuple(tuple(batch) for batch in batches)
    known: set[tuple[str, int]] = set()
    for move in (move for batch in kept for move in batch):
        if (move.topic, move.partition) in known:
            message = f"moves: {move.topic}-{move.partition} is there twice; one move per partition and plan"
            raise InputError(message, reason=Reason.INVALID_SPEC)
        known.add((move.topic, move.partition))
    body = codec.dumps(_Hashed(tuple(Batch(i, moves, 0.0, 0) for i, moves in enumerate(kept)), uid))
    return ApprovedPlan(hashlib.sha256(body.encode()).hexdigest(), name, kept, cluster_id)
