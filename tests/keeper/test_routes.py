from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from evenkeel import names
from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Desired, DesiredDataset, DesiredTopic, Owner, TopicRouting
from evenkeel.domain.table import RouteTable
from evenkeel.kafka.clients.reader import LogRecord
from evenkeel.keeper.routes import (
    UNDECLARED_SECONDS,
    Ingest,
    Published,
    Undeclared,
    build_records,
    build_withdrawals,
    choose_tables,
    declared_topics,
    fold_tables,
    routed_topics,
)
from evenkeel.planning.routing import RoutesPlan, TopicRoutes
from evenkeel.reasons import Reason

EVEN = (0.25, 0.25, 0.25, 0.25)
SKEWED = (0.4, 0.2, 0.2, 0.2)


def plan(*weights: tuple[float, ...], taken_at_ms: int = 0, active: bool = True) -> RoutesPlan:
    topics = {
        f"t{number}": TopicRoutes(f"t{number}", active, Reason.ROUTED, "", weights=row if active else ())
        for number, row in enumerate(weights)
    }
    return RoutesPlan(topics=topics, taken_at_ms=taken_at_ms)


def published(*tables: RouteTable) -> Published:
    found = Published()
    for table in tables:
        found.note(table)
    return found


def chosen(
    new: RoutesPlan, before: Published, ingests: Mapping[str, Ingest] | None = None, owner_epoch: int = 1
) -> tuple[RouteTable, ...]:
    return choose_tables(new, before, owner_epoch, ingests or {})


def first(*weights: tuple[float, ...]) -> Published:
    return published(*chosen(plan(*weights), Published()))


def test_every_topic_gets_a_table_with_an_epoch_of_its_own() -> None:
    tables = chosen(plan(EVEN, SKEWED), Published())
    assert [(table.topic, table.epoch) for table in tables] == [("t0", 1), ("t1", 2)]


@pytest.mark.parametrize(
    ("weights", "taken_at_ms", "count"),
    [(EVEN, 1000, 0), (SKEWED, 1000, 1), ((0.251, 0.249, 0.25, 0.25), 1000, 0), (EVEN, 121_000, 1)],
)
def test_news_or_a_heartbeat_is_published(weights: tuple[float, ...], taken_at_ms: int, count: int) -> None:
    assert len(chosen(plan(weights, taken_at_ms=taken_at_ms), first(EVEN))) == count


def test_a_plan_is_published_at_once_with_its_offset() -> None:
    (table,) = chosen(plan(EVEN, taken_at_ms=1), first(EVEN), {"t0": Ingest(7, 100, 100)})
    assert (table.plan_offset, table.epoch) == (7, 2)


def test_a_plan_offset_outlives_what_the_keeper_knows() -> None:
    before = published(*chosen(plan(EVEN), Published(), {"t0": Ingest(7, 100, 100)}))
    (table,) = chosen(plan(SKEWED), before)
    assert table.plan_offset == 7


@pytest.mark.parametrize(("remaining", "frozen"), [(4, True), (6, False)])
def test_weights_freeze_when_little_remains(remaining: int, *, frozen: bool) -> None:
    ingest = {"t0": Ingest(None, 100, remaining)}
    assert bool(chosen(plan(SKEWED, taken_at_ms=1), first(EVEN), ingest)) is not frozen
    (heartbeat,) = chosen(plan(SKEWED, taken_at_ms=200_000), first(EVEN), ingest)
    assert (heartbeat.weights == first(EVEN).tables["t0"].weights) is frozen


def test_topics_that_are_not_routed_keep_what_they_have() -> None:
    assert chosen(plan(EVEN, active=False), first(EVEN)) == ()


def test_a_new_owner_publishes_anew_and_epochs_go_on() -> None:
    (table,) = chosen(plan(EVEN), first(EVEN), owner_epoch=2)
    assert (table.owner_epoch, table.epoch) == (2, 2)


def test_the_topic_itself_tells_where_epochs_stopped() -> None:
    tables = chosen(plan(EVEN, SKEWED), Published())
    log = [
        LogRecord(offset, key, value, {}, 0)
        for offset, (topic, value, key) in enumerate(build_records(tables))
        if topic == names.ROUTES_TOPIC
    ]
    late = dataclasses.replace(tables[0], owner_epoch=0, epoch=9)
    log += [
        LogRecord(9, b"t0", b"not a table", {}, 0),
        LogRecord(10, b"t0", codec.dumps(late).encode(), {}, 0),
    ]
    found = fold_tables(log)
    assert found.tables == {table.topic: table for table in tables}
    assert found.next_epoch == 3


def test_a_withdrawn_table_is_gone_and_its_epoch_is_not_used_again() -> None:
    tables = chosen(plan(EVEN, SKEWED), Published())
    records = [*build_records(tables), *build_withdrawals(["t1"])]
    log = [LogRecord(offset, key, value or b"", {}, 0) for offset, (_, value, key) in enumerate(records)]
    found = fold_tables(log)
    assert found.tables == {"t0": tables[0]}
    assert found.next_epoch == 3
    assert [record for record in records if record[1] is None] == [(names.ROUTES_TOPIC, None, b"t1")]


def test_tables_of_topics_that_are_undeclared_for_long_are_withdrawn() -> None:
    undeclared = Undeclared()
    assert undeclared.note({"a", "b"}, {"a"}, 0.0) == ()
    assert undeclared.note({"a", "b"}, {"a"}, UNDECLARED_SECONDS) == ("b",)
    assert undeclared.note({"a"}, {"a"}, UNDECLARED_SECONDS) == ()


def test_a_topic_that_is_declared_again_keeps_its_table() -> None:
    undeclared = Undeclared()
    for at, declared in ((0.0, ""), (30.0, "b"), (UNDECLARED_SECONDS, ""), (UNDECLARED_SECONDS + 30, "")):
        assert undeclared.note({"b"}, declared, at) == ()


def test_a_heartbeat_is_no_news() -> None:
    before = first(EVEN)
    for table in chosen(plan(EVEN, taken_at_ms=500_000), before):
        before.note(table)
    assert (before.tables["t0"].epoch, before.changed_epochs["t0"]) == (2, 1)


def test_declared_topics_and_data_topics_are_routed_as_far_as_they_exist() -> None:
    special = TopicRouting(horizon_seconds=60)
    desired = Desired(
        owner=Owner("i", "u", "n"),
        connection=Connection(("k:1",)),
        topics=(DesiredTopic("o", "declared", routing=special), DesiredTopic("o", "absent")),
        datasets=(DesiredDataset("uid", "ns/own"), DesiredDataset("uid2", "ns/b", data_topic="declared")),
    )
    own = names.dataset_topic("uid", "data")
    assert routed_topics(desired, {"declared", own, "other"}) == {"declared": special, own: TopicRouting()}
    assert set(declared_topics(desired)) == {"declared", "absent", own}
