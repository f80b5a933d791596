from __future__ import annotations

from dataclasses import replace

import pytest

from evenkeel.domain.exchange import BalanceMode, Policy
from evenkeel.domain.moves import Approval, PlanState
from evenkeel.domain.waits import Waits
from evenkeel.errors import RetryableError
from evenkeel.reasons import Reason
from tests.support.balanced import Keeper, build_uneven
from tests.support.moving_kafka import MB
from tests.support.moving_world import assert_clean


def opened(**changes: object) -> Keeper:
    keeper = build_uneven()
    keeper.measure()
    keeper.open(**changes)
    keeper.measure()
    return keeper


def approved() -> Keeper:
    keeper = opened()
    keeper.decide(Approval.APPROVED)
    return keeper


def copying(keeper: Keeper) -> None:
    keeper.run(lambda told: told.bytes_done > 0)


def per_broker(keeper: Keeper) -> list[int]:
    rows = [tuple(one.replicas) for one in keeper.kafka.topics["t"].partitions]
    return [sum(broker in row for row in rows) for broker in (1, 2, 3)]


def test_a_plan_waits_for_a_decision_and_nothing_moves() -> None:
    keeper = opened()
    keeper.turn(60)
    keeper.measure()
    told = keeper.told
    assert (told.state, told.reason) == (PlanState.PROPOSED, Reason.PLAN_PENDING)
    assert (told.batches, told.moves, told.bytes) == (1, 5, 500 * MB)
    assert keeper.kafka.calls == []
    assert len(keeper.reports) == 1, "the same text each time"


def test_an_approved_plan_runs_to_its_end() -> None:
    keeper = approved()
    told = keeper.finish()
    assert (told.reason, told.moves_done, told.moves_failed, told.percent) == (Reason.MOVED, 5, 0, 100)
    assert per_broker(keeper) == [3, 3, 2]
    assert_clean(keeper.kafka)
    assert len(keeper.elected) == 1
    keeper.turn()
    keeper.measure()
    assert keeper.told == told
    assert len(keeper.elected) == 1


def test_events_are_told_once_and_count_up() -> None:
    keeper = approved()
    copying(keeper)
    keeper.restart()
    told = keeper.finish()
    assert [event.number for event in told.events] == list(range(1, len(told.events) + 1))
    messages = [event.message.split(": ")[-1] for event in told.events]
    assert messages == sorted(set(messages), key=messages.index), messages
    assert messages[0] == "5 moves, 500000000 bytes, 1 batches"
    assert messages[-4:] == ["25 percent", "50 percent", "75 percent", "all 5 moves done"]


def test_mere_progress_is_told_every_five_seconds() -> None:
    keeper = approved()
    copying(keeper)
    keeper.reports.clear()
    before = keeper.told
    for _ in range(4):
        keeper.turn()
    assert [one for one in keeper.reports if one.events == before.events] in ([], [before])


def test_a_keeper_that_dies_is_gone_on_from() -> None:
    keeper = approved()
    copying(keeper)
    keeper.restart(forgetful=True)
    keeper.claim.epoch += 1
    told = keeper.finish()
    assert told.reason is Reason.MOVED
    assert per_broker(keeper) == [3, 3, 2]
    assert_clean(keeper.kafka)


def test_a_rejected_plan_that_has_not_begun_is_over() -> None:
    keeper = opened()
    keeper.decide(Approval.REJECTED)
    keeper.turn()
    assert (keeper.told.state, keeper.told.reason) == (PlanState.FINISHED, Reason.PLAN_REJECTED)
    assert [event.reason for event in keeper.told.events] == [Reason.PLAN_REJECTED]
    assert keeper.kafka.calls == []


def test_a_rejection_cancels_what_runs() -> None:
    keeper = approved()
    copying(keeper)
    keeper.decide(Approval.REJECTED)
    told = keeper.finish()
    assert (told.reason, told.moves) == (Reason.PLAN_REJECTED, 5)
    assert per_broker(keeper) == [8, 0, 0]
    assert_clean(keeper.kafka)


def test_the_same_moves_may_be_approved_again() -> None:
    keeper = approved()
    copying(keeper)
    plan = keeper.desired.plan
    keeper.decide(Approval.REJECTED)
    keeper.finish()
    assert plan is not None
    keeper.want(plan=replace(plan, uid="uid-2"))
    assert keeper.finish().reason is Reason.MOVED
    assert per_broker(keeper) == [3, 3, 2]


