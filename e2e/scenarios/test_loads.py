"""NodeLoad in a cluster: Prometheus and node exporters run there, and the brokers' pods are named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.cluster.lifecycle import Cluster
from e2e.prometheus import deploy
from e2e.scenarios.user import CLUSTER, DEMO_CLUSTER, TOPIC, User

SECONDS = 180
TOPIC_NAME = "events"


@pytest.fixture(scope="module")
def address(cluster: Cluster) -> Iterator[str]:
    try:
        yield deploy.deploy(cluster)
    finally:
        deploy.remove(cluster)


@pytest.fixture
def observed(administrator: User, address: str) -> Iterator[User]:
    """The demo's cluster with Prometheus and its brokers' pods; afterwards as it was."""
    administrator.edit(
        CLUSTER,
        DEMO_CLUSTER,
        {
            "measure": {
                "prometheus": {
                    "url": address,
                    # Interfaces of kind's nodes have no speed, and these brokers no JMX exporter.
                    "queries": [{"name": "network", "query": ""}, {"name": "produceLatencyMs", "query": ""}],
                }
            },
            "brokers": {"matchLabels": {"app": "kafka"}},
        },
    )
    yield administrator
    administrator.edit(CLUSTER, DEMO_CLUSTER, {"measure": {"prometheus": None}, "brokers": None})
    administrator.edit(TOPIC, TOPIC_NAME, {"routing": None})


@pytest.mark.timeout(700, func_only=True)
def test_brokers_have_nodes_and_nodes_have_loads(observed: User, cluster: Cluster) -> None:
    observed._wait("jsonpath={.status.volumes[3].node}", CLUSTER, DEMO_CLUSTER, SECONDS)
    observed.wait_reason("Measured", CLUSTER, DEMO_CLUSTER, SECONDS, "LoadsKnown")
    status = observed.get(CLUSTER, DEMO_CLUSTER)["status"]
    nodes = {one["broker"]: one.get("node") for one in status["volumes"]}
    assert nodes == {i + 1: cluster.workers[i % len(cluster.workers)] for i in range(4)}
    scores = [{"name": "Storage"}, {"name": "NodeLoad"}]
    observed.edit(TOPIC, TOPIC_NAME, {"routing": {"scores": scores}})
    path = '{.status.routes.scores[?(@.name=="NodeLoad")].reason}'
    observed._wait(f"jsonpath={path}=Routed", TOPIC, TOPIC_NAME, SECONDS)


def test_a_prometheus_that_is_gone_stops_nothing(observed: User, cluster: Cluster) -> None:
    observed.wait_reason("Measured", CLUSTER, DEMO_CLUSTER, SECONDS, "LoadsKnown")
    deploy.remove(cluster)
    observed.wait_reason("PrometheusUnreachable", CLUSTER, DEMO_CLUSTER, SECONDS, "LoadsKnown")
    said = observed.condition(CLUSTER, DEMO_CLUSTER)
    assert said is not None
    assert said.status == "True"
