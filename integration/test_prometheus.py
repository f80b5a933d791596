from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evenkeel.domain.exchange import BrokerPlace, Fault, LoadSource, Policy
from evenkeel.domain.loads import CPU, DEFAULT_QUERIES, DISK_UTILISATION, NETWORK, PRODUCE_LATENCY_MS
from evenkeel.errors import InputError
from evenkeel.keeper.loads import SUBJECT, ask
from evenkeel.prometheus.client import PrometheusClient
from evenkeel.reasons import Reason
from integration.conftest import unavailable
from integration.kafka.cluster import KafkaCluster
from integration.keeper import Keeper, build_desired, plain
from integration.processes import wait_until
from integration.prometheus.server import Exporter, PrometheusServer, exporter
from scripts.provision import prometheus
from scripts.provision.steps import StepFailed

pytestmark = pytest.mark.timeout(300)  # servers that start count too, and its waits one after the other
NODES = {1: "node-a", 2: "node-b", 3: "node-c"}
MINE = {**dict.fromkeys(DEFAULT_QUERIES, ""), DISK_UTILISATION: "disk_busy"}


@pytest.fixture(scope="module")
def exported() -> Iterator[Exporter]:
    with exporter() as found:
        yield found


@pytest.fixture(scope="module")
def server(exported: Exporter) -> Iterator[PrometheusServer]:
    try:
        prometheus.ensure()
    except StepFailed as error:
        unavailable(str(error))
    started = PrometheusServer(exported.address)
    yield started
    started.close()


def busy(values: dict[str, float | str]) -> dict[str, float | str]:
    return {f'disk_busy{{node="{node}"}}': value for node, value in values.items()}


def test_the_usual_queries_give_fractions_of_each_node(exported: Exporter, server: PrometheusServer) -> None:
    seconds = 0

    def scraped() -> dict[str, dict[str, float]] | None:
        nonlocal seconds
        seconds += 1
        here = 'instance="x"'  # replaced by Prometheus with the target's own
        exported.show(
            {
                f'node_uname_info{{nodename="node-a",{here}}}': 1,
                'node_disk_io_time_seconds_total{device="sda"}': 0.1 * seconds,
                'node_disk_io_time_seconds_total{device="sdb"}': 0.5 * seconds,
                'node_cpu_seconds_total{cpu="0",mode="idle"}': 0.75 * seconds,
                'node_cpu_seconds_total{cpu="0",mode="user"}': 0.25 * seconds,
                'node_network_transmit_bytes_total{device="eth0"}': 1000 * seconds,
                'node_network_speed_bytes{device="eth0"}': 125_000_000,
                'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"}': 7.5,
            }
        )
        answers = ask(LoadSource(server.url, timeout_seconds=30))
        assert answers.errors == {}
        found = {
            name: {one.labels.get("nodename", ""): one.value for one in samples}
            for name, samples in answers.samples.items()
        }
        return found if all(found.values()) else None

    found = wait_until("all loads", scraped, every=0.5)
    assert found.keys() == {DISK_UTILISATION, CPU, NETWORK, PRODUCE_LATENCY_MS}
    assert found[PRODUCE_LATENCY_MS][""] == 7.5
    for name in (DISK_UTILISATION, CPU, NETWORK):
        assert "node-a" in found[name]
        assert 0 <= found[name]["node-a"] < 5  # rates depend on how fast this machine lets us count


def test_a_wrong_query_is_refused_in_prometheus_words(server: PrometheusServer) -> None:
    with PrometheusClient(server.url, 5) as client, pytest.raises(InputError) as raised:
        client.query("rate(")
    assert raised.value.reason is Reason.PROMETHEUS_QUERY_REFUSED
    assert "parse error" in raised.value.message


def test_a_keeper_refuses_what_cannot_be_and_goes_on(
    kafka: KafkaCluster, exported: Exporter, server: PrometheusServer, tmp_path: Path
) -> None:
    exported.show(busy({"node-a": 0.2, "node-b": 0.3, "node-c": 0.25}))
    desired = build_desired(
        plain(kafka),
        "ns/loads",
        places=tuple(BrokerPlace(broker, node) for broker, node in NODES.items()),
    )
    policy = Policy(interval_seconds=5, loads=LoadSource(server.url, MINE, 2))
    with Keeper(tmp_path / "keeper", desired) as keeper:
        keeper.want(policy=policy)
        keeper.wait("loads without a fault", lambda found: found.measured and not told(found.faults))
        for text, word in (
            (busy({"node-a": "NaN", "node-b": 0.3, "node-c": 0.25}), "not a number"),
            (busy({"node-a": -1, "node-b": 0.3, "node-c": 0.25}), "negative"),
            (busy({"node-a": 0.2, "node-b": 0.3}), "missing"),
        ):
            exported.show(text)
            keeper.wait_fault(Reason.SERIES_REFUSED, told=word)
        exported.gone = True
        keeper.wait_fault(Reason.SERIES_REFUSED, told="of 3 brokers")
        exported.gone = False
        exported.show(busy({"node-a": 0.2, "node-b": 0.3, "node-c": 0.25}))
        keeper.wait("healed loads", lambda found: not told(found.faults))
        server.process.freeze()
        fault = keeper.wait_fault(Reason.PROMETHEUS_UNREACHABLE)
        assert fault.subject == SUBJECT
        assert keeper.wait("a measurement all the same", lambda found: found.measured).measured
        server.process.thaw()
        keeper.wait("healed server", lambda found: not told(found.faults))


def told(faults: tuple[Fault, ...]) -> list[Fault]:
    return [fault for fault in faults if fault.subject == SUBJECT]
