from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from evenkeel import names
from evenkeel.controller.jobs import (
    LABEL_ATTEMPT,
    LABEL_ROUND,
    JobView,
    find_problem,
    newest,
    read_termination,
    retry_wait,
    view_job,
)
from evenkeel.domain.job import Role
from evenkeel.reasons import Reason

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def stored(attempt: int = 0, **status: Any) -> dict[str, Any]:
    labels = {names.LABEL_COMPONENT: "producer", LABEL_ROUND: "2", LABEL_ATTEMPT: str(attempt)}
    created = "2026-01-01T11:59:00Z"
    meta = {
        "name": "job",
        "namespace": "a",
        "uid": f"u{attempt}",
        "labels": labels,
        "creationTimestamp": created,
    }
    return {"kind": "Job", "metadata": meta, "status": status}


def ended(kind: str) -> dict[str, Any]:
    when = "2026-01-01T12:00:00Z"
    return {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": when}]}


def pod(name: str, index: int, created: int, **status: Any) -> dict[str, Any]:
    labels = {"batch.kubernetes.io/job-completion-index": str(index)}
    when = f"2026-01-01T12:00:{created:02d}Z"
    owner = [{"uid": "u0"}]
    meta = {"name": name, "labels": labels, "creationTimestamp": when, "ownerReferences": owner}
    return {"metadata": meta, "status": status}


def terminated(code: int, message: str = "") -> dict[str, Any]:
    return {"containerStatuses": [{"state": {"terminated": {"exitCode": code, "message": message}}}]}


def waiting(reason: str) -> dict[str, Any]:
    return {
        "phase": "Pending",
        "containerStatuses": [{"state": {"waiting": {"reason": reason, "message": "m"}}}],
    }


def unschedulable(message: str) -> dict[str, Any]:
    entry = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [entry]}


JOB: JobView = view_job(stored())


def test_view() -> None:
    assert (JOB.role, JOB.round, JOB.attempt, JOB.failed, JOB.complete) == (Role.PRODUCER, 2, 0, False, False)
    assert view_job(stored(**ended("Complete"))).complete
    assert view_job(stored(**ended("Failed"))).failed


def test_newest_is_the_last_attempt_of_the_round() -> None:
    jobs = [view_job(stored(attempt)) for attempt in (0, 2, 1)]
    found = newest(jobs, Role.PRODUCER, round_=2)
    assert found is not None
    assert found.attempt == 2
    assert newest(jobs, Role.PRODUCER, round_=0) is None


@pytest.mark.parametrize(("attempt", "pause"), [(0, 5), (1, 10), (3, 40), (4, 60), (99, 60)])
def test_pauses_grow(attempt: int, pause: float) -> None:
    assert retry_wait(view_job(stored(attempt, **ended("Failed"))), NOW) == pause


@pytest.mark.parametrize(
    ("status", "reason", "part"),
    [
        (terminated(1, '{"reason": "SourceEmpty", "message": "no image in /x"}'), Reason.SOURCE_EMPTY, "no image in /x"),
        (terminated(1, '{"reason": "OfTomorrow", "message": "m"}'), Reason.INGEST_FAILED, "m"),
        (terminated(1, "Traceback\nValueError: bad"), Reason.INGEST_FAILED, "ValueError: bad"),
        (terminated(137), Reason.INGEST_FAILED, "exit code 137"),
        (waiting("ImagePullBackOff"), Reason.INGEST_FAILED, "ImagePullBackOff"),
        (unschedulable('0/4: persistentvolumeclaim "pics" not found.'), Reason.SOURCE_MISSING, "pics"),
        (unschedulable("0/4 nodes are available: 4 Insufficient memory."), Reason.PENDING, "Insufficient"),
    ],
)  # fmt: skip
def test_problems(status: dict[str, Any], reason: Reason, part: str) -> None:
    problem = find_problem(JOB, [pod("a", 0, 1, **status)])
    assert problem is not None
    assert problem.reason is reason
    assert part in problem.message


@pytest.mark.parametrize("status", [waiting("ContainerCreating"), {"phase": "Pending"}, terminated(0)])
def test_pods_that_only_start_or_ended_well_are_no_problem(status: dict[str, Any]) -> None:
    assert find_problem(JOB, [pod("a", 0, 1, **status)]) is None


def test_newer_pod_of_an_index_replaces_the_older() -> None:
    pods = [pod("new", 0, 9, phase="Pending"), pod("old", 0, 1, **terminated(137))]
    assert find_problem(JOB, pods) is None


def test_pods_of_other_jobs_do_not_count() -> None:
    other = pod("a", 0, 1, **terminated(1))
    other["metadata"]["ownerReferences"] = [{"uid": "another"}]
    assert find_problem(JOB, [other]) is None


def test_termination_tail_is_bounded() -> None:
    assert len(read_termination("x" * 4096, 1).message) < 500
