from __future__ import annotations

from typing import Any

import pytest

from evenkeel import names
from evenkeel.domain.moves import Approval, PlanState
from evenkeel.kube.events import EventType
from evenkeel.reasons import Reason
from tests.support.plans import BATCHES, HASH, NAME, events, progress, propose, written
from tests.support.world import World, cluster, ready_world

KIND = "RebalancePlan"


def proposed_world() -> World:
    """A plan that waits for a decision, told to the keeper."""
    world = ready_world()
    propose(world)
    settle(world)
    return world


def settle(world: World) -> None:
    """Two rounds over the cluster and its plans, patches included."""
    for _ in range(2):
        world.run("BalancedCluster", "kafka", patches=True)
        for item in list(world.store.all(KIND)):
            world.run(KIND, item["metadata"]["name"], patches=True)


def decide(world: World, approval: str, name: str = NAME) -> None:
    item = world.get(KIND, name) or {}
    generation = item["metadata"]["generation"] + 1
    world.change(KIND, name, metadata={"generation": generation}, spec={**item["spec"], "approval": approval})
    settle(world)


def state(world: World, name: str = NAME) -> tuple[str, str]:
    """State and reason."""
    item = world.get(KIND, name) or {"status": {}}
    return item["status"].get("state", ""), world.condition(KIND, name)[1]


def test_proposal_becomes_a_plan_that_is_told_and_waits() -> None:
    world = proposed_world()
    item = world.get(KIND, NAME) or {}
    (owner,) = item["metadata"]["ownerReferences"]
    assert owner["uid"] == "uid-kafka"
    assert owner["controller"] is owner["blockOwnerDeletion"] is True
    assert item["spec"]["expirationTime"] == "2026-01-02T12:00:00Z"
    told = world.desired().plan
    assert told is not None
    assert (told.uid, told.hash, told.approval, told.batches) == (
        f"uid-{NAME}", HASH, Approval.PENDING, BATCHES,
    )  # fmt: skip
    assert state(world) == ("Proposed", "PlanPending")
    assert item["status"]["moves"] == 4
    assert item["status"]["bytes"] == 2200
    assert f"kubectl evenkeel approve {NAME} -n data" in world.message(KIND, NAME)


def test_approval_is_told_once_the_cluster_cannot_be_forgotten() -> None:
    world = proposed_world()
    item = world.get(KIND, NAME) or {}
    world.change(KIND, NAME, spec={**item["spec"], "approval": "Approved"})
    world.run("BalancedCluster", "kafka", patches=True)
    told = world.desired().plan
    assert told is not None
    assert told.approval is Approval.PENDING
    assert (world.get("BalancedCluster", "kafka") or {})["metadata"]["finalizers"] == [names.FINALIZER_MOVES]
    world.run("BalancedCluster", "kafka")
    told = world.desired().plan
    assert told is not None
    assert told.approval is Approval.APPROVED


def test_progress_of_the_keeper_is_shown() -> None:
    world = proposed_world()
    decide(world, "Approved")
    assert state(world) == ("Proposed", "Pending")
    report = progress(
        PlanState.RUNNING, Reason.MOVING, "batch 1 of 2", batch=1, moves_done=1, bytes_done=550, percent=25,
        eta_seconds=30, bytes_per_second=10_000_000,
    )  # fmt: skip
    world.report(plan=report)
    settle(world)
    status = (world.get(KIND, NAME) or {})["status"]
    assert state(world) == ("Running", "Moving")
    assert {key: status[key] for key in ("batch", "batches", "movesDone", "bytesDone", "percent", "etaSeconds")} == {
        "batch": 1, "batches": 2, "movesDone": 1, "bytesDone": 550, "percent": 25, "etaSeconds": 30,
    }  # fmt: skip
    assert world.condition("BalancedCluster", "kafka", "PlanPending") == ("False", "Moving")


def test_what_speaks_against_a_pending_plan_is_said_beside_what_to_type() -> None:
    world = proposed_world()
    message = "waits for spec.approval; it cannot begin now: broker 3 is offline"
    world.report(plan=progress(PlanState.PROPOSED, Reason.PLAN_PENDING, message))
    settle(world)
    assert world.message(KIND, NAME).endswith(
        "or set spec.approval; it cannot begin now: broker 3 is offline"
    )


