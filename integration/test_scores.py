"""Scores against real brokers: swapped while a producer writes, and contained where they misbehave."""

from __future__ import annotations

import functools
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from evenkeel.domain.exchange import DesiredTopic, Policy, Report, RoutesReport, Score, TopicRouting
from evenkeel.domain.table import WEIGHT_SCALE
from evenkeel.reasons import Reason
from evenkeel.router import Producer
from evenkeel.router.runs import LARGE_MESSAGE
from integration.kafka.clients import create_topic
from integration.kafka.cluster import KafkaCluster
from integration.kafka.settings import BrokerSpec
from integration.keeper import Keeper, build_desired, plain, read_tables
from integration.processes import wait_until
from tests.support.scores import install

TOPIC = "orders"
SIX = [[1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2]]
LEADS = {1: {0, 3}, 2: {1, 4}, 3: {2, 5}}

SOON_SECONDS = 20
HANG = """
import time
from evenkeel.planning.scores.protocol import Costs

def hang(snapshot, topic, parameters):
    while True:
        time.sleep(1)

def prefer(snapshot, topic, parameters):
    return Costs(leader={b.id: 0.0 if str(b.id) == parameters["broker"] else 4.0 for b in snapshot.brokers})
"""


def routing(*scores: Score) -> tuple[DesiredTopic, ...]:
    wanted = TopicRouting(scores=(Score("Storage"), *scores))
    return (DesiredTopic("uid-of-orders", TOPIC, routing=wanted, create=False),)


class Writer:
    """A producer that goes on writing while a test waits, and counts acknowledged bytes by partition."""

    def __init__(self, cluster: KafkaCluster) -> None:
        settings = {"evenkeel.topics": TOPIC, "evenkeel.heartbeat.ms": 500, "acks": "all"}
        self.producer = Producer({**cluster.client_config(), **settings})
        self.bytes: Counter[int] = Counter()
        self._config = cluster.client_config()
        self._seen = (0, 0)
        self._weights: tuple[int, ...] = ()

    def write(self, count: int = 2) -> None:
        for _ in range(count):
            self.producer.produce(TOPIC, b"x" * LARGE_MESSAGE, None, -1, self._note)
        assert self.producer.flush(60) == 0

    def _note(self, error: object, message: object) -> None:
        assert error is None, error
        self.bytes[message.partition()] += len(message.value())  # type: ignore[attr-defined]

    def epoch(self) -> tuple[int, int]:
        stats = self.producer.router_stats().topics.get(TOPIC)
        return (0, 0) if stats is None else (stats.owner_epoch, stats.epoch)

    def follows(self, leads: set[int]) -> bool:
        """Whether the table in force prefers these partitions."""
        owner_epoch, epoch = self.epoch()
        if (owner_epoch, epoch) != self._seen:
            self._seen = owner_epoch, epoch
            tables = [table for table, _ in read_tables(self._config) if table.topic == TOPIC]
            found = [one for one in tables if (one.owner_epoch, one.epoch) == self._seen]
            self._weights = found[-1].weights if found else ()
        return sum(weight for i, weight in enumerate(self._weights) if i in leads) > 0.48 * WEIGHT_SCALE

    def until(self, what: str, condition: Callable[[], bool], seconds: float) -> float:
        """Write until the condition holds; returns how long that took, seconds."""
        began = time.monotonic()

        def turn() -> bool:
            self.write()
            return condition()

        wait_until(what, turn, seconds=seconds)
        return time.monotonic() - began

    def share(self, partitions: set[int], count: int = 100) -> float:
        """Part of the next bytes that these partitions get; each record is a run of its own."""
        self.bytes.clear()
        for _ in range(count // 2):
            self.write()
        return sum(self.bytes[one] for one in partitions) / sum(self.bytes.values())


@pytest.fixture(scope="module")
def cluster(kafka_home: object) -> Iterator[KafkaCluster]:
    """Three brokers with disks of their own, equally full, in racks rack1 to rack3."""
    with KafkaCluster.start([BrokerSpec(i, disks=(512,)) for i in (1, 2, 3)]) as started:
        create_topic(started.client_config(), TOPIC, SIX)
        yield started


@pytest.fixture(scope="module")
def keeper(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keeper]:
    folder = tmp_path_factory.mktemp("keeper")
    install(folder / "packages", "odd_scores", HANG, {"Hang": "hang", "Prefer": "prefer"})
    desired = build_desired(plain(cluster), topics=routing())
    with Keeper(folder, desired, paths=[folder / "packages"]) as started:
        started.wait_claim()
        yield started


@pytest.fixture(scope="module")
def writer(cluster: KafkaCluster, keeper: Keeper) -> Iterator[Writer]:
    """Writes, and is routed by the keeper's first table."""
    found = Writer(cluster)
    with found.producer:
        found.until("the first table", lambda: found.epoch() != (0, 0), 120)
        yield found


def routes(report: Report) -> RoutesReport | None:
    return next((topic.routes for topic in report.topics if topic.name == TOPIC), None)


def reasons(report: Report) -> dict[str, Reason]:
    found = routes(report)
    return {score.name: score.reason for score in found.scores} if found is not None else {}


def test_a_change_of_scores_reaches_a_running_producer_without_waiting_for_the_next_measurement(
    keeper: Keeper, writer: Writer
) -> None:
    usual, unhurried = keeper.desired.policy, Policy(interval_seconds=60)
    keeper.want(policy=unhurried)
    even = writer.share(LEADS[1])
    for rack in (1, 2):
        keeper.want(topics=routing(Score("RackLocality", 100, {"rack": f"rack{rack}"})))
        seconds = writer.until("a table for it", functools.partial(writer.follows, LEADS[rack]), 60)
        assert seconds < SOON_SECONDS
        near = writer.share(LEADS[rack])
        assert near > even + 0.15, f"{near:.2f} of the bytes go to leaders in rack{rack}, {even:.2f} before"
    keeper.want(policy=usual)
    assert reasons(keeper.wait("scores", lambda report: "RackLocality" in reasons(report))) == {
        "Storage": Reason.ROUTED,
        "RackLocality": Reason.ROUTED,
    }


def test_a_score_of_a_package_steers_too(keeper: Keeper, writer: Writer) -> None:
    keeper.want(topics=routing(Score("Prefer", 100, {"broker": "3"})))
    writer.until("a table for it", lambda: writer.follows(LEADS[3]), 60)
    assert writer.share(LEADS[3]) > 0.48
    keeper.wait("it counts", lambda report: reasons(report).get("Prefer") is Reason.ROUTED)


def test_a_hanging_score_is_dropped_and_routing_goes_on(keeper: Keeper, writer: Writer) -> None:
    keeper.want(topics=routing(Score("Hang"), Score("RackLocality", 100, {"rack": "rack1"}), Score("Moon")))
    writer.until("a table for it", lambda: writer.follows(LEADS[1]), 60)
    assert writer.share(LEADS[1]) > 0.48
    report = keeper.wait("drops", lambda found: reasons(found).get("Hang") is Reason.SCORE_TIMED_OUT)
    assert reasons(report)["Moon"] is Reason.SCORE_UNKNOWN
    assert reasons(report)["RackLocality"] is Reason.ROUTED

    def dropped() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{keeper.port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        return all(
            f'evenkeel_score_drops_total{{reason="{reason}",score="{name}"}}' in text
            for name, reason in (("Hang", "ScoreTimedOut"), ("Moon", "ScoreUnknown"))
        )

    wait_until("the metric", dropped)
