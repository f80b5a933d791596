"""Ingests to interrupt: an ingest of seconds may be over before a busy machine has come to it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from e2e.scenarios import kafka
from e2e.scenarios.conftest import Demo
from e2e.scenarios.user import DATASET, Object, User
from evenkeel.domain.journal import JournalState
from integration.processes import wait_until

TRIES = 4
WRITTEN_SECONDS = 240.0
"""Until so much is written, pods and all: it ends the wait for what will never come."""
TOLD_SECONDS = 90


class TooLateError(AssertionError):
    """The ingest was over before anything could be done to it."""


def attempts(share: float) -> Iterator[tuple[int, float]]:
    """Number and share of one ingest after the other, each time half the share; fails the test after TRIES."""
    for attempt in range(TRIES):
        yield attempt, share / 2**attempt
    pytest.fail(f"{TRIES} ingests were over before anything could be done to them")


def begin(demo: Demo, user: User, dataset: Object, share: float) -> None:
    """Apply a dataset, and return while its ingest is under way with about this share written."""
    name = dataset["metadata"]["name"]
    for _, part in attempts(share):
        user.apply(dataset)
        try:
            wait_written(demo.host_bootstrap, read_topic(user, name, "journal"), part)
        except TooLateError:
            remove(demo, user, name)
        else:
            return


def read_topic(user: User, name: str, role: str) -> str:
    """Name of one of a dataset's topics, once it is told."""
    path = f"{{.status.topics.{role}}}"
    user.kubectl("wait", f"--for=jsonpath={path}", f"{DATASET}/{name}", f"--timeout={TOLD_SECONDS}s")
    return user.kubectl("get", DATASET, name, "--output", f"jsonpath={path}")


def wait_written(bootstrap: str, topic: str, share: float) -> JournalState:
    """Follow the journal until this share of the records is acknowledged, and not all -> its state then.

    Raises:
        TooLateError: all are.
    """
    deadline = time.monotonic() + WRITTEN_SECONDS
    wait_until(
        f"{topic} is made",
        lambda: topic in kafka.list_topics(bootstrap),
        seconds=WRITTEN_SECONDS,
        every=0.2,
    )
    for state in kafka.follow_journal(bootstrap, topic):
        assert time.monotonic() < deadline, f"{state.acknowledged_records} of {state.planned_records} records"
        if state.planned_records and state.acknowledged_records >= share * state.planned_records:
            if not state.open_slices():
                raise TooLateError
            return state
    raise AssertionError("a journal has no end")


def remove(demo: Demo, user: User, name: str) -> None:
    """The dataset, and its records from the disks."""
    topics = user.get(DATASET, name)["status"]["topics"]
    user.delete(DATASET, name)
    kafka.delete_topics(demo.host_bootstrap, list(topics.values()))
