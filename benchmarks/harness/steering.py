"""The real keeper beside a stage: what it is told of a topic, and the tables that it publishes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness.stage import Stage
from evenkeel.domain.exchange import DesiredDataset, DesiredTopic, Policy, Report, RoutesReport, TopicRouting
from evenkeel.domain.job import Order, SourceFormat
from evenkeel.domain.journal import PLAN_SLICE, Claim, Plan, encode
from evenkeel.domain.table import RouteTable
from evenkeel.kafka.clients.append import Appender
from evenkeel.names import dataset_topic
from integration.keeper import Keeper, build_desired, plain, read_tables
from integration.processes import wait_until

INTERVAL_SECONDS = 5


class Steering:
    """One keeper process, used for one topic after the other."""

    def __init__(self, stage: Stage, keeper: Keeper) -> None:
        self._stage = stage
        self._keeper = keeper

    def announce_plan(self, topic: str, size: int) -> int:
        """As an ingest does: say that `size` bytes will be written -> offset of the plan that tables name."""
        dataset = DesiredDataset(uid=f"uid-of-{topic}", name=f"bench/{topic}", data_topic=topic)
        self._keeper.want(datasets=(dataset,), topics=(_adopted(topic, TopicRouting()),))
        self._keeper.wait(
            f"topics of {topic}", lambda found: any(one.topics_ready for one in found.datasets), 60
        )
        journal = dataset_topic(dataset.uid, "journal")
        with Appender(plain(self._stage.cluster)) as appender:
            attempt = appender.append(journal, encode(Claim(PLAN_SLICE, 0, "bench")))
            offset = appender.append(journal, encode(_plan(attempt, size)))
        wait_until(f"a table for the plan of {topic}", lambda: self._planned(topic, offset), every=0.2)
        return offset

    def follow_stream(self, topic: str, routing: TopicRouting) -> None:
        """As for any other topic: nothing is known but its rate; returns when a table is published."""
        self._keeper.want(datasets=(), topics=(_adopted(topic, routing),))
        self._keeper.wait(f"routes of {topic}", lambda found: _active(found, topic), 60)

    def release(self) -> None:
        """Route nothing; the topics of the last ingest are the stage's to delete."""
        self._keeper.want(datasets=(), topics=())

    def routes(self, topic: str) -> RoutesReport | None:
        """What the keeper last said of the topic's routes."""
        report = self._keeper.report()
        if report is None:
            return None
        told = [one.routes for one in report.topics if one.name == topic]
        told += [one.routes for one in report.datasets]
        return next((one for one in told if one is not None), None)

    def tables(self, topic: str) -> list[RouteTable]:
        """All tables published for the topic, oldest first."""
        found = read_tables(self._stage.cluster.client_config())
        return [table for table, _ in found if table.topic == topic]

    def _planned(self, topic: str, offset: int) -> bool:
        return any((table.plan_offset or 0) >= offset for table in self.tables(topic))

    def log(self) -> str:
        """What the keeper has said so far."""
        return self._keeper.process.output()


@contextmanager
def steering(stage: Stage, folder: Path, policy: Policy | None = None) -> Iterator[Steering]:
    """A keeper of the stage's cluster that holds the claim; ended with the block.

    Start one for each run: a keeper that saw the topics of other runs vanish takes that for noise of the disks.
    """
    desired = build_desired(plain(stage.cluster), "bench/one")
    with Keeper(folder, desired) as keeper:
        keeper.want(policy=policy or Policy(interval_seconds=INTERVAL_SECONDS))
        keeper.wait_claim(120)
        yield Steering(stage, keeper)


def _adopted(topic: str, routing: TopicRouting) -> DesiredTopic:
    return DesiredTopic(owner_uid=f"owner-of-{topic}", name=topic, routing=routing, create=False)


def _active(report: Report, topic: str) -> bool:
    return any(one.name == topic and one.routes is not None and one.routes.active for one in report.topics)


def _plan(attempt: int, size: int) -> Plan:
    return Plan(
        attempt=attempt,
        format=SourceFormat.FILES,
        order=Order.SOURCE,
        seed=1,
        listing_digest="0" * 64,
        objects=1,
        records=(1,),
        message_bytes=1,
        message_records=1,
        max_record_bytes=1,
        slice_bytes=1,
        planned_bytes=size,
        schema="",
        schema_digest="",
    )
