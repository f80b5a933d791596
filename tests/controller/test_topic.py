from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import yaml

from evenkeel import names
from evenkeel.domain.exchange import Fault, RoutesReport, ScoreReport, TopicReport
from evenkeel.reasons import Reason
from tests.support.world import World, cluster, namespace_object, ready_world, report_all, settle, topic

GOLDEN = Path(__file__).parents[1] / "data" / "controller"
EXISTS = TopicReport("events", exists=True, topic_id="t", partitions=6, replication_factor=2)


def test_status_as_people_see_it() -> None:
    world = ready_world(topic("events"))
    routes = RoutesReport(
        active=True, reason=Reason.ROUTED, message="routed", owner_epoch=2, epoch=7,
        predicted_max_fill_permille=610, optimal_max_fill_permille=600, uniform_max_fill_permille=700,
    )  # fmt: skip
    world.report(topics=(TopicReport("events", True, "t", 6, 2, routes),))
    world.run("BalancedTopic", "events")
    found = (world.get("BalancedTopic", "events") or {})["status"]
    assert found == yaml.safe_load((GOLDEN / "topic-status.yaml").read_text())


def test_waits_for_the_cluster() -> None:
    world = World()
    world.add(cluster())
    world.add(topic("events"))
    world.run("BalancedTopic", "events")
    assert world.condition("BalancedTopic", "events") == ("False", "ClusterNotReady")
    status = (world.get("BalancedTopic", "events") or {})["status"]
    assert status["clusterRef"] == {"name": "kafka", "namespace": "data"}


def test_topic_that_does_not_exist_yet() -> None:
    world = ready_world(topic("events"))
    world.add(topic("later", "later"))
    settle(world)
    assert world.condition("BalancedTopic", "later") == ("False", "TopicCreating")


def test_new_spec_is_not_ready_until_the_keeper_took_it_up() -> None:
    world = ready_world(topic("events", partitions=6))
    assert world.condition("BalancedTopic", "events") == ("True", "Ready")
    world.change(
        "BalancedTopic", "events", metadata={"generation": 2}, spec={"topicName": "events", "partitions": 9}
    )
    world.run("BalancedTopic", "events")
    assert world.condition("BalancedTopic", "events") == ("False", "Pending")
    world.run("BalancedCluster", "kafka")
    report_all(world)
    world.run("BalancedTopic", "events")
    assert world.condition("BalancedTopic", "events") == ("True", "Ready")


def test_change_of_another_topic_does_not_disturb() -> None:
    world = ready_world(topic("events"))
    world.add(topic("later", "later"))
    settle(world)
    assert world.condition("BalancedTopic", "events") == ("True", "Ready")


def test_fault_of_the_topic_is_the_reason() -> None:
    world = ready_world(topic("events"))
    fault = Fault(Reason.PARTITIONS_LOWERED, "partitions: has 6, 3 are asked for", "topic/events")
    world.report(topics=(EXISTS,), faults=(fault, Fault(Reason.TOPIC_DRIFT, "x", "topic/other")))
    world.run("BalancedTopic", "events")
    assert world.condition("BalancedTopic", "events") == ("False", "PartitionsLowered")
    assert world.condition("BalancedTopic", "events", "Stalled")[0] == "True"


def test_routes_are_separate_from_ready() -> None:
    world = ready_world(topic("events"))
    idle = RoutesReport(active=False, reason=Reason.COMPACTED, message="compacted topics are not routed")
    world.report(topics=(TopicReport("events", True, "t", 6, 2, idle),))
    world.run("BalancedTopic", "events")
    assert world.condition("BalancedTopic", "events") == ("True", "Ready")
    assert world.condition("BalancedTopic", "events", "RoutesActive") == ("False", "Compacted")
    said = "compacted topics are not routed; only topics that delete by age or size can be routed"
    assert world.message("BalancedTopic", "events", "RoutesActive") == said
    assert "routes" not in (world.get("BalancedTopic", "events") or {})["status"]


def notes(world: World) -> list[tuple[str, str]]:
    """Run the topic -> its events as (reason, message)."""
    plan = world.run("BalancedTopic", "events")
    return [(one.note.reason.value, one.note.message) for one in plan.sayings]


def test_drift_that_was_set_back_is_an_event_once_and_ready_stays() -> None:
    world = ready_world(topic("events"))
    said = "config: retention.ms was changed to 5 by somebody else and set back to 9"
    world.report(topics=(dataclasses.replace(EXISTS, drift=(said,)),))
    assert notes(world) == [("TopicDrift", said)]
    assert world.condition("BalancedTopic", "events") == ("True", "Ready")
    assert (world.get("BalancedTopic", "events") or {})["status"]["drift"] == [said]
    assert notes(world) == []
    world.report(topics=(dataclasses.replace(EXISTS, drift=(f"{said} (2 times within 10 minutes)",)),))
    assert len(notes(world)) == 1
    world.report(topics=(EXISTS,))
    assert notes(world) == []
    assert "drift" not in (world.get("BalancedTopic", "events") or {})["status"]


