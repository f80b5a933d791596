"""Everything of confluent_kafka.Producer, done by it and by ours: the same must come of it."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from evenkeel.router import Producer

Client = confluent_kafka.Producer
Delivered = list[tuple[Any, ...]]
KINDS = pytest.mark.parametrize("kind", [Client, Producer])


@pytest.fixture(scope="module")
def brokers() -> str:
    """Addresses of mock brokers that live as long as this module's tests."""
    mock = Client({"test.mock.num.brokers": 3, "bootstrap.servers": "mock", "log_level": 0})
    for topic in ("form", "offsets"):
        mock.produce(topic, b"x")
    assert mock.flush(10) == 0
    found = ",".join(
        f"127.0.0.1:{one.port}" for one in mock.list_topics(timeout=10).brokers.values() if one.port > 0
    )
    _keep.append(mock)
    return found


_keep: list[Client] = []


@pytest.fixture
def config(brokers: str) -> dict[str, Any]:
    return {"bootstrap.servers": brokers, "log_level": 0}


def pairs(config: dict[str, Any], **more: Any) -> Iterator[Client]:
    """The client, then ours, with the same configuration."""
    for kind, ours in ((Client, {}), (Producer, {"evenkeel.heartbeat.ms": 0})):
        producer = kind({**config, **ours, **more})
        yield producer
        producer.close()