def test_report_on_another_plan_is_not_taken_for_this_one() -> None:
    world = proposed_world()
    world.report(plan=progress(PlanState.FINISHED, Reason.MOVED, uid="uid-older"))
    settle(world)
    assert state(world) == ("Proposed", "PlanPending")


@pytest.mark.parametrize(
    "reason",
    [Reason.MOVED, Reason.PLAN_OUTDATED, Reason.PLAN_REJECTED, Reason.MOVES_CANCELLED, Reason.PLAN_EXPIRED],
)
def test_end_is_ready_with_its_reason_and_frees_the_cluster(reason: Reason) -> None:
    world = proposed_world()
    decide(world, "Approved")
    world.report(
        plan=progress(PlanState.FINISHED, reason, "why", percent=100, bytes_done=2200, eta_seconds=0)
    )
    settle(world)
    world.report(settled=True)
    settle(world)
    assert world.condition(KIND, NAME) == ("True", reason)
    assert world.condition(KIND, NAME, "Reconciling") == ("", "")
    status = (world.get(KIND, NAME) or {})["status"]
    assert (status["state"], status["percent"], "etaSeconds" in status) == ("Finished", 100, False)
    assert world.desired().plan is None
    assert not (world.get("BalancedCluster", "kafka") or {})["metadata"]["finalizers"]


def test_finished_plan_stays_as_it_ended() -> None:
    world = proposed_world()
    decide(world, "Approved")
    world.report(plan=progress(PlanState.FINISHED, Reason.MOVED, "why"))
    settle(world)
    world.report(plan=progress(PlanState.RUNNING, Reason.MOVING))
    decide(world, "Rejected")
    status = (world.get(KIND, NAME) or {})["status"]
    assert world.condition(KIND, NAME) == ("True", "Moved")
    assert status["observedGeneration"] == status["conditions"][0]["observedGeneration"] == 3
    assert world.desired().plan is None
    assert world.desired().propose


def test_news_of_the_keeper_are_told_once() -> None:
    world = proposed_world()
    decide(world, "Approved")
    world.report(plan=progress(PlanState.RUNNING, Reason.MOVING, "m", events=events(2, 1)))
    plan = world.run(KIND, NAME)
    assert [saying.note.message for saying in plan.sayings] == ["news 1", "news 2"]
    assert {saying.note.type for saying in plan.sayings} == {EventType.NORMAL}
    world.report(plan=progress(PlanState.RUNNING, Reason.MOVING, "m", events=events(1, 2, 3)))
    assert [saying.note.message for saying in world.run(KIND, NAME).sayings] == ["news 3"]
    assert (world.get(KIND, NAME) or {})["status"]["lastEvent"] == 3
    assert world.run(KIND, NAME).sayings == ()


def test_trouble_while_it_runs_is_a_warning() -> None:
    world = proposed_world()
    decide(world, "Approved")
    world.report(
        plan=progress(PlanState.RUNNING, Reason.THROTTLE_OVERRIDDEN, "somebody set leader.replication")
    )
    (saying,) = world.run(KIND, NAME).sayings
    assert (saying.note.reason, saying.note.type) == (Reason.THROTTLE_OVERRIDDEN, EventType.WARNING)


def test_rejected_plan_waits_for_the_keeper_and_stands() -> None:
    world = proposed_world()
    decide(world, "Rejected")
    told = world.desired().plan
    assert told is not None
    assert told.approval is Approval.REJECTED
    assert not world.desired().propose
    assert state(world) == ("Proposed", "Pending")
    world.report(plan=progress(PlanState.FINISHED, Reason.PLAN_REJECTED, "nothing of it runs"))
    settle(world)
    assert (world.desired().plan, world.desired().propose) == (None, False)
    assert world.condition("BalancedCluster", "kafka", "PlanPending") == ("False", "PlanRejected")
    assert NAME in world.message("BalancedCluster", "kafka", "PlanPending")
    world.pass_time(24 * 3600)
    settle(world)
    assert world.desired().propose


