"""BalancedTopic: declared to the keeper by `desired`; here is said what became of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evenkeel import names
from evenkeel.api.balanced_topic import (
    CAPS_SHOWN,
    DRIFT_SHOWN,
    BalancedTopic,
    BalancedTopicStatus,
    RoutesStatus,
    ScoreStatus,
)
from evenkeel.api.meta import State, clip
from evenkeel.controller.conditions import Condition, Status, build_conditions, is_ready, ready, transitions
from evenkeel.controller.desired import build_topic, is_topic_to_delete
from evenkeel.controller.plan import Moment, Patch, Plan, Saying
from evenkeel.controller.references import Choice
from evenkeel.controller.store import Object
from evenkeel.domain.exchange import DeletionPolicy, Desired, Fault, Report, RoutesReport, TopicReport
from evenkeel.kube.events import EventType, Note
from evenkeel.kube.resources import BALANCED_TOPIC
from evenkeel.reasons import ConditionType, Reason

SCORES_SHOWN = 16
SENTENCE_LIMIT = 512
STALLING = frozenset(
    {
        Reason.TOPIC_DRIFT,
        Reason.PARTITIONS_LOWERED,
        Reason.REPLICATION_ABOVE_BROKERS,
        Reason.REPLICATION_DIFFERS,
        Reason.AUTHORIZATION_MISSING,
        Reason.INVALID_SPEC,
        Reason.CONFLICT,
    }
)
CURES = {
    Reason.NOT_STEERED: "use evenkeel.router.Producer or the Java partitioner for records without keys",
    Reason.NO_INFLOW_KNOWN: "wait for traffic; what routers write is told by their heartbeats",
    Reason.NOTHING_TO_DO: "more partitions, or replicas on other brokers, would help",
    Reason.COMPACTED: "only topics that delete by age or size can be routed",
    Reason.NO_LEADERS: "bring brokers back",
    Reason.SNAPSHOT_INCOMPLETE: "bring back the broker that did not answer",
    Reason.NO_SCORES: "status.routes.scores says why each was left out",
}
"""What would make a topic's routes active."""


@dataclass(frozen=True, slots=True)
class TopicInput:
    """Everything that the plan of one topic depends on."""

    item: Object
    topic: BalancedTopic
    choice: Choice
    owner: str
    """Key of the oldest resource on this topic of this cluster; usually this one's."""
    told: Desired | None
    """What the keeper was told last."""
    report: Report | None
    manager: str | None = None
    """KafkaTopic of Strimzi that manages the topic, as `namespace/name`."""


def plan_topic(given: TopicInput, at: Moment) -> Plan:
    """Status, events, and the finalizer that deletionPolicy Delete needs."""
    topic = given.topic
    if topic.metadata.deletion_timestamp is not None:
        return _plan_deletion(given, at)
    conditions = decide_conditions(given)
    present = (given.item.get("status") or {}).get("conditions") or ()
    generation = topic.metadata.generation
    status = _build_status(given).dump()
    status["observedGeneration"] = generation
    status["conditions"] = build_conditions(present, conditions, generation, at)
    wanted = topic.spec.deletion_policy is DeletionPolicy.DELETE
    patches = (
        () if wanted == (names.FINALIZER in topic.metadata.finalizers) else (_patch_finalizer(given, wanted),)
    )
    return Plan(
        patches=patches,
        status=status,
        sayings=tuple(
            Saying(given.item, note)
            for note in (*transitions(present, conditions, "Declare"), *_news(given, conditions))
        ),
    )


def _news(given: TopicInput, conditions: Iterable[Condition]) -> list[Note]:
    """Events for what a condition does not say: changes that were set back, and scores that fell out."""
    found = _reported(given)
    if found is None or given.owner != given.topic.key:
        return []
    said = {one.message for one in conditions} | set(given.topic.status.drift)
    drift = [
        Note(Reason.TOPIC_DRIFT, one, "Declare", EventType.WARNING) for one in found.drift if one not in said
    ]
    before = given.topic.status.routes
    old = {one.name: one.reason for one in before.scores} if before is not None else {}
    dropped = [
        Note(one.reason, f"score {one.name} does not count: {one.message}", "Route", EventType.WARNING)
        for one in (found.routes.scores if found.routes is not None else ())
        if one.reason is not Reason.ROUTED and old.get(one.name) != one.reason.value
    ]
    return [*drift, *dropped]


