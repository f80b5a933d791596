from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenkeel.domain.exchange import Policy, Score, TopicRouting
from evenkeel.domain.snapshot import ClusterSnapshot, Incoming, Topic
from evenkeel.errors import InputError
from evenkeel.planning.routing import TopicRoutes, plan_routes
from evenkeel.reasons import Reason
from tests.support.snapshots import (
    GIB,
    MIB,
    SHAPES,
    Shape,
    broker,
    cluster,
    demo_snapshot,
    generate_snapshot,
    partitions_of,
)
from tests.support.yardstick import Yardstick

RING = [(0, 1), (1, 2), (2, 3), (3, 0)] * 3


def route(snapshot: ClusterSnapshot, topic: str = "t", policy: Policy | None = None) -> TopicRoutes:
    return plan_routes(snapshot, {topic: TopicRouting()}, policy or Policy()).topics[topic]


def level_cluster(count: int = 4, fill: float = 0.4, planned: int = 5 * GIB) -> ClusterSnapshot:
    disks = [broker(i, 100 * GIB, int(fill * 100 * GIB)) for i in range(count)]
    ring = [(i % count, (i + 1) % count) for i in range(3 * count)]
    return cluster(disks, partitions_of("t", ring), [Incoming("t", planned_bytes=planned)])


@pytest.mark.parametrize(
    "shape", SHAPES, ids=lambda shape: f"{shape.brokers}x{shape.partitions}-{shape.seed}"
)
def test_generated_layouts_stay_within_a_percent_of_the_capped_optimum(shape: Shape) -> None:
    snapshot = generate_snapshot(shape)
    topics = [incoming.topic for incoming in snapshot.incoming]
    plan = plan_routes(snapshot, {topic: TopicRouting() for topic in topics}, Policy()).topics
    yardstick = Yardstick(snapshot, {topic: float(plan[topic].steerable_bytes or 0) for topic in topics})
    optimum = yardstick.optimum()
    filled = yardstick.fill({topic: plan[topic].weights for topic in topics})
    assert filled <= optimum + 0.01
    for topic in topics:
        routes = plan[topic]
        assert routes.reason is Reason.ROUTED
        assert routes.optimal_max_fill == pytest.approx(optimum, abs=1e-5)
        assert routes.predicted_max_fill == pytest.approx(filled, abs=1e-5)
        assert sum(routes.weights) == pytest.approx(1.0)
        assert yardstick.worst_cap(topic, routes.weights) <= 1.002


def test_demo_recovers_what_uniform_loses() -> None:
    routes = route(demo_snapshot(), "clipart")
    assert routes.predicted_max_fill is not None
    assert routes.optimal_max_fill is not None
    assert routes.uniform_max_fill is not None
    lost = routes.uniform_max_fill - routes.optimal_max_fill
    assert routes.predicted_max_fill - routes.optimal_max_fill <= 0.005 + 1e-6
    assert routes.predicted_max_fill - routes.optimal_max_fill <= 0.1 * lost
    assert routes.uniform_max_fill == pytest.approx(0.727, abs=0.002)


def test_a_level_cluster_gets_nearly_equal_weights() -> None:
    weights = np.array(route(level_cluster()).weights)
    assert weights * len(weights) == pytest.approx(np.ones(len(weights)), abs=0.02)


def test_a_rate_that_would_overfill_the_disks_heals_them_while_there_is_room() -> None:
    """100 GiB of room for a day of 10 TiB: by disk sizes the first would be full with the others at two thirds."""
    disks = [broker(i, 100 * GIB, fill * GIB) for i, fill in enumerate((70, 40, 40, 40))]
    snapshot = cluster(
        disks, partitions_of("t", [(i % 4,) for i in range(12)]), [Incoming("t", bytes_per_second=128 * MIB)]
    )
    routes = route(snapshot)
    fullest = sum(routes.weights[0::4])
    assert fullest == pytest.approx(15 / 150, abs=0.01)  # 85 GiB each
    assert routes.predicted_max_fill == pytest.approx(0.85, abs=0.006)


def test_the_rest_is_levelled_where_one_disk_is_too_full_already() -> None:
    disks = [broker(0, 100 * GIB, 84 * GIB), *(broker(i, 100 * GIB, (10 + 10 * i) * GIB) for i in (1, 2, 3))]
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    snapshot = cluster(disks, partitions_of("t", pairs * 2), [Incoming("t", planned_bytes=40 * GIB)])
    weights = route(snapshot).weights
    share = {b: sum(w for w, pair in zip(weights, pairs * 2, strict=True) if b in pair) for b in range(4)}
    assert share[0] < 0.1
    assert share[1] > share[2] > share[3]


