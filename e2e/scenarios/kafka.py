"""The demo's Kafka as this machine sees it: topics, claims, route tables, and the records of a revision."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from e2e.scenarios.user import Object
from evenkeel import names
from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.journal import JournalState, parse
from evenkeel.domain.revision import Location, Manifest
from evenkeel.domain.table import RouteTable
from evenkeel.format.arrow import decode
from evenkeel.format.manifest import decode_location, decode_manifest
from evenkeel.kafka.clients.reader import LogRecord, PartitionReader
from evenkeel.kafka.manifests import read_manifest
from evenkeel.keeper.claim import ClaimRecord, find_claim
from integration.processes import wait_until

ANSWER_SECONDS = 90.0
"""The client's own limit of 60 s says what is wrong; this one only ends the wait."""
KNOWN_SECONDS = 60.0
"""Brokers learn of a topic that went one after the other."""
Records = list[tuple[str, str, bytes]]
"""(`_id`, path, content) of every record of a revision, as often as it is there."""


def connect(bootstrap: str) -> Connection:
    """How to reach the brokers."""
    return Connection(tuple(bootstrap.split(",")))


def list_topics(bootstrap: str) -> dict[str, int]:
    """Topic -> number of its partitions."""
    topics = _admin(bootstrap).list_topics(timeout=30).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def create_topic(bootstrap: str, name: str, partitions: int, replication_factor: int = 2) -> None:
    """As somebody without Evenkeel would."""
    wanted = [NewTopic(name, num_partitions=partitions, replication_factor=replication_factor)]
    admin = _admin(bootstrap)  # the answers end with it
    for future in admin.create_topics(wanted).values():
        future.result(ANSWER_SECONDS)


def delete_topics(bootstrap: str, wanted: list[str]) -> None:
    """Free the disks of what a scenario wrote: Evenkeel never deletes a dataset's records."""
    admin = _admin(bootstrap)
    for future in admin.delete_topics(wanted).values():
        future.result(ANSWER_SECONDS)


def wait_topic_gone(bootstrap: str, name: str) -> None:
    """Wait until no broker that is asked lists the topic any more."""
    wait_until(
        f"topic {name} is gone",
        lambda: name not in list_topics(bootstrap),
        seconds=KNOWN_SECONDS,
        every=0.2,
    )


def read_claim(bootstrap: str) -> ClaimRecord:
    """Who owns the Kafka cluster."""
    found = find_claim(_read(bootstrap, names.CONTROL_TOPIC))
    assert found is not None
    return found.record


def read_tables(bootstrap: str) -> list[RouteTable]:
    """Every route table that is still in the log."""
    records = _read(bootstrap, names.ROUTES_TOPIC)
    return [codec.loads(RouteTable, record.value) for record in records if record.value]


def follow_journal(bootstrap: str, topic: str) -> Iterator[JournalState]:
    """The journal as it grows: its state after every look, without end."""
    state = JournalState()
    with PartitionReader(connect(bootstrap), topic) as reader:
        tail = reader.tail(0)
        while True:
            for record in tail.poll(0.1):
                state.apply(record.offset, parse(record.value))
            yield state


def read_journal(bootstrap: str, topic: str) -> JournalState:
    """The journal up to its end."""
    state = JournalState()
    for record in _read(bootstrap, topic):
        state.apply(record.offset, parse(record.value))
    return state


def read_revision(bootstrap: str, dataset: Object) -> Records:
    """Every record of the sealed revision of an ImageFolder dataset, read from Kafka by its manifest."""
    status = dataset["status"]
    digest = status["revision"]["digest"].removeprefix("sha256:")
    content, stored = read_manifest(connect(bootstrap), status["topics"]["manifest"], digest)
    manifest, location = decode_manifest(content, digest), decode_location(stored)
    schema = base64.b64decode(manifest.schema)
    records: Records = []
    for message in _read_messages(bootstrap, manifest, location):
        for row in decode(schema, message).to_pylist():
            records.append((row["_id"], row["image"]["path"], row["image"]["bytes"]))
    return records


def list_images(folder: Path) -> Records:
    """What the revision of an ImageFolder should hold: numbers are positions in the sorted listing."""
    paths = sorted(path.relative_to(folder) for path in folder.glob("*/*") if path.is_file())
    by_bytes = sorted(paths, key=bytes)
    return [(f"{i}.0", str(path), (folder / path).read_bytes()) for i, path in enumerate(by_bytes)]


def _read_messages(bootstrap: str, manifest: Manifest, location: Location) -> Iterator[bytes]:
    """Values at the offsets of the location, each partition read once."""
    for shard, place in zip(manifest.shards, location.shards, strict=True):
        assert shard.index == place.index
        wanted = set(place.offsets)
        assert len(wanted) == len(shard.messages)
        with PartitionReader(connect(bootstrap), location.topic, place.partition) as reader:
            found = reader.read(min(wanted), max(wanted) + 1)
            yield from (record.value for record in found if record.offset in wanted)


def _read(bootstrap: str, topic: str) -> list[LogRecord]:
    with PartitionReader(connect(bootstrap), topic) as reader:
        first, end = reader.bounds()
        return list(reader.read(first, end))


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
