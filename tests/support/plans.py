"""Plans of moves: as the keeper proposes them, as people write them, and how a keeper reports on them."""

from __future__ import annotations

from typing import Any

from evenkeel.domain.exchange import MovesReport
from evenkeel.domain.moves import (
    Batch,
    Move,
    MoveKind,
    PlanEvent,
    PlanReport,
    PlanState,
    ProposedPlan,
    VolumeFill,
    VolumePeak,
)
from evenkeel.reasons import Reason
from tests.support.world import Object, World, own

HASH = "0123456789abcdef" * 4
NAME = "kafka-0123456789"
MOVES = (
    Move("orders", 0, (1, 2), (3, 2), 1000, "/data/a", MoveKind.BROKER, 3, 1, 1, "/data/b", 1000, 60_000),
    Move("orders", 1, (1, 2), (1, 2), 500, "/data/c", MoveKind.DIRECTORY, 2, 2, 2, "/data/d", 500),
    Move("orders", 2, (1, 2), (1, 2, 3), 700, None, MoveKind.ADD, 3, 1),
    Move("orders", 3, (1, 2), (2,), 0, None, MoveKind.REMOVE, None, None, 1, None, 900, 1000),
)
BATCHES = (
    Batch(0, MOVES[:2], 10.0, 1500, (VolumePeak("3:/data/a", 5000, 0.5),)),
    Batch(1, MOVES[2:], 7.0, 700),
)


def proposed(hash_: str = HASH, **parts: Any) -> ProposedPlan:
    """A plan of four moves in two batches."""
    values: dict[str, Any] = {
        "hash": hash_,
        "reason": Reason.IMBALANCED,
        "message": "some volume deviates by 40.0 %",
        "batches": BATCHES,
        "bytes": 2200,
        "lower_bound_bytes": 2000,
        "seconds": 17,
        "cluster_id": "kafka-1",
        "deviation_before_permille": 400,
        "deviation_after_permille": 20,
        "fills": (VolumeFill("3:/data/a", 400, 500, 510),),
        **parts,
    }
    return ProposedPlan(**values)


def propose(world: World, plan: ProposedPlan | None = None, **parts: Any) -> None:
    """The keeper's report with a proposal; the cluster looks at it."""
    moves = MovesReport(
        Reason.MOVES_PLANNED,
        "4 moves",
        moves=4,
        move_bytes=2200,
        proposal=proposed(**parts) if plan is None else plan,
    )
    world.report(moves=moves)
    world.run("BalancedCluster", "kafka")


def written(name: str, *, cluster: str = "kafka", **spec: Any) -> Object:
    """A RebalancePlan that somebody wrote by hand."""
    move = {"batch": 0, "topic": "orders", "partition": 0, "source": [1, 2], "target": [3, 2], "bytes": 10}
    body = {"clusterRef": {"name": cluster}, "approval": "Pending", "moves": [move], **spec}
    return own("RebalancePlan", name, body)


def progress(state: PlanState, reason: Reason, message: str = "", **parts: Any) -> PlanReport:
    """What the keeper says of the plan NAME."""
    uid = parts.pop("uid", f"uid-{NAME}")
    return PlanReport(uid, state, reason, message, batches=2, moves=4, bytes=2200, **parts)


def events(*numbers: int) -> tuple[PlanEvent, ...]:
    """Numbered news."""
    return tuple(PlanEvent(number, Reason.MOVING, f"news {number}") for number in numbers)