def test_a_plan_that_is_gone_is_cancelled() -> None:
    keeper = approved()
    copying(keeper)
    keeper.want(plan=None)
    for _ in range(90):
        keeper.turn()
    assert keeper.balancing.progress is None
    assert per_broker(keeper) == [8, 0, 0]
    assert_clean(keeper.kafka)


def test_nobody_decided_in_time() -> None:
    keeper = opened(expired=True)
    assert (keeper.told.state, keeper.told.reason) == (PlanState.FINISHED, Reason.PLAN_EXPIRED)
    keeper.decide(Approval.APPROVED)
    keeper.turn()
    assert keeper.told.state is PlanState.FINISHED, "what was said to be over stays so"
    assert keeper.kafka.calls == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"paused": True}, Reason.PAUSED),
        ({"policy": Policy(mode=BalanceMode.DISABLED)}, Reason.DISABLED),
    ],
)
def test_a_halted_cluster_begins_no_plan(changes: dict[str, object], reason: Reason) -> None:
    keeper = approved()
    before = {key: getattr(keeper.desired, key) for key in changes}
    keeper.want(**changes)
    keeper.measure()
    keeper.turn(60)
    assert (keeper.told.state, keeper.told.reason) == (PlanState.PAUSED, reason)
    assert keeper.kafka.calls == []
    keeper.want(**before)
    assert keeper.finish().reason is Reason.MOVED


def test_a_pause_lets_the_batch_end_and_begins_no_other() -> None:
    keeper = build_uneven(partitions=8, megabytes=700)
    keeper.measure()
    keeper.open(approval=Approval.APPROVED)
    copying(keeper)
    assert keeper.told.batches > 1
    keeper.want(paused=True)
    keeper.run(lambda told: told.state is PlanState.PAUSED and told.batch == 2)
    for _ in range(60):
        keeper.turn()
    assert (keeper.told.state, keeper.told.reason) == (PlanState.PAUSED, Reason.PAUSED)
    assert not any(one.adding for one in keeper.kafka.topics["t"].partitions)
    keeper.want(paused=False)
    assert keeper.finish().reason is Reason.MOVED


def test_a_fact_that_no_longer_holds_ends_a_plan_that_waits() -> None:
    keeper = opened()
    del keeper.kafka.topics["t"]
    keeper.measure()
    assert keeper.told.state is PlanState.PROPOSED, "metadata may be late"
    assert "it cannot begin now" in keeper.told.message
    keeper.turn(15)
    keeper.measure()
    assert (keeper.told.state, keeper.told.reason) == (PlanState.FINISHED, Reason.PLAN_OUTDATED)
    assert "is not there any more" in keeper.told.message


def test_a_fact_is_believed_when_a_later_measurement_finds_it_still() -> None:
    keeper = opened()
    gone = keeper.kafka.topics.pop("t")
    keeper.measure()
    for _ in range(30):
        keeper.turn(2)
    assert keeper.told.state is PlanState.PROPOSED, "measured once"
    keeper.kafka.topics["t"] = gone
    keeper.measure()
    assert "it cannot begin now" not in keeper.told.message


def test_an_approved_plan_waits_for_a_broker_that_restarts() -> None:
    keeper = opened()
    keeper.kafka.kill(3)
    keeper.decide(Approval.APPROVED)
    keeper.measure()
    keeper.turn(60)
    keeper.measure()
    assert (keeper.told.state, keeper.told.reason) == (PlanState.PROPOSED, Reason.PENDING)
    assert "broker 3, which is to receive" in keeper.told.message
    assert keeper.kafka.calls == []
    keeper.kafka.revive(3)
    assert keeper.finish().reason is Reason.MOVED


def test_nothing_is_under_way_before_a_plan_and_after_it_is_cancelled() -> None:
    keeper = opened()
    keeper.turn()
    assert keeper.balancing.settled
    keeper.decide(Approval.APPROVED)
    copying(keeper)
    assert not keeper.balancing.settled
    keeper.want(plan=None)
    keeper.turn()
    assert not keeper.balancing.settled, "it is being cancelled"
    for _ in range(30):
        keeper.turn()
    assert keeper.balancing.settled
    assert not any(one.adding for one in keeper.kafka.topics["t"].partitions)
    keeper.claim.held = False
    keeper.turn()
    assert not keeper.balancing.settled, "nothing is known without the claim"


