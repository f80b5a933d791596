from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import BalanceMode, Desired, DesiredTopic, Owner, Policy, TopicRouting
from evenkeel.domain.moves import Approval, DesiredPlan, MoveKind, ProposedPlan
from evenkeel.domain.snapshot import Broker, ClusterSnapshot, Incoming
from evenkeel.keeper.proposals import build_request, decide_proposal, find_replication
from evenkeel.planning.moves import plan_moves
from evenkeel.planning.moves_plan import MovesPlan, MovesRequest
from evenkeel.planning.routing import RoutesPlan, TopicRoutes, plan_routes
from evenkeel.reasons import Reason
from tests.support.snapshots import GIB, broker, cluster, partitions_of

DESIRED = Desired(owner=Owner("i", "u", "ns/c"), connection=Connection(("k:1",)))
OPEN = DesiredPlan("uid", "name", "hash", Approval.PENDING, ())


def snapshot(counts: tuple[int, ...] = (60, 15, 15), taken_at_ms: int = 0) -> ClusterSnapshot:
    """Brokers that hold so many replicas of 1 GiB each; RF 1."""
    disks = [broker(i, 100 * GIB, count * GIB) for i, count in enumerate(counts)]
    places = [(i,) for i, count in enumerate(counts) for _ in range(count)]
    found = cluster(disks, partitions_of("t", places, [GIB] * len(places)))
    return replace(found, cluster_id="c", taken_at_ms=taken_at_ms)


def _disks(*used: float) -> tuple[Broker, ...]:
    return tuple(broker(i, 100 * GIB, round(size * GIB)) for i, size in enumerate(used))


def plan(found: ClusterSnapshot, desired: Desired = DESIRED, *, standing: bool = False) -> MovesPlan:
    return plan_moves(found, desired.policy, build_request(desired, found, {}, None, continuing=standing))


def decide(
    before: ProposedPlan | None, found: ClusterSnapshot, desired: Desired = DESIRED
) -> ProposedPlan | None:
    return decide_proposal(before, plan(found, desired, standing=before is not None), found, desired)


def first() -> ProposedPlan:
    found = decide(None, snapshot())
    assert found is not None
    return found


def test_an_uneven_cluster_is_proposed_a_plan() -> None:
    found = first()
    assert (found.reason, found.cluster_id) == (Reason.MOVES_PLANNED, "c")
    assert (found.deviation_before_permille, found.throttle_bytes_per_second) == (1000, None)
    assert found.bytes == sum(move.bytes for batch in found.batches for move in batch.moves)
    assert found.seconds > 0
    full = next(fill for fill in found.fills if fill.volume == "0:/data")
    assert (full.before_permille, full.peak_permille) == (600, 600)
    assert full.after_permille < 320
    assert all(fill.peak_permille >= max(fill.before_permille, fill.after_permille) for fill in found.fills)


def test_it_stays_the_same_while_its_facts_hold() -> None:
    before = first()
    later = snapshot(taken_at_ms=99)
    assert plan(later).hash != before.hash
    assert decide(before, later) is before
    assert decide(before, replace(later, brokers=_disks(61, 17, 16))) is before


@settings(max_examples=20, deadline=None)
@given(st.tuples(*[st.floats(-1.0, 3.0)] * 3), st.floats(1.0, 1.1))
def test_noise_and_growth_change_nothing(noise: tuple[float, float, float], growth: float) -> None:
    before, found = first(), snapshot()
    grown = tuple(
        replace(
            one, replica_bytes={broker: round(growth * size) for broker, size in one.replica_bytes.items()}
        )
        for one in found.partitions
    )
    used = [growth * size + more for size, more in zip((60, 15, 15), noise, strict=True)]
    assert decide(before, replace(found, brokers=_disks(*used), partitions=grown)) is before


@pytest.mark.parametrize(
    "desired",
    [
        replace(DESIRED, plan=OPEN),
        replace(DESIRED, propose=False),
        replace(DESIRED, paused=True),
        replace(DESIRED, release=True),
        replace(DESIRED, policy=Policy(mode=BalanceMode.DISABLED)),
    ],
)
def test_where_none_is_welcome_none_is_proposed(desired: Desired) -> None:
    assert decide(None, snapshot(), desired) is None
    assert decide(first(), snapshot(), desired) is None