def _plan_deletion(given: TopicInput, at: Moment) -> Plan:
    if names.FINALIZER not in given.topic.metadata.finalizers:
        return Plan()
    others = given.owner != given.topic.key or given.manager is not None
    if not is_topic_to_delete(given.topic) or others or is_gone(given):
        return Plan(patches=(_patch_finalizer(given, wanted=False),))
    return _say_deleting(given, at)


def _say_deleting(given: TopicInput, at: Moment) -> Plan:
    """Why the resource is still there; the rest of status stays, the topic's id above all."""
    name = given.topic.spec.topic_name
    fault = _fault(given.report, name) if given.report is not None else None
    conditions = (
        ready(Reason.DELETING, f"topic {name} is being deleted")
        if fault is None
        else ready(fault.reason, fault.message, stalled=fault.reason in STALLING)
    )
    status = dict(given.item.get("status") or {})
    present, generation = status.get("conditions") or (), given.topic.metadata.generation
    status["observedGeneration"] = generation
    status["conditions"] = build_conditions(present, conditions, generation, at)
    notes = transitions(present, conditions, "Delete")
    return Plan(status=status, sayings=tuple(Saying(given.item, note) for note in notes))


def is_gone(given: TopicInput) -> bool:
    """Whether the topic is deleted or another one has its name, or nobody is left who could delete it."""
    if given.choice.cluster is None or given.choice.cluster.metadata.deletion_timestamp is not None:
        return True
    told, report = given.told, given.report
    if told is None or report is None or report.desired_version != told.version:
        return False
    name = given.topic.spec.topic_name
    asked = any(one.owner_uid == given.topic.metadata.uid for one in told.deletions)
    found = next((one for one in report.topics if one.name == name), None)
    if found is None or not (asked and report.measured):
        return False
    had = given.topic.status.topic_id
    return not found.exists or (had is not None and found.topic_id not in (None, had))


def _patch_finalizer(given: TopicInput, wanted: bool) -> Patch:  # noqa: FBT001 - private
    meta = given.topic.metadata
    others = [one for one in meta.finalizers if one != names.FINALIZER]
    finalizers = [*others, names.FINALIZER] if wanted else others
    # The resource version refuses the patch if somebody else changed the list meanwhile.
    body = {"metadata": {"finalizers": finalizers, "resourceVersion": meta.resource_version}}
    return Patch(BALANCED_TOPIC, meta.namespace, meta.name, body)


def decide_conditions(given: TopicInput) -> tuple[Condition, ...]:
    """Ready, and RoutesActive where the keeper said something of routes."""
    found = _reported(given)
    first = _decide_ready(given, found)
    if found is None or found.routes is None or given.owner != given.topic.key:
        return first
    return (*first, decide_routes(found.routes))


def decide_routes(routes: RoutesReport) -> Condition:
    """Whether producers are steered, and why or why not."""
    status = Status.TRUE if routes.active else Status.FALSE
    cure = "" if routes.active else CURES.get(routes.reason, "")
    message = f"{routes.message}; {cure}" if cure else routes.message
    return Condition(ConditionType.ROUTES_ACTIVE, status, routes.reason, message)


def _decide_ready(given: TopicInput, found: TopicReport | None) -> tuple[Condition, ...]:
    topic, choice, report = given.topic, given.choice, given.report
    if choice.cluster is None:
        return ready(choice.reason, choice.message, stalled=True)
    if given.owner != topic.key:
        message = f"topic {topic.spec.topic_name} is declared by the older BalancedTopic {given.owner}"
        return ready(Reason.CONFLICT, message, stalled=True)
    if report is None:
        return ready(
            Reason.CLUSTER_NOT_READY, f"BalancedCluster {choice.cluster.key} has not been measured yet"
        )
    return _decide_trouble(given, report, found) or _decide_well(given)


def _decide_well(given: TopicInput) -> tuple[Condition, ...]:
    """The topic exists and nothing is wrong with it, as far as it is ours."""
    spec = given.topic.spec
    if given.manager is None:
        return is_ready(Reason.READY, f"topic {spec.topic_name} exists as declared")
    message = (
        f"KafkaTopic {given.manager} of Strimzi manages topic {spec.topic_name}: it is routed and not changed"
    )
    unused = [
        name
        for name, value in (
            ("partitions", spec.partitions),
            ("replicationFactor", spec.replication_factor),
            ("config", spec.config),
        )
        if value
    ]
    if not unused:
        return is_ready(Reason.MANAGED_ELSEWHERE, message)
    cure = (
        f'remove {", ".join(unused)} from spec, or annotate the KafkaTopic with strimzi.io/managed: "false"'
    )
    return ready(Reason.MANAGED_ELSEWHERE, f"{message} from here; {cure}", stalled=True)