def test_without_the_claim_nothing_is_done() -> None:
    keeper = approved()
    keeper.claim.held = False
    keeper.turn(30)
    assert keeper.told.state is PlanState.PROPOSED
    assert keeper.kafka.calls == []


def test_a_missing_answer_is_told_when_it_lasts() -> None:
    keeper = approved()
    copying(keeper)
    keeper.kafka.cut = True
    keeper.turn()
    assert keeper.faults == []
    for _ in range(3):
        keeper.turn(6)
    assert [(fault.reason, fault.subject) for fault in keeper.faults] == [
        (Reason.BROKERS_UNREACHABLE, "plan")
    ]
    assert (keeper.told.state, keeper.told.reason) == (PlanState.RUNNING, Reason.BROKERS_UNREACHABLE)
    keeper.kafka.cut = False
    assert keeper.finish().reason is Reason.MOVED


def test_a_plan_with_a_partition_twice_is_outdated() -> None:
    keeper = opened()
    plan = keeper.desired.plan
    assert plan is not None
    keeper.want(plan=replace(plan, uid="uid-2", approval=Approval.APPROVED, batches=plan.batches * 2))
    keeper.turn()
    assert (keeper.told.state, keeper.told.reason) == (PlanState.FINISHED, Reason.PLAN_OUTDATED)


def clean_up(keeper: Keeper, seconds: int) -> int:
    """Seconds until the claim may be given back."""
    keeper.want(release=True)
    for passed in range(seconds):
        keeper.kafka.tick(1)
        if keeper.balancing.runner.clean_up(keeper.desired, "cluster"):
            return passed
    raise AssertionError(keeper.journal.text)


def test_before_the_claim_is_given_back_what_runs_is_cancelled() -> None:
    keeper = approved()
    copying(keeper)
    assert clean_up(keeper, 60) < 60
    assert_clean(keeper.kafka)
    assert per_broker(keeper) == [8, 0, 0]


def test_a_broker_that_is_away_does_not_keep_the_claim_for_ever() -> None:
    keeper = approved()
    copying(keeper)
    keeper.kafka.kill(3)
    assert 55 < clean_up(keeper, 300) < 120
    assert not any(one.adding for one in keeper.kafka.topics["t"].partitions)
    assert not keeper.kafka.brokers[1].rates


def test_leaders_that_cannot_be_elected_do_not_matter() -> None:
    keeper = approved()

    def fail(*_: object) -> int:
        raise RetryableError("no answer")

    keeper.balancing.runner._elect = fail
    assert keeper.finish().reason is Reason.MOVED


def test_another_plan_that_still_runs_is_cancelled_first() -> None:
    keeper = approved()
    copying(keeper)
    plan = keeper.desired.plan
    assert plan is not None
    keeper.want(plan=replace(plan, uid="uid-2"))
    keeper.measure()
    keeper.turn()
    assert (keeper.told.uid, keeper.told.reason) == ("uid-2", Reason.PENDING)
    assert "what ran before it is being cancelled" in keeper.told.message
    assert keeper.finish().reason is Reason.MOVED
    assert per_broker(keeper) == [3, 3, 2]
    assert_clean(keeper.kafka)


def test_producers_that_wait_no_longer_than_usual_are_no_reason() -> None:
    keeper = approved()
    runner = keeper.balancing.runner
    for waits, told in (
        (Waits(), None),
        (Waits(4.0), Waits(10.0)),
        (Waits(4.0, 9.0), Waits(10.0, 10.0)),
        (Waits(40.0, 90.0), Waits(40.0, 90.0)),
    ):
        runner.note_waits(waits)
        assert runner._waits == told


def test_what_producers_write_is_told_to_the_executor() -> None:
    keeper = approved()
    snapshot = keeper.measure()
    written = tuple(replace(one, bytes_per_second=5e6) for one in snapshot.partitions)
    volumes = tuple(
        replace(one, log_dirs=tuple(replace(entry, volume="shared") for entry in one.log_dirs))
        for one in snapshot.brokers
    )
    keeper.balancing.runner.judge(keeper.desired, replace(snapshot, partitions=written, brokers=volumes))
    settings = keeper.balancing.runner._settings(keeper.desired, keeper.desired.plan)
    assert set(settings.write_rates.values()) == {5e6}
    assert len(settings.write_rates) == 5
    assert settings.volumes == {(number, "/d0"): "shared" for number in (1, 2, 3)}
