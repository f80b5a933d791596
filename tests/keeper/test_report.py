from __future__ import annotations

import dataclasses

import pytest

from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import (
    ClaimReport,
    Desired,
    DesiredDataset,
    DesiredTopic,
    Fault,
    MovesReport,
    Owner,
    Report,
    ScoreReport,
)
from evenkeel.domain.journal import PLAN_SLICE, Claim, JournalState, Seal
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.domain.table import WEIGHT_SCALE, RouteTable
from evenkeel.kafka.answers import PartitionAnswer, TopicAnswer
from evenkeel.kafka.topics import dataset_topics
from evenkeel.keeper.moves import build_moves_report
from evenkeel.keeper.report import LITTLE_INFLOW, Facts, build_report, limit_report
from evenkeel.planning.moves import MovesPlan
from evenkeel.planning.routing import RoutesPlan, TopicRoutes
from evenkeel.reasons import Reason
from tests.support.snapshots import MIB, broker, cluster

DATASET = DesiredDataset("uid", "ns/pictures")
DESIRED = Desired(
    owner=Owner("i", "u", "ns/c"),
    connection=Connection(("k:1",)),
    topics=(DesiredTopic("o", "t"),),
    version="v",
)


def snapshot(used: int = 300, *, silent: bool = False) -> ClusterSnapshot:
    second = broker(2, None, None) if silent else broker(2, 1000 * MIB, 100 * MIB)
    return cluster([broker(1, 1000 * MIB, used * MIB), second], [])


def topic(name: str) -> TopicAnswer:
    return TopicAnswer(name, f"id-{name}", internal=False, partitions=(PartitionAnswer(0, 1, (1, 2), (1,)),))


def plan(fill: float, *, active: bool = True) -> RoutesPlan:
    routes = TopicRoutes(
        "t", active, Reason.ROUTED, f"at {fill:.4f}", (1.0,), predicted_max_fill=fill, optimal_max_fill=fill,
        uncapped_max_fill=fill, uniform_max_fill=fill,
    )  # fmt: skip
    return RoutesPlan(topics={"t": routes})


def facts(**more: object) -> Facts:
    return dataclasses.replace(Facts(measured=True, snapshot=snapshot(), topics={"t": topic("t")}), **more)


def test_fills_are_told_in_whole_percents_and_unknown_stays_unknown() -> None:
    report = build_report(DESIRED, facts(snapshot=snapshot(304, silent=True)), None)
    assert [(volume.broker, volume.used_bytes) for volume in report.volumes] == [(1, 300 * MIB), (2, None)]
    assert report.max_fill_permille == 305
    assert report.desired_version == "v"


def test_deviation_is_the_largest_distance_from_the_mean() -> None:
    report = build_report(DESIRED, facts(), None)
    assert report.deviation_permille == 500
    assert (report.brokers, report.measured) == (2, True)


@pytest.mark.parametrize("used", [296, 300, 304, 307])
def test_jitter_leaves_the_text_as_it_is(used: int) -> None:
    before = build_report(DESIRED, facts(snapshot=snapshot(301)), None)
    after = build_report(DESIRED, facts(snapshot=snapshot(used)), before)
    assert after.volumes == before.volumes


def test_weights_for_little_inflow_come_without_a_forecast() -> None:
    table = RouteTable("t", owner_epoch=1, epoch=2, taken_at_ms=0, weights=(WEIGHT_SCALE,))
    routes = dataclasses.replace(plan(1.9).topics["t"], raised=True)
    given = facts(plan=RoutesPlan(topics={"t": routes}), tables={"t": table})
    told = build_report(DESIRED, given, None).topics[0].routes
    assert told is not None
    assert (told.active, told.epoch, told.predicted_max_fill_permille) == (True, 2, None)
    assert told.message == LITTLE_INFLOW


