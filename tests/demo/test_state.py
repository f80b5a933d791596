from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.demo import follow, state, view
from e2e.demo.state import State


def condition(kind: str, status: str = "True", reason: str = "Good", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def item(kind: str, name: str, *conditions: dict[str, str], **status: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "team-vision", "labels": status.pop("labels", {})}
    return {"kind": kind, "metadata": meta, "status": {"conditions": list(conditions), **status}}


def parse(*items: dict[str, Any]) -> State:
    return state.parse(json.dumps({"items": list(items)}))


def training_pod(phase: str, *conditions: dict[str, str]) -> dict[str, Any]:
    labels = {"batch.kubernetes.io/job-name": view.JOB}
    return item("Pod", f"pod-{phase}", *conditions, phase=phase, labels=labels)


def test_a_goal_is_reached_when_all_its_conditions_are_true() -> None:
    goal = follow.holds("TrainingDataset", "clipart", "Ready", "Ingested")
    assert goal(parse(item("TrainingDataset", "clipart", condition("Ready"), condition("Ingested"))))
    assert not goal(
        parse(item("TrainingDataset", "clipart", condition("Ready"), condition("Ingested", "False")))
    )
    assert not goal(parse())


def test_a_dataset_is_told_from_its_status() -> None:
    revision = {"digest": "sha256:abc", "records": 5, "rejectedRecords": 1}
    seen = parse(
        item("TrainingDataset", "digits", revision=revision, preload={"wantedNodes": 2, "warmNodes": 1})
    )
    found = state.build_dataset(seen, "digits", 6)
    assert (found.revision_records, found.rejected_records, found.wanted_nodes, found.warm_nodes) == (
        5,
        1,
        2,
        1,
    )


def test_a_dataset_without_status_has_nothing() -> None:
    assert state.build_dataset(parse(), "digits", 6).revision_records == 0


def test_an_explanation_names_conditions_pods_and_events() -> None:
    waiting = {"state": {"waiting": {"reason": "ErrImageNeverPull", "message": "not there"}}}
    seen = parse(
        item("TrainingDataset", "clipart", condition("Ready", "False", "SourceMissing", "no such folder")),
        item("BalancedTopic", "events"),
        item("Job", "done", condition("Complete")),
        item("Pod", "stuck", phase="Pending", containerStatuses=[waiting]),
        item("Pod", "gated", condition("PodScheduled", "False", "SchedulingGated", "held"), phase="Pending"),
    )
    event = {
        "metadata": {}, "eventTime": "2026-01-01T00:00:00.1Z", "type": "Warning", "reason": "Bad",
        "involvedObject": {"kind": "Pod", "name": "stuck"}, "message": "two\nlines",
    }  # fmt: skip
    text = state.explain(seen, json.dumps({"items": [event]}))
    for part in (
        "SourceMissing: no such folder",
        "no conditions",
        "ErrImageNeverPull not there",
        "SchedulingGated",
    ):
        assert part in text
    assert "Warning Pod/stuck Bad: two lines" in text
    assert "Job" not in text


def test_events_come_oldest_first_and_not_all_of_them() -> None:
    events = [
        {
            "metadata": {"creationTimestamp": f"2026-01-01T00:00:{i:02}Z"},
            "involvedObject": {},
            "message": str(i),
        }
        for i in reversed(range(30))
    ]
    text = state.explain(parse(), json.dumps({"items": events}))
    assert ": 29" in text
    assert ": 1\n" not in text


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], "not there yet"),
        ([training_pod("Pending", condition("PodScheduled", "False", "SchedulingGated"))], "1 held until"),
        ([training_pod("Running"), training_pod("Succeeded")], "1 running, 1 succeeded"),
    ],
)
def test_the_training_is_told_by_its_pods(pods: list[dict[str, Any]], expected: str) -> None:
    assert expected in view.build_picture(parse(*pods), {}).texts["training"]


def test_a_line_shows_disks_ingest_seal_and_warm_nodes() -> None:
    seen = parse(
        item(
            "TrainingDataset",
            "digits",
            condition("Ready"),
            ingest={"percent": 100, "acknowledgedRecords": 1797, "plannedRecords": 1797},
            revision={"digest": "0123456789abcdef"},
            preload={"wantedNodes": 2, "warmNodes": 1},
        )
    )
    line = view.build_line(view.build_picture(seen, {1: 0.5, 2: 0.25}))
    for part in ("disks 50.0% 25.0%", "1797 of 1797 records", "sealed 0123456789ab", "warm 1 of 2 nodes"):
        assert part in line
