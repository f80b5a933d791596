from __future__ import annotations

from typing import Any

import pytest

from evenkeel import names
from evenkeel.controller.cluster_end import PATIENCE
from evenkeel.domain.exchange import Fault, MovesReport
from evenkeel.domain.moves import PlanState
from evenkeel.reasons import Reason
from tests.support.plans import HASH, NAME, progress, propose, proposed, written
from tests.support.world import World, cluster, ready_world

KIND = "RebalancePlan"
CLUSTER = "BalancedCluster"


def spec_of(world: World, **spec: Any) -> None:
    world.change(CLUSTER, "kafka", spec=cluster(**spec)["spec"])
    world.run(CLUSTER, "kafka")


def names_of(world: World) -> set[str]:
    return {item["metadata"]["name"] for item in world.store.all(KIND)}


def test_automatic_mode_approves_at_once() -> None:
    world = ready_world()
    spec_of(world, balance={"mode": "Automatic"})
    propose(world)
    assert (world.get(KIND, NAME) or {})["spec"]["approval"] == "Approved"


@pytest.mark.parametrize("spec", [{"balance": {"mode": "Disabled"}}, {"state": "Paused"}])
def test_nothing_is_proposed_where_it_is_not_wanted(spec: dict[str, Any]) -> None:
    world = ready_world()
    spec_of(world, **spec)
    propose(world)
    assert names_of(world) == set()


def test_proposal_of_before_the_newest_word_is_not_taken() -> None:
    world = ready_world()
    moves = MovesReport(Reason.MOVES_PLANNED, "4 moves", moves=4, proposal=proposed())
    world.report(moves=moves)
    spec_of(world, balance={"moveBudgetBytes": "1Gi"})
    assert names_of(world) == set()
    world.report(moves=moves)
    world.run(CLUSTER, "kafka")
    assert names_of(world) == {NAME}


def test_keeper_that_cannot_measure_proposes_nothing() -> None:
    world = ready_world()
    moves = MovesReport(Reason.MOVES_PLANNED, "4 moves", moves=4, proposal=proposed())
    world.report(moves=moves, faults=(Fault(Reason.BROKERS_UNREACHABLE, "why"),))
    world.run(CLUSTER, "kafka")
    assert names_of(world) == set()


def test_one_plan_at_a_time() -> None:
    world = ready_world()
    world.add(written("mine"))
    world.run(CLUSTER, "kafka")
    propose(world)
    assert names_of(world) == {"mine"}


def test_plan_that_was_decided_is_not_made_again_but_another_is() -> None:
    world = ready_world()
    propose(world)
    world.run(CLUSTER, "kafka")
    world.change(KIND, NAME, status={"state": "Finished"})
    world.run(CLUSTER, "kafka")
    propose(world)
    assert world.plan(CLUSTER, "kafka").children[-1].resource.kind == "Deployment"
    propose(world, hash_="f" * 64)
    assert names_of(world) == {NAME, "kafka-ffffffffff"}


def test_nothing_is_proposed_after_a_rejection() -> None:
    world = ready_world()
    world.add(written("mine", approval="Rejected"))
    world.change(KIND, "mine", status={"state": "Finished"})
    world.run(CLUSTER, "kafka")
    propose(world)
    assert names_of(world) == {"mine"}
    assert "mine was rejected: nothing new is proposed before" in world.message(
        CLUSTER, "kafka", "PlanPending"
    )


