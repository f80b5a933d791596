"""Numbers about brokers and their nodes that do not come from Kafka: names, queries, samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DISK_UTILISATION = "diskUtilisation"
"""Share of time in which the node's busiest disk had requests, 0 to 1."""
CPU = "cpu"
"""Share of the node's processor time that was not idle, 0 to 1."""
NETWORK = "network"
"""Share of the line speed that the node's busiest interface sent, 0 to 1."""
PRODUCE_LATENCY_MS = "produceLatencyMs"
"""99th percentile of the broker's time for a Produce request, milliseconds."""
FRACTIONS = (DISK_UTILISATION, CPU, NETWORK)

_NODE = "* on (instance) group_left (nodename) node_uname_info"
_INTERFACE = 'device!~"lo|veth.*|cali.*|cni.*|docker.*|tun.*"'
DEFAULT_QUERIES: Mapping[str, str] = {
    DISK_UTILISATION: f"max by (nodename) (rate(node_disk_io_time_seconds_total[2m]) {_NODE})",
    CPU: f'1 - avg by (nodename) (rate(node_cpu_seconds_total{{mode="idle"}}[2m]) {_NODE})',
    NETWORK: (
        f"max by (nodename) (rate(node_network_transmit_bytes_total{{{_INTERFACE}}}[2m])"
        f" / (node_network_speed_bytes{{{_INTERFACE}}} > 0) {_NODE})"
    ),
    PRODUCE_LATENCY_MS: (
        'max by (instance, pod, namespace) (kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"})'
    ),
}
"""For node-exporter, and for Kafka's JMX exporter with its example rules (Strimzi's are the same here)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of an instant query's answer."""

    labels: Mapping[str, str]
    value: float
    at_seconds: float
    """Seconds since the epoch."""