def test_a_fight_stalls_and_is_said_once() -> None:
    world = ready_world(topic("events"))
    fault = Fault(
        Reason.TOPIC_DRIFT, "config: retention.ms of topic events is 5, 9 is declared", "topic/events"
    )
    world.report(topics=(dataclasses.replace(EXISTS, drift=(fault.message,)),), faults=(fault,))
    assert notes(world) == [("TopicDrift", fault.message)]
    assert world.condition("BalancedTopic", "events") == ("False", "TopicDrift")
    assert world.condition("BalancedTopic", "events", "Stalled")[0] == "True"


def test_drift_is_bounded_as_the_definition_says() -> None:
    world = ready_world(topic("events"))
    world.report(topics=(dataclasses.replace(EXISTS, drift=tuple(f"{n}" + "x" * 9000 for n in range(99))),))
    world.run("BalancedTopic", "events")
    found = (world.get("BalancedTopic", "events") or {})["status"]["drift"]
    assert (len(found), {len(one) for one in found}) == (16, {512})


def routed(**more: Any) -> TopicReport:
    routes = RoutesReport(active=True, reason=Reason.ROUTED, message="routed", owner_epoch=1, epoch=2, **more)
    return dataclasses.replace(EXISTS, routes=routes)


def test_caps_steered_share_and_scores_are_shown() -> None:
    world = ready_world(topic("events"))
    late = ScoreReport("NodeLoad", Reason.SNAPSHOT_INCOMPLETE, "broker 3 has no load")
    scores = (ScoreReport("Storage", Reason.ROUTED), late)
    caps = ("leader share of broker 3",)
    world.report(topics=(routed(binding_caps=caps, steered_percent=80, scores=scores),))
    assert ("SnapshotIncomplete", "score NodeLoad does not count: broker 3 has no load") in notes(world)
    routes = (world.get("BalancedTopic", "events") or {})["status"]["routes"]
    assert (routes["bindingCaps"], routes["steeredPercent"]) == (list(caps), 80)
    assert [(one["name"], one["reason"]) for one in routes["scores"]] == [
        ("Storage", "Routed"),
        ("NodeLoad", "SnapshotIncomplete"),
    ]
    assert notes(world) == []


def test_scores_and_steered_share_are_shown_also_where_nothing_is_routed() -> None:
    world = ready_world(topic("events"))
    score = ScoreReport("Own", Reason.SCORE_FAILED, "died")
    routes = RoutesReport(False, Reason.NO_SCORES, "none can be used", steered_percent=10, scores=(score,))
    world.report(topics=(dataclasses.replace(EXISTS, routes=routes),))
    assert ("ScoreFailed", "score Own does not count: died") in notes(world)
    assert notes(world) == []
    assert world.condition("BalancedTopic", "events", "RoutesActive") == ("False", "NoScores")
    shown = (world.get("BalancedTopic", "events") or {})["status"]["routes"]
    assert (shown["steeredPercent"], shown["scores"][0]["reason"]) == (10, "ScoreFailed")


def test_paused_topic_is_not_created_and_says_so() -> None:
    world = ready_world(topic("events", state="Paused", partitions=9))
    told = world.desired().topics[0]
    assert (told.create, told.partitions) == (False, None)
    world.report()
    world.run("BalancedTopic", "events")
    assert world.condition("BalancedTopic", "events") == ("False", "Paused")


def test_older_resource_owns_the_topic() -> None:
    world = ready_world(topic("first"))
    second = topic("second")
    second["metadata"]["creationTimestamp"] = "2026-01-01T00:00:09Z"
    world.add(second)
    settle(world)
    settle(world)
    assert [one.owner_uid for one in world.desired().topics] == ["uid-first"]
    assert world.condition("BalancedTopic", "second") == ("False", "Conflict")
    assert "data/first" in world.message("BalancedTopic", "second")


def test_younger_one_of_another_namespace_takes_over_when_the_older_goes() -> None:
    world = World()
    for name in ("data", "other"):
        world.add(namespace_object(name))
    world.add(cluster(allowedNamespaces={"from": "All"}))
    world.add(topic("first"))
    second = topic("second", namespace="other")
    second["metadata"]["creationTimestamp"] = "2026-01-01T00:00:09Z"
    world.add(second)
    settle(world)
    settle(world)
    report_all(world)
    settle(world)
    assert world.condition("BalancedTopic", "second", namespace="other") == ("False", "Conflict")
    item = world.store.get("BalancedTopic", "data", "first")
    assert item is not None
    world.store.take_dirty()
    world.store.put("DELETED", item)
    dirty = {str(key) for key in world.store.take_dirty()}
    assert {"BalancedTopic/other/second", "BalancedCluster/data/kafka"} <= dirty
    settle(world)
    report_all(world)
    settle(world)
    assert [one.owner_uid for one in world.desired().topics] == ["uid-second"]
    assert world.condition("BalancedTopic", "second", namespace="other") == ("True", "Ready")


