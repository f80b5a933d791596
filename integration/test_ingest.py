"""Producer and sealer as processes against real brokers: killed, starved, lied to; every record once."""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from evenkeel import names
from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import DesiredDataset
from evenkeel.domain.job import (
    BadRecordPolicy,
    DatasetRef,
    JobSpec,
    ProducerSettings,
    Role,
    SealerSettings,
    SourceFormat,
)
from evenkeel.domain.journal import JournalState, Lost, Reopen, encode, parse
from evenkeel.format.manifest import decode_location, decode_manifest
from evenkeel.format.shards import message_digest, shard_file
from evenkeel.kafka.clients.append import Appender
from evenkeel.kafka.clients.reader import PartitionReader
from evenkeel.kafka.manifests import read_manifest
from evenkeel.kafka.topics import TopicSpec, dataset_topics
from integration.conftest import StartKafka
from integration.kafka.clients import create_topic, grow_topic, remake_topic
from integration.kafka.cluster import KafkaCluster
from integration.kafka.settings import QUICK_DEATH
from integration.processes import wait_until

pytestmark = pytest.mark.timeout(300)  # rounds of processes, one after the other
ROOT = Path(__file__).resolve().parents[1]
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00"
CLASSES, PER_CLASS = 8, 60
TRIES = 4
"""An ingest of seconds may be over before a busy machine has killed its producer; then another one is begun."""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """480 images of up to 60 KiB, about 14 MB, in folders by class."""
    root, dice = tmp_path_factory.mktemp("images"), random.Random(1)
    for label in range(CLASSES):
        folder = root / f"class-{label}"
        folder.mkdir()
        for number in range(PER_CLASS):
            (folder / f"{number:04d}.png").write_bytes(PNG + dice.randbytes(dice.randint(100, 60_000)))
    return root


@dataclasses.dataclass
class Ingest:
    """A dataset on a cluster, and its jobs as processes."""

    cluster: KafkaCluster
    place: Path
    dataset: DatasetRef
    settings: ProducerSettings

    @property
    def connection(self) -> Connection:
        return Connection(tuple(self.cluster.bootstrap.split(",")))

    def spec(self, role: Role) -> JobSpec:
        producer = self.settings if role is Role.PRODUCER else None
        sealer = SealerSettings(shard_bytes=1_000_000) if role is Role.SEALER else None
        return JobSpec(role, self.dataset, self.connection, producer=producer, sealer=sealer)

    def start(self, role: Role, index: int = 0) -> subprocess.Popen[bytes]:
        termination = self.place / f"{role.value}-{index}"
        termination.unlink(missing_ok=True)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "operator"),
            "JOB_COMPLETION_INDEX": str(index),
            names.JOB_VARIABLE: codec.dumps(self.spec(role)),
        }
        script = (
            f"import sys; from evenkeel.ingest.main import {role.value.lower()}_main as main; "
            "sys.exit(main(sys.argv[1:]))"
        )
        with (self.place / f"{role.value}-{index}.log").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-c", script, "--termination-log", str(termination)],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def run(self, role: Role, workers: int = 1, seconds: float = 150) -> list[int]:
        started = [self.start(role, index) for index in range(workers)]
        try:
            return [process.wait(seconds) for process in started]
        finally:
            for process in started:
                process.kill()

    def termination(self, role: Role, index: int = 0) -> tuple[str, str]:
        found = json.loads((self.place / f"{role.value}-{index}").read_text())
        return found["reason"], found["message"]

    def output(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.place.glob("*.log")))

    def state(self) -> JournalState:
        state = JournalState()
        with PartitionReader(self.connection, self.dataset.journal_topic) as reader:
            for record in reader.read(0):
                state.apply(record.offset, parse(record.value))
        return state


@pytest.fixture
def ingest(kafka: KafkaCluster, images: Path, tmp_path: Path) -> Ingest:
    return prepare(kafka, images, tmp_path)


def plan_topics(uid: str) -> tuple[TopicSpec, ...]:
    return dataset_topics(DesiredDataset(uid, "team/pictures", partitions=6), 3)


def place(topic: TopicSpec) -> list[list[int]]:
    return [[1 + (i + j) % 3 for j in range(topic.replication_factor)] for i in range(topic.partitions)]


