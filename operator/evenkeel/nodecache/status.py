"""What a cache says of itself in its NodeCache's status: built from facts, compared before it is written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evenkeel.api.meta import Condition, ConditionStatus
from evenkeel.api.node_cache import Held, NodeCache, NodeCacheStatus
from evenkeel.domain.nodes import HeldRevision
from evenkeel.nodecache.files import DiskSpace
from evenkeel.reasons import Reason


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """The cache at one moment."""

    endpoint: str
    space: DiskSpace | None
    """None: the disk cannot be read or written, `trouble` says why."""
    revisions: tuple[HeldRevision, ...]
    trouble: str = ""


def build_status(facts: CacheFacts, seen: NodeCache, now: datetime) -> NodeCacheStatus:
    """The status for the object as it was seen last; `now` only where the condition changes."""
    space = facts.space
    return NodeCacheStatus(
        observed_generation=seen.metadata.generation,
        endpoint=facts.endpoint,
        disk_total_bytes=space.total if space else None,
        disk_usable_bytes=_round_usable(space) if space else None,
        revisions=tuple(Held.of(item) for item in facts.revisions),
        conditions=(_build_ready(facts, seen, now),),
    )


def build_apply(seen: NodeCache, status: NodeCacheStatus) -> dict[str, Any]:
    """The body of a server-side apply to the status subresource. With the UID, so that it hits this object."""
    meta = {"name": seen.metadata.name, "uid": seen.metadata.uid}
    return {"metadata": meta, "status": status.dump()}


def _build_ready(facts: CacheFacts, seen: NodeCache, now: datetime) -> Condition:
    good = facts.space is not None
    status = ConditionStatus.TRUE if good else ConditionStatus.FALSE
    before = seen.status.condition("Ready")
    unchanged = before is not None and before.status is status
    return Condition(
        type="Ready",
        status=status,
        observed_generation=seen.metadata.generation,
        last_transition_time=before.last_transition_time if before and unchanged else now,
        reason=(Reason.READY if good else Reason.CACHE_UNAVAILABLE).value,
        message="the cache listens and its disk is usable" if good else facts.trouble,
    )


def _round_usable(space: DiskSpace) -> int:
    # Whole percents: otherwise every block that something writes would be a new status.
    step = max(1, space.total // 100)
    return space.usable // step * step