def test_old_plan_that_is_rejected_while_it_waits_names_a_time_to_come() -> None:
    world = ready_world()
    world.add(written("first", approval="Approved"))
    settle(world)
    world.add(written("second", approval="Approved"))
    world.pass_time(30 * 3600)
    decide(world, "Rejected", "second")
    assert "before 2026-01-03T18:00:00Z" in world.message(KIND, "second")


def test_undecided_plan_is_looked_at_in_time() -> None:
    world = proposed_world()
    assert world.plan(KIND, NAME).again_seconds == 24 * 3600
    assert world.plan("BalancedCluster", "kafka").again_seconds == 24 * 3600


def test_undecided_plan_is_told_as_expired_until_it_has_ended() -> None:
    world = proposed_world()
    world.pass_time(24 * 3600)
    world.run("BalancedCluster", "kafka")
    told = world.desired().plan
    assert told is not None
    assert told.expired


@pytest.mark.parametrize("reported", [False, True])
def test_undecided_plan_ends_in_time_whatever_the_keeper_says(*, reported: bool) -> None:
    world = proposed_world()
    if reported:  # by a keeper that has gone since
        world.report(plan=progress(PlanState.PROPOSED, Reason.PLAN_PENDING, "waits for spec.approval"))
    world.pass_time(24 * 3600)
    settle(world)
    assert world.condition(KIND, NAME) == ("True", "PlanExpired")
    assert world.desired().plan is None
    assert world.desired().propose


def test_approval_of_an_expired_plan_comes_too_late() -> None:
    world = proposed_world()
    world.pass_time(24 * 3600)
    settle(world)
    decide(world, "Approved")
    assert world.condition(KIND, NAME) == ("True", "PlanExpired")
    assert world.desired().plan is None


def test_plan_without_expiration_has_a_day() -> None:
    world = ready_world()
    world.add(written("mine"))
    settle(world)
    assert "2026-01-02T00:00:00Z" in world.message(KIND, "mine")


def test_plan_that_was_written_by_hand_is_as_good() -> None:
    world = ready_world()
    world.add(written("mine", approval="Approved", throttleBytesPerSecond=5_000_000))
    settle(world)
    told = world.desired().plan
    assert told is not None
    assert (told.name, told.hash, told.approval) == ("mine", "mine", Approval.APPROVED)
    assert told.throttle_bytes_per_second == 5_000_000
    (move,) = told.batches[0].moves
    assert (move.copied_to, move.freed_on) == (3, 1)


def test_younger_plan_waits_and_comes_next() -> None:
    world = ready_world()
    world.add(written("zz-older"))
    younger = written("aa-younger")
    younger["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z"
    world.add(younger)
    settle(world)
    assert state(world, "aa-younger") == ("Proposed", "Conflict")
    assert "RebalancePlan zz-older" in world.message(KIND, "aa-younger")
    world.report(plan=progress(PlanState.FINISHED, Reason.PLAN_OUTDATED, uid="uid-zz-older"))
    settle(world)
    told = world.desired().plan
    assert told is not None
    assert told.name == "aa-younger"


def test_plan_that_was_told_stays_the_open_one() -> None:
    world = ready_world()
    world.add(written("zz"))
    settle(world)
    world.add(written("aa"))  # made within the same second
    settle(world)
    told = world.desired().plan
    assert told is not None
    assert told.name == "zz"


def test_waiting_plan_that_is_rejected_or_expires_ends_by_itself() -> None:
    world = ready_world()
    for name, second in (("first", 0), ("second", 1), ("third", 2)):
        item = written(
            name, expirationTime="2026-01-01T13:00:00Z" if name == "third" else "2026-01-03T00:00:00Z"
        )
        item["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{second}Z"
        world.add(item)
    decide(world, "Rejected", "second")
    assert state(world, "second") == ("Finished", "PlanRejected")
    world.pass_time(3600)
    settle(world)
    assert state(world, "third") == ("Finished", "PlanExpired")
    assert state(world, "first") == ("Proposed", "PlanPending")


def test_plan_without_cluster_says_so() -> None:
    world = ready_world()
    world.add(written("mine", cluster="elsewhere"))
    settle(world)
    assert state(world, "mine") == ("Proposed", "ClusterNotFound")
    assert "data/elsewhere" in world.message(KIND, "mine")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"state": "Running"}, ("Finished", "PlanOutdated")),
        ({"state": "Paused", "batch": 1}, ("Finished", "PlanOutdated")),
        ({"state": "Paused"}, ("Proposed", "ClusterNotFound")),
    ],
    ids=["runs", "paused after a batch", "paused before the first"],
)
def test_plan_that_has_run_is_over_once_its_cluster_is_gone(
    status: dict[str, Any], expected: tuple[str, str]
) -> None:
    world = ready_world()
    world.add(written("mine", cluster="gone", approval="Approved"))
    world.change(KIND, "mine", status=status)
    world.run(KIND, "mine")
    assert state(world, "mine") == expected


