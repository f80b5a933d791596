"""Events for people (`kubectl describe`, `kubectl events`), by events.k8s.io/v1."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from evenkeel import names
from evenkeel.errors import RetryableError
from evenkeel.kube.client import Kube
from evenkeel.kube.failures import ConflictError, NotFoundError
from evenkeel.kube.resources import EVENT
from evenkeel.reasons import Reason

NOTE_LIMIT = 1024
INSTANCE_LIMIT = 128
CLUSTER_SCOPE_NAMESPACE = "default"
"""Where events of cluster-scoped objects go; kubectl describe looks there."""


class EventType(StrEnum):
    """Kubernetes knows two."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Note:
    """What is to be said about an object."""

    reason: Reason
    message: str
    action: str
    """What was done or tried, one word: `Ingest`, `Release`."""
    type: EventType = EventType.NORMAL


def build_event(regarding: Mapping[str, Any], note: Note, instance: str, now: datetime) -> dict[str, Any]:
    """The event object. Its name is a digest of object, reason and message: a repeat meets itself."""
    meta = regarding["metadata"]
    text = note.message[:NOTE_LIMIT]
    digest = hashlib.sha256(f"{meta['uid']}\n{note.reason}\n{text}".encode()).hexdigest()[:16]
    reference = {"apiVersion": regarding["apiVersion"], "kind": regarding["kind"], "name": meta["name"]}
    if "namespace" in meta:
        reference["namespace"] = meta["namespace"]
    return {
        **EVENT.header(),
        "metadata": {
            "name": f"{meta['name'][:200]}.{digest}",
            "namespace": meta.get("namespace", CLUSTER_SCOPE_NAMESPACE),
        },
        "eventTime": micro_time(now),
        "type": note.type.value,
        "reason": note.reason.value,
        "action": note.action,
        "note": text,
        "reportingController": names.REPORTING_CONTROLLER,
        "reportingInstance": instance[:INSTANCE_LIMIT],
        "regarding": {**reference, "uid": meta["uid"]},
    }


async def emit(kube: Kube, regarding: Mapping[str, Any], note: Note, instance: str) -> None:
    """Create the event, or count it once more when the same was said within the last hour.

    Raises:
        RetryableError, ConfigurationError: as every call of `Kube`.
    """
    event = build_event(regarding, note, instance, datetime.now(UTC))
    meta = event["metadata"]
    try:
        await kube.create(EVENT, event)
    except ConflictError:
        present = await kube.get(EVENT, meta["name"], meta["namespace"])
        count = ((present or {}).get("series") or {}).get("count", 1) + 1
        series = {"count": count, "lastObservedTime": event["eventTime"]}
        try:
            await kube.patch_merge(EVENT, meta["name"], {"series": series}, meta["namespace"])
        except NotFoundError as error:
            raise RetryableError(f"event {meta['name']} expired while it was counted") from error


def micro_time(now: datetime) -> str:
    """Kubernetes' MicroTime."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
