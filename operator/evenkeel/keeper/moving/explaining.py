"""Why a move that was under way has ended, as a sentence."""

from __future__ import annotations

from evenkeel.domain.moves import Move
from evenkeel.errors import EvenkeelError
from evenkeel.keeper.moving.observation import Observation
from evenkeel.keeper.moving.settings import MoveSettings
from evenkeel.keeper.moving.status import lacks_target
from evenkeel.reasons import Reason


def explain_end(
    move: Move, reason: Reason, seen: Observation, settings: MoveSettings, refused: EvenkeelError | None
) -> str:
    """Why it was not moved, or what is not as planned though it was; empty: it is as planned.

    Args:
        move: as planned.
        reason: how it has ended.
        seen: the look that it ended by.
        settings: the limits.
        refused: what Kafka said to the newest attempt.
    """
    broker = move.copied_to
    if reason is Reason.MOVED:
        return _explain_place(move, seen)
    if refused is not None and refused.reason is reason and not refused.retry:
        return refused.message
    known = {
        Reason.TOPIC_MISSING: "is not there any more, or was made again",
        Reason.CONFLICT: _explain_conflict(move, seen),
        Reason.BROKERS_UNREACHABLE: f"broker {broker} was away for {settings.lost_seconds:g} s",
        Reason.STORAGE_LOW: f"the log directory on broker {broker} is offline or would fill above"
        f" {settings.overfull_percent:g} %",
        Reason.MOVE_STALLED: f"the copy on broker {broker} did not grow for {settings.stall_seconds:g} s",
    }
    return known.get(reason, f"cancelled: {reason}")


def _explain_place(move: Move, seen: Observation) -> str:
    if move.copied_to is None or move.target_dir is None:
        return ""
    where = f"{move.topic}-{move.partition} is on broker {move.copied_to}"
    if lacks_target(move, seen):
        return f"{where}, which has no log directory {move.target_dir} any more"
    place = seen.replica_dir(move.copied_to, (move.topic, move.partition))
    if place is None:
        return f"{where}, which does not tell whether it lies in {move.target_dir}"
    return "" if place.path == move.target_dir else f"{where} in {place.path}, not {move.target_dir}"


def _explain_conflict(move: Move, seen: Observation) -> str:
    found = seen.partition((move.topic, move.partition))
    where = [] if found is None else list(found.replicas)
    way = f"from {list(move.source)} to {list(move.target)}"
    if move.source == move.target:
        way = f"to {move.target_dir} on broker {move.copied_to}"
    return f"lies on {where}, not on its way {way}: somebody else changed it"