def _decide_trouble(
    given: TopicInput, report: Report, found: TopicReport | None
) -> tuple[Condition, ...] | None:
    fault = _fault(report, given.topic.spec.topic_name)
    if fault is not None and _is_told(given) and not (given.manager and fault.reason is Reason.TOPIC_MISSING):
        return ready(fault.reason, fault.message, stalled=fault.reason in STALLING)
    if found is None or not found.exists:
        return _missing(given, report)
    if not _is_told(given):
        return ready(Reason.PENDING, "the keeper has not taken up the newest spec yet")
    return None


def _missing(given: TopicInput, report: Report) -> tuple[Condition, ...]:
    cluster_fault = next((one for one in report.faults if not one.subject), None)
    if cluster_fault is not None:
        return ready(Reason.CLUSTER_NOT_READY, f"the cluster is not ready: {cluster_fault.message}")
    if given.manager is not None:
        message = f"topic {given.topic.spec.topic_name} is not there yet: KafkaTopic {given.manager} of Strimzi makes it"
        return ready(Reason.TOPIC_MISSING, message)
    if given.topic.spec.state is State.PAUSED:
        return ready(Reason.PAUSED, "the topic does not exist and spec.state is Paused", stalled=True)
    return ready(Reason.TOPIC_CREATING, f"topic {given.topic.spec.topic_name} is being created")


def _is_told(given: TopicInput) -> bool:
    """Whether the report speaks of this very spec, or of one that was told before and has not changed."""
    told, report = given.told, given.report
    if given.topic.status.observed_generation == given.topic.metadata.generation:
        ready_now = given.topic.status.condition(ConditionType.READY)
        fault = _fault(report, given.topic.spec.topic_name) if report is not None else None
        # What was said of this generation holds while other resources change what the keeper is told.
        if ready_now is not None and (
            ready_now.status == "True" or (fault is not None and ready_now.reason == fault.reason)
        ):
            return True
    if told is None or report is None or told.version != report.desired_version:
        return False
    return build_topic(given.topic, managed=given.manager is None) in told.topics


def _reported(given: TopicInput) -> TopicReport | None:
    topics = given.report.topics if given.report else ()
    return next((one for one in topics if one.name == given.topic.spec.topic_name), None)


def _fault(report: Report, topic: str) -> Fault | None:
    return next((one for one in report.faults if one.subject == f"topic/{topic}"), None)


def _build_status(given: TopicInput) -> BalancedTopicStatus:
    found = _reported(given) if given.owner == given.topic.key else None
    ref = given.choice.ref or given.topic.status.cluster_ref
    if found is None:
        return BalancedTopicStatus(cluster_ref=ref)
    return BalancedTopicStatus(
        cluster_ref=ref,
        topic_id=found.topic_id,
        partitions=found.partitions,
        replication_factor=found.replication_factor,
        drift=tuple(clip(one, SENTENCE_LIMIT) for one in found.drift[:DRIFT_SHOWN]),
        managed_by=given.manager,
        routes=None if found.routes is None or not _is_telling(found.routes) else build_routes(found.routes),
    )


def _is_telling(routes: RoutesReport) -> bool:
    """Whether there is more to show than a reason: a table may be out although it decides little."""
    return routes.active or bool(routes.scores) or routes.steered_percent is not None or routes.epoch > 0


def build_routes(routes: RoutesReport) -> RoutesStatus:
    """The table in force as status shows it."""
    return RoutesStatus(
        owner_epoch=routes.owner_epoch,
        epoch=routes.epoch,
        predicted_max_fill_permille=routes.predicted_max_fill_permille,
        optimal_max_fill_permille=routes.optimal_max_fill_permille,
        uncapped_max_fill_permille=routes.uncapped_max_fill_permille,
        uniform_max_fill_permille=routes.uniform_max_fill_permille,
        binding_caps=tuple(clip(one, 128) for one in routes.binding_caps[:CAPS_SHOWN]),
        steered_percent=routes.steered_percent,
        scores=tuple(
            ScoreStatus(name=one.name, reason=one.reason.value, message=clip(one.message, 1024))
            for one in {score.name: score for score in routes.scores}.values()
        )[:SCORES_SHOWN],
    )
