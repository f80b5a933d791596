"""The whole Producer against librdkafka's own mock brokers, which live in this process."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from evenkeel.domain import codec
from evenkeel.domain.heartbeat import RouteMode
from evenkeel.domain.table import RouteTable
from evenkeel.names import ROUTES_TOPIC
from evenkeel.router import Producer

KIB = 1024


class Mock:
    """Three mock brokers; topics have four partitions as soon as somebody writes to them."""

    def __init__(self) -> None:
        self.plain = confluent_kafka.Producer(
            {"test.mock.num.brokers": 3, "bootstrap.servers": "mock", "log_level": 0}
        )
        brokers = self.plain.list_topics(timeout=10).brokers.values()
        self.bootstrap = ",".join(f"127.0.0.1:{one.port}" for one in brokers if one.port > 0)
        self.epoch = 0
        self.write(ROUTES_TOPIC, b"{}", "nobody")

    def write(self, topic: str, value: bytes, key: str) -> None:
        self.plain.produce(topic, value, key, 0)
        assert self.plain.flush(10) == 0

    def publish(self, weights: tuple[int, ...], topic: str, **changes: Any) -> int:
        self.epoch += 1
        fields = {"taken_at_ms": int(time.time() * 1000), "plan_offset": self.epoch} | changes
        table = RouteTable(topic=topic, owner_epoch=1, epoch=self.epoch, weights=weights, **fields)
        self.write(ROUTES_TOPIC, codec.dumps(table).encode(), topic)
        return self.epoch


@pytest.fixture(scope="module")
def mock() -> Mock:
    return Mock()


@pytest.fixture
def producer(mock: Mock) -> Iterator[Producer]:
    with Producer({"bootstrap.servers": mock.bootstrap, "evenkeel.heartbeat.ms": 0, "log_level": 0}) as made:
        yield made


def steer(mock: Mock, producer: Producer, topic: str, weights: tuple[int, ...], **changes: Any) -> None:
    """Publish until it is followed: the mock knows no offsets by time, so that earlier records are unseen."""
    mock.plain.list_topics(topic, timeout=10)  # which makes it: what is not there is not routed
    deadline = time.monotonic() + 20
    while not producer.wait_for_table(topic, mock.publish(weights, topic, **changes), 0.5):
        assert time.monotonic() < deadline, producer.router_stats()


def deliver(producer: Producer, topic: str, count: int, size: int, key: str | None = None) -> Counter[int]:
    volume: Counter[int] = Counter()

    def count_bytes(error: object, message: confluent_kafka.Message) -> None:
        assert error is None
        volume[message.partition() or 0] += len(message.value() or b"")

    for _ in range(count):
        producer.produce(topic, b"x" * size, key, -1, count_bytes)
        producer.poll(0)
    assert producer.flush(20) == 0
    return volume


def test_bytes_follow_the_published_weights(mock: Mock, producer: Producer) -> None:
    steer(mock, producer, "steered", (700_000, 200_000, 100_000, 0))
    volume = deliver(producer, "steered", 200, 256 * KIB)
    shares = {p: size / sum(volume.values()) for p, size in volume.items()}
    assert shares == pytest.approx({0: 0.7, 1: 0.2, 2: 0.1}, abs=0.015)
    stats = producer.router_stats().topics["steered"]
    assert stats.mode is RouteMode.TABLE
    assert stats.bytes == 200 * 256 * KIB


class Text(str):
    __slots__ = ()


VALUES: list[tuple[str | bytes, int]] = [
    ("plain", 5),
    ("数据", 6),
    ("naïve", 6),
    ("🛶", 4),
    (Text("数据"), 6),
    ("", 0),
    ("数据".encode(), 6),
]


@pytest.mark.parametrize(("value", "size"), VALUES)
def test_bytes_are_counted_not_characters(mock: Mock, value: str | bytes, size: int) -> None:
    config = {"bootstrap.servers": mock.bootstrap, "evenkeel.topics": "texts", "log_level": 0}
    with Producer(config) as producer:
        producer.produce("texts", value)
        assert producer.router_stats().topics["texts"].bytes == size
        producer.produce_batch("texts", [{"value": value}, {"value": value}])
        assert producer.router_stats().topics["texts"].bytes == 3 * size


def test_text_that_is_none_is_refused_as_by_the_client(producer: Producer) -> None:
    producer.produce("texts", "first")
    calls: list[tuple[Callable[[], object], Callable[[], object]]] = [
        (
            lambda: producer.produce("texts", "\ud800"),
            lambda: confluent_kafka.Producer.produce(producer, "texts", "\ud800"),
        ),
        (
            lambda: producer.produce_batch("texts", [{"value": "\ud800"}]),
            lambda: confluent_kafka.Producer.produce_batch(producer, "texts", [{"value": "\ud800"}]),
        ),
    ]
    for ours, theirs in calls:
        with pytest.raises(UnicodeEncodeError) as one:
            ours()
        with pytest.raises(UnicodeEncodeError) as other:
            theirs()
        assert str(one.value) == str(other.value)
    assert producer.router_stats().topics["texts"].bytes == 5


def test_topics_in_turns_each_follow_their_own_table(mock: Mock, producer: Producer) -> None:
    steer(mock, producer, "left", (1_000_000, 0, 0, 0))
    steer(mock, producer, "right", (0, 0, 1_000_000, 0))
    reached: Counter[tuple[str, int]] = Counter()
    for number in range(40):
        producer.produce(
            "right" if number % 2 else "left",
            b"x" * 300 * KIB,
            on_delivery=lambda _, message: reached.update([(message.topic(), message.partition())]),
        )
    assert producer.flush(20) == 0
    assert reached == {("left", 0): 20, ("right", 2): 20}
    assert producer.router_stats().topics["left"].bytes == 20 * 300 * KIB


def test_a_topic_that_is_no_name_is_refused_as_by_the_client(producer: Producer) -> None:
    for topic in (None, 5, ["t"], b"t"):
        with pytest.raises(TypeError) as ours:
            producer.produce(topic, b"x")  # type: ignore[arg-type]
        with pytest.raises(TypeError) as theirs:
            confluent_kafka.Producer.produce(producer, topic, b"x")  # type: ignore[arg-type]
        assert str(ours.value) == str(theirs.value)


def test_keys_and_explicit_partitions_pass_through(mock: Mock, producer: Producer) -> None:
    steer(mock, producer, "passing", (1_000_000, 0, 0, 0))
    plain = confluent_kafka.Producer({"bootstrap.servers": mock.bootstrap, "log_level": 0})
    expected: list[int] = []
    plain.produce(
        "passing", b"x", "kind", on_delivery=lambda _, message: expected.append(message.partition() or 0)
    )
    plain.flush(10)
    assert list(deliver(producer, "passing", 5, 10, key="kind")) == expected
    got: list[int] = []
    producer.produce(
        "passing", b"x", partition=3, on_delivery=lambda _, message: got.append(message.partition())
    )
    producer.flush(10)
    assert got == [3]


def test_a_batch_is_split_into_runs(mock: Mock, producer: Producer) -> None:
    steer(mock, producer, "batched", (500_000, 0, 500_000, 0))
    volume: Counter[int] = Counter()
    messages = [{"value": b"x" * 300 * KIB} for _ in range(20)]
    sent = producer.produce_batch(
        "batched", messages, on_delivery=lambda _, message: volume.update([message.partition()])
    )
    assert sent == 20
    producer.flush(20)
    assert volume[0] == pytest.approx(10, abs=1)
    assert set(volume) == {0, 2}


def test_a_batch_that_is_none_is_refused_as_by_the_client(producer: Producer) -> None:
    for messages in ([1], None, [{"value": 5}]):
        with pytest.raises(TypeError) as ours:
            producer.produce_batch("t", messages)  # type: ignore[arg-type]
        with pytest.raises(TypeError) as theirs:
            confluent_kafka.Producer.produce_batch(producer, "t", messages)
        assert str(ours.value) == str(theirs.value)
    assert "t" not in producer.router_stats().topics


def test_refused_records_of_a_batch_are_not_counted(mock: Mock) -> None:
    config = {"bootstrap.servers": mock.bootstrap, "queue.buffering.max.messages": 2, "linger.ms": 500}
    with Producer({**config, "evenkeel.topics": "full", "log_level": 0}) as producer:
        producer._state.lanes["full"].follow([0.5, 0.5])
        assert producer.produce_batch("full", [{"value": b"x" * 300 * KIB} for _ in range(9)]) == 2
        assert producer.router_stats().topics["full"].bytes == 600 * KIB
        assert producer.flush(20) == 0


def test_pinned_records_of_a_batch_are_not_counted(mock: Mock, producer: Producer) -> None:
    messages = [{"value": b"xx", "partition": 1}, {"value": b"yyy"}]
    assert producer.produce_batch("pinned", messages) == 2
    assert producer.flush(20) == 0
    assert producer.router_stats().topics["pinned"].bytes == 3


def test_a_table_for_partitions_that_do_not_exist_never_makes_produce_fail(mock: Mock) -> None:
    config = {"bootstrap.servers": mock.bootstrap, "evenkeel.topics": ["odd"], "log_level": 0}
    with Producer(config) as producer:
        deliver(producer, "odd", 1, 10)
        producer._state.lanes["odd"].follow([0, 0, 0, 0, 0, 0, 1])
        assert sum(deliver(producer, "odd", 3, 10).values()) == 30
        messages = [{"value": b"x"}, {"value": b"y"}]
        assert producer.produce_batch("odd", messages) == 2
        assert messages == [{"value": b"x"}, {"value": b"y"}]


def test_a_full_queue_is_the_callers_and_bytes_are_counted_once(mock: Mock) -> None:
    config = {
        "bootstrap.servers": mock.bootstrap,
        "evenkeel.topics": "full",
        "queue.buffering.max.messages": 2,
        "linger.ms": 500,
        "log_level": 0,
    }
    with Producer(config) as producer:
        for _ in range(2):
            producer.produce("full", b"x" * 10)
        with pytest.raises(BufferError):
            producer.produce("full", b"x" * 10)
        assert producer.router_stats().topics["full"].bytes == 20


def test_without_brokers_producing_neither_blocks_nor_raises() -> None:
    started = time.monotonic()
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "evenkeel.topics": "t", "log_level": 0})
    for _ in range(100):
        producer.produce("t", b"x")
    assert len(producer) >= 100  # librdkafka counts waiting events too
    assert time.monotonic() - started < 2
    assert not producer.wait_for_table("t", 0, 0.01)
    producer.purge()
    producer.close()


def test_it_is_a_confluent_producer() -> None:
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, **{"client.id": "me"})
    assert isinstance(producer, confluent_kafka.Producer)
    assert producer.router_stats().router.startswith("me-")
    producer.close()


def test_a_forgotten_producer_ends_its_thread(mock: Mock) -> None:
    producer = Producer({"bootstrap.servers": mock.bootstrap, "log_level": 0})
    thread = producer._follower
    assert thread.is_alive()
    del producer
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