def prepare(cluster: KafkaCluster, source: Path, folder: Path, **changes: object) -> Ingest:
    uid = secrets.token_hex(8)
    topics = {role: names.dataset_topic(uid, role) for role in ("data", "journal", "manifest", "rejected")}
    dataset = DatasetRef(uid, "team", "pictures", *(topics[role] for role in topics))
    for topic in plan_topics(uid):
        create_topic(cluster.client_config(), topic.name, place(topic), **topic.config)
    settings = ProducerSettings(
        source_path=str(source),
        format=SourceFormat.IMAGE_FOLDER,
        seed=11,
        message_bytes=100_000,
        slice_bytes=1_000_000,
        workers=2,
        routes_wait_seconds=0,
    )
    folder.mkdir(exist_ok=True)
    return Ingest(cluster, folder, dataset, dataclasses.replace(settings, **changes))  # type: ignore[arg-type]


def read_revision(ingest: Ingest) -> list[dict[str, object]]:
    """Every record of the sealed revision, its shards rebuilt from Kafka as the loader does."""
    seal = ingest.state().seal
    assert seal is not None, ingest.output()
    content, stored = read_manifest(ingest.connection, ingest.dataset.manifest_topic, seal.digest)
    manifest, location = decode_manifest(content, seal.digest), decode_location(stored)
    schema = base64.b64decode(manifest.schema)
    rows: list[dict[str, object]] = []
    for shard, where in zip(manifest.shards, location.shards, strict=True):
        with PartitionReader(ingest.connection, location.topic, where.partition) as reader:
            wanted = set(where.offsets)
            records = reader.read(where.offsets[0], where.offsets[-1] + 1)
            values = [record.value for record in records if record.offset in wanted]
        data = b"".join(shard_file(schema, values))
        assert message_digest(data) == shard.file_digest
        assert len(data) == shard.file_bytes
        rows += pa.ipc.open_stream(pa.py_buffer(data)).read_all().to_pylist()
    assert len(rows) == seal.records
    return rows


def check_source(ingest: Ingest, source: Path, left_out: Sequence[Path] = ()) -> None:
    """The revision holds the source's bytes: every file that is not left out, once."""
    rows = read_revision(ingest)
    files = sorted(path for path in source.rglob("*.png") if path not in left_out)
    paths = [row["image"]["path"] for row in rows]  # type: ignore[index]
    assert sorted(paths) == [str(path.relative_to(source)) for path in files]  # type: ignore[type-var]
    assert len({row["_id"] for row in rows}) == len(rows)
    labels = {folder.name: label for label, folder in enumerate(sorted(source.iterdir()))}
    for row in rows:
        image = row["image"]
        assert (source / image["path"]).read_bytes() == image["bytes"]  # type: ignore[index]
        assert row["label"] == labels[image["path"].split("/")[0]]  # type: ignore[index]


def test_two_workers_ingest_every_image_once_and_mixed(ingest: Ingest, images: Path) -> None:
    assert ingest.run(Role.PRODUCER, workers=2) == [0, 0], ingest.output()
    assert ingest.run(Role.SEALER) == [0], ingest.output()
    check_source(ingest, images)
    state = ingest.state()
    assert state.plan is not None
    assert state.seal is not None
    assert state.planned_bytes == pytest.approx(state.seal.data_bytes, rel=0.02)
    assert "percent=100" in ingest.output()
    rows = read_revision(ingest)
    # A class-sorted folder read as it is gives long runs of one label.
    changes = sum(one["label"] != two["label"] for one, two in itertools.pairwise(rows))
    assert changes > 0.75 * len(rows)


def test_a_second_sealer_and_a_late_producer_change_nothing(ingest: Ingest) -> None:
    assert ingest.run(Role.PRODUCER, workers=2) == [0, 0]
    assert ingest.run(Role.SEALER) == [0]
    before = ingest.state()
    assert ingest.run(Role.SEALER) == [0]
    assert ingest.run(Role.PRODUCER) == [0]
    after = ingest.state()
    assert (after.seal, after.next_offset) == (before.seal, before.next_offset)