def outcome(action: Callable[[], object]) -> object:
    """What comes of it: its value, or the class of its exception."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - compared
        return type(error)


FORMS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((b"v",), {}),
    (("text",), {}),
    ((b"v", b"key"), {}),
    ((b"v", "key", 2), {}),
    ((b"v", None, 3), {}),
    ((), {}),
    ((None, b"key"), {}),
    ((b"v",), {"partition": 1}),
    ((b"v",), {"key": "key", "timestamp": 123_456}),
    ((b"v",), {"partition": 0, "timestamp": 123_456, "headers": {"a": b"1"}}),
    ((b"v",), {"headers": [("a", "1"), ("a", None)]}),
    ((b"v", b"k", 1, None, None, 77, {"h": "x"}), {}),
    ((), {"value": b"v", "key": b"k", "partition": 1}),
    ((b"v",), {"partition": -1}),
]
ERRORS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("t", 5), {}),
    (("t", bytearray(b"v")), {}),
    ((None, b"v"), {}),
    ((5, b"v"), {}),
    ((["t"], b"v"), {}),
    ((), {}),
    (("t", b"v"), {"nonsense": 1}),
    (("t", b"v", None, None), {}),
    (("t", b"v", 7), {}),
    (("t", b"v"), {"headers": 5}),
    (("t", b"v" * 2_000_000), {}),
    (("form", b"v"), {"partition": 99}),
]


def send(producer: Client, form: tuple[tuple[Any, ...], dict[str, Any]]) -> Delivered:
    """Everything about the record but its time; its partition too where it was given or the key gives it."""
    got: Delivered = []

    def note(error: object, message: confluent_kafka.Message) -> None:
        fixed = (
            message.partition() if "key" in form[1] or "partition" in form[1] or len(form[0]) > 1 else None
        )
        got.append((error, message.topic(), message.value(), message.key(), fixed))

    args, named = form
    if len(args) > 3:
        args = (*args[:3], note, *args[4:])
    else:
        named = {**named, "on_delivery": note}
    producer.produce("form", *args, **named)
    assert producer.flush(10) == 0
    return got


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_form_of_produce_delivers_the_same(config: dict[str, Any], form: Any) -> None:
    theirs, ours = (send(producer, form) for producer in pairs(config))
    if form == ((b"v",), {"partition": -1}):
        theirs, ours = ([one[:4] for one in both] for both in (theirs, ours))
    assert ours == theirs
    assert len(ours) == 1


@pytest.mark.parametrize("form", ERRORS, ids=lambda form: str(form)[:40])
def test_what_the_client_refuses_is_refused_alike_and_not_counted(config: dict[str, Any], form: Any) -> None:
    theirs, ours = [], []
    for producer, kept in zip(pairs(config), (theirs, ours), strict=True):
        producer.list_topics("form", timeout=10)
        kept.append(outcome(lambda one=producer: one.produce(*form[0], **form[1])))  # type: ignore[misc]
        if isinstance(producer, Producer):
            assert sum(topic.bytes for topic in producer.router_stats().topics.values()) == 0
    assert ours == theirs
    assert isinstance(ours[0], type)


@pytest.mark.parametrize("name", ["callback", "on_delivery"])
def test_reports_reach_either_name_and_the_configured_callback(config: dict[str, Any], name: str) -> None:
    for producer in pairs(config):
        got: list[object] = []
        producer.produce("form", b"v", **{name: lambda error, _, got=got: got.append(error)})
        producer.produce("form", b"v", b"k", **{name: lambda error, _, got=got: got.append(error)})
        producer.flush(10)
        assert got == [None, None]
    general: list[object] = []
    for producer in pairs(config, on_delivery=lambda error, _: general.append(error)):
        producer.produce("form", b"v")
        producer.produce("form", b"v", b"k", 1)
        producer.flush(10)
    assert general == [None] * 4


def test_headers_and_timestamps_arrive(config: dict[str, Any]) -> None:
    with Producer(config) as producer:
        producer.produce("headed", b"v", headers=[("a", "1")], timestamp=123_456)
        producer.produce("headed", b"v", headers={"a": b"1"}, timestamp=123_456, key=b"k")
        assert producer.flush(10) == 0
    consumer = confluent_kafka.Consumer({**config, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([confluent_kafka.TopicPartition("headed", p, 0) for p in range(4)])
    found: list[confluent_kafka.Message] = []
    deadline = time.monotonic() + 20
    while len(found) < 2 and time.monotonic() < deadline:
        found += [one for one in consumer.consume(2, 0.2) if one.error() is None]
    consumer.close()
    assert [one.headers() for one in found] == [[("a", b"1")]] * 2
    assert [one.timestamp()[1] for one in found] == [123_456] * 2


def test_our_produce_has_the_clients_arguments() -> None:
    documented = (Client.produce.__doc__ or "").splitlines()[0]
    names = list(inspect.signature(Producer.produce).parameters)
    assert names[1:5] == ["topic", "value", "key", "partition"]
    for name in documented[documented.index("(") + 1 : documented.index(")")].replace("[", "").split(","):
        assert name.strip("] ") in names


def test_nothing_of_the_client_is_hidden() -> None:
    assert {name for name in dir(Client) if not name.startswith("_")} <= set(dir(Producer))


def test_len_truth_poll_and_purge(config: dict[str, Any]) -> None:
    for producer in pairs(config, **{"linger.ms": 60_000}):
        failures: list[int] = []
        assert bool(producer)
        for _ in range(3):
            producer.produce(
                "form", b"v", on_delivery=lambda error, _, got=failures: got.append(error.code())
            )
        assert len(producer) == 3
        producer.purge()
        while len(producer):  # the reports may come in several parts
            producer.poll(1)
        assert failures == [confluent_kafka.KafkaError._PURGE_QUEUE] * 3
        assert len(producer) == 0


def test_list_topics_and_cluster_id(config: dict[str, Any]) -> None:
    theirs, ours = ((set(one.list_topics("form", 10).topics), one.cluster_id(10)) for one in pairs(config))
    assert ours == theirs


def test_a_closed_producer_refuses(config: dict[str, Any]) -> None:
    for kind in (Client, Producer):
        producer = kind(config)
        assert producer.close() is True
        for action in (lambda one=producer: one.produce("form", b"v"), lambda one=producer: one.flush(1)):
            with pytest.raises(RuntimeError):
                action()


def test_a_context_flushes(config: dict[str, Any]) -> None:
    for kind in (Client, Producer):
        got: list[object] = []
        with kind(config) as producer:
            producer.produce("form", b"v", on_delivery=lambda error, _, got=got: got.append(error))
        assert got == [None]


@pytest.mark.parametrize(
    "messages",
    [
        [{"value": b"a"}, {"value": b"b"}],
        [{"value": b"a", "key": b"k"}, {"value": b"b"}],
        [{"value": None, "key": b"k"}],
        [{}],
        [],
    ],
    ids=str,
)
@pytest.mark.parametrize("partition", [None, 2])
def test_batches(config: dict[str, Any], messages: list[dict[str, Any]], partition: int | None) -> None:
    results = []
    for producer in pairs(config):
        got: list[tuple[Any, ...]] = []
        named = {} if partition is None else {"partition": partition}
        mine = [dict(one) for one in messages]
        count = producer.produce_batch(
            "form",
            mine,
            on_delivery=lambda error, m, got=got: got.append((error, m.value(), m.key())),
            **named,
        )
        producer.flush(10)
        results.append((count, sorted(got, key=str), mine))
    assert results[0] == results[1]


def test_transactions_with_offsets(config: dict[str, Any]) -> None:
    for number, producer in enumerate(pairs(config, **{"transactional.id": "tx"})):
        consumer = confluent_kafka.Consumer({**config, "group.id": f"group{number}"})
        producer.init_transactions(20)
        with pytest.raises(confluent_kafka.KafkaException):
            producer.produce("form", b"outside")
        producer.begin_transaction()
        producer.produce("form", b"a")
        producer.abort_transaction(20)
        producer.begin_transaction()
        producer.produce("form", b"a", b"k")
        offsets = [confluent_kafka.TopicPartition("offsets", 0, 1)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 20)
        producer.commit_transaction(20)
        consumer.close()


def test_new_credentials_reach_the_routers_own_clients() -> None:
    settings = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "old",
        "sasl.password": "old",
        "log_level": 0,
    }
    producer = Producer(settings)
    producer.set_sasl_credentials("new", "newer")
    assert producer._follower._config["sasl.username"] == "new"
    assert producer._follower._config["sasl.password"] == "newer"
    producer.close()


def test_the_users_statistics_are_the_clients(config: dict[str, Any]) -> None:
    texts: list[str] = []
    with Producer({**config, "statistics.interval.ms": 100, "stats_cb": texts.append}) as producer:
        producer.produce("counted", b"x" * 1000)
        producer.flush(10)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            producer.poll(0.1)
            stats = producer.router_stats().topics["counted"]
            if stats.wire_ratio is not None:
                break
    assert json.loads(texts[0])["type"] == "producer"
    assert stats.wire_ratio == pytest.approx(1.07, abs=0.05)


@KINDS
@pytest.mark.parametrize("args", [(), (None,), ([("bootstrap.servers", "x")],)])
def test_configurations_that_are_none(kind: type[Client], args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        kind(*args)


def test_subclasses_may_override_and_keep_things() -> None:
    class Counting(Producer):
        def produce(self, *args: Any, **named: Any) -> None:
            self.calls = getattr(self, "calls", 0) + 1
            super().produce(*args, **named)

    producer = Counting({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    producer.produce("t", b"v")
    assert producer.calls == 1
    producer.purge()
    producer.close()