def test_younger_one_is_never_told_while_the_older_has_no_cluster_yet() -> None:
    world = ready_world()
    second = topic("a-second", partitions=9)
    second["metadata"]["creationTimestamp"] = "2026-01-01T00:00:09Z"
    world.add(topic("first"))
    world.add(second)
    world.run("BalancedTopic", "a-second")
    assert world.condition("BalancedTopic", "a-second") == ("False", "Conflict")
    world.run("BalancedCluster", "kafka")
    assert world.desired().topics == ()
    settle(world)
    assert [one.owner_uid for one in world.desired().topics] == ["uid-first"]


def test_only_policy_delete_has_a_finalizer() -> None:
    world = ready_world(topic("events"))
    assert world.plan("BalancedTopic", "events").patches == ()
    world.change(
        "BalancedTopic",
        "events",
        spec={"topicName": "events", "deletionPolicy": "Delete"},
        metadata={"generation": 2},
    )
    (patch,) = world.plan("BalancedTopic", "events").patches
    assert not isinstance(patch.body, tuple)
    assert patch.body["metadata"]["finalizers"] == [names.FINALIZER]
    world.change(
        "BalancedTopic",
        "events",
        spec={"topicName": "events"},
        metadata={"finalizers": [names.FINALIZER, "other"]},
    )
    (patch,) = world.plan("BalancedTopic", "events").patches
    assert not isinstance(patch.body, tuple)
    assert patch.body["metadata"]["finalizers"] == ["other"]


def deleting() -> World:
    world = ready_world(topic("events", deletionPolicy="Delete"))
    meta = {"deletionTimestamp": "2026-01-02T00:00:00Z", "finalizers": [names.FINALIZER]}
    world.change("BalancedTopic", "events", metadata=meta)
    return world


def test_deleted_topic_stays_until_the_report_says_it_is_gone() -> None:
    world = deleting()
    world.report(topics=(TopicReport("events", exists=False),))
    assert world.plan("BalancedTopic", "events").patches == ()
    world.run("BalancedCluster", "kafka")
    assert [one.topic for one in world.desired().deletions] == ["events"]
    assert world.desired().topics == ()
    world.report(topics=(EXISTS,))
    assert world.plan("BalancedTopic", "events").patches == ()
    world.report(topics=(TopicReport("events", exists=False),))
    assert len(world.plan("BalancedTopic", "events").patches) == 1


def test_deleted_topic_goes_also_while_its_namespace_ends() -> None:
    world = deleting()
    namespace = namespace_object("data")
    namespace["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    world.add(namespace)
    world.change("BalancedCluster", "kafka", metadata={"deletionTimestamp": "2026-01-02T00:00:00Z"})
    assert len(world.plan("BalancedTopic", "events").patches) == 1


def test_deleted_topic_goes_at_once_when_its_cluster_is_gone() -> None:
    world = deleting()
    item = world.get("BalancedCluster", "kafka")
    assert item is not None
    world.store.put("DELETED", item)
    assert len(world.plan("BalancedTopic", "events").patches) == 1


def test_object_that_cannot_be_read_says_which_field() -> None:
    world = ready_world()
    world.add(topic("bad", partitions="many"))
    world.run("BalancedTopic", "bad")
    assert world.condition("BalancedTopic", "bad") == ("False", "InvalidSpec")
    assert "spec.partitions" in world.message("BalancedTopic", "bad")


def test_another_topic_of_the_name_does_not_hold_the_resource_back() -> None:
    world = deleting()
    world.change("BalancedTopic", "events", status={"clusterRef": {"name": "kafka"}, "topicId": "old"})
    world.run("BalancedCluster", "kafka")
    assert world.desired().deletions[0].topic_id == "old"
    world.report(topics=(TopicReport("events", exists=True, topic_id="new"),))
    assert len(world.plan("BalancedTopic", "events").patches) == 1


def test_deletion_that_is_refused_says_why() -> None:
    world = deleting()
    world.run("BalancedCluster", "kafka")
    world.report(
        topics=(EXISTS,), faults=(Fault(Reason.CONFLICT, "TrainingDataset data/x uses it", "topic/events"),)
    )
    assert world.run("BalancedTopic", "events").patches == ()
    assert world.condition("BalancedTopic", "events") == ("False", "Conflict")


def test_lasting_fault_does_not_flicker_when_other_resources_change() -> None:
    world = ready_world(topic("events"))
    fault = Fault(Reason.PARTITIONS_LOWERED, "partitions: has 6, 3 are asked for", "topic/events")
    world.report(topics=(EXISTS,), faults=(fault,))
    world.run("BalancedTopic", "events")
    before = world.desired().version
    world.add(topic("later", "later"))
    world.run("BalancedTopic", "later")
    world.run("BalancedCluster", "kafka")
    assert world.desired().version != before
    world.run("BalancedTopic", "events")
    assert world.condition("BalancedTopic", "events") == ("False", "PartitionsLowered")
