"""A producer that dies at a random moment: every record of the source is in the revision, once."""

from __future__ import annotations

import random

import pytest

from e2e.demo import data
from e2e.scenarios import kafka, nodes
from e2e.scenarios.conftest import Demo
from e2e.scenarios.ingests import TooLateError, attempts, read_topic, remove, wait_written
from e2e.scenarios.user import DATASET, Object, User, build_dataset
from evenkeel.domain.journal import JournalState

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
WORKERS = 2
SECONDS = 300
# Small messages make the ingest last; five more runs, in more ways, stand in integration/test_ingest.py.
RUNS = [("16Ki", 20261), ("48Ki", 20262)]


@pytest.mark.timeout(1200, func_only=True)
@pytest.mark.parametrize(("message_bytes", "seed"), RUNS)
def test_a_killed_producer_loses_and_repeats_nothing(
    demo: Demo, vision: User, message_bytes: str, seed: int
) -> None:
    dice = random.Random(seed)
    for attempt, share in attempts(dice.uniform(0.02, 0.7)):
        name = f"killed-{seed}-{attempt}"
        ingest = {"parallelism": WORKERS, "messageBytes": message_bytes, "onBadRecord": "Quarantine"}
        vision.apply(build_dataset(name, "clipart", ingest=ingest))
        killed = kill_producer(demo, vision, name, share, dice)
        vision.wait_for("Ready", DATASET, name, SECONDS)
        found = kafka.read_revision(demo.host_bootstrap, vision.get(DATASET, name))
        assert sorted(found) == sorted(kafka.list_images(data.ensure_clipart()))
        remove(demo, vision, name)
        if killed:
            return


def kill_producer(demo: Demo, user: User, name: str, share: float, dice: random.Random) -> bool:
    """Kill one that has work once this share is written; False where the ingest was over too soon."""
    topic = read_topic(user, name, "journal")
    try:
        state = wait_written(demo.host_bootstrap, topic, share)
        pod = choose_producer(user, name, state, dice)
    except TooLateError:
        return False
    return nodes.kill(pod, "producer") == 1


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
    if not pods:
        raise TooLateError
    return dice.choice(pods)
