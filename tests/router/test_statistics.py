"""What is read from texts of the client that is installed, held against a full parse of the same texts."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import confluent_kafka
import pytest

from evenkeel.domain.heartbeat import BrokerHeartbeat
from evenkeel.router import statistics as module
from evenkeel.router.statistics import ClientStatistics, Reading, read_statistics

KIB = 1024


def parse(text: str, topics: set[str]) -> tuple[dict[int, tuple[int, ...]], dict[str, tuple[int, int]]]:
    """The same by a JSON parser."""
    raw = json.loads(text)
    brokers = {
        one["nodeid"]: (one["rtt"]["cnt"], one["rtt"]["sum"], one["rtt"]["p99"], one["req"]["Produce"])
        for one in raw["brokers"].values()
        if one["nodeid"] >= 0
    }
    sums = {
        name: (one["batchsize"]["sum"], sum(part["txbytes"] for part in one["partitions"].values()))
        for name, one in raw["topics"].items()
        if name in topics
    }
    return brokers, sums


def flatten(reading: Reading) -> tuple[dict[int, tuple[int, ...]], dict[str, tuple[int, int]]]:
    brokers = {
        node: (one.round_trips, one.round_trip_us, one.p99_us, one.requests)
        for node, one in reading.brokers.items()
    }
    return brokers, {name: (one.wire_bytes, one.sent_bytes) for name, one in reading.topics.items()}


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Of a client that writes compressible keyed and unkeyed records to `soft`, random ones to `hard`."""
    found: list[str] = []
    config: dict[str, Any] = {
        "test.mock.num.brokers": 3,
        "bootstrap.servers": "mock",
        "statistics.interval.ms": 200,
        "stats_cb": found.append,
        "compression.type": "lz4",
        "log_level": 0,
    }
    producer = confluent_kafka.Producer(config)
    for _ in range(3):
        for i in range(100):
            producer.produce("soft", b"abcdefgh" * 128, b"key" if i % 2 else None, i % 4)
            producer.produce("hard", os.urandom(KIB))
        producer.flush(10)
        wanted, deadline = len(found) + 1, time.monotonic() + 10
        while len(found) < wanted and time.monotonic() < deadline:
            producer.poll(0.1)
    producer.purge()
    return found


def test_the_fields_are_those_of_a_full_parse(texts: list[str]) -> None:
    assert len(texts) >= 3
    for text in texts:
        assert flatten(read_statistics(text, {"soft", "hard"})) == parse(text, {"soft", "hard"})
    assert read_statistics(texts[-1], {"soft"}).topics.keys() == {"soft"}


def test_compression_shows_in_the_ratio(texts: list[str]) -> None:
    statistics = ClientStatistics()
    for second, text in enumerate(texts):
        statistics.offer(text)
        statistics.sample(second * 10.0, ("soft", "hard"))
    soft, hard = statistics.ratio("soft"), statistics.ratio("hard")
    assert soft is not None
    assert hard is not None
    assert 0 < soft < 0.2
    assert 1.0 < hard < 1.1
    assert statistics.ratio("unseen") is None


def test_brokers_that_answered_have_round_trips(texts: list[str]) -> None:
    statistics = ClientStatistics()
    statistics.offer(texts[0])
    statistics.sample(0.0, ())
    raw = json.loads(texts[0])["brokers"].values()
    expected = {one["nodeid"]: one["req"]["Produce"] for one in raw if one["req"]["Produce"]}
    found = statistics.brokers(30.0)
    assert {node: one.requests for node, one in found.items()} == expected
    assert all(0 < one.round_trip_ms < 10_000 for one in found.values())
    assert statistics.brokers(100.0) == {}


def build_text(number: int, *, requests: int = 0, wire: int = 0, sent: int = 0, p99: int = 0) -> str:
    """One broker and one topic, as librdkafka orders its fields."""
    window = f'"sum":{number * 1000}, "stddev": 0, "p99": {p99}, "cnt":{number}'
    broker = (
        f'"b/1": {{ "name":"b/1", "nodeid":1, "rtt": {{ {window} }}, "req": {{ "Produce": {requests} }} }}'
    )
    batches = f'"batchsize": {{ "min":1, "sum":{wire}, "cnt":1 }}'
    parts = f'"partitions":{{ "0": {{ "partition":0, "txbytes":{sent}, "rxmsgs":0 }} }}'
    return (
        f'{{ "brokers":{{ {broker} }}, "topics":{{ "t": {{ "topic":"t", "age":1, {batches}, {parts} }} }} }}'
    )


