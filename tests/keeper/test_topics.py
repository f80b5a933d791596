from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from evenkeel import names
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Deletion, Desired, DesiredDataset, DesiredTopic, Owner
from evenkeel.domain.snapshot import Broker
from evenkeel.kafka.answers import PartitionAnswer, TopicAnswer
from evenkeel.kafka.topics import dataset_topics, guarded_config
from evenkeel.keeper.topics import (
    CreateTopic,
    DeleteTopic,
    FoundTopics,
    GrowTopic,
    SetConfig,
    build_refused,
    config_keys,
    plan_internal,
    plan_topics,
)
from evenkeel.reasons import Reason

BROKERS = tuple(Broker(number, rack=f"rack{number}") for number in (1, 2, 3))
DATASET = DesiredDataset(uid="u1", name="ns/pictures")


def topic(name: str, partitions: int, copies: int) -> TopicAnswer:
    replicas = tuple(range(1, copies + 1))
    rows = tuple(PartitionAnswer(number, 1, replicas, replicas) for number in range(partitions))
    return TopicAnswer(name, "id", internal=False, partitions=rows)


def found(
    *topics: TopicAnswer,
    configs: Mapping[str, Mapping[str, str] | None] | None = None,
    brokers: Sequence[Broker] = BROKERS,
) -> FoundTopics:
    known: dict[str, Mapping[str, str] | None] = {one.name: {} for one in topics}
    return FoundTopics({one.name: one for one in topics}, {**known, **(configs or {})}, tuple(brokers))


def desired(
    *topics: DesiredTopic, datasets: Sequence[DesiredDataset] = (), deletions: Sequence[Deletion] = ()
) -> Desired:
    return Desired(
        owner=Owner("i", "u", "ns/c"),
        connection=Connection(("kafka:9092",)),
        topics=topics,
        datasets=tuple(datasets),
        deletions=tuple(deletions),
    )


def existing_dataset() -> list[TopicAnswer]:
    return [topic(spec.name, spec.partitions, spec.replication_factor) for spec in dataset_topics(DATASET, 3)]


def test_a_missing_topic_is_created_with_explicit_replicas() -> None:
    wanted = DesiredTopic("o", "t", partitions=6, replication_factor=2, config={"retention.ms": "1"})
    plan = plan_topics(desired(wanted), found())
    (action,) = plan.actions
    assert isinstance(action, CreateTopic)
    assert len(action.assignments) == 6
    assert sorted(broker for row in action.assignments for broker in row) == sorted([1, 2, 3] * 4)
    assert action.config == {"retention.ms": "1"}
    assert not plan.faults


def test_what_is_not_declared_is_not_touched() -> None:
    plan = plan_topics(desired(DesiredTopic("o", "t")), found(topic("t", 4, 1), topic("other", 1, 1)))
    assert not plan.actions
    assert not plan.faults


@pytest.mark.parametrize(
    ("wanted", "reason", "told"),
    [
        (DesiredTopic("o", "t", partitions=2), Reason.PARTITIONS_LOWERED, "has 4, 2 are asked"),
        (DesiredTopic("o", "t", replication_factor=3), Reason.REPLICATION_DIFFERS, "has 2, 3 is asked"),
        (
            DesiredTopic("o", "new", replication_factor=4),
            Reason.REPLICATION_ABOVE_BROKERS,
            "needs 4 brokers, 3",
        ),
        (DesiredTopic("o", "new", create=False), Reason.TOPIC_MISSING, "does not exist"),
    ],
)
def test_impossible_wishes_are_faults_with_numbers(wanted: DesiredTopic, reason: Reason, told: str) -> None:
    plan = plan_topics(desired(wanted), found(topic("t", 4, 2)))
    assert not plan.actions
    (fault,) = plan.faults
    assert fault.reason is reason
    assert told in fault.message
    assert fault.subject == f"topic/{wanted.name}"


def test_partitions_grow_by_exactly_the_new_ones() -> None:
    plan = plan_topics(desired(DesiredTopic("o", "t", partitions=7)), found(topic("t", 4, 2)))
    (action,) = plan.actions
    assert isinstance(action, GrowTopic)
    assert (action.count, len(action.assignments)) == (7, 3)
    assert {len(row) for row in action.assignments} == {2}


@pytest.mark.parametrize(
    ("config", "changed"),
    [
        ({"retention.ms": "5", "cleanup.policy": "delete"}, {}),
        ({"retention.ms": "6", "cleanup.policy": "delete"}, {"retention.ms": "5"}),
        (None, {}),
    ],
)
def test_only_declared_keys_that_differ_are_set(
    config: Mapping[str, str] | None, changed: Mapping[str, str]
) -> None:
    wanted = DesiredTopic("o", "t", config={"retention.ms": "5"})
    plan = plan_topics(desired(wanted), found(topic("t", 1, 1), configs={"t": config}))
    assert plan.actions == ([SetConfig("t", changed, "topic/t")] if changed else [])


