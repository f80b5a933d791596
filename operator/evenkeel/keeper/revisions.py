"""Whether the data topics of sealed datasets still hold what their revisions need.

Somebody may delete a data topic and make it again, or delete its records. Readers and loaders would find out when
they read; the keeper finds out at its next measurement: a topic has another id, or a log begins after, or ends
before, what the revision's location table names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from evenkeel import names
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Desired, DesiredDataset, Fault, Report
from evenkeel.domain.revision import Location
from evenkeel.errors import DataError, EvenkeelError
from evenkeel.format.manifest import decode_location
from evenkeel.kafka.answers import OffsetSpan, TopicPartition
from evenkeel.kafka.manifests import read_location
from evenkeel.keeper.measurement import Measurement
from evenkeel.reasons import Reason

log = logging.getLogger(__name__)
RETRY_SECONDS = 60.0
"""Pause after a manifest that could not be read."""


@dataclass(frozen=True, slots=True)
class Needed:
    """What a revision needs of its data topic."""

    topic: str
    topic_id: str
    offsets: Mapping[int, tuple[int, int]]
    """Partition -> first and last offset that the revision refers to."""


def build_needed(location: Location) -> Needed:
    """The bounds of a location table."""
    offsets: dict[int, tuple[int, int]] = {}
    for shard in location.shards:
        if shard.offsets:
            first, last = offsets.get(shard.partition, (shard.offsets[0], shard.offsets[-1]))
            offsets[shard.partition] = min(first, shard.offsets[0]), max(last, shard.offsets[-1])
    return Needed(location.topic, location.topic_id, offsets)


def find_loss(needed: Needed, measurement: Measurement) -> str | None:
    """What of a revision is gone, as a sentence; None: nothing, as far as it was measured.

    A topic that is not there is said by `plan_topics`.
    """
    topic = measurement.topics.get(needed.topic)
    if topic is None:
        return None
    if topic.topic_id != needed.topic_id:
        return (
            f"topic {topic.name} was deleted and made again: it has id {topic.topic_id}, the revision was "
            f"written to {needed.topic_id}"
        )
    return _find_gap(needed, measurement.spans())


def _find_gap(needed: Needed, spans: Mapping[TopicPartition, OffsetSpan]) -> str | None:
    for partition, (first, last) in sorted(needed.offsets.items()):
        span = spans.get((needed.topic, partition))
        if span is None:
            continue  # its leader does not answer: unknown, not lost
        where = f"partition {partition} of topic {needed.topic}"
        if span.start > first:
            return f"{where} begins at offset {span.start}, the revision needs {first} and on"
        if span.end <= last:
            return f"{where} ends at offset {span.end}, the revision needs up to {last}"
    return None


class Revisions:
    """What the sealed revisions of all datasets need, read once each from their manifests.

    Args:
        monotonic: clock of pauses, seconds.
        read: reads a location's bytes by connection, manifest topic and digest.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        read: Callable[[Connection, str, str], bytes] = read_location,
    ) -> None:
        self._monotonic = monotonic
        self._read = read
        self._needed: dict[tuple[str, str], Needed] = {}
        self._broken: dict[tuple[str, str], Fault] = {}
        self._retry_at: dict[tuple[str, str], float] = {}

    def check(self, desired: Desired, report: Report | None, measurement: Measurement) -> list[Fault]:
        """Losses of the sealed datasets. Reads one manifest that is not known yet, at most.

        Args:
            desired: datasets that are wanted.
            report: the last one: it names the sealed revisions.
            measurement: as gathered.
        """
        seals = {one.uid: one.seal.digest for one in report.datasets if one.seal} if report else {}
        sealed = [(dataset, seals[dataset.uid]) for dataset in desired.datasets if dataset.uid in seals]
        self._forget({(dataset.uid, digest) for dataset, digest in sealed})
        self._learn(desired.connection, sealed, measurement)
        found = []
        for dataset, digest in sealed:
            key = dataset.uid, digest
            if key in self._broken:
                found.append(self._broken[key])
            needed = self._needed.get(key)
            loss = find_loss(needed, measurement) if needed is not None else None
            if loss is not None:
                found.append(_build_fault(dataset, loss))
        return found

    def _learn(
        self, connection: Connection, sealed: Iterable[tuple[DesiredDataset, str]], measurement: Measurement
    ) -> None:
        now = self._monotonic()
        for dataset, digest in sealed:
            key, topic = (dataset.uid, digest), names.dataset_topic(dataset.uid, "manifest")
            if key in self._needed or topic not in measurement.topics or now < self._retry_at.get(key, now):
                continue
            try:
                location = decode_location(self._read(connection, topic, digest))
                self._needed[key] = build_needed(location)
                self._broken.pop(key, None)
            except DataError as error:
                self._broken[key] = _build_fault(dataset, error.message, error.reason)
                self._retry_at[key] = now + RETRY_SECONDS
            except EvenkeelError as error:
                log.warning("manifest not read dataset=%s why=%s", dataset.uid, error.message)
                self._retry_at[key] = now + RETRY_SECONDS
            return

    def _forget(self, wanted: set[tuple[str, str]]) -> None:
        self._needed = {key: needed for key, needed in self._needed.items() if key in wanted}
        self._broken = {key: fault for key, fault in self._broken.items() if key in wanted}
        self._retry_at = {key: at for key, at in self._retry_at.items() if key in wanted}


def _build_fault(dataset: DesiredDataset, what: str, reason: Reason = Reason.DATA_LOST) -> Fault:
    message = f"TrainingDataset {dataset.name}: {what}"
    return Fault(reason, message, f"dataset/{dataset.uid}")
