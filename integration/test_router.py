"""The router against real brokers: tables published by the test steer bytes, and nothing else does."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from evenkeel.domain import codec
from evenkeel.domain.heartbeat import RouteMode, RouterHeartbeat
from evenkeel.domain.table import RouteTable
from evenkeel.names import HEARTBEATS_TOPIC, ROUTES_TOPIC
from evenkeel.router import Producer
from integration.conftest import StartKafka
from integration.kafka import rights
from integration.kafka.clients import create_topic, produce, read_all, unique
from integration.kafka.cluster import KafkaCluster
from integration.kafka.settings import QUICK_DEATH
from integration.processes import wait_until

KIB = 1024
SIX = [[1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2]]


class Keeper:
    """Publishes tables as the keeper does, with a claim of its own."""

    def __init__(self, config: dict[str, Any], owner_epoch: int) -> None:
        self.config = config
        self.owner_epoch = owner_epoch
        self.epoch = 0
        self._writer = confluent_kafka.Producer(config)

    def write(self, topic: str, value: bytes | None) -> None:
        self._writer.produce(ROUTES_TOPIC, value, topic, 0)
        assert self._writer.flush(20) == 0

    def publish(self, topic: str, weights: tuple[int, ...], **changes: Any) -> RouteTable:
        self.epoch += 1
        fields = {
            "taken_at_ms": int(time.time() * 1000),
            "owner_epoch": self.owner_epoch,
            "epoch": self.epoch,
        }
        table = RouteTable(topic=topic, weights=weights, **(fields | changes))
        self.write(topic, codec.dumps(table).encode())
        return table


def ensure_topics(config: dict[str, Any]) -> None:
    found = confluent_kafka.admin.AdminClient(config).list_topics(timeout=30).topics
    for name in (ROUTES_TOPIC, HEARTBEATS_TOPIC):
        if name not in found:
            create_topic(config, name, [[1, 2, 3]])


@pytest.fixture(scope="module")
def keeper(kafka: KafkaCluster) -> Keeper:
    ensure_topics(kafka.client_config())
    return Keeper(kafka.client_config(), owner_epoch=1_000_000)


@pytest.fixture
def topic(kafka: KafkaCluster) -> str:
    return create_topic(kafka.client_config(), unique("routed"), SIX)


@pytest.fixture
def producer(kafka: KafkaCluster, keeper: Keeper, topic: str) -> Iterator[Producer]:
    config = {
        **kafka.client_config(),
        "evenkeel.topics": [topic],
        "acks": "all",
        "evenkeel.heartbeat.ms": 200,
    }
    with Producer(config) as made:
        yield made


def deliver(producer: Producer, topic: str, count: int, size: int = 256 * KIB) -> dict[int, float]:
    """Shares of bytes by partition, as acknowledged."""
    volume: Counter[int] = Counter()

    def note(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        assert error is None, error
        volume[message.partition() or 0] += len(message.value() or b"")

    for _ in range(count):
        producer.produce(topic, b"x" * size, None, -1, note)
        producer.poll(0)
    assert producer.flush(60) == 0
    return {partition: size / sum(volume.values()) for partition, size in volume.items()}


def followed(producer: Producer, table: RouteTable, mode: RouteMode = RouteMode.TABLE) -> None:
    """Returns when it is in force: the epoch alone is told a moment before."""

    def now() -> bool:
        found = producer.router_stats().topics[table.topic]
        return (found.epoch, found.mode) == (table.epoch, mode)

    wait_until("the table is followed", now)


UNEVEN = (400_000, 300_000, 150_000, 100_000, 50_000, 0)
SHARES = {0: 0.4, 1: 0.3, 2: 0.15, 3: 0.1, 4: 0.05}


def test_a_table_published_before_the_start_is_found(kafka: KafkaCluster, keeper: Keeper, topic: str) -> None:
    keeper.publish(topic, UNEVEN, plan_offset=5)
    with Producer({**kafka.client_config(), "evenkeel.topics": topic}) as producer:
        assert producer.wait_for_table(topic, 5, 60)
        assert deliver(producer, topic, 120) == pytest.approx(SHARES, abs=0.02)


def test_tables_steer_bytes_and_a_new_one_takes_over(keeper: Keeper, topic: str, producer: Producer) -> None:
    assert not producer.wait_for_table(topic, 1, 0.2)
    keeper.publish(topic, UNEVEN, plan_offset=1)
    assert producer.wait_for_table(topic, 1, 60)
    assert deliver(producer, topic, 120) == pytest.approx(SHARES, abs=0.02)
    table = keeper.publish(topic, (0, 0, 0, 0, 500_000, 500_000))
    followed(producer, table)
    wait_until("its weights", lambda: _partitions(producer, topic) == {4, 5})
    assert deliver(producer, topic, 40) == pytest.approx({4: 0.5, 5: 0.5}, abs=0.05)


def test_small_records_follow_the_weights_too(keeper: Keeper, topic: str, producer: Producer) -> None:
    followed(producer, keeper.publish(topic, UNEVEN))
    shares = deliver(producer, topic, 40_000, KIB)
    assert shares == pytest.approx(SHARES, abs=0.06)


def test_corrupt_and_lower_tables_are_ignored(keeper: Keeper, topic: str, producer: Producer) -> None:
    good = keeper.publish(topic, UNEVEN)
    followed(producer, good)
    keeper.write(topic, b"\x00not a table")
    keeper.publish(topic, (1_000_000,))
    keeper.publish(topic, (900_000, 100_000, 0, 0, 0, 0), owner_epoch=keeper.owner_epoch - 1)
    keeper.publish(topic, (0, 0, 0, 0, 0, 1_000_000), epoch=good.epoch)
    wait_until("the router notices", lambda: producer.router_stats().tables.lower == 2)
    stats = producer.router_stats()
    assert stats.tables.invalid == 2
    assert stats.topics[topic].epoch == good.epoch
    assert deliver(producer, topic, 60) == pytest.approx(SHARES, abs=0.03)


def test_a_stale_table_is_mixed_towards_uniform(keeper: Keeper, topic: str, producer: Producer) -> None:
    hour = 3_600_000
    age = int(5.5 * hour)
    table = keeper.publish(
        topic, (1_000_000, 0, 0, 0, 0, 0), taken_at_ms=int(time.time() * 1000) - age, valid_ms=hour
    )
    followed(producer, table, RouteMode.MIXED)
    shares = deliver(producer, topic, 120)
    assert shares[0] == pytest.approx(0.5 + 0.5 / 6, abs=0.03)
    assert shares[5] == pytest.approx(0.5 / 6, abs=0.03)


def test_a_far_too_old_table_and_a_withdrawn_one_leave_it_to_the_client(
    keeper: Keeper, topic: str, producer: Producer
) -> None:
    old = keeper.publish(topic, (1_000_000, 0, 0, 0, 0, 0), taken_at_ms=1, valid_ms=1000)
    followed(producer, old, RouteMode.DEFAULT)
    followed(producer, keeper.publish(topic, UNEVEN), RouteMode.TABLE)
    keeper.write(topic, None)
    wait_until("the router notices", lambda: producer.router_stats().topics[topic].mode is RouteMode.DEFAULT)
    assert sum(deliver(producer, topic, 20).values()) == pytest.approx(1.0)


def test_heartbeats_report_bytes(kafka: KafkaCluster, keeper: Keeper, topic: str, producer: Producer) -> None:
    followed(producer, keeper.publish(topic, UNEVEN))
    deliver(producer, topic, 10)
    mine = producer.router_stats().router.encode()

    def reported() -> bool:
        beats = [m.value() for m in read_all(kafka.client_config(), HEARTBEATS_TOPIC) if m.key() == mine]
        return (
            bool(beats) and codec.loads(RouterHeartbeat, beats[-1] or b"").topics[topic].bytes == 2560 * KIB
        )

    wait_until("the bytes are reported", reported, seconds=60, every=0.5)
    assert producer.router_stats().heartbeats_failed == 0


def test_heartbeats_report_the_wire_and_round_trips(kafka: KafkaCluster, keeper: Keeper, topic: str) -> None:
    config = {
        **kafka.client_config(),
        "acks": "all",
        "compression.type": "lz4",
        "statistics.interval.ms": 500,
        "evenkeel.topics": topic,
        "evenkeel.heartbeat.ms": 200,
    }
    with Producer(config) as producer:
        followed(producer, keeper.publish(topic, UNEVEN))
        deliver(producer, topic, 2000, KIB)

        def told() -> bool:
            producer.poll(0.1)
            beat = producer._state.heartbeat(time.monotonic())
            return beat.topics[topic].wire_bytes is not None and bool(beat.brokers)

        wait_until("statistics are read", told)
        beat = producer._state.heartbeat(time.monotonic())
    wire = beat.topics[topic].wire_bytes
    assert wire is not None
    assert 0 < wire < beat.topics[topic].bytes / 5  # all x
    assert set(beat.brokers) <= {1, 2, 3}
    assert all(0 < one.round_trip_ms < 10_000 for one in beat.brokers.values())


def test_transactions_hold_the_users_records_and_nothing_of_ours(
    kafka: KafkaCluster, keeper: Keeper, topic: str
) -> None:
    config = {**kafka.client_config(), "transactional.id": topic, "evenkeel.topics": topic}
    with Producer({**config, "evenkeel.heartbeat.ms": 100}) as producer:
        producer.init_transactions(60)
        followed(producer, keeper.publish(topic, (0, 0, 0, 0, 0, 1_000_000)))
        producer.begin_transaction()
        producer.produce(topic, b"given up")
        wait_until("the router notices", lambda: producer.router_stats().heartbeats_sent > 0, seconds=20)
        producer.abort_transaction(20)
        producer.begin_transaction()
        producer.produce(topic, b"kept")
        producer.commit_transaction(20)
    found = read_all(kafka.client_config(), topic)
    assert [(message.partition(), message.value()) for message in found] == [(5, b"kept")]


def test_a_partition_that_lost_its_leader_is_avoided(kafka_cluster: StartKafka) -> None:
    cluster = kafka_cluster(properties=QUICK_DEATH)
    config = cluster.client_config()
    for name in (ROUTES_TOPIC, HEARTBEATS_TOPIC):
        create_topic(config, name, [[1, 2, 3]], min_insync_replicas="1")
    create_topic(config, "t", [[1], [2], [3]], min_insync_replicas="1")
    keeper = Keeper(config, owner_epoch=1)
    with Producer({**config, "evenkeel.topics": "t", "message.timeout.ms": 20_000}) as producer:
        followed(producer, keeper.publish("t", (400_000, 300_000, 300_000)))
        cluster.kill(3)
        wait_until("the router notices", lambda: 2 not in _partitions(producer, "t"), seconds=60)
        assert set(deliver(producer, "t", 30)) == {0, 1}


def _partitions(producer: Producer, topic: str) -> set[int]:
    """Partitions that the schedule in force still uses."""
    schedule = producer._state.lanes[topic]._schedule
    return {p for p in range(len(SIX)) if schedule is not None and p in schedule}


def test_the_rights_of_a_dataset_suffice(sasl_kafka: KafkaCluster) -> None:
    own, config = sasl_kafka.client_config(), sasl_kafka.client_config("dataset")
    ensure_topics(own)
    topic = create_topic(own, unique(f"{rights.DATASET_PREFIX}data"), SIX)
    keeper = Keeper(own, owner_epoch=1_000_000)
    with Producer({**config, "evenkeel.topics": topic, "evenkeel.heartbeat.ms": 200}) as producer:
        keeper.publish(topic, UNEVEN, plan_offset=1)
        assert producer.wait_for_table(topic, 1, 60)
        wait_until("the router notices", lambda: producer.router_stats().heartbeats_sent > 0, seconds=20)
        assert deliver(producer, topic, 120) == pytest.approx(SHARES, abs=0.02)


def test_a_missing_right_is_only_counted(sasl_kafka: KafkaCluster) -> None:
    own = sasl_kafka.client_config()
    ensure_topics(own)
    topic = unique("open")
    write = confluent_kafka.admin.AclOperation.WRITE
    # Before the topic: a broker that knows the topic knows the right, they come in one log.
    rights.grant(own, [rights._topic("nobody", write, topic)])
    create_topic(own, topic, SIX)
    config = sasl_kafka.client_config("nobody")
    with Producer({**config, "evenkeel.topics": topic, "evenkeel.heartbeat.ms": 200}) as producer:
        assert sum(deliver(producer, topic, 10).values()) == pytest.approx(1.0)
        wait_until("the router notices", lambda: producer.router_stats().heartbeats_failed > 0)
        wait_until("the router notices", lambda: producer.router_stats().read_errors > 0)
        wait_until("its cause", lambda: "TOPIC_AUTHORIZATION_FAILED" in producer.router_stats().last_problem)
    assert produce(own, topic, [b"x"]) == 1