@pytest.mark.parametrize("seed", range(5))
def test_a_worker_killed_at_any_moment_loses_and_repeats_nothing(
    kafka: KafkaCluster, images: Path, tmp_path: Path, seed: int
) -> None:
    # Some of the ingest is acknowledged, or (seed 0) the plan is not made yet.
    share = random.Random(seed).uniform(0.05, 0.8) if seed else 0.0
    for attempt in range(TRIES):
        ingest = prepare(kafka, images, tmp_path / str(attempt))
        killed = run_with_a_kill(ingest, seed % 2, share / 2**attempt)
        assert ingest.run(Role.SEALER) == [0], ingest.output()
        check_source(ingest, images)
        if killed:
            return
    pytest.fail(f"{TRIES} ingests were over before a worker could be killed")


def run_with_a_kill(ingest: Ingest, victim: int, share: float) -> bool:
    """Two workers, of which one is killed and started again; False where it was over before it was killed."""
    workers = {index: ingest.start(Role.PRODUCER, index) for index in (0, 1)}
    try:
        if share:
            wait_until(
                "the moment to kill",
                lambda: ingest.state().acknowledged_records > share * CLASSES * PER_CLASS,
                seconds=60,
                every=0.02,
            )
        workers[victim].kill()
        ended = workers[victim].wait(10)
        assert ended in (-signal.SIGKILL, 0), ingest.output()
        workers[victim] = ingest.start(Role.PRODUCER, victim)
        assert [process.wait(150) for process in workers.values()] == [0, 0], ingest.output()
    finally:
        for process in workers.values():
            process.kill()
    return ended == -signal.SIGKILL


def test_a_broker_that_dies_and_comes_back_costs_no_record(
    kafka_cluster: StartKafka, images: Path, tmp_path: Path
) -> None:
    cluster = kafka_cluster(properties=QUICK_DEATH)
    ingest = prepare(cluster, images, tmp_path)
    workers = [ingest.start(Role.PRODUCER, index) for index in (0, 1)]
    try:
        wait_until(
            "a part of the ingest", lambda: ingest.state().acknowledged_records > 60, seconds=60, every=0.02
        )
        cluster.kill(1)
        cluster.wait_registered()
        cluster.start_broker(1)
        assert [process.wait(120) for process in workers] == [0, 0], ingest.output()
    finally:
        for process in workers:
            process.kill()
    assert ingest.run(Role.SEALER) == [0], ingest.output()
    check_source(ingest, images)


def remake(ingest: Ingest, role: str) -> None:
    """What somebody's deletion and the keeper after it leave."""
    (topic,) = (topic for topic in plan_topics(ingest.dataset.uid) if topic.name.endswith(role))
    remake_topic(ingest.cluster.client_config(), topic.name, place(topic), **topic.config)


def grow(ingest: Ingest, role: str) -> None:
    """More partitions, as a changed TrainingDataset asks for them."""
    grow_topic(ingest.cluster.client_config(), names.dataset_topic(ingest.dataset.uid, role), 9)


@pytest.mark.parametrize(
    ("disturb", "role"),
    [(remake, "data"), (remake, "journal"), (grow, "data")],
    ids=["remade-data", "remade-journal", "grown-data"],
)
def test_topics_that_change_under_way_cost_rounds_never_records(
    ingest: Ingest, images: Path, disturb: Callable[[Ingest, str], None], role: str
) -> None:
    workers = [ingest.start(Role.PRODUCER, index) for index in (0, 1)]
    try:
        wait_until(
            "a part of the ingest", lambda: ingest.state().acknowledged_records > 60, seconds=60, every=0.02
        )
        disturb(ingest, role)
        for process in workers:
            process.wait(120)
    finally:
        for process in workers:
            process.kill()
    for _ in range(4):  # what the operator does: producers and a sealer for each round
        ingest.run(Role.PRODUCER, workers=2)
        ingest.run(Role.SEALER)
        if ingest.state().seal is not None:
            break
    check_source(ingest, images)


def test_sigterm_gives_the_slice_back(kafka: KafkaCluster, images: Path, tmp_path: Path) -> None:
    for attempt in range(TRIES):
        ingest = prepare(kafka, images, tmp_path / str(attempt))
        if run_with_a_stop(ingest):
            break
    else:
        pytest.fail(f"{TRIES} ingests were over before their worker could be stopped")
    assert not ingest.state().claims, "another worker need not wait"
    assert ingest.run(Role.SEALER) == [0], "gaps are no failure of the sealer"
    assert ingest.state().reopened_at is not None
    assert ingest.run(Role.PRODUCER) == [0]
    assert ingest.run(Role.SEALER) == [0]
    check_source(ingest, images)


