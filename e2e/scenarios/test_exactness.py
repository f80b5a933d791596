"""A producer that dies at a random moment: every record of the source is in the revision, once."""

from __future__ import annotations

import random
import time

import pytest

from e2e.demo import data
from e2e.scenarios import kafka, nodes
from e2e.scenarios.conftest import Demo
from e2e.scenarios.user import DATASET, Object, User, build_dataset
from evenkeel.domain.journal import JournalState

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
WORKERS = 2
SECONDS = 150
# Small messages make the ingest last; five more runs, in more ways, stand in integration/test_ingest.py.
RUNS = [("16Ki", 20261), ("48Ki", 20262)]


@pytest.mark.timeout(300, func_only=True)
@pytest.mark.parametrize(("message_bytes", "seed"), RUNS)
def test_a_killed_producer_loses_and_repeats_nothing(
    demo: Demo, vision: User, message_bytes: str, seed: int
) -> None:
    name, dice = f"killed-{seed}", random.Random(seed)
    ingest = {"parallelism": WORKERS, "messageBytes": message_bytes, "onBadRecord": "Quarantine"}
    vision.apply(build_dataset(name, "clipart", ingest=ingest))
    topic = read_topic(vision, name, "journal")
    state = wait_written(demo.host_bootstrap, topic, share=dice.uniform(0.02, 0.7))
    pod = choose_producer(vision, name, state, dice)
    assert nodes.kill(pod, "producer") == 1
    vision.wait_for("Ready", DATASET, name, SECONDS)
    found = kafka.read_revision(demo.host_bootstrap, vision.get(DATASET, name))
    assert sorted(found) == sorted(kafka.list_images(data.ensure_clipart()))
    remove(demo, vision, name)


def read_topic(user: User, name: str, role: str) -> str:
    path = f"{{.status.topics.{role}}}"
    user.kubectl("wait", f"--for=jsonpath={path}", f"{DATASET}/{name}", "--timeout=30s")
    return user.kubectl("get", DATASET, name, "--output", f"jsonpath={path}")


def wait_written(bootstrap: str, topic: str, share: float) -> JournalState:
    """Follow the journal until this share of the records is acknowledged, and not all -> its state then."""
    deadline = time.monotonic() + 60
    while topic not in kafka.list_topics(bootstrap):
        assert time.monotonic() < deadline, f"{topic} was not made"
    for state in kafka.follow_journal(bootstrap, topic):
        assert time.monotonic() < deadline, f"{state.acknowledged_records} of {state.planned_records} records"
        if state.planned_records and state.acknowledged_records >= share * state.planned_records:
            assert state.open_slices(), "the ingest was over before its producer could be killed"
            return state
    raise AssertionError("a journal has no end")


def choose_producer(user: User, dataset: str, state: JournalState, dice: random.Random) -> Object:
    """A running producer that has a slice in hand."""
    uid = user.get(DATASET, dataset)["metadata"]["uid"]
    selector = f"evenkeel.dev/dataset-uid={uid},app.kubernetes.io/component=producer"
    claims = (state.slices[number].claim for number in state.open_slices())
    busy = {str(claim.worker) for claim in claims if claim is not None}
    pods = [
        pod
        for pod in user.list("pods", selector)
        if pod["status"]["phase"] == "Running" and pod["metadata"]["labels"][INDEX_LABEL] in busy
    ]
    assert pods, "no producer is at work any more"
    return dice.choice(pods)


def remove(demo: Demo, user: User, name: str) -> None:
    """The dataset, and its records from the disks."""
    topics = user.get(DATASET, name)["status"]["topics"]
    user.delete(DATASET, name)
    kafka.delete_topics(demo.host_bootstrap, list(topics.values()))
