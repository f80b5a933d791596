from __future__ import annotations

from dataclasses import replace

from evenkeel.domain.exchange import BalanceMode, MovesReport, Policy, TopicRouting
from evenkeel.domain.moves import Approval
from evenkeel.domain.snapshot import ClusterSnapshot, Incoming
from evenkeel.planning.routing import plan_routes
from evenkeel.reasons import Reason
from tests.support.balanced import Keeper, build_uneven, take_snapshot
from tests.support.moving_kafka import MB

ROUTED = {"t": TopicRouting()}


def written(keeper: Keeper) -> ClusterSnapshot:
    """With some inflow, so that the topic is routed."""
    return replace(take_snapshot(keeper.kafka), incoming=(Incoming("t", 1.0, observed_seconds=60),))


def plan_routed(keeper: Keeper, observed_seconds: float) -> None:
    found = written(keeper)
    keeper.balancing.plan(
        keeper.desired, found, ROUTED, plan_routes(found, ROUTED, Policy()), observed_seconds
    )


def test_a_proposal_stands_over_cycles_and_a_restart() -> None:
    keeper = build_uneven()
    keeper.measure()
    first = keeper.proposal
    assert first is not None
    keeper.kafka.tick(60)
    keeper.measure()
    assert keeper.proposal is first
    keeper.restart()
    keeper.measure()
    assert keeper.proposal is first


def test_it_is_no_proposal_any_more_once_it_is_a_plan() -> None:
    keeper = build_uneven()
    keeper.measure()
    keeper.open()
    keeper.measure()
    assert keeper.proposal is None
    assert keeper.balancing.moves is not None
    assert keeper.balancing.moves.reason is Reason.MOVES_PLANNED


def test_without_the_claim_nothing_is_proposed() -> None:
    keeper = build_uneven()
    keeper.claim.held = False
    keeper.measure()
    assert keeper.proposal is None
    assert keeper.balancing.moves is not None
    assert keeper.balancing.moves.moves > 0


def test_a_disabled_cluster_says_so() -> None:
    keeper = build_uneven()
    keeper.want(policy=Policy(mode=BalanceMode.DISABLED))
    keeper.measure()
    assert keeper.balancing.moves == MovesReport(Reason.DISABLED, "spec.balance.mode is Disabled")


def test_what_a_plan_moved_is_waited_for_before_the_next_one_is_proposed() -> None:
    keeper = build_uneven(partitions=600, megabytes=10)
    keeper.measure()
    keeper.open(approval=Approval.APPROVED)
    keeper.finish()
    at = keeper.kafka.now
    keeper.want(plan=None)
    keeper.measure()
    assert keeper.proposal is None, "the source still looks too full"
    assert keeper.balancing.moves is not None
    assert (keeper.balancing.moves.reason, keeper.balancing.moves.moves) == (Reason.PENDING, 0)
    assert "still lies on the disks" in keeper.balancing.moves.message
    while keeper.kafka.now - at < 80:
        keeper.turn(5)
    keeper.measure()
    assert keeper.proposal is None
    assert not keeper.balancing.runner.unfinished, "level: the series is over"


def test_a_plan_that_was_not_enough_is_gone_on_with_below_the_first_threshold() -> None:
    keeper = build_uneven(partitions=100, megabytes=10)
    keeper.want(policy=Policy(move_budget_bytes=620 * MB))
    keeper.measure()
    keeper.open(approval=Approval.APPROVED)
    keeper.finish()
    keeper.want(plan=None, policy=Policy())
    keeper.turn(80)
    keeper.measure()
    assert keeper.proposal is not None
    assert keeper.proposal.deviation_before_permille is not None
    assert keeper.proposal.deviation_before_permille < 150


def test_whether_routing_heals_is_waited_for() -> None:
    keeper = build_uneven()
    plan_routed(keeper, 30.0)
    assert keeper.proposal is None
    plan_routed(keeper, 120.0)
    assert keeper.proposal is not None
    plan_routed(keeper, 0.0)
    assert keeper.proposal is not None, "what stands does not wait again after a restart"


def test_another_cluster_forgets_everything() -> None:
    keeper = build_uneven()
    keeper.measure()
    keeper.open()
    keeper.measure()
    keeper.balancing.forget()
    assert (keeper.balancing.moves, keeper.balancing.progress) == (None, None)


def test_after_a_rejection_the_first_threshold_counts_again() -> None:
    keeper = build_uneven()
    keeper.measure()
    keeper.open(approval=Approval.APPROVED)
    keeper.run(lambda told: told.bytes_done > 0)
    keeper.decide(Approval.REJECTED)
    keeper.finish()
    assert not keeper.balancing.runner.unfinished


def test_a_series_goes_on_after_a_restart() -> None:
    keeper = build_uneven(partitions=600, megabytes=10)
    keeper.measure()
    keeper.open(approval=Approval.APPROVED)
    keeper.finish()
    keeper.restart()
    assert keeper.balancing.runner.unfinished
    keeper.measure()
    assert keeper.proposal is None


def test_a_broker_that_restarts_changes_no_proposal() -> None:
    keeper = build_uneven()
    keeper.measure()
    first = keeper.proposal
    keeper.kafka.kill(3)
    keeper.measure()
    assert keeper.proposal is first
    keeper.turn(301)
    keeper.measure()
    assert keeper.proposal is None, "it is not coming back: nothing may go there"
    keeper.measure()
    assert keeper.proposal is not None
    assert all(move.copied_to == 2 for batch in keeper.proposal.batches for move in batch.moves)


def test_without_a_broker_that_was_there_a_moment_ago_nothing_new_is_proposed() -> None:
    keeper = build_uneven()
    keeper.kafka.kill(3)
    keeper.measure()
    assert keeper.proposal is None
    assert keeper.balancing.moves is not None
    assert keeper.balancing.moves.reason is Reason.PENDING
    assert "broker 3 is away" in keeper.balancing.moves.message
    keeper.want(policy=Policy(drain=(3,)))
    keeper.measure()
    assert keeper.proposal is not None, "it is to be emptied: nobody waits for it"
