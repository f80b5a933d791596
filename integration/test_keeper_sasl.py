from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AdminClient

from evenkeel.domain.connection import Connection, Protocol, SaslMechanism
from evenkeel.domain.exchange import DesiredTopic
from evenkeel.reasons import Reason
from integration.kafka import rights
from integration.kafka.clients import await_topic, create_topic, unique
from integration.kafka.cluster import KafkaCluster
from integration.kafka.settings import Sasl
from integration.keeper import Keeper, build_desired, faults
from integration.processes import wait_until

SECONDS = 30
"""Within this a cause must be told."""


@pytest.fixture(scope="module")
def cluster(kafka_home: object) -> Iterator[KafkaCluster]:
    """A cluster of its own: rights are taken away and given back here."""
    users = {name: f"{name}-secret" for name in (rights.OBSERVE, rights.MOVE)}
    with KafkaCluster.start(security=Sasl(users)) as started:
        rights.grant(started.client_config(), [*rights.observe_rights(), *rights.move_rights()])
        yield started


def write_secret(folder: Path, name: str, password: str | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "username").write_text(name)
    (folder / "password").write_text(password if password is not None else f"{name}-secret")
    return folder


def build_connection(cluster: KafkaCluster, folder: Path) -> Connection:
    return Connection(
        tuple(cluster.bootstrap.split(",")),
        protocol=Protocol.SASL_PLAINTEXT,
        sasl_mechanism=SaslMechanism.SCRAM_SHA_512,
        credentials_path=str(folder / "observe"),
        move_credentials_path=str(folder / "move"),
    )


@pytest.fixture
def keeper(cluster: KafkaCluster, tmp_path: Path) -> Iterator[Keeper]:
    """A keeper, not started, whose two Secrets are right."""
    for name in (rights.OBSERVE, rights.MOVE):
        write_secret(tmp_path / name, name)
    keeper = Keeper(tmp_path / "keeper", build_desired(build_connection(cluster, tmp_path)))
    yield keeper
    log = keeper.folder / "keeper.log"
    keeper.kill()
    for name in (rights.OBSERVE, rights.MOVE):
        assert f"{name}-secret" not in log.read_text()
        assert f"{name}-secret" not in (keeper.folder / "report.json").read_text()


def topic_names(cluster: KafkaCluster) -> set[str]:
    return set(AdminClient(cluster.client_config()).list_topics(timeout=30).topics)


def revoke(cluster: KafkaCluster, missing: Sequence[AclBinding]) -> None:
    """Returns when every broker knows that the rights are gone."""
    rights.revoke(cluster.client_config(), missing)
    create_topic(cluster.client_config(), unique("revoked"), [[1]])  # brokers learn of changes in their order


def test_with_its_rights_a_keeper_does_all_its_work(cluster: KafkaCluster, keeper: Keeper) -> None:
    name = unique("declared")
    keeper.want(topics=(DesiredTopic("o", name, partitions=3, replication_factor=2),))
    keeper.start()
    report = keeper.wait("the topic", lambda found: bool(found.topics) and found.topics[0].exists)
    assert not report.faults
    assert len(report.volumes) == 3
    await_topic(cluster.client_config(), name, 3)


def test_a_wrong_password_is_told_and_heals(keeper: Keeper) -> None:
    folder = Path(keeper.desired.connection.credentials_path or "")
    write_secret(folder, rights.OBSERVE, "not this one")
    keeper.start()
    keeper.wait_fault(Reason.AUTHENTICATION_FAILED, SECONDS)
    write_secret(folder, rights.OBSERVE)
    report = keeper.wait("a measurement", lambda found: found.measured)
    assert not faults(report, Reason.AUTHENTICATION_FAILED)


@pytest.mark.parametrize("name", [rights.OBSERVE, rights.MOVE])
def test_a_missing_secret_is_told_and_picked_up_when_it_comes(keeper: Keeper, name: str) -> None:
    folder = Path(keeper.desired.connection.credentials_path or "").with_name(name)
    shutil.rmtree(folder)
    keeper.start()
    fault = keeper.wait_fault(Reason.SECRET_MISSING, SECONDS)
    assert f"{name}/username" in fault.message
    write_secret(folder, name)
    keeper.wait("no faults", lambda found: found.measured and not found.faults)


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        (rights.observe_rights()[0], "Describe on the Cluster"),
        (rights.observe_rights()[-1], "Write on TransactionalId evenkeel-*"),
    ],
    ids=["log directories", "claim"],
)
def test_a_missing_right_is_named_and_heals(
    cluster: KafkaCluster, keeper: Keeper, missing: AclBinding, told: str
) -> None:
    revoke(cluster, [missing])
    try:
        keeper.start()
        keeper.wait_fault(Reason.AUTHORIZATION_MISSING, SECONDS, told=told)
    finally:
        rights.grant(cluster.client_config(), [missing])
    keeper.wait("no faults", lambda found: found.measured and not found.faults)
    assert len(keeper.wait_claim().volumes) == 3


def test_without_create_a_topic_says_which_right_it_needs(cluster: KafkaCluster, keeper: Keeper) -> None:
    name = unique("forbidden")
    create = [right for right in rights.move_rights() if right.operation.name == "CREATE"]
    revoke(cluster, create)
    try:
        keeper.want(topics=(DesiredTopic("o", name, partitions=1),))
        keeper.start()
        fault = keeper.wait_fault(Reason.AUTHORIZATION_MISSING, SECONDS, told=f"Create on Topic {name}")
        assert fault.subject == f"topic/{name}"
    finally:
        rights.grant(cluster.client_config(), create)
    wait_until("the topic", lambda: name in topic_names(cluster))
