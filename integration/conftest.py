"""Real servers for tests: Kafka brokers and an API server, as processes of this machine."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, Protocol

import pytest

from integration.apiserver.server import ApiServer, Kubectl, find_binaries, install_kinds
from integration.kafka import rights
from integration.kafka.cluster import THREE, KafkaCluster
from integration.kafka.disks import may_mount
from integration.kafka.settings import BrokerSpec, Sasl
from integration.operator_process import Api, OperatorProcess, StartOperator, render_chart
from scripts.provision import jars
from scripts.provision.steps import StepFailed

FOLDER = Path(__file__).parent
LIMIT_SECONDS = 300
"""Of a test that names none: servers that start count too, and the waits of a test sum up on a busy machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT_SECONDS))


class StartKafka(Protocol):
    """What the fixture `kafka_cluster` gives: starts a cluster that is closed after the test."""

    def __call__(
        self,
        brokers: Sequence[BrokerSpec] = THREE,
        *,
        security: Sasl | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> KafkaCluster: ...


def unavailable(reason: str) -> NoReturn:
    """Skip with the reason; on CI, where everything has to run, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"not available here: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def kafka_home() -> jars.KafkaHome:
    try:
        return jars.ensure()
    except StepFailed as error:
        unavailable(str(error))


@pytest.fixture(scope="session")
def kafka(kafka_home: jars.KafkaHome) -> Iterator[KafkaCluster]:
    """Three brokers (ids 1 to 3, racks rack1 to rack3), shared: use topics of your own, kill nothing."""
    with KafkaCluster.start() as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(kafka_home: jars.KafkaHome) -> Iterator[StartKafka]:
    """Starts clusters for one test: disks of chosen sizes, security, properties; to be broken."""
    started: list[KafkaCluster] = []

    def start(
        brokers: Sequence[BrokerSpec] = THREE,
        *,
        security: Sasl | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> KafkaCluster:
        if any(size is not None for spec in brokers for size in spec.disks) and not may_mount():
            unavailable("disks of chosen sizes need root and loop devices")
        started.append(KafkaCluster.start(brokers, security=security, properties=properties))
        return started[-1]

    yield start
    for cluster in started:
        cluster.close()


@pytest.fixture(scope="session")
def sasl_kafka(kafka_home: jars.KafkaHome) -> Iterator[KafkaCluster]:
    """Three brokers with SCRAM and ACLs, shared: principals `observe`, `move`, `dataset` with their rights.

    `dataset` has those of the topics `rights.DATASET_PREFIX*`; `nobody` may log in and has none.
    """
    names = (rights.OBSERVE, rights.MOVE, rights.DATASET, "nobody")
    with KafkaCluster.start(security=Sasl({name: f"{name}-secret" for name in names})) as cluster:
        granted = [*rights.observe_rights(), *rights.move_rights(), *rights.dataset_rights()]
        rights.grant(cluster.client_config(), granted)
        yield cluster


@pytest.fixture(scope="session")
def kube_binaries() -> Path:
    try:
        return find_binaries()
    except StepFailed as error:
        unavailable(str(error))


@pytest.fixture(scope="session")
def apiserver(kube_binaries: Path) -> Iterator[ApiServer]:
    """An API server with its controller manager, shared: use namespaces of your own, stop nothing.

    Users besides `admin`: `alice`, without any right. Real roles are tried with service accounts:
    `kube_admin("create", "token", NAME)` and `apiserver.kubeconfig_for(token, NAME)`.
    """
    with ApiServer.start(users=("alice",), controller_manager=True) as server:
        yield server


@pytest.fixture
def own_apiserver(kube_binaries: Path) -> Iterator[ApiServer]:
    """An API server of one test, to be stopped, frozen and started; without a controller manager."""
    with ApiServer.start(users=("alice",)) as server:
        yield server


@pytest.fixture(scope="session")
def kube_admin(apiserver: ApiServer) -> Kubectl:
    """kubectl of the shared API server as admin; `.kubeconfig` is its file."""
    return apiserver.kubectl()


@pytest.fixture
def namespace(kube_admin: Kubectl) -> Iterator[str]:
    """A namespace of one test on the shared API server."""
    name = f"test-{secrets.token_hex(4)}"
    kube_admin("create", "namespace", name)
    yield name
    kube_admin("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def crds(kube_admin: Kubectl) -> Kubectl:
    """The shared API server with `crds/` applied and served; kubectl as admin."""
    install_kinds(kube_admin, str(Path(__file__).resolve().parents[1] / "crds"))
    return kube_admin


@pytest.fixture
def api(crds: Kubectl, namespace: str) -> Api:
    return Api(crds, namespace)


@pytest.fixture
def operator_kubeconfig(apiserver: ApiServer, api: Api, kube_binaries: Path) -> Path:
    """The operator's account with exactly the chart's rights."""
    rights = render_chart(kube_binaries / "helm", api.namespace, "operator/rbac.yaml")
    api.kubectl("apply", "-f", "-", stdin=rights)
    account = next(one for one in api.list("serviceaccount") if one["metadata"]["name"] != "default")
    token = api.kubectl("create", "token", account["metadata"]["name"], "-n", api.namespace).strip()
    return apiserver.kubeconfig_for(token, f"operator-{api.namespace}")


@pytest.fixture
def start_operator(operator_kubeconfig: Path, api: Api, tmp_path: Path) -> Iterator[StartOperator]:
    started: list[OperatorProcess] = []

    def start(**variables: str) -> OperatorProcess:
        log = tmp_path / f"operator-{len(started)}.log"
        started.append(OperatorProcess(operator_kubeconfig, api.namespace, log, **variables))
        return started[-1]

    yield start
    for one in started:
        one.process.stop()
        print(one.process.output()[-20000:])  # noqa: T201 - shown when the test fails