def run_with_a_stop(ingest: Ingest) -> bool:
    """One worker that is told to end under way; False where it was over before that."""
    process = ingest.start(Role.PRODUCER)
    try:
        wait_until("a part of the ingest", lambda: ingest.state().acknowledged_records > 0, every=0.02)
        process.terminate()
        ended = process.wait(60)
    finally:
        process.kill()
    assert ended in (128 + signal.SIGTERM, 0), ingest.output()
    return ended != 0


def test_bad_images_are_refused_by_name_or_put_aside(kafka: KafkaCluster, tmp_path: Path) -> None:
    source = tmp_path / "source"
    folder = source / "cats"
    folder.mkdir(parents=True)
    for number in range(20):
        (folder / f"{number:02d}.png").write_bytes(PNG + bytes([number]) * 50)
    empty, text = folder / "07.png", folder / "11.png"
    empty.write_bytes(b"")
    text.write_bytes(b"this is no image")

    strict = prepare(kafka, source, tmp_path / "strict")
    began = time.monotonic()
    assert strict.run(Role.PRODUCER) == [1]
    assert time.monotonic() - began < 30
    reason, message = strict.termination(Role.PRODUCER)
    assert reason == "BadRecord"
    assert "cats/07.png" in message

    lenient = prepare(kafka, source, tmp_path / "lenient", on_bad_record=BadRecordPolicy.QUARANTINE)
    assert lenient.run(Role.PRODUCER) == [0], lenient.output()
    assert lenient.run(Role.SEALER) == [0], lenient.output()
    check_source(lenient, source, left_out=[empty, text])
    seal = lenient.state().seal
    assert seal is not None
    assert (seal.records, seal.rejected) == (18, 2)
    with PartitionReader(lenient.connection, lenient.dataset.rejected_topic) as reader:
        told = {record.key: json.loads(record.value) for record in reader.read(0)}
    assert set(told) == {b"7.0", b"11.0"}
    assert told[b"7.0"]["reason"] == "BadRecord"


@pytest.mark.parametrize(("folder", "expected"), [("", "SourceEmpty"), ("not-there", "SourceMissing")])
def test_a_source_with_nothing_in_it_says_so(
    kafka: KafkaCluster, tmp_path: Path, folder: str, expected: str
) -> None:
    (tmp_path / "source").mkdir()
    ingest = prepare(kafka, tmp_path / "source" / folder, tmp_path / "jobs")
    assert ingest.run(Role.PRODUCER) == [1]
    reason, message = ingest.termination(Role.PRODUCER)
    assert reason == expected
    assert str(tmp_path / "source" / folder) in message


def test_a_source_that_changed_under_way_is_refused(kafka: KafkaCluster, tmp_path: Path) -> None:
    source = tmp_path / "source" / "a"
    source.mkdir(parents=True)
    (source / "1.png").write_bytes(PNG + b"1")
    ingest = prepare(kafka, source.parent, tmp_path / "jobs")
    worker = ingest.run(Role.PRODUCER)
    assert worker == [0]
    # A sealer that finds a gap asks for another round; by then the source is another one.
    with Appender(ingest.connection) as appender:
        appender.append(ingest.dataset.journal_topic, encode(Reopen(1, (0,), (Lost(0, 0),))), partition=0)
    (source / "2.png").write_bytes(PNG + b"2")
    assert ingest.run(Role.PRODUCER) == [1]
    assert ingest.termination(Role.PRODUCER)[0] == "SourceChanged"


def test_records_above_a_mebibyte_pass_and_those_above_the_limit_do_not(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    source = tmp_path / "source" / "a"
    source.mkdir(parents=True)
    (source / "1.png").write_bytes(PNG + random.Random(2).randbytes(5_000_000))
    (source / "2.png").write_bytes(PNG)
    ingest = prepare(kafka, source.parent, tmp_path / "jobs")
    assert ingest.run(Role.PRODUCER) == [0], ingest.output()
    assert ingest.run(Role.SEALER) == [0], ingest.output()
    check_source(ingest, source.parent)
    small = prepare(kafka, source.parent, tmp_path / "small", max_record_bytes=1_000_000)
    assert small.run(Role.PRODUCER) == [1]
    assert small.termination(Role.PRODUCER)[0] == "RecordTooLarge"