def test_weights_for_little_inflow_say_which_caps_bind_and_were_relaxed() -> None:
    def routes(text: str, caps: tuple[str, ...], before: Report | None) -> Report:
        one = plan(0.5).topics["t"]
        relaxed = dataclasses.replace(
            one, raised=True, reason=Reason.CAPS_RELAXED, message=text, binding_caps=caps
        )
        table = RouteTable("t", 1, 2, 0, (WEIGHT_SCALE,))
        told = facts(plan=RoutesPlan(topics={"t": relaxed}), tables={"t": table})
        return build_report(DESIRED, told, before)

    first = routes("by 1.20", ("leader of 1",), None)
    found = first.topics[0].routes
    assert found is not None
    assert (found.reason, found.message, found.binding_caps) == (
        Reason.CAPS_RELAXED, "by 1.20", ("leader of 1",),
    )  # fmt: skip
    assert found.predicted_max_fill_permille is None
    assert routes("by 1.21", ("leader of 2",), first) == first


def test_without_a_measurement_the_last_known_facts_stay() -> None:
    before = build_report(DESIRED, facts(), None)
    fault = Fault(Reason.BROKERS_UNREACHABLE, "nobody answers")
    after = build_report(DESIRED, Facts(faults=(fault,)), before)
    assert (after.volumes, after.topics, after.brokers) == (before.volumes, before.topics, before.brokers)
    assert (after.measured, after.faults) == (False, (fault,))


def test_faults_are_told_once_and_in_a_fixed_order() -> None:
    faults = (Fault(Reason.TOPIC_MISSING, "b", "topic/b"), Fault(Reason.TOPIC_MISSING, "a", "topic/a")) * 2
    report = build_report(DESIRED, facts(faults=faults), None)
    assert [fault.subject for fault in report.faults] == ["topic/a", "topic/b"]


def test_routes_in_force_are_told_with_the_epoch_of_their_weights() -> None:
    table = RouteTable("t", 2, 9, 0, (1_000_000,))
    known = facts(plan=plan(0.5), tables={"t": table}, changed_epochs={"t": 7})
    before = build_report(DESIRED, known, None)
    routes = before.topics[0].routes
    assert routes is not None
    assert (routes.active, routes.owner_epoch, routes.epoch) == (True, 2, 7)
    assert routes.predicted_max_fill_permille == 500
    again = dataclasses.replace(known, plan=plan(0.5011))
    assert build_report(DESIRED, again, before).topics == before.topics
    moved = dataclasses.replace(known, plan=plan(0.52))
    told = build_report(DESIRED, moved, before).topics[0].routes
    assert told is not None
    assert told.predicted_max_fill_permille == 520


def test_binding_caps_are_told_and_do_not_flicker() -> None:
    def told(before: Report | None, *caps: str, fill: float = 0.5) -> Report:
        routes = dataclasses.replace(plan(fill).topics["t"], binding_caps=caps)
        table = RouteTable("t", 1, 1, 0, (WEIGHT_SCALE,))
        parts = {"plan": RoutesPlan(topics={"t": routes}), "tables": {"t": table}}
        return build_report(DESIRED, facts(claim=ClaimReport(held=True), **parts), before)

    def caps_of(report: Report) -> tuple[str, ...]:
        assert report.topics[0].routes is not None
        return report.topics[0].routes.binding_caps

    first = told(None, "leader share of broker 3")
    assert caps_of(first) == ("leader share of broker 3",)
    assert told(first) == first
    assert caps_of(told(first, fill=0.6)) == ()


def test_a_topic_that_is_not_routed_says_why() -> None:
    routes = build_report(DESIRED, facts(plan=plan(0.5, active=False)), None).topics[0].routes
    assert routes is not None
    assert not routes.active


def test_drift_of_a_topic_and_the_brokers_hosts_are_told() -> None:
    known = dataclasses.replace(
        snapshot(), brokers=(dataclasses.replace(broker(1, 9, 0), host="kafka-1.kafka"),)
    )
    report = build_report(DESIRED, facts(snapshot=known, drift={"t": ("config: x",), "other": ("y",)}), None)
    assert report.topics[0].drift == ("config: x",)
    assert report.hosts == {1: "kafka-1.kafka"}


def test_a_missing_topic_is_told() -> None:
    assert not build_report(DESIRED, facts(topics={}), None).topics[0].exists