def test_unplanned_inflow_has_a_floor_against_one_broker_taking_all() -> None:
    disks = [broker(i, 100 * GIB, size * GIB) for i, size in enumerate((10, 50, 50, 60))]
    snapshot = cluster(disks, partitions_of("t", RING), [Incoming("t", bytes_per_second=1.0)])
    weights = route(snapshot).weights
    leads = [sum(w for w, pair in zip(weights, RING, strict=True) if pair[0] == b) for b in range(4)]
    assert max(leads) <= 0.5 * 1.002
    assert min(leads) > 0.02
    assert route(snapshot).raised


def test_expected_bytes_above_the_floor_are_a_forecast() -> None:
    assert not route(demo_snapshot(), "clipart").raised


def test_an_idle_topic_does_not_keep_an_ingest_from_levelling() -> None:
    alone = demo_snapshot()
    again = [(one.topic, one) for one in alone.partitions if one.topic == "clipart"]
    idle = tuple(replace(one, topic="events") for _, one in again)
    both = replace(
        alone, partitions=(*alone.partitions, *idle), incoming=(*alone.incoming, Incoming("events", 0.0))
    )
    plan = plan_routes(both, {"events": TopicRouting(), "clipart": TopicRouting()}, Policy())
    assert plan.topics["clipart"].optimal_max_fill == pytest.approx(
        route(alone, "clipart").optimal_max_fill, abs=1e-3
    )
    assert np.allclose(plan.topics["clipart"].weights, route(alone, "clipart").weights, atol=2e-3)
    assert plan.topics["events"].active


def test_two_topics_do_not_both_discover_the_same_empty_broker() -> None:
    disks = [broker(i, 100 * GIB, size * GIB) for i, size in enumerate((50, 50, 50, 20))]
    parts = (*partitions_of("a", RING), *partitions_of("b", RING))
    flows = [Incoming("a", planned_bytes=25 * GIB), Incoming("b", planned_bytes=25 * GIB)]
    snapshot = cluster(disks, parts, flows)
    routing = {"a": TopicRouting(), "b": TopicRouting()}
    both = plan_routes(snapshot, routing, Policy()).topics["a"]
    assert both.predicted_max_fill is not None
    assert both.optimal_max_fill is not None
    assert both.predicted_max_fill <= both.optimal_max_fill + 0.0051


def test_unsteered_inflow_of_other_topics_counts_as_used() -> None:
    disks = [broker(i, 100 * GIB, 40 * GIB) for i in range(4)]
    parts = (*partitions_of("t", RING), *partitions_of("java", [(0, 1)] * 4))
    flows = [Incoming("t", planned_bytes=10 * GIB), Incoming("java", planned_bytes=20 * GIB)]
    weights = route(cluster(disks, parts, flows)).weights
    on_0_1 = sum(w for w, pair in zip(weights, RING, strict=True) if set(pair) == {0, 1})
    on_2_3 = sum(w for w, pair in zip(weights, RING, strict=True) if set(pair) == {2, 3})
    assert on_2_3 > 4 * on_0_1


def test_brokers_that_share_a_volume_are_one_row() -> None:
    disks = [broker(i, 100 * GIB, 40 * GIB, volume="v" if i < 2 else None) for i in range(4)]
    snapshot = cluster(disks, partitions_of("t", RING), [Incoming("t", planned_bytes=20 * GIB)])
    weights = route(snapshot).weights
    on_shared = sum(w * sum(b < 2 for b in pair) for w, pair in zip(weights, RING, strict=True))
    assert on_shared < 0.8


def test_leaderless_and_stopped_partitions_get_nothing() -> None:
    disks = [broker(i, 100 * GIB, size * GIB) for i, size in enumerate((90, 40, 40, 40))]
    parts = list(partitions_of("t", RING))
    parts[1] = replace(parts[1], leader=None)
    routes = route(cluster(disks, parts, [Incoming("t", planned_bytes=GIB)]))
    touching = {i for i, pair in enumerate(RING) if 0 in pair}
    assert set(routes.stop) == touching
    assert all(routes.weights[i] == 0 for i in touching | {1})
    assert all(routes.weights[i] > 0 for i in set(range(12)) - touching - {1})


def test_stop_gives_way_where_nothing_else_has_a_leader() -> None:
    disks = [broker(i, 100 * GIB, 90 * GIB) for i in range(4)]
    routes = route(cluster(disks, partitions_of("t", RING), [Incoming("t", planned_bytes=GIB)]))
    assert routes.active
    assert len(routes.stop) == 12
    assert min(routes.weights) > 0


def test_impossible_caps_are_relaxed_and_it_is_said() -> None:
    star = [(0, 1), (0, 2), (0, 3)] * 4
    parts = partitions_of("t", star)
    disks = [broker(i, 100 * GIB, 10 * GIB) for i in range(4)]
    routes = route(cluster(disks, parts, [Incoming("t", planned_bytes=GIB)]))
    assert routes.reason is Reason.CAPS_RELAXED
    assert "factor 2.00" in routes.message
    assert sum(routes.weights) == pytest.approx(1.0)