def test_rejected_plan_that_has_not_ended_names_no_time() -> None:
    world = ready_world()
    world.add(written("mine", approval="Rejected"))
    world.change(KIND, "mine", metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"})
    world.run(CLUSTER, "kafka")
    assert "proposed before it has ended, or" in world.message(CLUSTER, "kafka", "PlanPending")


def test_plan_with_the_longest_cluster_name_has_a_valid_name() -> None:
    assert len(f"{'c' * 50}-{HASH[:10]}") <= 63


def test_pending_condition_names_the_plan_and_what_to_type() -> None:
    world = ready_world()
    propose(world)
    world.run(CLUSTER, "kafka")
    assert world.condition(CLUSTER, "kafka", "PlanPending") == ("True", "PlanPending")
    message = world.message(CLUSTER, "kafka", "PlanPending")
    assert f"RebalancePlan {NAME}: 4 moves of 2.2 kB in about 17 s" in message
    assert f"kubectl evenkeel approve {NAME} -n data" in message
    assert (world.get(CLUSTER, "kafka") or {})["status"]["moves"]["plan"] == NAME


def test_proposal_that_cannot_be_stored_is_said() -> None:
    world = ready_world()
    propose(world, cluster_id="x" * 129)
    assert names_of(world) == set()
    assert world.condition(CLUSTER, "kafka", "PlanPending") == ("False", "InvalidSpec")
    assert "kafkaClusterId" in world.message(CLUSTER, "kafka", "PlanPending")


def finished(world: World, name: str, second: int, *, ours: bool = True, **spec: Any) -> None:
    item = written(name, **spec)
    if ours:
        item["metadata"]["labels"] = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
        owner = {"kind": CLUSTER, "name": "kafka", "uid": "uid-kafka", "controller": True}
        item["metadata"]["ownerReferences"] = [owner]
    ready = {
        "type": "Ready", "status": "True", "reason": "PlanRejected", "message": "", "observedGeneration": 1,
        "lastTransitionTime": f"2026-01-01T01:00:{second:02}Z",
    }  # fmt: skip
    world.add({**item, "status": {"state": "Finished", "conditions": [ready]}})


def test_newest_five_finished_plans_of_ours_stay() -> None:
    world = ready_world()
    for second in range(8):
        finished(world, f"plan-{second}", second)
    finished(world, "declared", 0, ours=False)
    finished(world, "stands", 0, approval="Rejected")
    world.run(CLUSTER, "kafka")
    assert names_of(world) == {*(f"plan-{second}" for second in range(3, 8)), "declared", "stands"}


def running_world() -> World:
    """A plan runs, and the cluster is guarded."""
    world = ready_world()
    world.add(written("mine", approval="Approved"))
    for _ in range(2):
        world.run(CLUSTER, "kafka", patches=True)
    world.report(plan=progress(PlanState.RUNNING, Reason.MOVING, uid="uid-mine"))
    world.run(KIND, "mine")
    return world


def stop_late(world: World) -> None:
    """The plan that runs is rejected when it could not be decided any more."""
    world.pass_time(30 * 3600)
    item = world.get(KIND, "mine") or {}
    world.change(KIND, "mine", spec={**item["spec"], "approval": "Rejected"})
    world.run(CLUSTER, "kafka")


def test_rejected_plan_that_runs_stands_however_old_it_is() -> None:
    world = running_world()
    stop_late(world)
    assert not world.desired().propose


def test_old_plan_that_was_stopped_stands_for_a_day() -> None:
    world = running_world()
    stop_late(world)
    world.report(plan=progress(PlanState.FINISHED, Reason.PLAN_REJECTED, uid="uid-mine"))
    world.run(KIND, "mine")
    assert world.run(CLUSTER, "kafka").again_seconds == 24 * 3600
    assert not world.desired().propose
    assert "before 2026-01-03T18:00:00Z" in world.message(CLUSTER, "kafka", "PlanPending")
    world.pass_time(24 * 3600)
    world.run(CLUSTER, "kafka")
    assert world.desired().propose


def delete_cluster(world: World) -> None:
    world.change(CLUSTER, "kafka", metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"})


def is_guarded(world: World) -> bool:
    return bool((world.get(CLUSTER, "kafka") or {})["metadata"].get("finalizers"))


def test_deleted_cluster_waits_until_its_moves_are_cancelled() -> None:
    world = running_world()
    delete_cluster(world)
    plan = world.run(CLUSTER, "kafka", patches=True)
    assert [child.resource.kind for child in plan.children] == ["ConfigMap"]
    told = world.desired()
    assert (told.release, told.plan, told.propose) == (True, None, False)
    assert world.condition(CLUSTER, "kafka") == ("False", "Deleting")
    assert is_guarded(world)
    world.report(released=True)
    world.run(CLUSTER, "kafka", patches=True)
    assert not is_guarded(world)


def test_plan_that_is_deleted_while_it_runs_guards_its_cluster_until_nothing_is_under_way() -> None:
    world = running_world()
    world.store.put("DELETED", world.get(KIND, "mine") or {})
    world.run(CLUSTER, "kafka", patches=True)
    assert world.desired().plan is None
    assert is_guarded(world), "the keeper has not heard of it"
    world.report(settled=False)
    world.run(CLUSTER, "kafka", patches=True)
    assert is_guarded(world), "what runs is being cancelled"
    world.report(settled=True)
    world.run(CLUSTER, "kafka", patches=True)
    assert not is_guarded(world)


def test_release_that_was_said_before_the_newest_word_does_not_count() -> None:
    world = running_world()
    delete_cluster(world)
    world.report(released=True)
    world.run(CLUSTER, "kafka", patches=True)
    assert is_guarded(world)


def test_deletion_does_not_wait_for_a_keeper_that_is_gone() -> None:
    world = running_world()
    delete_cluster(world)
    world.change("Deployment", "kafka-keeper", metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"})
    world.run(CLUSTER, "kafka", patches=True)
    assert not is_guarded(world)


def test_deletion_does_not_hold_up_a_namespace() -> None:
    world = running_world()
    delete_cluster(world)
    item = world.store.get("Namespace", "", "data")
    assert item is not None
    world.add({**item, "metadata": {**item["metadata"], "deletionTimestamp": "2026-01-01T12:00:00Z"}})
    world.run(CLUSTER, "kafka", patches=True)
    assert not is_guarded(world)


def test_deletion_gives_up_with_a_warning() -> None:
    world = running_world()
    delete_cluster(world)
    assert world.run(CLUSTER, "kafka").again_seconds == PATIENCE.total_seconds()
    world.pass_time(PATIENCE.total_seconds())
    plan = world.run(CLUSTER, "kafka", patches=True)
    assert not is_guarded(world)
    assert [saying.note.reason for saying in plan.sayings] == [Reason.KEEPER_UNAVAILABLE]


def test_cluster_without_running_plan_goes_at_once() -> None:
    world = ready_world()
    propose(world)
    delete_cluster(world)
    plan = world.plan(CLUSTER, "kafka")
    assert (plan.patches, plan.children, plan.status) == ((), (), None)


def test_route_or_move_is_in_status() -> None:
    world = ready_world()
    world.report(moves=MovesReport(Reason.ROUTING_HEALS, "routes do", "Route", 3600, 7200))
    world.run(CLUSTER, "kafka")
    moves = (world.get(CLUSTER, "kafka") or {})["status"]["moves"]
    assert {key: moves[key] for key in ("cure", "routingSeconds", "limitSeconds")} == {
        "cure": "Route", "routingSeconds": 3600, "limitSeconds": 7200,
    }  # fmt: skip
