"""Wait for one goal after the other, showing what happens, and say what is stuck where one is not reached."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from e2e.cluster.lifecycle import Cluster
from e2e.demo import state as states
from e2e.demo.state import State
from e2e.demo.view import JOB, Picture, View, build_picture
from evenkeel.errors import EvenkeelError
from scripts.provision import steps

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Goal:
    """Something that must come true in time."""

    title: str
    reached: Callable[[State], bool]
    seconds: float


def holds(kind: str, name: str, *conditions: str) -> Callable[[State], bool]:
    """Whether an object has all these conditions."""
    return lambda state: all(state.find(kind, name).holds(condition) for condition in conditions)


# The seconds only end what will never come; how long each takes is on the page of results.
CLUSTER = Goal("cluster measured (BalancedCluster Ready)", holds("BalancedCluster", "demo", "Ready"), 300)
WORK: tuple[Goal, ...] = (
    Goal("topic as declared (BalancedTopic Ready)", holds("BalancedTopic", "events", "Ready"), 180),
    Goal("clipart ingested and sealed", holds("TrainingDataset", "clipart", "Ready", "Ingested"), 900),
    Goal("digits ingested and sealed", holds("TrainingDataset", "digits", "Ready", "Ingested"), 300),
    Goal("digits warm on the GPU nodes", holds("TrainingDataset", "digits", "Preloaded"), 300),
    Goal("training, two ranks", holds("Job", JOB, "Complete"), 600),
)


def follow(
    cluster: Cluster, goals: Sequence[Goal], view: View, read_fills: Callable[[], Mapping[int, float]]
) -> State:
    """Wait for each goal in turn -> the last state.

    Raises:
        steps.StepFailed: one is not reached in time, or the training failed; with conditions and events.
    """
    state = State()
    for goal in goals:
        with steps.step(goal.title):
            state = _wait(cluster, goal, view, read_fills)
    return state


def _wait(cluster: Cluster, goal: Goal, view: View, read_fills: Callable[[], Mapping[int, float]]) -> State:
    deadline = time.monotonic() + goal.seconds
    while True:
        state = states.gather(cluster)
        view.show(_picture(state, read_fills))
        if goal.reached(state):
            return state
        job = state.find("Job", JOB)
        if job.holds("Failed") or time.monotonic() > deadline:
            why = "the training failed" if job.holds("Failed") else f"not within {goal.seconds:.0f} s"
            events = cluster.kubectl("get", "events", "--all-namespaces", "--output", "json")
            raise steps.StepFailed(f"{goal.title}: {why}\n{states.explain(state, events)}")
        time.sleep(POLL_SECONDS)


def _picture(state: State, read_fills: Callable[[], Mapping[int, float]]) -> Picture:
    try:
        return build_picture(state, read_fills())
    except EvenkeelError:  # only for show; what counts is measured later
        return build_picture(state, {})