def test_a_percentile_of_few_round_trips_is_not_told() -> None:
    statistics = ClientStatistics()
    statistics.offer(build_text(99, requests=99, p99=5000))
    statistics.sample(0.0, ())
    assert statistics.brokers(0.0) == {1: BrokerHeartbeat(1.0, 99)}


def test_of_several_intervals_the_middle_percentile_counts() -> None:
    statistics = ClientStatistics()
    for number, p99 in enumerate((5000, 90_000, 7000, 6000, 8000), 1):
        statistics.offer(build_text(number * 100, requests=number * 100, p99=p99))
    statistics.sample(0.0, ())
    assert statistics.brokers(0.0) == {1: BrokerHeartbeat(1.0, 500, 7.0)}


def test_an_interval_is_compared_with_the_growth_in_it() -> None:
    statistics = ClientStatistics()
    statistics.offer(build_text(1, wire=500, sent=1000))
    statistics.sample(0.0, ("t",))
    assert statistics.ratio("t") == 0.5
    statistics.offer(build_text(2, wire=800, sent=2000))
    statistics.sample(10.0, ("t",))
    assert statistics.ratio("t") == 0.8


def test_of_frequent_statistics_each_interval_counts() -> None:
    statistics = ClientStatistics()
    for number in range(1, 41):
        wire = 300 if number == 7 else 0  # all that was sent went out in one short interval
        statistics.offer(build_text(number, requests=number, wire=wire, sent=1000 * (number >= 7)))
    statistics.sample(0.0, ("t",))
    assert statistics.ratio("t") == 0.3
    assert statistics.brokers(0.0)[1].requests == 40
    assert statistics.brokers(0.0)[1].round_trip_ms == 1.0


def test_large_texts_are_not_hoarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_CHARACTERS", 1000)
    statistics = ClientStatistics()
    for number in range(1, 101):
        statistics.offer(build_text(number, requests=number, wire=300, sent=1000 * number))
    assert len(statistics._texts) < 5
    statistics.sample(0.0, ("t",))
    assert statistics.ratio("t") == 0.3


def test_a_gap_gives_no_ratio_and_keeps_the_old_one() -> None:
    statistics = ClientStatistics()
    statistics.offer(build_text(1, wire=500, sent=1000))
    statistics.sample(0.0, ("t",))
    statistics._offered += 5  # five texts that nobody kept
    statistics.offer(build_text(7, wire=900, sent=9000))
    statistics.sample(10.0, ("t",))
    assert statistics.ratio("t") == 0.5


def test_what_comes_too_often_waits() -> None:
    statistics = ClientStatistics()
    statistics.offer(build_text(1, wire=500, sent=1000))
    statistics.sample(0.0, ("t",))
    statistics.offer(build_text(2, wire=900, sent=2000))
    statistics.sample(1.0, ("t",))
    assert statistics.ratio("t") == 0.5
    statistics.sample(6.0, ("t",))
    assert statistics.ratio("t") == 0.9


def test_a_silent_interval_changes_nothing() -> None:
    statistics = ClientStatistics()
    statistics.offer(build_text(1, requests=4, wire=500, sent=1000))
    statistics.sample(0.0, ("t",))
    statistics.offer(build_text(0, requests=4, wire=0, sent=1000))
    statistics.sample(10.0, ("t",))
    assert statistics.ratio("t") == 0.5
    assert statistics.brokers(10.0) == {}


def test_a_topic_that_is_asked_for_later_waits_for_its_second_text() -> None:
    statistics = ClientStatistics()
    statistics.offer(build_text(1, wire=500, sent=1000))
    statistics.sample(0.0, ())
    statistics.offer(build_text(2, wire=500, sent=1500))
    statistics.sample(10.0, ("t",))
    assert statistics.ratio("t") is None
    statistics.offer(build_text(3, wire=250, sent=2000))
    statistics.sample(20.0, ("t",))
    assert statistics.ratio("t") == 0.5


def test_a_client_that_knows_nothing_yet_has_no_readings() -> None:
    assert read_statistics('{ "brokers":{ }, "topics":{ } }', ("t",)) == Reading(asked=frozenset({"t"}))


def test_a_topic_that_is_new_to_the_client_counts_from_its_first_text() -> None:
    statistics = ClientStatistics()
    statistics.offer(
        '{ "brokers":{ "b/1": { "nodeid":1, "rtt": { "sum":0, "cnt":0 }, "req": { "Produce": 0 } } } }'
    )
    statistics.sample(0.0, ("t",))
    statistics.offer(build_text(2, requests=1, wire=500, sent=1000))
    statistics.sample(10.0, ("t",))
    assert statistics.ratio("t") == 0.5
