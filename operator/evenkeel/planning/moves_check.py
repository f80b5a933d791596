"""What every plan must hold to, looked at once more on the finished plan and apart from the search."""

from __future__ import annotations

from evenkeel.domain.exchange import Policy
from evenkeel.domain.moves import Move, MoveKind
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.errors import EvenkeelError
from evenkeel.planning.moves_plan import MovesPlan
from evenkeel.planning.peak import highest_fill
from evenkeel.planning.space import Floats, Space

ROUNDING = 1e-9


def check_plan(
    snapshot: ClusterSnapshot, policy: Policy, space: Space, start: Floats, plan: MovesPlan
) -> None:
    """Refuse a plan that breaks a rule: better none than a wrong one.

    Raises:
        EvenkeelError: a fault of ours; names the move and the rule.
    """
    racks = {broker.id: broker.rack or f"broker {broker.id}" for broker in snapshot.brokers}
    dirs = {(broker.id, entry.path): entry for broker in snapshot.brokers for entry in broker.log_dirs}
    up = {broker.id for broker in snapshot.brokers if broker.online and not broker.fenced}
    seen: set[tuple[str, int]] = set()
    for move in plan.moves:
        _require(move, (move.topic, move.partition) not in seen, "moves twice")
        seen.add((move.topic, move.partition))
        _require(move, len(set(move.target)) == len(move.target) > 0, "has a broker twice")
        _require(move, set(move.target) - set(move.source) <= up, "goes to a broker that is away")
        if move.kind is MoveKind.BROKER:
            kept = {racks.get(one, f"broker {one}") for one in move.target}
            had = {racks.get(one, f"broker {one}") for one in move.source}
            _require(move, len(kept) >= len(had), "loses a rack")
        if move.target_dir is not None and move.copied_to is not None:
            entry = dirs[move.copied_to, move.target_dir]
            _require(move, entry.online and not entry.cordoned, "goes to a closed directory")
    highest = highest_fill(space, start, plan.batches)
    if highest > policy.max_fill_percent / 100 + ROUNDING:
        what = f"a batch would fill a volume to {highest:.2%}, above {policy.max_fill_percent} %"
        raise EvenkeelError(f"the plan of moves is wrong: {what}")


def _require(move: Move, holds: bool, fault: str) -> None:  # noqa: FBT001 - private
    if not holds:
        raise EvenkeelError(f"the plan of moves is wrong: {move.topic}-{move.partition} {fault}")
