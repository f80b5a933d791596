"""Conditions in metav1 shape, and when a status is worth a write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from evenkeel.api.meta import clip
from evenkeel.controller.plan import Moment
from evenkeel.kube.events import EventType, Note
from evenkeel.reasons import ConditionType, Reason


class Status(StrEnum):
    """A condition's status."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition as a planner decides it, without times."""

    type: ConditionType
    status: Status
    reason: Reason
    message: str


def ready(reason: Reason, message: str, *, stalled: bool = False) -> tuple[Condition, ...]:
    """Not ready: `Ready=False` with Reconciling (we go on trying) or Stalled (somebody has to act)."""
    other = ConditionType.STALLED if stalled else ConditionType.RECONCILING
    return (
        Condition(ConditionType.READY, Status.FALSE, reason, message),
        Condition(other, Status.TRUE, reason, message),
    )


def is_ready(reason: Reason, message: str) -> tuple[Condition, ...]:
    """Ready; Reconciling and Stalled are absent, as kstatus reads it."""
    return (Condition(ConditionType.READY, Status.TRUE, reason, message),)


def build_conditions(
    present: Sequence[Mapping[str, Any]], wanted: Iterable[Condition], generation: int, at: Moment
) -> list[dict[str, Any]]:
    """The conditions as stored; the transition time changes only when the status does.

    A type that is not wanted any more is left out. observedGeneration is set in each, at each write:
    kubectl wait looks at the condition's own.
    """
    old = {str(item["type"]): item for item in present}
    return [_stored(old.get(condition.type), condition, generation, at) for condition in wanted]


def _stored(
    old: Mapping[str, Any] | None, condition: Condition, generation: int, at: Moment
) -> dict[str, Any]:
    flipped = old is None or old.get("status") != condition.status.value
    return {
        "type": condition.type.value,
        "status": condition.status.value,
        "reason": condition.reason.value,
        "message": clip(condition.message),
        "observedGeneration": generation,
        "lastTransitionTime": at.text if flipped or old is None else old["lastTransitionTime"],
    }


def is_true(status: Mapping[str, Any], kind: str) -> bool:
    """Whether a status holds this condition as True."""
    found = (one for one in status.get("conditions") or () if one["type"] == kind)
    return any(one["status"] == Status.TRUE for one in found)


def prune(value: Any) -> Any:
    """Without absent and empty parts, which the API server does not keep apart either."""
    if isinstance(value, Mapping):
        pruned = {key: prune(item) for key, item in value.items()}
        return {key: item for key, item in pruned.items() if item not in (None, {}, [])}
    if isinstance(value, list | tuple):
        return [prune(item) for item in value]
    return value


def differs(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a status write would change anything."""
    return bool(prune(present) != prune(wanted))


def is_progress(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether only counters and messages differ: such a write can wait its five seconds."""
    return _essence(present) == _essence(wanted)


def _essence(status: Mapping[str, Any]) -> tuple[Any, ...]:
    conditions = tuple(
        sorted(
            (one["type"], one["status"], one["reason"], one.get("observedGeneration"))
            for one in status.get("conditions") or ()
        )
    )
    fixed = (
        "observedGeneration",
        "clusterRef",
        "revision",
        "seed",
        "topics",
        "preload",
        "state",
        "lastEvent",
    )
    return (
        conditions,
        (status.get("ingest") or {}).get("round"),
        *(prune(status.get(name)) for name in fixed),
    )


def transitions(present: Sequence[Mapping[str, Any]], wanted: Iterable[Condition], action: str) -> list[Note]:
    """Events for conditions whose status or reason changes; the first pending state is not news."""
    old = {str(item["type"]): item for item in present}
    news = [
        _note(condition, action)
        for condition in wanted
        if condition.type not in (ConditionType.RECONCILING, ConditionType.STALLED)
        and _is_news(old.get(condition.type), condition)
    ]
    # Two conditions may say the same thing; people want to read it once.
    return list(dict.fromkeys(news))


def _is_news(old: Mapping[str, Any] | None, new: Condition) -> bool:
    if old is None:
        return new.type is ConditionType.READY
    return bool((old["status"], old["reason"]) != (new.status.value, new.reason.value))


def _note(condition: Condition, action: str) -> Note:
    good = condition.status is Status.TRUE or condition.reason in QUIET
    return Note(condition.reason, condition.message, action, EventType.NORMAL if good else EventType.WARNING)


QUIET = frozenset(
    {
        Reason.PENDING,
        Reason.STARTING,
        Reason.CREATING_TOPICS,
        Reason.TOPIC_CREATING,
        Reason.INGESTING,
        Reason.SEALING,
        Reason.PRELOADING,
        Reason.DELETING,
        Reason.PAUSED,
        Reason.PLAN_PENDING,
        Reason.MOVING,
        Reason.MOVED,
        Reason.PLAN_REJECTED,
        Reason.PLAN_EXPIRED,
        Reason.MOVES_CANCELLED,
        Reason.DISABLED,
        Reason.NOTHING_TO_DO,
        Reason.NO_INFLOW_KNOWN,
        Reason.BELOW_THRESHOLD,
        Reason.BALANCED,
        Reason.CLUSTER_NOT_READY,
    }
)
"""Reasons that are steps on the way, not trouble."""
