"""A BalancedCluster that is deleted while moves run."""

from __future__ import annotations

from typing import Any

from evenkeel.controller.cluster_end import LOOK_SECONDS, PATIENCE
from evenkeel.controller.plan import Plan
from evenkeel.domain.exchange import Fault
from evenkeel.domain.moves import PlanState
from evenkeel.reasons import Reason
from tests.support.plans import progress, written
from tests.support.world import World, cluster, ready_world

CLUSTER = "BalancedCluster"
DEPLOYMENT = "kafka-keeper"
LONG = PATIENCE.total_seconds() * 3


def ending_world() -> World:
    """A plan ran, its cluster was deleted just now, and the keeper was told."""
    world = ready_world()
    world.add(written("mine", approval="Approved"))
    for _ in range(2):
        look(world)
    world.report(plan=progress(PlanState.RUNNING, Reason.MOVING, uid="uid-mine"))
    world.run("RebalancePlan", "mine")
    world.change(CLUSTER, "kafka", metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"})
    look(world)
    return world


def holding_world(**report: Any) -> World:
    """The keeper answers: it lets a copy finish, for long."""
    world = ending_world()
    world.report(**report)
    look(world)
    world.pass_time(LONG)
    return world


def look(world: World) -> Plan:
    return world.run(CLUSTER, "kafka", patches=True)


def is_guarded(world: World) -> bool:
    return bool((world.get(CLUSTER, "kafka") or {})["metadata"].get("finalizers"))


def stop_keeper(world: World) -> None:
    world.change("Deployment", DEPLOYMENT, status={"availableReplicas": 0})


def test_keeper_that_answers_may_take_its_time() -> None:
    world = holding_world()
    assert look(world).again_seconds == LOOK_SECONDS
    assert is_guarded(world)


def test_it_is_said_that_copies_are_left_to_finish() -> None:
    world = holding_world()
    assert "left to finish" in world.message(CLUSTER, "kafka")


def test_it_is_said_why_the_keeper_cannot_cancel() -> None:
    world = holding_world(faults=(Fault(Reason.AUTHORIZATION_MISSING, "ALTER on the cluster is missing"),))
    assert "ALTER on the cluster is missing" in world.message(CLUSTER, "kafka")


def test_keeper_that_restarts_after_long_is_waited_for() -> None:
    world = holding_world()
    stop_keeper(world)
    assert look(world).again_seconds == PATIENCE.total_seconds()
    assert is_guarded(world)


def test_keeper_that_has_not_taken_up_the_newest_word_after_long_is_waited_for() -> None:
    world = holding_world()
    world.change(CLUSTER, "kafka", spec=cluster(measure={"intervalSeconds": 60})["spec"])
    look(world)
    assert is_guarded(world)


def test_keeper_that_stops_for_good_is_given_up() -> None:
    world = holding_world()
    stop_keeper(world)
    look(world)
    world.pass_time(PATIENCE.total_seconds())
    look(world)
    assert not is_guarded(world)


def test_keeper_that_answers_again_is_given_its_time_again() -> None:
    world = holding_world()
    stop_keeper(world)
    look(world)
    world.keeper_runs()
    look(world)
    world.pass_time(LONG)
    stop_keeper(world)
    look(world)
    assert is_guarded(world)


def test_report_that_nobody_writes_any_more_is_no_answer() -> None:
    world = ending_world()
    world.report()
    stop_keeper(world)
    look(world)
    world.pass_time(PATIENCE.total_seconds())
    look(world)
    assert not is_guarded(world)