def test_a_level_cluster_is_proposed_nothing() -> None:
    assert decide(None, snapshot((30, 30, 30))) is None


def test_it_goes_when_the_disks_are_level_and_not_at_the_threshold_that_made_it() -> None:
    uneven = snapshot((34, 28, 28))
    before = decide(None, uneven)
    within = replace(uneven, brokers=_disks(32.5, 29, 28.5))
    assert decide(None, within) is None
    assert decide(before, within) is before
    assert decide(before, replace(uneven, brokers=_disks(30, 30, 30))) is None


def test_it_is_dropped_when_a_fact_contradicts_it() -> None:
    before, found = first(), snapshot()
    gone = {move.partition for move in before.batches[0].moves}
    rest = tuple(one for one in found.partitions if one.partition not in gone)
    after = decide(before, replace(found, partitions=rest))
    assert after is None
    assert decide(None, replace(found, partitions=rest)) not in (None, before)


def test_it_is_dropped_when_it_would_not_help_any_more() -> None:
    before = first()
    assert decide(before, replace(snapshot(), brokers=_disks(15, 50, 50))) is None


def test_a_gap_in_the_measurement_drops_nothing() -> None:
    before, found = first(), snapshot()
    gap = replace(found, brokers=(*found.brokers[:2], broker(2, None, None)))
    assert plan(gap).reason is Reason.SNAPSHOT_INCOMPLETE
    assert decide(before, gap) is before


def test_a_broker_that_is_to_be_emptied_makes_another_plan() -> None:
    draining = replace(DESIRED, policy=Policy(drain=(2,)))
    assert decide(first(), snapshot(), draining) is None
    found = decide(None, snapshot(), draining)
    assert found is not None
    assert any(2 in move.source for batch in found.batches for move in batch.moves)
    assert decide(found, snapshot(), draining) is found


def test_another_number_of_replicas_makes_another_plan() -> None:
    doubled = replace(DESIRED, topics=(DesiredTopic("o", "t", replication_factor=2),))
    assert find_replication(doubled, snapshot()) == {"t": 2}
    assert decide(first(), snapshot(), doubled) is None
    found = decide(None, snapshot(), doubled)
    assert found is not None
    assert MoveKind.ADD in {move.kind for batch in found.batches for move in batch.moves}
    assert decide(found, snapshot(), doubled) is found
    assert decide(found, snapshot()) is None, "nobody wants it any more"


@pytest.mark.parametrize(
    "topic",
    [
        DesiredTopic("o", "t", replication_factor=1),
        DesiredTopic("o", "t"),
        DesiredTopic("o", "absent", replication_factor=2),
        DesiredTopic("o", "t", replication_factor=2, create=False),
    ],
)
def test_topics_as_declared_ask_for_nothing(topic: DesiredTopic) -> None:
    assert find_replication(replace(DESIRED, topics=(topic,)), snapshot()) == {}


def test_topics_that_routing_does_not_steer_count_as_such() -> None:
    routed = {"t": TopicRouting()}
    off = RoutesPlan(topics={"t": TopicRoutes("t", False, Reason.COMPACTED, "")})
    request = build_request(DESIRED, snapshot(), routed, off, continuing=False)
    assert request == MovesRequest(continuing=False)
    found = replace(snapshot(), incoming=(Incoming("t", 1e6),))
    routes = plan_routes(found, routed, Policy())
    request = build_request(DESIRED, found, routed, routes, continuing=False)
    assert (request.routed, request.routes) == (routed, routes)


def test_the_reason_of_moving_instead_of_routing_is_told() -> None:
    found = replace(snapshot(), incoming=(Incoming("t", 1.0, observed_seconds=60),))
    routed = {"t": TopicRouting()}
    routes = plan_routes(found, routed, Policy())
    made = plan_moves(found, Policy(), build_request(DESIRED, found, routed, routes, continuing=False))
    proposal = decide_proposal(None, made, found, DESIRED)
    assert proposal is not None
    assert proposal.reason is Reason.ROUTING_TOO_SLOW
    assert "routing is too slow" in proposal.message
