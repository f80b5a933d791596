"""Which loads of brokers can be believed: pure judgement of what Prometheus answers.

A wrong number here would move writes of a whole cluster, a missing one only makes NodeLoad say less. So
everything odd is refused with a reason, and the broker's load is unknown for that cycle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from evenkeel.domain.loads import FRACTIONS, Sample
from evenkeel.domain.snapshot import Broker, ClusterSnapshot

MOST_AGE_SECONDS = 300.0
"""Prometheus itself looks back five minutes; a sample that is older comes from a cache or a stopped clock."""
MEMORY = 9
"""Accepted values kept per series; their median is what a spike is measured against."""
FEWEST = 3
"""With fewer values nothing is known of what is usual."""
SPIKE = 10.0
"""A value this many times the usual one is refused ..."""
SPIKE_CYCLES = 3
"""... until it has been seen so often in a row: what lasts is no spike."""
CALM, CALM_MS = 0.05, 5.0
"""What is usual counts as at least this, a fraction or milliseconds: tenfold of nothing is no spike."""
MOST_FRACTION = 1.5
"""Rates may exceed 1 by rounding of scrape times, not more."""
BROKER_LABELS = ("broker", "broker_id", "brokerid", "node_id", "kafka_broker_id")
NODE_LABELS = ("nodename", "node", "kubernetes_node")
HOST_LABELS = ("pod", "host", "hostname", "instance")
Key = tuple[str, str]
"""`broker` and its id, or `place` and the name of a node, host or pod."""
Index = Mapping[Key, Sequence[Sample]]


@dataclass(frozen=True, slots=True)
class Memory:
    """What was accepted lately, and what was refused as a spike, by (broker, load name)."""

    accepted: Mapping[tuple[int, str], tuple[float, ...]] = field(default_factory=dict)
    spikes: Mapping[tuple[int, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """A load that is not used in this cycle."""

    name: str
    broker: int
    why: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """Loads that can be used, what was refused, and what to remember."""

    loads: Mapping[int, Mapping[str, float]]
    """broker -> load name -> value; a refused one is absent."""
    refused: tuple[Refused, ...]
    memory: Memory


def judge_loads(
    answers: Mapping[str, Sequence[Sample]], brokers: Iterable[Broker], memory: Memory, now_seconds: float
) -> Judgement:
    """Match series to brokers and refuse what cannot be believed.

    Args:
        answers: load name -> samples; a name whose query failed is absent.
        brokers: those of the newest snapshot; offline ones are passed over.
        memory: of the last judgement.
        now_seconds: seconds since the epoch.
    """
    loads: dict[int, dict[str, float]] = {}
    refused: list[Refused] = []
    accepted, spikes = dict(memory.accepted), dict(memory.spikes)
    for name, samples in answers.items():
        index = index_samples(samples)
        for broker in brokers:
            if broker.fenced or not broker.online:
                continue
            key = (broker.id, name)
            sample = find_sample(index, broker)
            why = _refuse(name, sample, accepted.get(key, ()), spikes.get(key, 0), now_seconds)
            if sample is None or why:
                refused.append(Refused(name, broker.id, why))
                spikes[key] = spikes.get(key, 0) + 1 if why.startswith("spike") else 0
                continue
            loads.setdefault(broker.id, {})[name] = sample.value
            lasted = spikes.pop(key, 0) >= SPIKE_CYCLES  # no spike then, but a new level
            usual = () if lasted else accepted.get(key, ())
            accepted[key] = (*usual, sample.value)[-MEMORY:]
    return Judgement(loads, tuple(refused), Memory(accepted, spikes))


def index_samples(samples: Iterable[Sample]) -> Index:
    """Samples by what they say whose they are; once per query, since a fleet has far more series than brokers."""
    found: dict[Key, list[Sample]] = {}
    for sample in samples:
        for key in _keys(sample.labels):
            found.setdefault(key, []).append(sample)
    return found


def find_sample(index: Index, broker: Broker) -> Sample | None:
    """The series of a broker or of its node, by its labels; of several the highest value (NaN wins)."""
    names = {name for name in (broker.node, broker.host) if name}
    mine = [
        *index.get(("broker", str(broker.id)), ()),
        *(one for name in names for one in index.get(("place", name), ())),
    ]
    pod, namespace = _pod_of(broker.host)
    # Another Kafka in another namespace may have a pod of this name.
    homes = ("", namespace)
    mine += [
        sample
        for sample in (index.get(("place", pod), ()) if pod else ())
        if namespace is None or sample.labels.get("namespace", "") in homes
    ]
    odd = next((sample for sample in mine if math.isnan(sample.value)), None)
    return odd or max(mine, key=lambda sample: sample.value, default=None)


def with_loads(snapshot: ClusterSnapshot, loads: Mapping[int, Mapping[str, float]]) -> ClusterSnapshot:
    """The snapshot whose brokers also carry these loads."""
    if not loads:
        return snapshot
    brokers = tuple(
        replace(broker, load={**broker.load, **loads[broker.id]}) if broker.id in loads else broker
        for broker in snapshot.brokers
    )
    return replace(snapshot, brokers=brokers)


def _keys(labels: Mapping[str, str]) -> list[Key]:
    """By the most telling label that the series has: `instance` is often just where an exporter runs."""
    numbers = _values(labels, BROKER_LABELS)
    if numbers:
        return [("broker", number) for number in dict.fromkeys(numbers)]
    places = _values(labels, NODE_LABELS) or _values(labels, HOST_LABELS)
    return [("place", place) for place in dict.fromkeys(map(_without_port, places))]


def _values(labels: Mapping[str, str], names: Sequence[str]) -> list[str]:
    return [labels[name] for name in names if labels.get(name)]


def _pod_of(host: str | None) -> tuple[str, str | None]:
    """Name and namespace of the pod in `POD.SERVICE.NAMESPACE.svc`, as far as told; an address has none."""
    if host is None or "." not in host or host.replace(".", "").isdigit():
        return "", None
    parts = host.split(".")
    return parts[0], parts[2] if parts[3:4] == ["svc"] else None


def _without_port(place: str) -> str:
    host, separator, port = place.rpartition(":")
    return host.strip("[]") if separator and port.isdigit() else place


def _refuse(name: str, sample: Sample | None, usual: Sequence[float], spikes: int, now_seconds: float) -> str:
    """Why a sample cannot be used; empty: it can."""
    if sample is None:
        return "missing: no series has a label of the broker or its node"
    odd = _refuse_value(name, sample.value)
    if odd:
        return odd
    if abs(now_seconds - sample.at_seconds) > MOST_AGE_SECONDS:
        return f"stale: its time differs from ours by more than {MOST_AGE_SECONDS:g} s"
    level = max(median(usual), CALM if name in FRACTIONS else CALM_MS) if len(usual) >= FEWEST else math.inf
    if sample.value > SPIKE * level and spikes < SPIKE_CYCLES:
        return f"spike: more than {SPIKE:g} times the usual {level:.3g}"
    return ""


def _refuse_value(name: str, value: float) -> str:
    if not math.isfinite(value):
        return f"not a number: {value}"
    if value < 0:
        return f"negative: {value:g}"
    if name in FRACTIONS and value > MOST_FRACTION:
        return f"out of bounds: {value:g}, a fraction is at most 1"
    return ""