def test_the_order_of_a_list_is_no_drift() -> None:
    wanted = DesiredTopic("o", "t", config={"cleanup.policy": "delete,compact"})
    config = {"t": {"cleanup.policy": "compact,delete"}}
    assert not plan_topics(desired(wanted), found(topic("t", 1, 1), configs=config)).actions


def test_a_measurement_asks_for_every_declared_key() -> None:
    topics = (DesiredTopic("o", "t", config={"b": "1"}), DesiredTopic("o", "u", config={"a": "1", "b": "2"}))
    assert config_keys(desired(*topics)) == ("a", "b")


def test_a_dataset_gets_its_four_topics() -> None:
    plan = plan_topics(desired(datasets=[DATASET]), found())
    created = [action.name for action in plan.actions if isinstance(action, CreateTopic)]
    assert created == [
        names.dataset_topic("u1", role) for role in ("data", "journal", "manifest", "rejected")
    ]
    assert not plan.faults


def test_an_unsafe_setting_is_said_and_set_back() -> None:
    name = names.dataset_topic("u1", "data")
    config = {name: {**guarded_config(3), "retention.ms": "1000"}}
    plan = plan_topics(desired(datasets=[DATASET]), found(*existing_dataset(), configs=config))
    assert [fault.reason for fault in plan.faults] == [Reason.RETENTION_UNSAFE]
    assert "retention.ms=1000 (needs -1)" in plan.faults[0].message
    assert plan.actions == [SetConfig(name, {"retention.ms": "-1"}, "dataset/u1")]


def test_a_journal_that_takes_records_of_any_size_is_set_back() -> None:
    name = names.dataset_topic("u1", "journal")
    config = {name: guarded_config(3)}
    plan = plan_topics(desired(datasets=[DATASET]), found(*existing_dataset(), configs=config))
    assert plan.actions == [SetConfig(name, {"max.message.bytes": str(8 * 1024 * 1024)}, "dataset/u1")]


def test_one_copy_is_said() -> None:
    single = DesiredDataset(uid="u1", name="ns/p", replication_factor=1)
    rows = [topic(spec.name, spec.partitions, spec.replication_factor) for spec in dataset_topics(single, 3)]
    plan = plan_topics(desired(datasets=[single]), found(*rows))
    assert [(fault.reason, fault.subject) for fault in plan.faults] == [(Reason.SINGLE_COPY, "dataset/u1")]


def test_more_brokers_do_not_grow_a_dataset_that_left_it_open() -> None:
    more = (*BROKERS, Broker(4), Broker(5))
    assert not plan_topics(desired(datasets=[DATASET]), found(*existing_dataset(), brokers=more)).actions


def test_a_borrowed_data_topic_is_guarded_too() -> None:
    borrowed = DesiredDataset(uid="u1", name="ns/p", data_topic="events")
    rows = [row for row in existing_dataset() if not row.name.endswith("-data")]
    plan = plan_topics(
        desired(datasets=[borrowed]),
        found(*rows, topic("events", 4, 2), configs={"events": {"retention.ms": "5"}}),
    )
    assert plan.actions == [SetConfig("events", {"retention.ms": "-1"}, "dataset/u1")]


@pytest.mark.parametrize(
    ("deletion", "deleted", "reason"),
    [
        (Deletion("t", "o"), True, None),
        (Deletion("gone", "o"), False, None),
        (Deletion("__consumer_offsets", "o"), False, Reason.INTERNAL_TOPIC),
        (Deletion("t", "somebody"), False, Reason.CONFLICT),
    ],
)
def test_only_what_is_asked_for_is_deleted(
    deletion: Deletion, reason: Reason | None, *, deleted: bool
) -> None:
    plan = plan_topics(
        desired(DesiredTopic("o", "t"), deletions=[deletion]),
        found(topic("t", 1, 1), topic("__consumer_offsets", 1, 1)),
    )
    assert [action for action in plan.actions if isinstance(action, DeleteTopic)] == (
        [DeleteTopic(deletion.topic, f"topic/{deletion.topic}")] if deleted else []
    )
    assert [fault.reason for fault in plan.faults] == ([reason] if reason else [])


