"""What the keeper finds out about routers on real brokers: how much of a topic's inflow they steer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import confluent_kafka
import pytest

from evenkeel.domain.exchange import DesiredTopic, Report, RoutesReport
from evenkeel.planning.tables import HEARTBEAT_MS
from evenkeel.reasons import Reason
from evenkeel.router import Producer
from integration.kafka.clients import create_topic, unique
from integration.kafka.cluster import KafkaCluster
from integration.kafka.settings import BrokerSpec
from integration.keeper import Keeper, build_desired, plain, read_tables
from integration.processes import wait_until

KIB = 1024
RECORD = 4 * KIB
ASSIGNMENTS = [[1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2]]


class Writer:
    """Writes records without keys at an even pace until it is closed."""

    def __init__(self, producer: Any, topic: str, bytes_per_second: float) -> None:
        self.rate = bytes_per_second
        self._producer = producer
        self._topic = topic
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            self._thread.join()
            self._producer.flush(20)
            self._producer.close()

    def _run(self) -> None:
        last, owed = time.monotonic(), 0.0
        while not self._closed.wait(0.05):
            now = time.monotonic()
            owed, last = owed + self.rate * (now - last), now
            while owed >= RECORD:
                self._producer.produce(self._topic, b"x" * RECORD)
                owed -= RECORD
            self._producer.poll(0)


@pytest.fixture(scope="module")
def cluster(kafka_home: object) -> Iterator[KafkaCluster]:
    specs = [BrokerSpec(number, disks=(256,)) for number in (1, 2, 3)]
    with KafkaCluster.start(specs) as started:
        yield started


def routes(report: Report) -> RoutesReport | None:
    return report.topics[0].routes if report.topics else None


def tells_rate(config: Any) -> bool:
    """Whether the newest table has a budget, and a rate of about 120 KiB/s.

    The first may be of a burst, where writers on a busy machine made up for a pause.
    """
    newest = read_tables(config)[-1][0]
    rate = newest.bytes_per_second
    return newest.budget_bytes is not None and rate is not None and 60 * KIB < rate < 480 * KIB


@pytest.mark.timeout(600)  # both shares are means over a minute, and few are few for a while
def test_the_steered_share_is_measured_and_few_routed_producers_are_said(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    config = cluster.client_config()
    topic = create_topic(config, unique("mixed"), ASSIGNMENTS)
    desired = build_desired(plain(cluster), topics=(DesiredTopic("o", topic),))
    with (
        Keeper(tmp_path / "keeper", desired) as keeper,
        Writer(confluent_kafka.Producer(config), topic, 80 * KIB) as other,
        Writer(Producer({**config, "evenkeel.topics": topic}), topic, 60 * KIB),
        Writer(Producer(dict(config)), topic, 60 * KIB) as second,
    ):

        def share(report: Report) -> bool:
            found = routes(report)
            return (
                found is not None
                and found.active
                and found.steered_percent is not None
                and abs(found.steered_percent - 60) <= 10
            )

        keeper.wait("60 % steered", share, seconds=150)
        # A rate that is less than told makes no table: it comes with the next heartbeat.
        seconds = HEARTBEAT_MS / 1000 + 60
        wait_until("a table that tells the routers' rate", lambda: tells_rate(config), seconds=seconds)

        second.close()
        other.rate = 480 * KIB

        def few(report: Report) -> bool:
            found = routes(report)
            return found is not None and found.reason is Reason.FEW_ROUTED_PRODUCERS and not found.active

        found = routes(keeper.wait("few routed producers", few, seconds=180))
        assert found is not None
        assert found.steered_percent is not None
        assert found.steered_percent <= 20
