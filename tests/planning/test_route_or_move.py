from __future__ import annotations

from dataclasses import replace

import pytest

from evenkeel.domain.exchange import Policy, TopicRouting
from evenkeel.domain.snapshot import ClusterSnapshot, Incoming, Topic
from evenkeel.planning.moves import MovesRequest, plan_moves
from evenkeel.planning.moves_plan import Choice, Cure, MovesPlan
from evenkeel.planning.routing import plan_routes
from evenkeel.reasons import Reason
from tests.support.corpus import build_case, recipes
from tests.support.moves_yardstick import Disks
from tests.support.simulation import SimulatedCluster
from tests.support.snapshots import GIB, broker, cluster, partitions_of

POLICY = Policy(enter_percent=10, leave_percent=3)
HOUR, DAY = 3600, 86_400


def uneven(
    fills: tuple[float, ...],
    rate: float | None,
    *,
    rf: int = 2,
    planned: int | None = None,
    size: int = 6 * GIB,
) -> ClusterSnapshot:
    """Brokers of 1,000 GiB; 48 partitions and other bytes on them; bytes per second come to the topic."""
    count = len(fills)
    disks = [broker(i, 1000 * GIB, int(fill * 1000 * GIB)) for i, fill in enumerate(fills)]
    places = [
        (i % count, *((i + 1 + (i // count + k) % (count - 1)) % count for k in range(rf - 1)))
        for i in range(48)
    ]
    incoming = Incoming("t", bytes_per_second=rate, planned_bytes=planned, observed_seconds=10 * DAY)
    return cluster(disks, partitions_of("t", places, [size] * 48), [incoming], [Topic("t", min_isr=1)])


def decide(
    snapshot: ClusterSnapshot, horizon: int = DAY, deadline: int = DAY, policy: Policy = POLICY
) -> tuple[MovesPlan, Choice]:
    routed = {"t": TopicRouting(horizon_seconds=horizon)}
    routes = plan_routes(snapshot, routed, policy)
    plan = plan_moves(snapshot, policy, MovesRequest(routed=routed, routes=routes, deadline_seconds=deadline))
    assert plan.choice is not None
    return plan, plan.choice


def test_routing_never_levels_disks_wholly() -> None:
    _, choice = decide(uneven((0.3, 0.3, 0.3, 0.2), 1e7), policy=Policy(enter_percent=1, leave_percent=0))
    assert choice.routing_seconds is None
    assert choice.cure is Cure.MOVE


def test_without_routed_topics_there_is_nothing_to_choose() -> None:
    assert plan_moves(uneven((0.5, 0.3, 0.3), 1e7), POLICY).choice is None


def test_new_bytes_heal_what_they_can_heal_in_time() -> None:
    plan, choice = decide(uneven((0.3, 0.3, 0.3, 0.2), 1e7))
    assert choice.cure is Cure.ROUTE
    assert plan.reason is choice.reason is Reason.ROUTING_HEALS
    assert plan.moves == ()
    assert choice.routing_seconds is not None
    assert choice.limit_seconds is not None
    assert choice.routing_seconds < choice.limit_seconds
    assert "new bytes heal this: routing needs" in choice.message


def test_replicas_move_where_routing_is_too_slow() -> None:
    plan, choice = decide(uneven((0.5, 0.4, 0.3, 0.2), 2e6))
    assert (choice.cure, choice.reason) == (Cure.MOVE, Reason.ROUTING_TOO_SLOW)
    assert choice.routing_seconds is not None
    assert choice.routing_seconds > choice.deadline_seconds == DAY
    assert plan.moves


def test_a_longer_deadline_lets_routing_do_it() -> None:
    snapshot = uneven((0.4, 0.3, 0.3, 0.2), 2e6)
    assert decide(snapshot)[1].cure is Cure.MOVE
    assert decide(snapshot, deadline=10 * DAY)[1].cure is Cure.ROUTE


def test_replicas_move_where_a_disk_would_be_too_full_first() -> None:
    plan, choice = decide(uneven((0.83, 0.4, 0.4, 0.4), 2e7, rf=3, size=15 * GIB))
    assert (choice.cure, choice.reason) == (Cure.MOVE, Reason.LIMIT_COMES_FIRST)
    assert choice.limit_seconds is not None
    assert choice.limit_seconds < DAY
    assert plan.moves


def test_a_disk_above_the_limit_does_not_wait() -> None:
    choice = decide(uneven((0.88, 0.5, 0.5), 1e7, size=15 * GIB))[1]
    assert choice.limit_seconds == 0
    assert choice.cure is Cure.MOVE


@pytest.mark.parametrize("rate", [None, 0.0])
def test_without_inflow_routing_heals_nothing(rate: float | None) -> None:
    plan, choice = decide(uneven((0.5, 0.3, 0.3), rate))
    assert (choice.cure, choice.reason) == (Cure.MOVE, Reason.NO_INFLOW_KNOWN)
    assert choice.routing_seconds is None
    assert choice.limit_seconds is None
    assert plan.moves


def test_inflow_that_routers_do_not_steer_heals_nothing() -> None:
    snapshot = uneven((0.5, 0.3, 0.3), 1e7)
    keyed = replace(snapshot, incoming=(replace(snapshot.incoming[0], steered_percent=0),))
    choice = decide(keyed)[1]
    assert choice.routing_seconds is None
    assert choice.cure is Cure.MOVE


def test_a_level_cluster_needs_no_cure() -> None:
    plan, choice = decide(uneven((0.31, 0.3, 0.3), 1e6))
    assert choice.cure is Cure.NONE
    assert plan.reason is Reason.BELOW_THRESHOLD


def test_an_ingest_heals_until_it_ends() -> None:
    snapshot = uneven((0.3, 0.3, 0.3, 0.2), 1e7, planned=400 * GIB)
    plan, choice = decide(snapshot)
    assert choice.cure is Cure.ROUTE
    assert choice.routing_seconds is not None
    assert choice.routing_seconds <= 400 * GIB / 1e7
    small = uneven((0.3, 0.3, 0.3, 0.2), 1e7, planned=GIB)
    assert decide(small)[1].routing_seconds is None
    assert plan.moves == ()


def test_retention_that_takes_what_comes_keeps_the_limit_away() -> None:
    snapshot = uneven((0.5, 0.3, 0.3, 0.3), 1e7)
    topic = Topic("t", retention_ms=DAY * 1000, segment_bytes=GIB, min_isr=1)
    growing = decide(snapshot)[1]
    steady = replace(
        snapshot,
        topics=(topic,),
        partitions=tuple(replace(one, expiring_bytes=int(1e7 * DAY / 2 / 48)) for one in snapshot.partitions),
    )
    assert growing.limit_seconds is not None
    assert growing.limit_seconds < 3 * DAY
    limit = decide(steady)[1].limit_seconds
    assert limit is None or limit > 3 * growing.limit_seconds


def test_a_plan_starts_from_where_routing_leads() -> None:
    plan = decide(uneven((0.5, 0.4, 0.3, 0.2), 2e6))[0]
    assert plan.fills_before["3:/data"] > 0.2
    assert plan.fills_before["0:/data"] >= 0.5
    still = plan_moves(uneven((0.5, 0.4, 0.3, 0.2), 2e6), POLICY)
    assert plan.bytes < still.bytes


def simulate(snapshot: ClusterSnapshot, horizon: int, rate: float) -> float:
    """Seconds until a keeper that plans anew fifty times per horizon has levelled the disks."""
    disks, clock, step = Disks(snapshot), 0.0, horizon / 50
    routed = {"t": TopicRouting(horizon_seconds=horizon)}
    while disks.deviation() > POLICY.leave_percent / 100:
        assert clock < 6 * horizon
        brokers = tuple(
            replace(
                one,
                log_dirs=tuple(
                    replace(
                        entry, usable_bytes=int((entry.total_bytes or 0) - disks.used[one.id, entry.path])
                    )
                    for entry in one.log_dirs
                ),
            )
            for one in snapshot.brokers
        )
        weights = plan_routes(replace(snapshot, brokers=brokers), routed, POLICY).topics["t"].weights
        for partition in snapshot.partitions:
            for b in partition.replicas:
                disks.used[b, "/data"] += rate * step * weights[partition.partition]
        clock += step
    return clock


@pytest.mark.parametrize(
    ("fills", "rf", "rate", "horizon"),
    [
        ((0.5, 0.4, 0.3, 0.2), 1, 2e7, DAY),
        ((0.3, 0.3, 0.3, 0.2), 2, 1e7, DAY),
        ((0.5, 0.3, 0.3, 0.3, 0.3, 0.3), 2, 1e7, DAY // 2),
        ((0.6, 0.2, 0.2), 1, 1e8, 2 * HOUR),
    ],
)
def test_the_time_that_routing_needs_is_what_a_simulated_keeper_needs(
    fills: tuple[float, ...], rf: int, rate: float, horizon: int
) -> None:
    snapshot = uneven(fills, rate, rf=rf)
    told = decide(snapshot, horizon)[1].routing_seconds
    assert told is not None
    assert 0.5 <= told / simulate(snapshot, horizon, rate) <= 2


@pytest.mark.parametrize("number", [2, 11, 29, 47])
def test_plans_from_routed_end_states_keep_the_rules(number: int) -> None:
    case = build_case(recipes(60, 0)[number])
    snapshot = SimulatedCluster(case.snapshot, case.flows, case.seconds).measure()
    routed = {flow.topic: TopicRouting(horizon_seconds=case.seconds) for flow in case.flows}
    routes = plan_routes(snapshot, routed, POLICY)
    plan = plan_moves(snapshot, POLICY, MovesRequest(routed=routed, routes=routes, deadline_seconds=60))
    assert plan.moves
    assert plan.deviation_before is not None
    assert plan.deviation_after is not None
    assert plan.deviation_after < plan.deviation_before
    assert all(peak.fill <= 0.85 for batch in plan.batches for peak in batch.peaks)
    assert len({(move.topic, move.partition) for move in plan.moves}) == len(plan.moves)
