from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from evenkeel import names
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import DatasetReport, Desired, DesiredDataset, Owner, Report, SealReport
from evenkeel.domain.revision import Location, ShardLocation
from evenkeel.errors import DataError, EvenkeelError, RetryableError
from evenkeel.format.manifest import encode_location
from evenkeel.kafka.answers import OffsetSpan, TopicAnswer
from evenkeel.keeper.measurement import Measurement
from evenkeel.keeper.revisions import RETRY_SECONDS, Needed, Revisions, build_needed, find_loss
from evenkeel.reasons import Reason
from tests.support.measurements import build_measurement

DATASET = DesiredDataset("u1", "ns/pictures", data_topic="t", follow=False)
LOCATION = Location(
    "d1", "cluster", "t", "topic-id", (ShardLocation(0, 0, (10, 20)), ShardLocation(1, 0, (21, 99)))
)
DESIRED = Desired(Owner("i", "u", "n"), Connection(("a:1",)), datasets=(DATASET,))
SEALED = Report("", datasets=(DatasetReport("u1", topics_ready=True, seal=SealReport("d1", 1, 2, 3, 0, 4)),))


def measure(start: int = 0, end: int = 100, topic_id: str = "topic-id") -> Measurement:
    found = build_measurement(offsets={1: {("t", 0): OffsetSpan(start, end)}})
    manifest = names.dataset_topic("u1", "manifest")
    topics = {
        "t": dataclasses.replace(found.topics["t"], topic_id=topic_id),
        manifest: TopicAnswer(manifest, "m", internal=False, partitions=()),
    }
    return dataclasses.replace(found, topics=topics)


class Manifests:
    """A manifest topic that counts how often it is read."""

    def __init__(self, *answers: bytes | EvenkeelError) -> None:
        self.answers = list(answers)
        self.reads = 0

    def __call__(self, connection: Connection, topic: str, digest: str) -> bytes:
        del connection
        assert (topic, digest) == (names.dataset_topic("u1", "manifest"), "d1")
        self.reads += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, EvenkeelError):
            raise answer
        return answer


def watch(manifests: Manifests, monotonic: Callable[[], float] = lambda: 0.0) -> Revisions:
    return Revisions(monotonic, manifests)


def test_the_bounds_of_a_location_are_what_is_needed() -> None:
    assert build_needed(LOCATION) == Needed("t", "topic-id", {0: (10, 99)})


@pytest.mark.parametrize(
    ("measurement", "told"),
    [
        (measure(), None),
        (measure(start=10), None),
        (measure(start=11), "begins at offset 11, the revision needs 10"),
        (measure(end=99), "ends at offset 99, the revision needs up to 99"),
        (measure(topic_id="other"), "was deleted and made again"),
        (dataclasses.replace(measure(), offsets={1: RetryableError("no answer")}), None),
        (dataclasses.replace(measure(), topics={}), None),
    ],
)
def test_what_is_gone_is_told(measurement: Measurement, told: str | None) -> None:
    found = find_loss(build_needed(LOCATION), measurement)
    assert found is None if told is None else found is not None and told in found


def test_a_manifest_is_read_once() -> None:
    manifests = Manifests(encode_location(LOCATION))
    revisions = watch(manifests)
    assert revisions.check(DESIRED, SEALED, measure()) == []
    (fault,) = revisions.check(DESIRED, SEALED, measure(topic_id="other"))
    assert (fault.reason, fault.subject) == (Reason.DATA_LOST, "dataset/u1")
    assert fault.message.startswith("TrainingDataset ns/pictures: topic t was deleted")
    assert manifests.reads == 1


def test_what_is_not_sealed_has_nothing_to_lose() -> None:
    manifests = Manifests(encode_location(LOCATION))
    assert watch(manifests).check(DESIRED, None, measure(topic_id="other")) == []
    assert manifests.reads == 0


def test_a_manifest_that_is_gone_is_a_loss_until_it_can_be_read() -> None:
    now = [0.0]
    lost = DataError("no complete manifest", reason=Reason.DATA_LOST)
    manifests = Manifests(lost, encode_location(LOCATION))
    revisions = watch(manifests, lambda: now[0])
    for _ in range(2):
        (fault,) = revisions.check(DESIRED, SEALED, measure())
        assert fault.reason is Reason.DATA_LOST
    assert manifests.reads == 1
    now[0] = RETRY_SECONDS
    assert revisions.check(DESIRED, SEALED, measure()) == []


def test_a_kafka_that_does_not_answer_is_no_loss() -> None:
    manifests = Manifests(RetryableError("no answer"))
    revisions = watch(manifests)
    assert revisions.check(DESIRED, SEALED, measure()) == []
    assert revisions.check(DESIRED, SEALED, measure()) == []
    assert manifests.reads == 1


def test_a_dataset_that_goes_is_forgotten() -> None:
    manifests = Manifests(encode_location(LOCATION))
    revisions = watch(manifests)
    revisions.check(DESIRED, SEALED, measure())
    assert revisions.check(dataclasses.replace(DESIRED, datasets=()), SEALED, measure(topic_id="x")) == []
    revisions.check(DESIRED, SEALED, measure())
    assert manifests.reads == 2