def test_an_absent_broker_does_not_stop_routing() -> None:
    disks = [*(broker(i, 100 * GIB, 30 * GIB) for i in range(3)), broker(3, None, None, online=False)]
    routes = route(cluster(disks, partitions_of("t", RING), [Incoming("t", planned_bytes=GIB)]))
    assert routes.active


def test_budget_covers_the_plan_and_one_percent_more() -> None:
    routes = route(level_cluster(planned=5 * GIB))
    assert routes.budget_bytes is not None
    # 1 % of 100 GiB on the volume that gets most, about half of what is written (RF 2 on 4 brokers).
    assert routes.budget_bytes == pytest.approx(5 * GIB + 2 * GIB, rel=0.02)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"partitions": ()}, Reason.TOPIC_MISSING),
        ({"topics": (Topic("t", internal=True),)}, Reason.INTERNAL_TOPIC),
        ({"topics": (Topic("t", cleanup_policy="compact,delete"),)}, Reason.COMPACTED),
        ({"incoming": ()}, Reason.NO_INFLOW_KNOWN),
        ({"incoming": (Incoming("t"),)}, Reason.NO_INFLOW_KNOWN),
        ({"incoming": (Incoming("t", planned_bytes=1, steered_percent=0),)}, Reason.NOT_STEERED),
        ({"partitions": partitions_of("t", [(0, 1, 2, 3)] * 6)}, Reason.REPLICATED_EVERYWHERE),
        ({"partitions": partitions_of("t", [(0, 1)] * 6)}, Reason.NOTHING_TO_DO),
        ({"partitions": partitions_of("t", RING)[1:]}, Reason.SNAPSHOT_INCOMPLETE),
        ({"partitions": tuple(replace(p, leader=None) for p in partitions_of("t", RING))}, Reason.NO_LEADERS),
        ({"brokers": (*level_cluster().brokers[1:], broker(0, 100, None))}, Reason.SNAPSHOT_INCOMPLETE),
        ({"brokers": (*level_cluster().brokers[1:], broker(0, None, None))}, Reason.SNAPSHOT_INCOMPLETE),
    ],
)
def test_refusals_have_a_typed_reason(change: dict[str, object], reason: Reason) -> None:
    routes = route(replace(level_cluster(), **change))  # type: ignore[arg-type]
    assert not routes.active
    assert routes.reason is reason
    assert "topic t" in routes.message
    assert routes.weights == ()
    assert routes.predicted_max_fill is None


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (Score("Moon"), Reason.NO_SCORES),
        (Score("Moon", -1), Reason.INVALID_SPEC),
        (Score("Storage", -1), Reason.INVALID_SPEC),
        (Score("Storage", 0), Reason.DISABLED),
    ],
)
def test_scores_that_cannot_be_used(score: Score, reason: Reason) -> None:
    plan = plan_routes(level_cluster(), {"t": TopicRouting(scores=(score,))}, Policy())
    assert plan.topics["t"].reason is reason


def test_a_score_that_gave_no_costs_does_not_keep_storage_from_routing() -> None:
    routing = TopicRouting(scores=(Score("Storage"), Score("Moon")))
    plan = plan_routes(level_cluster(), {"t": routing}, Policy())
    assert plan.topics["t"].weights == route(level_cluster()).weights


@pytest.mark.parametrize("storage", [0, 100, 400])
def test_costs_change_weights_by_their_exponent_where_disks_are_level(storage: int) -> None:
    costs = {i: 1.5 if i % 2 else 0.0 for i in range(12)}
    routing = TopicRouting(scores=(Score("Storage", storage), Score("Own")))
    # Little is written, so that neither fill nor ceiling moves; half of the partitions are dearer.
    snapshot = replace(level_cluster(), partitions=partitions_of("t", RING))
    plan = plan_routes(snapshot, {"t": routing}, Policy(slack_percent=50), {"t": costs})
    weights = np.array(plan.topics["t"].weights)
    ratio = weights[0::2].sum() / weights[1::2].sum()
    assert ratio == pytest.approx(np.exp(1.5), rel=0.3 if storage else 0.02)
    assert ratio > 1.5


def test_equal_costs_change_nothing() -> None:
    costs = dict.fromkeys(range(24), 7.0)
    plan = plan_routes(demo_snapshot(), {"clipart": TopicRouting()}, Policy(), {"clipart": costs})
    assert plan.topics["clipart"].weights == route(demo_snapshot(), "clipart").weights


