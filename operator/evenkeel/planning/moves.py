"""Which replicas to move so that the volumes are level: best fit from surplus to deficit (design section 6).

Pure and deterministic. Nothing is executed here. The planner is careful with space: a source keeps its
bytes until long after the copy (deleted files lie for file.delete.delay.ms), so the peak of a volume counts
everything that comes and nothing that goes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from evenkeel.domain import codec
from evenkeel.domain.exchange import Policy
from evenkeel.domain.moves import Batch, Move, MoveKind
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.errors import InputError
from evenkeel.planning.batches import plan_batches
from evenkeel.planning.bounds import find_bounds, least_bytes
from evenkeel.planning.budget import choose_affordable
from evenkeel.planning.leaders import spread_leaders
from evenkeel.planning.leftover import explain_leftover
from evenkeel.planning.levels import Goal, Levels, find_goal
from evenkeel.planning.movable import Movable, Replica, Seats, find_seats, gather_movable
from evenkeel.planning.moves_build import build_moves
from evenkeel.planning.moves_check import check_plan
from evenkeel.planning.moves_level import level_out
from evenkeel.planning.moves_mandatory import Change, Placer, plan_removals, size_of, wanted_additions
from evenkeel.planning.moves_outlook import Outlook, build_outlook
from evenkeel.planning.moves_plan import MOST_MOVES, Choice, Cure, MovesPlan, MovesRequest, Refusal
from evenkeel.planning.moves_search import Board
from evenkeel.planning.route_or_move import choose_cure
from evenkeel.planning.space import Floats, Space, build_space
from evenkeel.planning.trigger import find_trigger
from evenkeel.reasons import Reason

__all__ = ["MOST_MOVES", "Batch", "Move", "MoveKind", "MovesPlan", "MovesRequest", "plan_moves"]


def plan_moves(snapshot: ClusterSnapshot, policy: Policy, request: MovesRequest | None = None) -> MovesPlan:
    """Moves that bring every volume within `leave_percent` of the mean fill, if it is beyond `enter_percent`.

    Between directories and between brokers alike. Never more than the peak allows, than the budget, and than
    one move per partition.

    Args:
        snapshot: what was measured, moves that run included.
        policy: band, limit, budget, excluded topics.
        request: what else is wanted; absent: nothing.

    Raises:
        InputError: the snapshot or the request holds an impossible value.
    """
    request = request or MovesRequest()
    _check(request)
    space = build_space(snapshot)
    if space.unknown or not space.volumes:
        missing = ", ".join(space.unknown[:3]) or "any volume"
        return MovesPlan(Reason.SNAPSHOT_INCOMPLETE, f"not measured: {missing}")
    return _Planner(snapshot, policy, request, space).plan()


def _check(request: MovesRequest) -> None:
    for name in ("throttle_bytes_per_second", "most_moves", "deadline_seconds"):
        value = getattr(request, name)
        if value < 1:
            raise InputError(
                f"{codec.camel(name)}: must be at least 1, not {value}", reason=Reason.INVALID_SPEC
            )


@dataclass(frozen=True, slots=True)
class _Found:
    """What the search came to."""

    changes: list[Change]
    refusals: list[Refusal]
    bound: float
    goal: Goal
    levelled: bool
    """Or only what was wanted for itself."""


class _Planner:
    """One call of `plan_moves`."""

    def __init__(
        self, snapshot: ClusterSnapshot, policy: Policy, request: MovesRequest, space: Space
    ) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._request = request
        self._space = space
        self._limit = policy.max_fill_percent / 100
        self._choice = choose_cure(snapshot, space, policy, request) if request.routed else None
        self._outlook: Outlook = build_outlook(snapshot, space, policy, request, _until(self._choice))
        self._seats: Seats = find_seats(snapshot, space, request.drain)
        self._replicas: list[Replica] = gather_movable(
            snapshot, space, policy, request.drain, self._outlook.grow if self._outlook.growth else None
        )

    def plan(self) -> MovesPlan:
        goal = self._goal(self._outlook.used, self._lost_bytes())
        trigger = find_trigger(
            self._snapshot, self._space, goal, self._outlook.used, self._policy, self._request
        )
        choice = self._choice
        plain = MovesPlan(
            trigger.reason,
            trigger.message,
            deviation_before=trigger.deviation,
            deviation_after=trigger.deviation,
            peak_fill=float(np.max(self._outlook.highest / self._space.capacity)),
            fills_before=self._fills(self._outlook.used),
            fills_after=self._fills(self._outlook.used),
            choice=choice,
        )
        wanted = bool(self._request.drain or self._request.replication)
        if choice is not None and choice.cure is Cure.ROUTE and not wanted:
            return replace(plain, reason=choice.reason, message=choice.message)
        if not trigger.due and not wanted:
            ahead = choice is not None and choice.cure is Cure.MOVE
            return replace(plain, message=f"{plain.message} (where routing leads)") if ahead else plain
        return self._finish(plain, self._search(level=trigger.due))

    def _goal(self, used: Floats, coming: float = 0.0) -> Goal:
        drain = self._request.drain
        bounds = find_bounds(self._space, self._seats, self._replicas, used, drain, coming)
        total = float(used.sum()) + coming
        goal = find_goal(self._space.capacity, total, bounds, self._policy.leave_percent / 100)
        return goal.without_deficits() if self._request.drain_only else goal

    def _search(self, *, level: bool) -> _Found:
        request, outlook = self._request, self._outlook
        movable = Movable(self._replicas)
        levels = Levels(self._space.capacity, outlook.used, outlook.highest)
        changes, refusals = plan_removals(
            self._snapshot, self._space, request.replication, levels.fills(), self._seats
        )
        for change in changes:
            change.apply(levels, self._seats)
            movable.use((change.partition.topic, change.partition.partition))
        additions = wanted_additions(self._snapshot, request.replication, refusals)
        coming = sum(size_of(one) + outlook.grow(one) for one in additions)
        goal = self._goal(levels.used, coming + self._lost_bytes())
        bound = least_bytes(
            goal, levels.used, self._space, self._replicas, request.drain, coming, level=level
        )
        placer = Placer(self._seats, levels, goal, self._limit * levels.capacity)
        changes += placer.empty(movable, request.drain)
        for partition in additions:
            key = partition.topic, partition.partition
            lasting = size_of(partition) + outlook.grow(partition)
            added = placer.add(partition, lasting) if movable.is_free(key) else None
            if added is not None:
                changes.append(added)
                movable.use(key)
        if level:
            board = Board(self._seats, movable, levels, goal, self._limit)
            changes += level_out(board, request.most_moves - len(changes))
        refusals += [*placer.refusals, *self._left_behind()]
        return _Found(changes, refusals, bound, goal, level)

    def _lost_bytes(self) -> float:
        """Of replicas that are to be copied anew because their broker is lost: they lie on no volume now."""
        return sum(one.lasting for one in self._replicas if one.volume is None)

    def _left_behind(self) -> list[Refusal]:
        """Replicas on brokers to be emptied that are not ours to move."""
        if not self._request.drain:
            return []
        may = {(one.key, one.broker) for one in self._replicas}
        counts = Counter(
            broker
            for partition in self._snapshot.partitions
            for broker in partition.replicas
            if broker in self._request.drain and ((partition.topic, partition.partition), broker) not in may
        )
        what = "{} replicas stay: of excluded, internal or own topics, or of partitions that are not healthy"
        return [
            Refusal(f"broker/{broker}", Reason.DRAIN_BLOCKED, what.format(count))
            for broker, count in sorted(counts.items())
        ]

    def _finish(self, plain: MovesPlan, found: _Found) -> MovesPlan:
        changes, refusals = choose_affordable(
            found.changes, self._policy.move_budget_bytes, self._request.most_moves
        )
        levels = Levels(self._space.capacity, self._outlook.used, self._outlook.highest)
        for change in changes:
            change.apply(levels, self._seats)
        if found.levelled and len(changes) == len(found.changes) < self._request.most_moves:
            refusals += explain_leftover(
                self._space,
                self._seats,
                found.goal,
                levels,
                self._replicas,
                {(one.partition.topic, one.partition.partition) for one in changes},
                self._limit * levels.capacity,
            )
        result = replace(
            plain,
            lower_bound_bytes=round(found.bound),
            deviation_after=found.goal.deviation(levels.used),
            peak_fill=levels.peak(),
            fills_after=self._fills(levels.used),
            refusals=(*found.refusals, *refusals),
        )
        if not changes:
            return _refuse(result, self._policy)
        moves = spread_leaders(self._snapshot, build_moves(self._snapshot, self._seats, changes))
        batches = plan_batches(
            moves, self._request.throttle_bytes_per_second, self._space, self._outlook.highest
        )
        text = "".join(codec.dumps(value) for value in (self._snapshot, self._policy, self._request, moves))
        total = sum(move.bytes for move in moves)
        told = f"{len(moves)} moves of {total} bytes bring the deviation"
        left = len(found.changes) - self._request.most_moves
        rest = f"; {left} more are for the next plan" if left > 0 else ""
        result = replace(
            result,
            reason=Reason.MOVES_PLANNED,
            message=f"{told} from {plain.deviation_before:.1%} to {result.deviation_after:.1%}{rest}",
            hash=hashlib.sha256(text.encode()).hexdigest(),
            moves=moves,
            bytes=total,
            batches=batches,
            seconds=sum(batch.seconds for batch in batches),
        )
        check_plan(self._snapshot, self._policy, self._space, self._outlook.highest, result)
        return result

    def _fills(self, used: Floats) -> dict[str, float]:
        fills = used / self._space.capacity
        return {volume.name: float(fills[i]) for i, volume in enumerate(self._space.volumes)}


def _until(choice: Choice | None) -> float | None:
    """A disk that will be too full first has to be relieved by then, not by the end of the horizon."""
    limited = choice is not None and choice.reason is Reason.LIMIT_COMES_FIRST
    return None if choice is None or not limited else choice.limit_seconds


def _refuse(result: MovesPlan, policy: Policy) -> MovesPlan:
    """Why there is no move."""
    before = result.deviation_before or 0.0
    reasons = {one.reason for one in result.refusals}
    if Reason.MOVE_BUDGET_TOO_SMALL in reasons:
        what = f"a volume deviates by {before:.1%}, and no useful move is within {policy.move_budget_bytes} bytes"
        return replace(result, reason=Reason.MOVE_BUDGET_TOO_SMALL, message=what)
    if len(result.refusals) > 0:
        first = result.refusals[0]
        return replace(result, reason=first.reason, message=f"{first.subject}: {first.message}")
    what = f"a volume deviates by {before:.1%}, and no replica may move that would help"
    return replace(result, reason=Reason.NO_FEASIBLE_MOVE, message=what)