def test_plan_whose_cluster_went_promises_no_clean_kafka() -> None:
    world = ready_world()
    world.add(written("mine", cluster="gone", approval="Approved"))
    world.change(KIND, "mine", status={"state": "Running"})
    world.run(KIND, "mine")
    assert "if its keeper could still do so: look for throttles" in world.message(KIND, "mine")


def test_plan_of_another_kafka_cluster_is_outdated_and_never_told() -> None:
    world = ready_world()
    world.add(written("mine", kafkaClusterId="other"))
    settle(world)
    assert world.condition(KIND, "mine") == ("True", "PlanOutdated")
    assert "other" in world.message(KIND, "mine")
    assert world.desired().plan is None


def test_plan_that_runs_while_the_cluster_becomes_another_says_what_is_left() -> None:
    world = proposed_world()
    decide(world, "Approved")
    world.report(plan=progress(PlanState.RUNNING, Reason.MOVING))
    settle(world)
    world.report(cluster_id="kafka-2")
    settle(world)
    assert state(world) == ("Finished", "PlanOutdated")
    assert "not cancelled" in world.message(KIND, NAME)


def test_invalid_plan_says_which_field_and_keeps_nobody_waiting() -> None:
    world = ready_world()
    move = {"batch": 0, "topic": "orders", "partition": 0, "source": [1, 2], "target": [3, 4]}
    world.add(written("aa-wrong", moves=[move]))
    world.add(written("mine"))
    settle(world)
    assert world.condition(KIND, "aa-wrong") == ("False", "InvalidSpec")
    assert world.condition(KIND, "aa-wrong", "Stalled")[0] == "True"
    assert "spec.moves[0].target" in world.message(KIND, "aa-wrong")
    told = world.desired().plan
    assert told is not None
    assert told.name == "mine"


def test_plan_that_is_being_deleted_is_not_told_any_more() -> None:
    world = proposed_world()
    decide(world, "Approved")
    world.change(KIND, NAME, metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"})
    settle(world)
    assert world.desired().plan is None


@pytest.mark.parametrize(
    ("spec", "reason"),
    [({"state": "Paused"}, "Paused"), ({"balance": {"mode": "Disabled"}}, "Disabled"), ({}, "Pending")],
)
def test_approved_plan_says_why_it_does_not_begin(spec: dict[str, Any], reason: str) -> None:
    world = proposed_world()
    world.change("BalancedCluster", "kafka", spec=cluster(**spec)["spec"])
    decide(world, "Approved")
    assert state(world) == ("Proposed", reason)


def test_operator_approves_what_it_proposed_where_the_mode_turns_automatic() -> None:
    world = proposed_world()
    world.change("BalancedCluster", "kafka", spec=cluster(balance={"mode": "Automatic"})["spec"])
    settle(world)
    assert (world.get(KIND, NAME) or {})["spec"]["approval"] == "Approved"


def test_operator_never_approves_what_somebody_else_wrote() -> None:
    world = ready_world()
    world.change("BalancedCluster", "kafka", spec=cluster(balance={"mode": "Automatic"})["spec"])
    world.add(written("mine"))
    settle(world)
    assert (world.get(KIND, "mine") or {})["spec"]["approval"] == "Pending"