def with_dataset(**more: object) -> tuple[Desired, Facts]:
    topics = {spec.name: topic(spec.name) for spec in dataset_topics(DATASET, 1)}
    return dataclasses.replace(DESIRED, topics=(), datasets=(DATASET,)), facts(topics=topics, **more)


def test_a_journal_that_was_not_read_whole_is_not_reported() -> None:
    desired, known = with_dataset()
    assert build_report(desired, known, None).datasets == ()


def test_what_a_journal_said_stays_after_a_restart() -> None:
    state = JournalState()
    state.apply(0, Claim(PLAN_SLICE, 0, "w"))
    state.apply(1, Seal("digest", 5, 1, 10, 0, "s"))
    desired, known = with_dataset(journals={"uid": state})
    before = build_report(desired, known, None)
    assert before.datasets[0].seal is not None
    assert before.datasets[0].seal.digest == "digest"
    assert build_report(desired, with_dataset()[1], before).datasets == before.datasets


def test_a_dataset_without_its_topics_is_told_so() -> None:
    desired, known = with_dataset()
    (found,) = build_report(desired, dataclasses.replace(known, topics={}), None).datasets
    assert not found.topics_ready


def test_a_report_that_does_not_fit_is_cut_and_says_so() -> None:
    topics = tuple(DesiredTopic("o", f"t{number}") for number in range(40))
    report = build_report(dataclasses.replace(DESIRED, topics=topics), facts(), None)
    cut = limit_report(report, 10)
    assert len(cut.topics) == 10
    assert "cut to 10" in cut.faults[0].message
    assert limit_report(report, 40) == report


def test_moves_are_told_again_only_when_they_changed() -> None:
    first = build_moves_report(MovesPlan(Reason.MOVES_PLANNED, "100 MB", bytes=100, deviation_before=0.3))
    assert first == MovesReport(Reason.MOVES_PLANNED, "100 MB", move_bytes=100, deviation_before_permille=300)
    near = MovesPlan(Reason.MOVES_PLANNED, "101 MB", bytes=101, deviation_before=0.301)
    assert build_moves_report(near, first) is first
    far = MovesPlan(Reason.MOVES_PLANNED, "200 MB", bytes=200, deviation_before=0.301)
    assert build_moves_report(far, first).move_bytes == 200


def test_equal_facts_give_equal_reports() -> None:
    before = build_report(DESIRED, facts(), None)
    assert build_report(DESIRED, facts(), before) == before
    assert isinstance(before, Report)


@pytest.mark.parametrize(
    ("desired", "claim", "reason"),
    [
        (DESIRED, ClaimReport(held=True), Reason.ROUTED),
        (DESIRED, ClaimReport(held=False, owner="x"), Reason.CLUSTER_OWNED_ELSEWHERE),
        (dataclasses.replace(DESIRED, paused=True), ClaimReport(held=True), Reason.PAUSED),
    ],
)
def test_routes_are_active_only_while_tables_are_published(
    desired: Desired, claim: ClaimReport, reason: Reason
) -> None:
    tables = {"t": RouteTable("t", 1, 1, 0, (WEIGHT_SCALE,))}
    told = build_report(desired, facts(plan=plan(0.5), tables=tables, claim=claim), None).topics[0].routes
    assert told is not None
    assert (told.active, told.reason) == (reason is Reason.ROUTED, reason)


def test_scores_and_why_they_were_dropped_are_told() -> None:
    scores = (
        ScoreReport("Storage", Reason.ROUTED),
        ScoreReport("Own", Reason.SCORE_TIMED_OUT, "no answer within 2 s"),
    )
    tables = {"t": RouteTable("t", 1, 1, 0, (WEIGHT_SCALE,))}
    first = build_report(DESIRED, facts(plan=plan(0.5), tables=tables, scores={"t": scores}), None)
    assert first.topics[0].routes is not None
    assert first.topics[0].routes.scores == scores
    again = facts(plan=plan(0.5001), tables=tables, scores={"t": scores})
    assert build_report(DESIRED, again, first).topics == first.topics
    refused = facts(plan=plan(0.5, active=False), scores={"t": scores[1:]})
    after = build_report(DESIRED, refused, first).topics[0].routes
    assert after is not None
    assert not after.active
    assert after.scores == scores[1:]
