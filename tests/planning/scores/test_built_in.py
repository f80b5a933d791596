from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.errors import EvenkeelError, InputError, RetryableError
from evenkeel.planning.scores.protocol import Costs
from evenkeel.planning.scores.registry import BUILT_IN
from evenkeel.reasons import Reason
from tests.support.snapshots import GIB, broker, cluster, partitions_of

RING = [(0, 1), (1, 2), (2, 0)]


def three(
    loads: Mapping[int, Mapping[str, float]] | None = None, sizes: tuple[int, ...] = (0, 0, 0)
) -> ClusterSnapshot:
    """Brokers 0 to 2 in racks a, a and b; topic t has one partition led by each."""
    brokers = [
        replace(broker(i, GIB, 0, rack="aab"[i]), load=dict((loads or {}).get(i, {}))) for i in range(3)
    ]
    return cluster(brokers, (*partitions_of("t", RING, sizes), *partitions_of("other", RING, (9, 9, 9))))


def run(name: str, snapshot: ClusterSnapshot, **parameters: str) -> Costs:
    return BUILT_IN[name](snapshot, "t", parameters)


def test_storage_is_no_cost() -> None:
    assert run("Storage", three()) == Costs()


@pytest.mark.parametrize(
    ("sizes", "costs"),
    [
        ((10, 10, 10), (0, 0, 0)),
        ((0, 10, 20), (-2, 0, 2)),
        ((0, 0, 30), (-2, -2, 4)),  # three times the mean is the end
    ],
)
def test_data_distribution_compares_with_the_mean(sizes: tuple[int, ...], costs: tuple[float, ...]) -> None:
    found = run("DataDistribution", three(sizes=sizes))
    assert found == Costs(partition=dict(enumerate(map(float, costs))))


def test_data_distribution_says_nothing_of_an_empty_topic() -> None:
    assert run("DataDistribution", three()) == Costs()


def test_data_distribution_takes_an_unknown_size_for_the_mean() -> None:
    snapshot = three(sizes=(10, 20, 30))
    first = replace(snapshot.partitions[0], replica_bytes={})
    found = run("DataDistribution", replace(snapshot, partitions=(first, *snapshot.partitions[1:])))
    assert found.partition[0] == 0
    assert found.partition[1] < 0 < found.partition[2]


def test_data_distribution_takes_its_strength() -> None:
    assert run("DataDistribution", three(sizes=(0, 10, 20)), strength="5").partition[2] == 5


def test_node_load_counts_nothing_below_its_threshold() -> None:
    loads = {i: {"diskUtilisation": 0.2 * i, "cpu": 0.3, "network": 0.59} for i in range(3)}
    found = run("NodeLoad", three(loads))
    assert set(found.leader.values()) == {0}
    assert set(found.follower.values()) == {0}


@pytest.mark.parametrize(
    ("name", "value", "leader", "follower"),
    [
        ("diskUtilisation", 1.0, 10.0, 10.0),
        ("diskUtilisation", 1.7, 10.0, 10.0),
        ("diskUtilisation", 0.8, 2.5, 2.5),
        ("network", 1.0, 5.0, 5.0),
        ("cpu", 1.0, 5.0, 0.0),
        ("produceLatencyMs", 20.0, 2.5 * (1 - math.log2(1.25)), 0.0),
    ],
)
def test_node_load_makes_a_busy_node_dear(name: str, value: float, leader: float, follower: float) -> None:
    calm = 10.0 if name == "produceLatencyMs" else 0.1
    found = run("NodeLoad", three({0: {name: value}, 1: {name: calm}, 2: {name: calm}}))
    assert found.leader[0] == pytest.approx(leader)
    assert found.follower[0] == pytest.approx(follower)
    assert found.leader[1] == found.leader[2] == 0


def test_node_load_takes_weights_and_threshold() -> None:
    loads = {i: {"cpu": 0.5} for i in range(3)}
    assert run("NodeLoad", three(loads), cpu="8", threshold="0").leader[0] == pytest.approx(2.0)


def test_an_unknown_load_is_that_of_the_median_broker() -> None:
    found = run("NodeLoad", three({0: {"cpu": 1.0}, 1: {"cpu": 1.0}}))
    assert found.leader[2] == found.leader[0] == 5.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_impossible_loads_are_unknown(bad: float) -> None:
    with pytest.raises(RetryableError, match="no broker's load is known"):
        run("NodeLoad", three({0: {"cpu": bad}}))


