from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evenkeel.domain.snapshot import Broker, ClusterSnapshot, Incoming, LogDir, Topic
from evenkeel.planning.diagnosis import Diagnosis, Facts, Finding, Grade, Rights, diagnose, users_topics
from evenkeel.reasons import Reason
from tests.support.snapshots import GIB, MIB, broker, cluster, demo_snapshot, partitions_of

PAIRS = [(0, 1), (1, 2), (2, 3), (3, 0)]


def busy(**changes: Any) -> ClusterSnapshot:
    """Four brokers, one of them fuller, a topic of four partitions that grows."""
    brokers = [broker(i, GIB, 600 * MIB if i == 0 else 200 * MIB) for i in range(4)]
    grown = (Incoming(topic="clicks", bytes_per_second=2 * MIB, steered_percent=0),)
    found = cluster(
        brokers, partitions_of("clicks", PAIRS * 3, [16 * MIB] * 12), grown, (Topic(name="clicks"),)
    )
    return replace(found, **changes)


def found(diagnosis: Diagnosis, subject: str) -> Finding:
    (finding,) = (one for one in diagnosis.findings if one.subject == subject)
    return finding


def test_a_topic_that_would_level_the_disks_is_to_be_declared() -> None:
    diagnosis = diagnose(Facts(busy(), metadata_version=30))
    (topic,) = diagnosis.topics
    assert topic.routable
    assert "BalancedTopic" in topic.next_step
    assert found(diagnosis, "routing").grade is Grade.HINT
    assert diagnosis.routed_max_fill is not None
    assert diagnosis.uniform_max_fill is not None
    assert diagnosis.routed_max_fill < diagnosis.uniform_max_fill
    assert not diagnosis.blocked


def test_a_topic_of_which_no_record_was_seen_is_not_called_free_of_keys() -> None:
    (unseen,) = diagnose(Facts(busy())).topics
    assert unseen.steerable_percent is None
    assert "no record was looked at" in unseen.next_step
    (seen,) = diagnose(Facts(busy(), steerable={"clicks": 100})).topics
    assert seen.next_step.startswith("declare a BalancedTopic")


def test_keyed_topics_are_not_worth_routing() -> None:
    (topic,) = diagnose(Facts(busy(), steerable={"clicks": 5})).topics
    assert not topic.routable
    assert "keys" in topic.next_step
    (topic,) = diagnose(Facts(busy(), steerable={"clicks": 0})).topics
    assert topic.reason is Reason.NOT_STEERED


def test_compacted_topics_say_what_helps() -> None:
    (topic,) = diagnose(Facts(busy(topics=(Topic("clicks", cleanup_policy="compact"),)))).topics
    assert (topic.routable, topic.reason) == (False, Reason.COMPACTED)
    assert "moves" in topic.next_step


@pytest.mark.parametrize(
    ("version", "grade"), [(None, Grade.UNKNOWN), (14, Grade.HINT), (19, Grade.OK), (30, Grade.OK)]
)
def test_versions(version: int | None, grade: Grade) -> None:
    assert found(diagnose(Facts(busy(), metadata_version=version)), "Kafka version").grade is grade


@pytest.mark.parametrize(
    ("odd", "grade", "word"),
    [
        (Broker(id=4), Grade.BLOCKED, "Describe on the Cluster"),
        (Broker(id=4, log_dirs=(LogDir("/data"),)), Grade.BLOCKED, "3.3"),
        (Broker(id=4, online=False), Grade.HINT, "unregister"),
        (Broker(id=4, log_dirs=(LogDir("/a", GIB, GIB), LogDir("/b", online=False))), Grade.HINT, "disk"),
        (Broker(id=4, log_dirs=(LogDir("/a", GIB, GIB, cordoned=True),)), Grade.HINT, "cordoned"),
    ],
    ids=["silent", "sizeless", "away", "offline", "cordoned"],
)
def test_brokers_that_do_not_tell_enough(odd: Broker, grade: Grade, word: str) -> None:
    diagnosis = diagnose(Facts(busy(brokers=(*busy().brokers, odd))))
    bad = [one for one in diagnosis.findings if one.subject in {"brokers", "log directories"}]
    assert any(one.grade is grade and word in one.next_step and "4" in one.message for one in bad)
    assert diagnosis.blocked == (grade is Grade.BLOCKED)


def test_missing_rights_are_named() -> None:
    rights = Rights(
        needed_cluster=frozenset({"Describe", "DescribeConfigs"}),
        needed_topic=frozenset({"Describe", "DescribeConfigs"}),
        cluster=frozenset({"Describe"}),
        topics={"clicks": frozenset({"Describe"})},
    )
    finding = found(diagnose(Facts(busy(), observe=rights)), "rights to observe")
    assert finding.grade is Grade.BLOCKED
    assert "DescribeConfigs on the Cluster" in finding.message
    assert "DescribeConfigs on clicks" in finding.message
    whole = replace(rights, cluster=rights.needed_cluster, topics={"clicks": rights.needed_topic})
    assert found(diagnose(Facts(busy(), observe=whole)), "rights to observe").grade is Grade.OK
    untold = replace(rights, cluster=None)
    assert found(diagnose(Facts(busy(), move=untold)), "rights to move").grade is Grade.UNKNOWN


@pytest.mark.parametrize(("used", "grade"), [(200, Grade.OK), (600, Grade.HINT), (900, Grade.HINT)])
def test_storage(used: int, grade: Grade) -> None:
    brokers = tuple(broker(i, GIB, used * MIB if i == 0 else 200 * MIB) for i in range(4))
    assert found(diagnose(Facts(busy(brokers=brokers))), "storage").grade is grade


def test_own_and_internal_topics_are_not_listed() -> None:
    own = "evenkeel-0123456789abcdef0123-data"
    partitions = (
        *partitions_of("clicks", PAIRS),
        *partitions_of("__consumer_offsets", PAIRS),
        *partitions_of(own, PAIRS),
    )
    assert users_topics(busy(partitions=partitions)) == ("clicks",)


def test_the_largest_topics_come_first() -> None:
    sizes = {"a": 16, "b": 64, "c": 32, "d": 32}
    partitions = tuple(p for topic, size in sizes.items() for p in partitions_of(topic, PAIRS, [size] * 4))
    assert users_topics(busy(partitions=partitions)) == ("b", "c", "d", "a")


def test_the_demo_is_judged() -> None:
    diagnosis = diagnose(Facts(demo_snapshot(), metadata_version=30))
    assert {one.topic for one in diagnosis.topics} == {"ballast", "clipart"}