def test_brokers_that_are_down_get_no_replicas_and_are_named() -> None:
    brokers = (*BROKERS[:2], Broker(3, online=False, fenced=True))
    wanted = DesiredTopic("o", "t", partitions=2, replication_factor=3)
    plan = plan_topics(desired(wanted), found(brokers=brokers))
    assert "2 of 3 are online" in plan.faults[0].message
    assert {
        len(action.assignments[0])
        for action in plan_internal(found(brokers=brokers))
        if isinstance(action, CreateTopic)
    } == {2}


def test_internal_topics_are_made_once() -> None:
    assert [action.name for action in plan_internal(found())] == [
        names.CONTROL_TOPIC,
        names.ROUTES_TOPIC,
        names.HEARTBEATS_TOPIC,
    ]
    assert not plan_internal(found(*(topic(action.name, 1, 3) for action in plan_internal(found()))))


OWN_DATA = names.dataset_topic("somebody", "data")


@pytest.mark.parametrize(
    ("name", "reason"), [(OWN_DATA, Reason.CONFLICT), ("__evenkeel_control", Reason.INTERNAL_TOPIC)]
)
def test_topics_of_datasets_and_internal_ones_cannot_be_declared_or_deleted(
    name: str, reason: Reason
) -> None:
    wanted = DesiredTopic("o", name, partitions=9, config={"retention.ms": "1"})
    for given in (desired(wanted), desired(deletions=[Deletion(name, "o")])):
        plan = plan_topics(given, found(topic(name, 4, 2), configs={name: {"retention.ms": "-1"}}))
        assert not plan.actions
        assert [(fault.reason, fault.subject) for fault in plan.faults] == [(reason, f"topic/{name}")]


def test_a_topic_that_was_made_again_is_not_deleted() -> None:
    plan = plan_topics(desired(deletions=[Deletion("t", "o", "other")]), found(topic("t", 1, 1)))
    assert not plan.actions
    assert plan.faults[0].reason is Reason.CONFLICT
    plan = plan_topics(desired(deletions=[Deletion("t", "o", "id")]), found(topic("t", 1, 1)))
    assert plan.actions == [DeleteTopic("t", "topic/t")]


def test_a_lost_topic_of_a_sealed_dataset_is_said_and_never_made_again() -> None:
    sealed = DesiredDataset(uid="u1", name="ns/p", follow=False)
    rows = [row for row in existing_dataset() if not row.name.endswith("-manifest")]
    plan = plan_topics(desired(datasets=[sealed]), found(*rows))
    assert not plan.actions
    assert [(fault.reason, fault.subject) for fault in plan.faults] == [(Reason.DATA_LOST, "dataset/u1")]


@pytest.mark.parametrize("empty", [True, False])
def test_only_an_empty_topic_becomes_the_data_topic_of_a_dataset(*, empty: bool) -> None:
    borrowed = DesiredDataset(uid="u1", name="ns/p", data_topic="events")
    seen = found(topic("events", 4, 2), configs={"events": {"retention.ms": "5"}})
    plan = plan_topics(
        desired(datasets=[borrowed]), replace(seen, empty=frozenset({"events"} if empty else ()))
    )
    if empty:
        assert {type(action) for action in plan.actions} == {CreateTopic, SetConfig}
    else:
        assert not plan.actions
        assert [fault.reason for fault in plan.faults] == [Reason.CONFLICT]


def test_declared_settings_never_fight_with_those_that_a_dataset_needs() -> None:
    wanted = DesiredTopic("o", "events", config={"retention.ms": "5", "segment.bytes": "1000"})
    borrowed = DesiredDataset(uid="u1", name="ns/p", data_topic="events")
    rows = [row for row in existing_dataset() if not row.name.endswith("-data")]
    safe = {"events": {"retention.ms": "-1", "segment.bytes": "9"}}
    plan = plan_topics(
        desired(wanted, datasets=[borrowed]), found(*rows, topic("events", 4, 2), configs=safe)
    )
    assert plan.actions == [SetConfig("events", {"segment.bytes": "1000"}, "topic/events")]
    assert [(fault.reason, fault.subject) for fault in plan.faults] == [
        (Reason.RETENTION_UNSAFE, "topic/events")
    ]


@pytest.mark.parametrize(
    ("present", "declared"), [("0.5", "0.50"), ("true", "TRUE"), ("compact,delete", "delete, compact")]
)
def test_values_that_kafka_writes_its_own_way_are_the_same(present: str, declared: str) -> None:
    wanted = DesiredTopic("o", "t", config={"k": declared})
    assert not plan_topics(desired(wanted), found(topic("t", 1, 1), configs={"t": {"k": present}})).actions


def test_a_change_that_may_not_be_made_is_said() -> None:
    fault = build_refused(DeleteTopic("t", "topic/t"), Reason.PAUSED, "it is paused")
    assert (fault.reason, fault.subject) == (Reason.PAUSED, "topic/t")
