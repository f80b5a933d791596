"""The Java partitioner in Kafka's own producer, against real brokers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

from evenkeel.domain import codec
from evenkeel.domain.heartbeat import RouteMode, RouterHeartbeat
from evenkeel.domain.table import RouteTable
from evenkeel.names import HEARTBEATS_TOPIC, ROUTES_TOPIC
from integration.conftest import unavailable
from integration.java_client import CLASS, JavaWriter, java_config, sasl_config
from integration.kafka import rights
from integration.kafka.clients import create_topic, grow_topic, read_all, unique
from integration.kafka.cluster import KafkaCluster
from integration.processes import wait_until
from scripts.provision import jars, partitioner
from scripts.provision.steps import StepFailed

KIB = 1024
SIX = [[1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2]]
UNEVEN = (400_000, 300_000, 150_000, 100_000, 50_000, 0)
SHARES = {0: 0.4, 1: 0.3, 2: 0.15, 3: 0.1, 4: 0.05}
INTERVAL = 15.0
"""How often the keeper measures by default, seconds: a new table must be followed within it."""


class Tables:
    """Publishes tables of one topic as the keeper does."""

    def __init__(self, config: dict[str, Any], topic: str) -> None:
        self.topic = topic
        self.epoch = 0
        self._writer = confluent_kafka.Producer(config)

    def write(self, value: bytes | None) -> None:
        self._writer.produce(ROUTES_TOPIC, value, self.topic, 0)
        assert self._writer.flush(20) == 0

    def publish(self, weights: tuple[int, ...], **changes: Any) -> RouteTable:
        self.epoch += 1
        fields = {"taken_at_ms": int(time.time() * 1000), "owner_epoch": 7, "epoch": self.epoch}
        table = RouteTable(topic=self.topic, weights=weights, **(fields | changes))
        self.write(codec.dumps(table).encode())
        return table


@pytest.fixture(scope="module")
def built() -> partitioner.Partitioner:
    try:
        return partitioner.ensure()
    except StepFailed as error:
        unavailable(str(error))


def ensure_topics(config: dict[str, Any]) -> None:
    found = confluent_kafka.admin.AdminClient(config).list_topics(timeout=30).topics
    for name in (ROUTES_TOPIC, HEARTBEATS_TOPIC):
        if name not in found:
            create_topic(config, name, [[1, 2, 3]])


@pytest.fixture
def tables(kafka: KafkaCluster) -> Tables:
    config = kafka.client_config()
    ensure_topics(config)
    return Tables(config, create_topic(config, unique("java"), SIX))


@pytest.fixture
def writer(
    kafka: KafkaCluster,
    kafka_home: jars.KafkaHome,
    built: partitioner.Partitioner,
    tables: Tables,
    tmp_path: Path,
) -> Iterator[JavaWriter]:
    config = java_config(
        kafka,
        partitioner_class=CLASS,
        evenkeel_topics=tables.topic,
        evenkeel_heartbeat_ms=200,
        client_id="java",
    )
    with JavaWriter(kafka_home, built, tmp_path, config) as made:
        yield made


def followed(writer: JavaWriter, table: RouteTable, seconds: float = 60) -> None:
    def now() -> bool:
        return writer.stats()["epochs"].get(table.topic) == table.epoch

    wait_until("the table is followed", now, seconds=seconds)


def in_mode(writer: JavaWriter, topic: str, mode: RouteMode) -> None:
    wait_until(f"mode {mode}", lambda: writer.stats()["modes"].get(topic) == mode)


def test_bytes_follow_the_weights_and_a_new_table_within_an_interval(
    tables: Tables, writer: JavaWriter
) -> None:
    followed(writer, tables.publish(UNEVEN))
    in_mode(writer, tables.topic, RouteMode.TABLE)
    assert writer.send(tables.topic, 60_000, KIB) == pytest.approx(SHARES, abs=0.02)
    began = time.monotonic()
    followed(writer, tables.publish((0, 0, 0, 0, 500_000, 500_000)), INTERVAL)
    assert time.monotonic() - began < INTERVAL
    shares = writer.send(tables.topic, 20_000, KIB)
    assert {partition: share for partition, share in shares.items() if share > 0.02} == pytest.approx(
        {4: 0.5, 5: 0.5}, abs=0.05
    )


def test_large_records_follow_the_weights_too(tables: Tables, writer: JavaWriter) -> None:
    followed(writer, tables.publish(UNEVEN))
    in_mode(writer, tables.topic, RouteMode.TABLE)
    assert writer.send(tables.topic, 200, 256 * KIB) == pytest.approx(SHARES, abs=0.02)


def test_keyed_records_go_where_kafka_puts_them(
    kafka: KafkaCluster,
    kafka_home: jars.KafkaHome,
    built: partitioner.Partitioner,
    tables: Tables,
    writer: JavaWriter,
    tmp_path: Path,
) -> None:
    followed(writer, tables.publish(UNEVEN))
    folder = tmp_path / "default"
    folder.mkdir()
    with JavaWriter(kafka_home, built, folder, java_config(kafka)) as default:
        assert writer.keyed(tables.topic, 500) == default.keyed(tables.topic, 500)


def test_corrupt_and_lower_tables_are_ignored(tables: Tables, writer: JavaWriter) -> None:
    good = tables.publish(UNEVEN)
    followed(writer, good)
    before = writer.stats()
    tables.write(b"\x00not a table")
    tables.publish((1_000_000,))
    tables.publish((900_000, 100_000, 0, 0, 0, 0), owner_epoch=6)
    tables.publish((0, 0, 0, 0, 0, 1_000_000), epoch=good.epoch)
    wait_until("the lower ones are seen", lambda: writer.stats()["lower"] == before["lower"] + 2)
    assert writer.stats()["invalid"] == before["invalid"] + 2
    assert writer.stats()["epochs"][tables.topic] == good.epoch
    assert writer.send(tables.topic, 200, 256 * KIB) == pytest.approx(SHARES, abs=0.03)


def test_a_stopped_partition_takes_nothing_and_a_withdrawn_table_steers_nothing(
    tables: Tables, writer: JavaWriter
) -> None:
    followed(writer, tables.publish(UNEVEN, stop=(0,)))
    in_mode(writer, tables.topic, RouteMode.TABLE)
    writer.send(tables.topic, 1, 256 * KIB)  # ends a run that began before the table
    assert 0 not in writer.send(tables.topic, 100, 256 * KIB)
    tables.write(None)
    in_mode(writer, tables.topic, RouteMode.DEFAULT)
    assert set(writer.send(tables.topic, 200, 256 * KIB)) == set(range(6))


def test_an_old_table_is_mixed_towards_uniform(tables: Tables, writer: JavaWriter) -> None:
    age = int(5.5 * 3_600_000)  # half way from one limit to ten
    taken = int(time.time() * 1000) - age
    followed(writer, tables.publish(UNEVEN, taken_at_ms=taken, valid_ms=3_600_000))
    in_mode(writer, tables.topic, RouteMode.MIXED)
    mixed = {partition: 0.5 * SHARES.get(partition, 0) + 0.5 / 6 for partition in range(6)}
    assert writer.send(tables.topic, 240, 256 * KIB) == pytest.approx(mixed, abs=0.03)


def test_a_topic_that_grows_is_followed(kafka: KafkaCluster, tables: Tables, writer: JavaWriter) -> None:
    followed(writer, tables.publish(UNEVEN))
    writer.send(tables.topic, 1, KIB)
    grow_topic(kafka.client_config(), tables.topic, 8)
    followed(writer, tables.publish((0, 0, 0, 0, 0, 0, 500_000, 500_000)))
    # The producer's own description of the topic may be up to metadata.max.age.ms old: until it knows the new
    # partitions, records go to any that it knows.
    assert sum(writer.send(tables.topic, 100, KIB).values()) == pytest.approx(1)


def test_heartbeats_tell_what_was_written(kafka: KafkaCluster, tables: Tables, writer: JavaWriter) -> None:
    table = tables.publish(UNEVEN)
    followed(writer, table)
    writer.send(tables.topic, 100, KIB)

    def newest() -> RouterHeartbeat | None:
        beats = [
            codec.loads(RouterHeartbeat, message.value() or b"")
            for message in read_all(kafka.client_config(), HEARTBEATS_TOPIC)
            if (message.key() or b"").startswith(b"java-")
        ]
        fitting = [beat for beat in beats if beat.topics.get(tables.topic)]
        whole = [beat for beat in fitting if beat.topics[tables.topic].bytes == 100 * KIB]
        return whole[-1] if whole else None

    beat = wait_until("a heartbeat with all bytes", newest)
    assert beat.topics[tables.topic].mode is RouteMode.TABLE
    assert (beat.topics[tables.topic].owner_epoch, beat.topics[tables.topic].epoch) == (7, table.epoch)


def test_the_rights_of_a_dataset_suffice(
    sasl_kafka: KafkaCluster, kafka_home: jars.KafkaHome, built: partitioner.Partitioner, tmp_path: Path
) -> None:
    own = sasl_kafka.client_config()
    ensure_topics(own)
    tables = Tables(own, create_topic(own, unique(f"{rights.DATASET_PREFIX}data"), SIX))
    config = java_config(sasl_kafka, partitioner_class=CLASS, evenkeel_heartbeat_ms=200, client_id="java")
    with JavaWriter(kafka_home, built, tmp_path, config | sasl_config(sasl_kafka, "dataset")) as writer:
        followed(writer, tables.publish(UNEVEN))
        in_mode(writer, tables.topic, RouteMode.TABLE)
        assert writer.send(tables.topic, 200, 256 * KIB) == pytest.approx(SHARES, abs=0.02)
        wait_until("a heartbeat", lambda: writer.stats()["heartbeatsSent"] > 0)


def test_a_missing_right_is_only_counted(
    sasl_kafka: KafkaCluster, kafka_home: jars.KafkaHome, built: partitioner.Partitioner, tmp_path: Path
) -> None:
    own = sasl_kafka.client_config()
    ensure_topics(own)
    topic = unique("open")
    # Granted first: a broker that knew the topic alone would fail the records for good.
    rights.grant(own, [rights._topic("nobody", confluent_kafka.admin.AclOperation.WRITE, topic)])
    create_topic(own, topic, SIX)
    config = java_config(sasl_kafka, partitioner_class=CLASS, evenkeel_heartbeat_ms=200, client_id="java")
    with JavaWriter(kafka_home, built, tmp_path, config | sasl_config(sasl_kafka, "nobody")) as writer:
        assert sum(writer.send(topic, 10, KIB).values()) == pytest.approx(1)
        wait_until("failed heartbeats", lambda: writer.stats()["heartbeatsFailed"] > 0)
        wait_until("failed reads", lambda: writer.stats()["readErrors"] > 0)
        wait_until("its cause", lambda: "Authorization" in writer.stats()["problem"])
        assert sum(writer.send(topic, 10, KIB).values()) == pytest.approx(1)
