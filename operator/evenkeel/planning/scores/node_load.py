"""NodeLoad: nodes whose disk, processor or network is busy should get less.

    e(x) = (max(0, min(x, 1) - threshold) / (1 - threshold))^2       busy part of a fraction, 0 to 1
    k_leader   = diskUtilisation e(disk) + network e(network) + cpu e(cpu) + produceLatencyMs d(latency)
    k_follower = diskUtilisation e(disk) + network e(network)

where d is how many times the broker's latency of produce requests is the double of the median broker's
(beyond a quarter; at most 3, either way). Replicas are written and sent wherever they lie, so disk and network
count for both; requests are answered by leaders, so processor and latency count for them alone.

Below the threshold (0.6) nothing counts: there a queue is at most 1 / (1 - 0.6) = 2.5 times as long as an idle
one, and the square lets the cost begin without a jump, so that weights do not flap around it. Weights: a disk
that is always busy costs 10, like 2 % of fill; processor and network 5 each, like 1 %; each doubling of latency
beyond the quarter 2.5, like 0.5 %. Numbers come from Prometheus; a broker that lacks one counts like the median broker.

Parameters: diskUtilisation, cpu, network, produceLatencyMs (weights, 0 to 100), threshold (0 to 0.95).
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.planning.scores.parameters import check_names, read_number
from evenkeel.planning.scores.protocol import Costs
from evenkeel.planning.scores.relative import doublings, nothing_known, read_load

NAME = "NodeLoad"
FRACTIONS = {"diskUtilisation": 10.0, "network": 5.0, "cpu": 5.0}
"""Numbers of a broker that are fractions, with the usual weight."""
FOLLOWED = ("diskUtilisation", "network")
"""Those that writing a replica uses too."""
LATENCY, LATENCY_WEIGHT = "produceLatencyMs", 2.5
THRESHOLD = 0.6


def node_load(snapshot: ClusterSnapshot, topic: str, parameters: Mapping[str, str], /) -> Costs:  # noqa: ARG001
    """A cost per broker as leader and as follower, no unit.

    Raises:
        InputError: a parameter is unknown or out of bounds.
        RetryableError: no broker's load is known.
    """
    check_names(NAME, parameters, (*FRACTIONS, LATENCY, "threshold"))
    threshold = read_number(NAME, parameters, "threshold", THRESHOLD, least=0, most=0.95)
    weights = {
        name: read_number(NAME, parameters, name, usual, least=0, most=100)
        for name, usual in {**FRACTIONS, LATENCY: LATENCY_WEIGHT}.items()
    }
    loads = {name: found for name in weights if (found := read_load(snapshot, name))}
    if not loads:
        raise nothing_known(NAME, "no broker's load is known; it needs spec.measure.prometheus")
    brokers = [broker.id for broker in snapshot.brokers]
    parts = {name: _busy(loads.get(name, {}), brokers, threshold) for name in FRACTIONS}
    parts[LATENCY] = dict.fromkeys(brokers, 0.0) | doublings(loads.get(LATENCY, {}))
    return Costs(
        leader=_sum(brokers, weights, parts, tuple(weights)), follower=_sum(brokers, weights, parts, FOLLOWED)
    )


def _busy(loads: Mapping[int, float], brokers: list[int], threshold: float) -> dict[int, float]:
    middle = median(loads.values()) if loads else 0.0
    fractions = {broker: min(1.0, loads.get(broker, middle)) for broker in brokers}
    return {broker: (max(0.0, x - threshold) / (1 - threshold)) ** 2 for broker, x in fractions.items()}


def _sum(
    brokers: list[int],
    weights: Mapping[str, float],
    parts: Mapping[str, Mapping[int, float]],
    names: tuple[str, ...],
) -> dict[int, float]:
    return {broker: sum(weights[name] * parts[name][broker] for name in names) for broker in brokers}
