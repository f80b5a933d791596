from __future__ import annotations

from datetime import UTC, datetime

from evenkeel.controller.conditions import (
    Condition,
    Status,
    build_conditions,
    differs,
    is_progress,
    is_ready,
    prune,
    ready,
    transitions,
)
from evenkeel.controller.plan import Moment
from evenkeel.kube.events import EventType
from evenkeel.reasons import ConditionType, Reason

FIRST = Moment(datetime(2026, 1, 1, tzinfo=UTC))
LATER = Moment(datetime(2026, 1, 2, tzinfo=UTC))


def test_transition_time_moves_only_when_the_status_flips() -> None:
    starting = build_conditions((), ready(Reason.STARTING, "a"), 1, FIRST)
    still = build_conditions(starting, ready(Reason.PENDING, "b"), 2, LATER)
    assert still[0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert (still[0]["reason"], still[0]["observedGeneration"]) == ("Pending", 2)
    done = build_conditions(still, is_ready(Reason.READY, "c"), 2, LATER)
    assert done[0]["lastTransitionTime"] == "2026-01-02T00:00:00Z"


def test_only_one_of_reconciling_and_stalled() -> None:
    assert [one.type for one in ready(Reason.STARTING, "")] == ["Ready", "Reconciling"]
    assert [one.type for one in ready(Reason.CONFLICT, "", stalled=True)] == ["Ready", "Stalled"]
    assert [one.type for one in is_ready(Reason.READY, "")] == ["Ready"]


def test_long_message_fits() -> None:
    (condition,) = build_conditions((), is_ready(Reason.READY, "x" * 9000), 1, FIRST)
    assert len(condition["message"]) == 4096


def test_absent_and_empty_are_the_same() -> None:
    assert not differs({"observedGeneration": 1}, {"observedGeneration": 1, "volumes": [], "moves": None})
    assert differs({"observedGeneration": 1}, {"observedGeneration": 2})
    assert prune({"a": {"b": None}, "c": [{"d": ()}], "e": 0}) == {"c": [{}], "e": 0}


def test_counters_and_sentences_are_progress() -> None:
    before = {
        "conditions": build_conditions((), ready(Reason.INGESTING, "1 of 9"), 1, FIRST),
        "ingest": {"percent": 1},
    }
    after = {
        "conditions": build_conditions((), ready(Reason.INGESTING, "2 of 9"), 1, FIRST),
        "ingest": {"percent": 2},
    }
    assert is_progress(before, after)
    assert not is_progress(before, {**after, "ingest": {"percent": 2, "round": 1}})
    assert not is_progress(before, {**after, "revision": {"digest": "a"}})
    flipped = {"conditions": build_conditions((), ready(Reason.SEALING, ""), 1, FIRST)}
    assert not is_progress(before, flipped)


def test_state_and_news_of_a_plan_do_not_wait() -> None:
    before = {
        "conditions": build_conditions((), ready(Reason.MOVING, "batch 1"), 1, FIRST),
        "state": "Running", "batch": 1, "percent": 2, "etaSeconds": 90, "lastEvent": 1,
    }  # fmt: skip
    moving = build_conditions((), ready(Reason.MOVING, "batch 2"), 1, FIRST)
    assert is_progress(before, {**before, "conditions": moving, "batch": 2, "percent": 40, "etaSeconds": 50})
    assert not is_progress(before, {**before, "lastEvent": 2})
    assert not is_progress(before, {**before, "state": "Paused"})


def test_events_are_said_when_status_or_reason_changes_and_once() -> None:
    sealed = Condition(ConditionType.INGESTED, Status.FALSE, Reason.SOURCE_EMPTY, "no image")
    wanted = (*ready(Reason.SOURCE_EMPTY, "no image", stalled=True), sealed)
    first = build_conditions((), ready(Reason.PENDING, "x"), 1, FIRST)
    (note,) = transitions(first, wanted, "Ingest")
    assert (note.type, note.reason) == (EventType.WARNING, Reason.SOURCE_EMPTY)
    assert transitions(build_conditions(first, wanted, 1, LATER), wanted, "Ingest") == []


def test_steps_on_the_way_are_no_warnings() -> None:
    (note,) = transitions((), ready(Reason.STARTING, "the keeper is starting"), "Measure")
    assert note.type is EventType.NORMAL
