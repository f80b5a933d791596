from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from evenkeel.kube.client import Kube
from evenkeel.kube.events import EventType, Note, build_event, emit
from evenkeel.kube.failures import ConflictError
from evenkeel.reasons import Reason

NOW = datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC)
NOTE = Note(Reason.SEALED, "revision ab is sealed", "Ingest")
ITEM = {
    "apiVersion": "evenkeel.dev/v1alpha1",
    "kind": "TrainingDataset",
    "metadata": {"name": "digits", "namespace": "data", "uid": "u1"},
}


def test_event_has_all_that_the_server_and_describe_want() -> None:
    event = build_event(ITEM, NOTE, "operator-1", NOW)
    assert event["metadata"]["namespace"] == "data"
    assert event["eventTime"] == "2026-01-01T12:00:00.000005Z"
    assert event["regarding"] == {
        "apiVersion": "evenkeel.dev/v1alpha1", "kind": "TrainingDataset", "name": "digits", "namespace": "data",
        "uid": "u1",
    }  # fmt: skip
    assert (event["type"], event["reason"], event["action"]) == ("Normal", "Sealed", "Ingest")


def test_same_fact_has_the_same_name() -> None:
    later = datetime(2026, 2, 1, tzinfo=UTC)
    first, again = (build_event(ITEM, NOTE, "operator-1", when)["metadata"]["name"] for when in (NOW, later))
    other = build_event(ITEM, Note(Reason.SEALED, "another", "Ingest"), "operator-1", NOW)["metadata"]["name"]
    assert first == again != other


def test_events_of_cluster_scope_go_to_default() -> None:
    cache = {
        "apiVersion": "evenkeel.dev/v1alpha1",
        "kind": "NodeCache",
        "metadata": {"name": "n", "uid": "u"},
    }
    event = build_event(cache, Note(Reason.WARM, "x" * 5000, "Load", EventType.WARNING), "o", NOW)
    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["regarding"]
    assert len(event["note"]) == 1024


class Recorder(Kube):
    def __init__(self, present: dict[str, Any] | None) -> None:
        self.present = present
        self.patched: list[Any] = []
        self.created: list[Any] = []

    async def create(self, _resource: Any, body: Any, **_: Any) -> dict[str, Any]:
        self.created.append(body)
        if self.present is not None:
            raise ConflictError("exists")
        return dict(body)

    async def get(self, *_: Any) -> dict[str, Any] | None:
        return self.present

    async def patch_merge(self, _resource: Any, name: str, body: Any, *_: Any, **__: Any) -> dict[str, Any]:
        self.patched.append((name, body))
        return {}


async def test_first_time_creates() -> None:
    kube = Recorder(None)
    await emit(kube, ITEM, NOTE, "operator-1")
    assert len(kube.created) == 1
    assert not kube.patched


async def test_repeats_are_counted() -> None:
    kube = Recorder({"series": {"count": 4}})
    await emit(kube, ITEM, NOTE, "operator-1")
    assert kube.patched[0][1]["series"]["count"] == 5
