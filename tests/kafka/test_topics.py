from __future__ import annotations

import pytest

from evenkeel import names
from evenkeel.domain.exchange import DesiredDataset
from evenkeel.kafka.topics import dataset_topics, internal_topics, topic_role

OWN = DesiredDataset(uid="u1", name="ns/pictures")


@pytest.mark.parametrize(("brokers", "copies"), [(1, 1), (2, 2), (3, 3), (7, 3)])
def test_internal_topics_have_three_copies_where_they_can(brokers: int, copies: int) -> None:
    assert {spec.replication_factor for spec in internal_topics(brokers)} == {copies}


def test_claims_are_dated_by_the_broker() -> None:
    control = {spec.name: spec for spec in internal_topics(3)}[names.CONTROL_TOPIC]
    assert control.config["message.timestamp.type"] == "LogAppendTime"


def test_the_newest_run_of_moves_is_never_forgotten() -> None:
    control = {spec.name: spec for spec in internal_topics(3)}[names.CONTROL_TOPIC]
    assert (control.config["retention.ms"], control.config["cleanup.policy"]) == ("-1", "compact,delete")


@pytest.mark.parametrize(("brokers", "partitions"), [(1, 12), (3, 18), (10, 60)])
def test_a_data_topic_has_six_partitions_per_broker(brokers: int, partitions: int) -> None:
    data = dataset_topics(OWN, brokers)[0]
    assert (data.name, data.partitions) == (names.dataset_topic("u1", "data"), partitions)


def test_storage_settings_hold_for_data_only() -> None:
    wanted = DesiredDataset(uid="u1", name="ns/p", replication_factor=2, partitions=24)
    data, *others = dataset_topics(wanted, 5)
    assert (data.partitions, data.replication_factor, data.config["min.insync.replicas"]) == (24, 2, "1")
    assert {(spec.partitions, spec.replication_factor) for spec in others} == {(1, 3)}


def test_nothing_of_a_dataset_expires() -> None:
    for spec in dataset_topics(OWN, 3):
        assert spec.config["retention.ms"] == spec.config["retention.bytes"] == "-1"
        assert spec.config["cleanup.policy"] == "delete"
        assert spec.config["unclean.leader.election.enable"] == "false"


def test_the_topic_of_a_balanced_topic_is_not_created_here() -> None:
    borrowed = DesiredDataset(uid="u1", name="ns/p", data_topic="events")
    assert [spec.name.rsplit("-", 1)[1] for spec in dataset_topics(borrowed, 3)] == [
        "journal",
        "manifest",
        "rejected",
    ]


def test_only_data_takes_large_records() -> None:
    limits = {
        spec.name.rsplit("-", 1)[1]: spec.config["max.message.bytes"] for spec in dataset_topics(OWN, 3)
    }
    small = str(8 * 1024 * 1024)
    assert limits == {"data": str(72 * 1024 * 1024), "journal": small, "manifest": small, "rejected": small}


def test_the_role_of_a_topic_is_known_by_its_name() -> None:
    borrowed = DesiredDataset(uid="u1", name="ns/p", data_topic="events")
    assert topic_role(borrowed, "events") == topic_role(OWN, names.dataset_topic("u1", "data")) == "data"
    assert topic_role(borrowed, names.dataset_topic("u1", "journal")) == "journal"
