"""What the API server says of the demo's objects, as frozen values. Pure but for `gather`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.cluster.lifecycle import Cluster
from e2e.demo.results import Dataset

KINDS = (
    "balancedclusters.evenkeel.dev",
    "balancedtopics.evenkeel.dev",
    "trainingdatasets.evenkeel.dev",
    "jobs.batch",
    "pods",
)
EVENTS = 15


@dataclass(frozen=True)
class Condition:
    """One condition of an object."""

    status: str
    reason: str
    message: str


@dataclass(frozen=True)
class Seen:
    """An object with its status."""

    kind: str
    namespace: str
    name: str
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def holds(self, condition: str) -> bool:
        """Whether a condition is True."""
        found = self.conditions.get(condition)
        return found is not None and found.status == "True"


@dataclass(frozen=True)
class State:
    """All objects at one time."""

    objects: tuple[Seen, ...] = ()

    def find(self, kind: str, name: str) -> Seen:
        """The object, or one without status where there is none yet."""
        return next(
            (item for item in self.objects if (item.kind, item.name) == (kind, name)), Seen(kind, "", name)
        )

    def pods_of(self, job: str) -> list[Seen]:
        """Pods of a Job."""
        return [
            item
            for item in self.objects
            if item.kind == "Pod" and item.labels.get("batch.kubernetes.io/job-name") == job
        ]


def gather(cluster: Cluster) -> State:
    """Ask the API server once.

    Raises:
        steps.StepFailed: it does not answer.
    """
    return parse(cluster.kubectl("get", ",".join(KINDS), "--all-namespaces", "--output", "json", timeout=60))


def parse(text: str) -> State:
    """A List as JSON -> State."""
    return State(tuple(_parse_object(item) for item in json.loads(text)["items"]))


def build_dataset(state: State, name: str, source_records: int) -> Dataset:
    """A dataset's facts for the page of results."""
    status = state.find("TrainingDataset", name).status
    revision, preload = status.get("revision", {}), status.get("preload", {})
    return Dataset(
        name=name,
        source_records=source_records,
        revision_records=revision.get("records", 0),
        rejected_records=revision.get("rejectedRecords", 0),
        digest=revision.get("digest", ""),
        wanted_nodes=preload.get("wantedNodes", 0),
        warm_nodes=preload.get("warmNodes", 0),
    )


def explain(state: State, events: str) -> str:
    """Why things are not as they should be: conditions that are not True, pods that do not run, last events."""
    lines = ["conditions:"]
    for item in state.objects:
        if item.kind != "Pod" and not item.holds("Ready") and not item.holds("Complete"):
            lines += [f"  {item.kind} {item.namespace}/{item.name}", *_tell(item)]
    lines.append("pods that are not running:")
    for item in state.objects:
        if item.kind == "Pod" and item.status.get("phase") not in ("Running", "Succeeded"):
            lines.append(f"  {item.namespace}/{item.name} {item.status.get('phase')} {_why(item)}")
    last = parse_events(events)[-EVENTS:]
    return "\n".join([*lines, "last events:", *(f"  {line}" for line in last)])


def parse_events(text: str) -> list[str]:
    """A List of events as JSON -> a line each, oldest first."""
    items = json.loads(text)["items"]

    def when(item: Mapping[str, Any]) -> str:
        return str(
            item.get("eventTime")
            or item.get("lastTimestamp")
            or item["metadata"].get("creationTimestamp", "")
        )

    return [
        f"{when(item)[:19]} {item.get('type')} {item['involvedObject'].get('kind')}/"
        f"{item['involvedObject'].get('name')} {item.get('reason')}: {' '.join(str(item.get('message')).split())}"
        for item in sorted(items, key=when)
    ]


def _parse_object(item: Mapping[str, Any]) -> Seen:
    status = item.get("status", {})
    found = {
        entry["type"]: Condition(entry["status"], entry.get("reason", ""), entry.get("message", ""))
        for entry in status.get("conditions", ())
    }
    meta = item["metadata"]
    return Seen(item["kind"], meta.get("namespace", ""), meta["name"], found, status, meta.get("labels", {}))


def _tell(item: Seen) -> list[str]:
    if not item.conditions:
        return ["    no conditions: nobody has looked at it yet"]
    return [
        f"    {name}={condition.status} {condition.reason}: {condition.message}"
        for name, condition in item.conditions.items()
    ]


def _why(pod: Seen) -> str:
    scheduled = pod.conditions.get("PodScheduled")
    if scheduled is not None and scheduled.status != "True":
        return f"{scheduled.reason}: {scheduled.message}"
    for container in pod.status.get("containerStatuses", ()):
        for state in ("waiting", "terminated"):
            if found := container.get("state", {}).get(state):
                return f"{found.get('reason', '')} {found.get('message', '')}".strip()
    return ""
