"""A BalancedCluster that is deleted while moves run."""

from __future__ import annotations

from typing import Any

from evenkeel.controller.cluster_end import LOOK_SECONDS, PATIENCE
from evenkeel.controller.plan import Plan
from evenkeel.domain.exchange import Fault
from evenkeel.domain.moves import PlanState
from evenkeel.kube.events import EventType
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


def end_keeper(world: World) -> None:
    world.change("Deployment", DEPLOYMENT, metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"})


def warnings(plan: Plan) -> list[tuple[Reason, str]]:
    return [(one.note.reason, one.note.message) for one in plan.sayings if one.note.type is EventType.WARNING]


def test_keeper_that_is_deleted_first_is_a_warning() -> None:
    world = ending_world()
    end_keeper(world)
    message = "the keeper was deleted before it said that nothing is under way: moves and throttles may be left in Kafka"
    assert warnings(look(world)) == [(Reason.KEEPER_UNAVAILABLE, message)]


def test_namespace_that_ends_is_a_warning() -> None:
    world = ending_world()
    item = world.store.get("Namespace", "", "data")
    assert item is not None
    world.add({**item, "metadata": {**item["metadata"], "deletionTimestamp": "2026-01-01T12:00:00Z"}})
    ((reason, message),) = warnings(look(world))
    assert reason is Reason.KEEPER_UNAVAILABLE
    assert message.startswith("the namespace is being deleted with the keeper")


def test_keeper_that_let_go_may_be_deleted_without_a_word() -> None:
    world = ending_world()
    world.report(released=True)
    end_keeper(world)
    assert look(world).sayings == ()
    assert not is_guarded(world)