def test_write_latency_compares_with_the_median_broker() -> None:
    loads = {0: {"roundTripMs": 40.0}, 1: {"roundTripMs": 10.0}, 2: {"roundTripMs": 11.0}}
    found = run("WriteLatency", three(loads))
    assert found.leader[0] == pytest.approx(2.5 * math.log2(40 / 11 / 1.25))
    assert found.leader[1] == found.leader[2] == 0  # a tenth is no difference
    assert found.follower[0] == pytest.approx(found.leader[0] / 2)


def test_a_broker_faster_than_the_median_is_cheap() -> None:
    loads = {0: {"roundTripMs": 40.0}, 1: {"roundTripMs": 40.0}, 2: {"roundTripMs": 10.0}}
    assert run("WriteLatency", three(loads)).leader[2] < 0


def test_latencies_below_a_millisecond_are_equal() -> None:
    loads = {0: {"roundTripMs": 0.9}, 1: {"roundTripMs": 0.1}, 2: {"roundTripMs": 0.2}}
    assert set(run("WriteLatency", three(loads)).leader.values()) == {0}


def test_followers_cost_nothing_with_acks_of_the_leader() -> None:
    loads = {0: {"roundTripMs": 40.0}, 1: {"roundTripMs": 10.0}}
    found = run("WriteLatency", three(loads), acks="leader")
    assert found.follower == {}
    assert found.leader[2] == 0


def test_one_round_trip_is_no_comparison() -> None:
    with pytest.raises(RetryableError) as caught:
        run("WriteLatency", three({0: {"roundTripMs": 5.0}}))
    assert caught.value.reason is Reason.SNAPSHOT_INCOMPLETE


def test_rack_locality_makes_leaders_elsewhere_dear() -> None:
    assert run("RackLocality", three(), rack="a") == Costs(leader={0: 0, 1: 0, 2: 2.5})
    assert run("RackLocality", three(), rack="b, a", strength="9") == Costs(leader={0: 0, 1: 0, 2: 0})


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("Storage", {"beta": "3"}, "score Storage: parameter beta is unknown; known are none"),
        ("DataDistribution", {"strength": "21"}, "strength must be a number from 0 to 20, not '21'"),
        ("DataDistribution", {"strength": "nan"}, "strength must be a number from 0 to 20, not 'nan'"),
        ("NodeLoad", {"threshold": "1"}, "threshold must be a number from 0 to 0.95, not '1'"),
        ("NodeLoad", {"gpu": "1"}, "parameter gpu is unknown; known are cpu, disk"),
        ("WriteLatency", {"acks": "1"}, "acks must be all or leader, not '1'"),
        ("WriteLatency", {"strength": "much"}, "strength must be a number from 0 to 20, not 'much'"),
        ("RackLocality", {}, "parameter rack is required"),
        ("RackLocality", {"rack": " , "}, "parameter rack is required"),
        ("RackLocality", {"rack": "c"}, "no broker is in rack c; known are a, b"),
    ],
)
def test_wrong_parameters_are_named(name: str, parameters: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        run(name, three({i: {"roundTripMs": 1.0, "cpu": 0.1} for i in range(3)}), **parameters)
    assert caught.value.reason is Reason.SCORE_INVALID


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_scores_are_pure(name: str) -> None:
    loads = {i: {"roundTripMs": 5.0 + 9 * i, "cpu": 0.3 * i, "diskUtilisation": 0.9} for i in range(3)}
    snapshot = three(loads, (1, 2, 3))
    parameters = {"rack": "a"} if name == "RackLocality" else {}
    assert BUILT_IN[name](snapshot, "t", parameters) == BUILT_IN[name](snapshot, "t", parameters)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_scores_take_a_cluster_without_brokers_calmly(name: str) -> None:
    empty = ClusterSnapshot(brokers=(), partitions=(), incoming=())
    try:
        assert BUILT_IN[name](empty, "t", {}) == Costs()
    except EvenkeelError as error:
        assert name in error.message  # noqa: PT017 - either is fine, nothing else is