@pytest.mark.parametrize("storage", [0, 1, 100])
@pytest.mark.parametrize(
    "shape", SHAPES[:20], ids=lambda shape: f"{shape.brokers}x{shape.partitions}-{shape.seed}"
)
def test_no_costs_break_the_ceiling_or_a_cap(shape: Shape, storage: int) -> None:
    snapshot = generate_snapshot(shape)
    topics = [incoming.topic for incoming in snapshot.incoming]
    random = np.random.default_rng(shape.seed)
    costs = {
        topic: {p.partition: float(random.uniform(-40, 40)) for p in snapshot.partitions if p.topic == topic}
        for topic in topics
    }
    routing = TopicRouting(scores=(Score("Storage", storage), Score("Own")))
    plan = plan_routes(snapshot, dict.fromkeys(topics, routing), Policy(), costs).topics
    yardstick = Yardstick(snapshot, {topic: float(plan[topic].steerable_bytes or 0) for topic in topics})
    assert yardstick.fill({topic: plan[topic].weights for topic in topics}) <= yardstick.optimum() + 0.0051
    for topic in topics:
        assert yardstick.worst_cap(topic, plan[topic].weights) <= 1.002


@pytest.mark.parametrize(
    ("costs", "said"),
    [
        ({0: float("nan")}, "cost of partition 0 must be a number, not nan"),
        ({0: 1.0}, "cost of partition 1 must be a number, not None"),
    ],
)
def test_costs_that_are_not_whole_are_refused(costs: dict[int, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        plan_routes(level_cluster(), {"t": TopicRouting()}, Policy(), {"t": costs})


def test_a_lower_beta_spreads_more() -> None:
    sharp = route(demo_snapshot(), "clipart").weights
    plan = plan_routes(
        demo_snapshot(),
        {"clipart": TopicRouting()},
        Policy(slack_percent=10),
        betas={"clipart": 20.0},
    )
    soft = plan.topics["clipart"].weights
    assert max(soft) < max(sharp)


def test_a_beta_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="topic t: beta must be a finite number above 0, not 0"):
        plan_routes(level_cluster(), {"t": TopicRouting()}, Policy(), betas={"t": 0})


def test_a_refused_topic_does_not_hinder_the_others() -> None:
    plan = plan_routes(level_cluster(), {"gone": TopicRouting(), "t": TopicRouting()}, Policy())
    assert not plan.topics["gone"].active
    assert plan.topics["t"].active


def test_impossible_sizes_are_named() -> None:
    snapshot = cluster([broker(0, 10, -5)], partitions_of("t", [(0,)]))
    with pytest.raises(InputError, match=r"snapshot\.brokers\[0\]\.logDirs\[0\]\.usableBytes.*not 15"):
        route(snapshot)


def test_the_same_snapshot_gives_the_same_plan() -> None:
    snapshot = demo_snapshot(200 * MIB)
    assert route(snapshot, "clipart") == route(snapshot, "clipart")


def test_caps_that_cost_something_are_named() -> None:
    disks = [broker(number, 100 * GIB, (5 if number == 3 else 60) * GIB) for number in range(4)]
    lone = partitions_of("t", [(number % 4,) for number in range(40)])
    routes = route(cluster(disks, lone, [Incoming("t", planned_bytes=40 * GIB)]))
    assert routes.optimal_max_fill is not None
    assert routes.uncapped_max_fill is not None
    assert routes.optimal_max_fill > routes.uncapped_max_fill + 0.005
    assert "leader share of broker 3" in routes.binding_caps
    assert "leader share of broker 3" in routes.message
    assert route(level_cluster()).binding_caps == ()


def test_too_little_inflow_is_said_with_what_would_do() -> None:
    disks = [broker(i, 100 * GIB, size * GIB) for i, size in enumerate((60, 20, 20, 20))]
    routes = route(cluster(disks, partitions_of("t", RING), [Incoming("t", planned_bytes=10 * GIB)]))
    # 20 GiB of copies leave the mean at 35 % and the fullest at 60 %: 0.25 x 400 GiB / 2 copies are missing.
    assert "too little to level the disks (mean 35.0%)" in routes.message
    assert "about 51" in routes.message or "about 50" in routes.message


def test_caps_that_cost_fill_are_named_with_what_they_cost() -> None:
    disks = [broker(i, 100 * GIB, size * GIB) for i, size in enumerate((50, 50, 50, 10))]
    places = [(0,), (1,), (2,), (3,)] * 6
    routes = route(cluster(disks, partitions_of("t", places), [Incoming("t", planned_bytes=60 * GIB)]))
    assert "leader share of broker 3" in routes.binding_caps
    assert "caps cost" in routes.message
    assert "would bring it to" in routes.message


def test_copies_everywhere_are_told_with_numbers() -> None:
    one = level_cluster()
    everywhere = replace(one, partitions=partitions_of("t", [(0, 1, 2, 3)] * 6))
    assert "on each of the 4 brokers; replication factor 3 or a broker more" in route(everywhere).message
