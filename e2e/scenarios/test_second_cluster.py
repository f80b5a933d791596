"""Somebody declares the same Kafka cluster once more: told so, and nothing changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.scenarios import kafka
from e2e.scenarios.conftest import Demo
from e2e.scenarios.user import (
    CLUSTER,
    DEMO_CLUSTER,
    DEMO_NAMESPACE,
    TOPIC,
    Said,
    User,
    build_cluster,
    build_topic,
)

OWNER = f"{DEMO_NAMESPACE}/{DEMO_CLUSTER}"
SECONDS = 120
"""A keeper's pod has to start first."""


@pytest.fixture(scope="module")
def told(demo: Demo, newcomer: User) -> Iterator[Said]:
    newcomer.apply(
        build_cluster("again", list(demo.bootstrap), measure={"intervalSeconds": 5}),
        build_topic("second", clusterRef={"name": "again"}, partitions=6, replicationFactor=2),
    )
    yield newcomer.wait_reason("ClusterOwnedElsewhere", CLUSTER, "again", SECONDS)
    newcomer.delete(TOPIC, "second")
    newcomer.delete(CLUSTER, "again")


def test_the_owner_is_named(told: Said, newcomer: User) -> None:
    assert told.status == "False"
    assert OWNER in told.message
    assert newcomer.get(CLUSTER, "again")["status"]["claimOwner"] == OWNER


def test_it_is_measured_all_the_same(told: Said, newcomer: User, administrator: User) -> None:
    first, second = administrator.get(CLUSTER, DEMO_CLUSTER), newcomer.get(CLUSTER, "again")
    assert second["status"]["clusterId"] == first["status"]["clusterId"]
    assert len(second["status"]["volumes"]) == len(first["status"]["volumes"])


def test_its_topic_is_not_made_and_says_why(told: Said, newcomer: User, demo: Demo) -> None:
    said = newcomer.wait_reason("ClusterOwnedElsewhere", TOPIC, "second", SECONDS)
    assert OWNER in said.message
    assert "second" not in kafka.list_topics(demo.host_bootstrap)


def test_claim_and_routes_stay_the_first_ones(told: Said, demo: Demo, administrator: User) -> None:
    claim = kafka.read_claim(demo.host_bootstrap)
    assert claim.name == OWNER
    tables = kafka.read_tables(demo.host_bootstrap)
    assert tables
    assert {table.owner_epoch for table in tables} <= set(range(1, claim.epoch + 1))
    assert all(table.topic != "second" for table in tables)
    administrator.wait_for("Ready", CLUSTER, DEMO_CLUSTER, 30)


def test_deleting_it_does_not_touch_the_first(
    told: Said, demo: Demo, newcomer: User, administrator: User
) -> None:
    before = kafka.read_claim(demo.host_bootstrap)
    newcomer.delete(TOPIC, "second")
    newcomer.delete(CLUSTER, "again")
    newcomer.wait_gone("deployments,pods,configmaps", "app.kubernetes.io/managed-by=evenkeel", SECONDS)
    assert kafka.read_claim(demo.host_bootstrap) == before
    administrator.wait_for("Ready", CLUSTER, DEMO_CLUSTER, 30)
