"""Jobs of a dataset as stored: which there are, how they ended, and why pods fail or do not start."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from evenkeel import names
from evenkeel.controller.store import Object
from evenkeel.domain import codec
from evenkeel.domain.job import Role, Termination
from evenkeel.errors import InputError
from evenkeel.reasons import Reason

LABEL_ROUND = "evenkeel.dev/round"
LABEL_ATTEMPT = "evenkeel.dev/attempt"
LABEL_HOLDER = "evenkeel.dev/holder"
"""On loader jobs: digest of the node's name."""
_FIRST_RETRY = 5.0
_LONGEST_RETRY = 60.0
_LINE_LIMIT = 400
_STUCK = frozenset(
    {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError",
     "CreateContainerError", "RunContainerError"}
)  # fmt: skip
_CLAIM_ABSENT = re.compile(r'persistentvolumeclaim "([^"]+)" not found')


@dataclass(frozen=True, slots=True)
class JobView:
    """One Job of ours."""

    name: str
    namespace: str
    uid: str
    role: Role
    round: int
    attempt: int
    holder: str
    complete: bool
    created_at: datetime
    ended_at: datetime | None
    """When it completed or failed; None while it runs."""

    @property
    def failed(self) -> bool:
        """Ended without success."""
        return self.ended_at is not None and not self.complete


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a pod failed or does not start."""

    reason: Reason
    message: str


def view_job(item: Object) -> JobView:
    """What a plan needs of a stored Job."""
    meta, labels = item["metadata"], item["metadata"].get("labels") or {}
    ended = _ended(item)
    return JobView(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        role=Role(labels.get(names.LABEL_COMPONENT, "").capitalize()),
        round=int(labels.get(LABEL_ROUND, 0)),
        attempt=int(labels.get(LABEL_ATTEMPT, 0)),
        holder=labels.get(LABEL_HOLDER, ""),
        created_at=parse_time(meta["creationTimestamp"]),
        complete=ended is not None and ended["type"] == "Complete",
        ended_at=None if ended is None else parse_time(ended["lastTransitionTime"]),
    )


def _ended(item: Object) -> Mapping[str, Any] | None:
    conditions = (item.get("status") or {}).get("conditions") or ()
    ends = (one for one in conditions if one["type"] in ("Complete", "Failed") and one["status"] == "True")
    return next(ends, None)


def parse_time(text: str) -> datetime:
    """Kubernetes' Time or MicroTime."""
    return datetime.fromisoformat(text)


def newest(jobs: Iterable[JobView], role: Role, *, round_: int = 0, holder: str = "") -> JobView | None:
    """The last attempt of what is to be done."""
    found = [one for one in jobs if (one.role, one.round, one.holder) == (role, round_, holder)]
    return max(found, key=lambda one: one.attempt, default=None)


def before(jobs: Iterable[JobView], job: JobView) -> JobView | None:
    """The attempt before `job`, as long as it is kept."""
    wanted = (job.role, job.round, job.holder, job.attempt - 1)
    return next((one for one in jobs if (one.role, one.round, one.holder, one.attempt) == wanted), None)


def retry_wait(job: JobView, now: datetime) -> float:
    """Seconds until a Job that ended may be followed by the next attempt; 0 or less: now."""
    pause = min(_LONGEST_RETRY, _FIRST_RETRY * 2.0 ** min(job.attempt, 10))
    return 0.0 if job.ended_at is None else (job.ended_at + timedelta(seconds=pause) - now).total_seconds()


def find_problem(job: JobView, pods: Iterable[Object]) -> Problem | None:
    """What is wrong with the newest pods of a Job; None while any of them works."""
    latest: dict[str, Object] = {}
    for pod in sorted(_pods_of(job, pods), key=lambda one: str(one["metadata"].get("creationTimestamp", ""))):
        latest[(pod["metadata"].get("labels") or {}).get("batch.kubernetes.io/job-completion-index", "")] = (
            pod
        )
    if any((pod.get("status") or {}).get("phase") == "Running" for pod in latest.values()):
        return None
    problems = (_problem_of(pod) for _, pod in sorted(latest.items()))
    return next((one for one in problems if one is not None), None)


def _pods_of(job: JobView, pods: Iterable[Object]) -> list[Object]:
    return [
        pod
        for pod in pods
        if any(owner["uid"] == job.uid for owner in pod["metadata"].get("ownerReferences") or ())
    ]


def _problem_of(pod: Object) -> Problem | None:
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
        if ended and ended.get("exitCode", 0) != 0:
            return read_termination(ended.get("message", ""), int(ended["exitCode"]))
        waiting = state.get("waiting") or {}
        if waiting.get("reason") in _STUCK:
            text = f"{waiting['reason']}: {waiting.get('message', '')}"
            return Problem(
                Reason.INGEST_FAILED, f"pod {pod['metadata']['name']} does not start: {text[:_LINE_LIMIT]}"
            )
    return _unschedulable(status)


def _unschedulable(status: Mapping[str, Any]) -> Problem | None:
    for one in status.get("conditions") or ():
        if (one["type"], one["status"], one.get("reason")) == ("PodScheduled", "False", "Unschedulable"):
            text = str(one.get("message", ""))
            absent = _CLAIM_ABSENT.search(text)
            if absent:
                return Problem(
                    Reason.SOURCE_MISSING, f"PersistentVolumeClaim {absent.group(1)} does not exist"
                )
            return Problem(Reason.PENDING, f"no node takes the pod: {text[:_LINE_LIMIT]}")
    return None


def read_termination(message: str, exit_code: int) -> Problem:
    """The termination message of a failed container; a log's tail where the process wrote none."""
    try:
        said = codec.loads(Termination, message)
        reason = Reason(said.reason) if said.reason in set(Reason) else Reason.INGEST_FAILED
        return Problem(reason, said.message)
    except InputError:
        lines = message.strip().splitlines()
        tail = f": {lines[-1][:_LINE_LIMIT]}" if lines else ""
        return Problem(Reason.INGEST_FAILED, f"the process ended with exit code {exit_code}{tail}")
