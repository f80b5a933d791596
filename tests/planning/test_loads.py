from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.domain.loads import CPU, DISK_UTILISATION, PRODUCE_LATENCY_MS, Sample
from evenkeel.domain.snapshot import Broker
from evenkeel.planning.loads import (
    MEMORY,
    MOST_AGE_SECONDS,
    SPIKE_CYCLES,
    Judgement,
    Memory,
    find_sample,
    index_samples,
    judge_loads,
    with_loads,
)
from tests.support.snapshots import demo_snapshot

NOW = 1_000_000.0
NOTHING = Memory()
BROKER = Broker(id=1, host="kafka-1.kafka.data.svc", node="node-a")


def sample(value: float, at: float = NOW, **labels: str) -> Sample:
    return Sample(labels or {"node": "node-a"}, value, at)


def judge(
    value: float | None,
    memory: Memory = NOTHING,
    name: str = CPU,
    at: float = NOW,
) -> Judgement:
    samples = () if value is None else (sample(value, at),)
    return judge_loads({name: samples}, [BROKER], memory, NOW)


def found_for(samples: list[Sample], broker: Broker) -> Sample | None:
    return find_sample(index_samples(samples), broker)


@pytest.mark.parametrize(
    "labels",
    [
        {"node": "node-a"},
        {"nodename": "node-a"},
        {"instance": "node-a:9100"},
        {"instance": "kafka-1.kafka.data.svc:9404"},
        {"pod": "kafka-1"},
        {"pod": "kafka-1", "namespace": "data"},
        {"broker": "1", "instance": "elsewhere:1"},
        {"broker_id": "1"},
        {"node": "node-a", "instance": "exporter:9100"},
    ],
)
def test_series_belong_to_a_broker_by_number_node_host_or_pod(labels: dict[str, str]) -> None:
    assert found_for([Sample(labels, 0.1, NOW)], BROKER) is not None


@pytest.mark.parametrize(
    "labels",
    [
        {"node": "node-b"},
        {"broker": "2", "node": "node-a"},
        {"pod": "kafka"},
        {"pod": "kafka-1", "namespace": "another"},
        {"pod": "kafka-1", "namespace": "kafka"},
        {"job": "node-a"},
        {"node": "node-b", "instance": "kafka-1.kafka.data.svc:9404"},
    ],
)
def test_other_series_do_not(labels: dict[str, str]) -> None:
    assert found_for([Sample(labels, 0.1, NOW)], BROKER) is None


def test_an_address_is_no_pod_name() -> None:
    assert found_for([sample(0.1, pod="10")], Broker(id=1, host="10.0.0.7")) is None
    assert found_for([sample(0.1, instance="[fd00::1]:9100")], Broker(id=1, host="fd00::1")) is not None


def test_an_exporter_without_a_host_is_nobodys() -> None:
    assert found_for([sample(0.1, instance=":9100")], Broker(id=1, host="10.0.0.7")) is None


def test_of_several_disks_the_busiest_counts() -> None:
    found = found_for([sample(0.1), sample(0.7), sample(0.3)], BROKER)
    assert found is not None
    assert found.value == 0.7


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "missing"),
        (math.nan, "not a number"),
        (math.inf, "not a number"),
        (-0.1, "negative"),
        (3.0, "out of bounds"),
    ],
)
def test_what_no_load_can_be_is_refused(value: float | None, why: str) -> None:
    judged = judge(value)
    assert judged.loads == {}
    (refused,) = judged.refused
    assert (refused.name, refused.broker) == (CPU, 1)
    assert refused.why.startswith(why)


@pytest.mark.parametrize("off", [-MOST_AGE_SECONDS - 1, MOST_AGE_SECONDS + 1])
def test_samples_of_another_time_are_stale(off: float) -> None:
    assert judge(0.5, at=NOW + off).refused[0].why.startswith("stale")


def test_a_tenfold_spike_is_refused_until_it_lasts() -> None:
    memory = Memory()
    for _ in range(5):
        memory = judge(0.06, memory).memory
    for _ in range(SPIKE_CYCLES):
        judged = judge(0.9, memory)
        assert judged.refused[0].why.startswith("spike")
        memory = judged.memory
    judged = judge(0.9, memory)
    assert judged.loads == {1: {CPU: 0.9}}
    assert judge(0.95, judged.memory).loads == {1: {CPU: 0.95}}


def test_one_spike_is_forgotten() -> None:
    memory = Memory()
    for value in (0.06, 0.06, 0.06, 0.9, 0.06, 0.9, 0.06, 0.9):
        judged = judge(value, memory)
        assert (value == 0.9) == bool(judged.refused)
        memory = judged.memory


def test_ten_times_next_to_nothing_is_no_spike() -> None:
    memory = Memory()
    for _ in range(5):
        memory = judge(0.001, memory).memory
    assert judge(0.3, memory).loads == {1: {CPU: 0.3}}
    assert judge(40.0, Memory({(1, PRODUCE_LATENCY_MS): (0.2,) * 5}), PRODUCE_LATENCY_MS).loads


def test_brokers_that_are_away_are_not_missed() -> None:
    assert judge_loads({CPU: ()}, [Broker(id=1, online=False), Broker(id=2, fenced=True)], Memory(), NOW) == (
        Judgement({}, (), Memory())
    )


def test_a_snapshot_keeps_the_loads_it_has() -> None:
    found = with_loads(demo_snapshot(), {0: {CPU: 0.5}})
    assert found.brokers[0].load == {CPU: 0.5}
    assert with_loads(found, {0: {DISK_UTILISATION: 0.2}}).brokers[0].load == {
        CPU: 0.5,
        DISK_UTILISATION: 0.2,
    }
    assert found.brokers[1].load == {}


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)), max_size=30))
def test_only_finite_fractions_are_ever_used(values: list[float | None]) -> None:
    memory = Memory()
    for value in values:
        judged = judge(value, memory, DISK_UTILISATION)
        memory = judged.memory
        assert len(judged.refused) + len(judged.loads) == 1
        for loads in judged.loads.values():
            assert all(0 <= found <= 1.5 for found in loads.values())
        assert all(len(kept) <= MEMORY for kept in memory.accepted.values())
