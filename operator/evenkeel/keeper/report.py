"""Builds the report: facts rounded so that an idle cluster's text does not change, and no clock in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from evenkeel.domain.exchange import (
    ClaimReport,
    DatasetReport,
    Desired,
    DesiredDataset,
    Fault,
    MovesReport,
    Report,
    RoutesReport,
    ScoreReport,
    TopicReport,
    VolumeReport,
)
from evenkeel.domain.journal import JournalState
from evenkeel.domain.moves import PlanReport
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.domain.table import RouteTable
from evenkeel.kafka.answers import TopicAnswer
from evenkeel.kafka.topics import data_topic, dataset_topics
from evenkeel.keeper.inflow import SteeredTopic
from evenkeel.keeper.journals import build_dataset_report
from evenkeel.keeper.outlook import settle_days, tell_steering
from evenkeel.keeper.settling import settle, settle_permille
from evenkeel.planning.routing import RoutesPlan, TopicRoutes
from evenkeel.reasons import Reason

LITTLE_INFLOW = "little inflow is expected: the weights steer what comes to the emptier disks"


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything a report is made of."""

    claim: ClaimReport | None = None
    measured: bool = False
    released: bool = False
    settled: bool = False
    snapshot: ClusterSnapshot | None = None
    topics: Mapping[str, TopicAnswer] = field(default_factory=dict)
    plan: RoutesPlan | None = None
    tables: Mapping[str, RouteTable] = field(default_factory=dict)
    changed_epochs: Mapping[str, int] = field(default_factory=dict)
    journals: Mapping[str, JournalState] = field(default_factory=dict)
    """By dataset UID, only those that were read whole."""
    moves: MovesReport | None = None
    progress: PlanReport | None = None
    """Of the open plan."""
    scores: Mapping[str, tuple[ScoreReport, ...]] = field(default_factory=dict)
    """topic -> the scores asked for, and which did not count in the newest cycle."""
    drift: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """topic -> what of it is not, or was not, as declared."""
    steered: Mapping[str, SteeredTopic] = field(default_factory=dict)
    full_in_days: Mapping[tuple[int, str], int | None] = field(default_factory=dict)
    """(broker, path) -> forecast."""
    faults: tuple[Fault, ...] = ()


def build_report(desired: Desired, facts: Facts, before: Report | None) -> Report:
    """The report; `before` is the last one, whose rounded values and known facts are kept."""
    last = before or Report(desired_version="")
    report = Report(
        desired_version=desired.version,
        claim=facts.claim,
        measured=facts.measured,
        cluster_id=last.cluster_id,
        brokers=last.brokers,
        hosts=last.hosts,
        volumes=last.volumes,
        deviation_permille=last.deviation_permille,
        max_fill_permille=last.max_fill_permille,
        topics=_topics(desired, facts, last),
        datasets=_datasets(desired, facts, last),
        moves=facts.moves or _without_proposal(last.moves),
        plan=facts.progress,
        faults=unique_faults(facts.faults),
        released=facts.released,
        settled=facts.settled,
    )
    if facts.snapshot is None:
        return report
    fills = [volume_fill for volume_fill in _fills(facts.snapshot) if volume_fill is not None]
    mean = _mean_fill(facts.snapshot)
    deviation = max((abs(fill / mean - 1) for fill in fills), default=0.0) if mean else None
    return replace(
        report,
        cluster_id=facts.snapshot.cluster_id,
        brokers=len(facts.snapshot.brokers),
        hosts={broker.id: broker.host for broker in facts.snapshot.brokers if broker.host},
        volumes=_volumes(facts, facts.snapshot, last),
        deviation_permille=settle_permille(deviation, last.deviation_permille),
        max_fill_permille=settle_permille(max(fills, default=None), last.max_fill_permille),
    )


def _without_proposal(moves: MovesReport | None) -> MovesReport | None:
    """What is known from before another address was named: no plan of then is proposed."""
    return replace(moves, proposal=None) if moves is not None else None


def unique_faults(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Faults in a fixed order, each once."""
    return tuple(sorted(set(faults), key=lambda fault: (fault.subject, fault.reason, fault.message)))


def limit_report(report: Report, most: int) -> Report:
    """The report with at most `most` topics and datasets each, and a fault that says so."""
    if len(report.topics) <= most and len(report.datasets) <= most and len(report.volumes) <= most:
        return report
    message = f"the report is cut to {most} topics, datasets and volumes: it would not fit into a ConfigMap"
    fault = Fault(Reason.INTERNAL_ERROR, message)
    return replace(
        report,
        topics=report.topics[:most],
        datasets=report.datasets[:most],
        volumes=report.volumes[:most],
        faults=(fault, *report.faults[:most]),
    )


def _fills(snapshot: ClusterSnapshot) -> Iterable[float | None]:
    for _, total, used in _sizes(snapshot):
        yield used / total if total and used is not None else None


def _mean_fill(snapshot: ClusterSnapshot) -> float:
    known = [(total, used) for _, total, used in _sizes(snapshot) if total and used is not None]
    whole = sum(total for total, _ in known)
    return sum(used for _, used in known) / whole if whole else 0.0


def _sizes(snapshot: ClusterSnapshot) -> Iterable[tuple[tuple[int, str], int | None, int | None]]:
    """((broker, path), total, used) of every directory; used is total - usable."""
    for broker in snapshot.brokers:
        for entry in broker.log_dirs:
            total, usable = entry.total_bytes, entry.usable_bytes
            used = total - usable if total is not None and usable is not None else None
            yield (broker.id, entry.path), total, used


def _volumes(facts: Facts, snapshot: ClusterSnapshot, last: Report) -> tuple[VolumeReport, ...]:
    before = {(volume.broker, volume.path): volume.used_bytes for volume in last.volumes}
    full = {(volume.broker, volume.path): volume.full_in_days for volume in last.volumes}
    nodes = {broker.id: broker.node for broker in snapshot.brokers}
    return tuple(
        VolumeReport(
            broker=place[0],
            path=place[1],
            total_bytes=total,
            used_bytes=None if used is None or not total else settle(used, total / 100, before.get(place)),
            node=nodes[place[0]],
            full_in_days=settle_days(facts.full_in_days.get(place), full.get(place)),
        )
        for place, total, used in _sizes(snapshot)
    )


def _topics(desired: Desired, facts: Facts, last: Report) -> tuple[TopicReport, ...]:
    before = {topic.name: topic for topic in last.topics}
    # Deletions too: the operator lets their owners go once they are said not to exist.
    names = [*(topic.name for topic in desired.topics), *(deletion.topic for deletion in desired.deletions)]
    return tuple(_topic(name, desired, facts, before.get(name)) for name in dict.fromkeys(names))


def _topic(name: str, desired: Desired, facts: Facts, before: TopicReport | None) -> TopicReport:
    if facts.snapshot is None:
        return before or TopicReport(name=name, exists=False)
    found = facts.topics.get(name)
    if found is None:
        return TopicReport(name=name, exists=False)
    return TopicReport(
        name=name,
        exists=True,
        topic_id=found.topic_id,
        partitions=len(found.partitions),
        replication_factor=min((len(entry.replicas) for entry in found.partitions), default=0),
        routes=_routes(name, desired, facts, before.routes if before else None),
        drift=facts.drift.get(name, ()),
    )


def _datasets(desired: Desired, facts: Facts, last: Report) -> tuple[DatasetReport, ...]:
    before = {dataset.uid: dataset for dataset in last.datasets}
    found = (_dataset(dataset, desired, facts, before.get(dataset.uid)) for dataset in desired.datasets)
    return tuple(report for report in found if report is not None)


def _dataset(
    dataset: DesiredDataset, desired: Desired, facts: Facts, before: DatasetReport | None
) -> DatasetReport | None:
    """What is known; None while a followed journal was never read whole, so that nobody concludes from it."""
    state = facts.journals.get(dataset.uid)
    if facts.snapshot is None:
        return before
    wanted = {spec.name for spec in dataset_topics(dataset, 1)} | {data_topic(dataset)}
    ready = wanted <= facts.topics.keys()
    last = before.routes if before else None
    routes = _routes(data_topic(dataset), desired, facts, last) if ready else None
    if state is not None:
        return build_dataset_report(dataset, state, topics_ready=ready, routes=routes)
    if before is not None:
        return replace(before, topics_ready=ready, routes=routes)
    if ready and dataset.follow:
        return None
    return build_dataset_report(dataset, None, topics_ready=ready, routes=routes)


def _routes(name: str, desired: Desired, facts: Facts, before: RoutesReport | None) -> RoutesReport | None:
    last = replace(before, scores=(), steered_percent=None) if before is not None else None
    found = tell_steering(_choose_routes(name, desired, facts, last), name, facts.steered.get(name), before)
    scores = facts.scores.get(name, before.scores if before is not None else ())
    return replace(found, scores=scores) if found is not None else None


def _choose_routes(
    name: str, desired: Desired, facts: Facts, before: RoutesReport | None
) -> RoutesReport | None:
    planned = facts.plan.topics.get(name) if facts.plan else None
    if planned is None:
        return before
    table = facts.tables.get(name)
    if not planned.active:
        return RoutesReport(active=False, reason=planned.reason, message=planned.message)
    if facts.claim is not None and not facts.claim.held:
        message = "this keeper does not own the Kafka cluster and publishes no tables"
        return RoutesReport(active=False, reason=Reason.CLUSTER_OWNED_ELSEWHERE, message=message)
    if desired.paused:
        message = "the cluster's spec.state is Paused: tables age until producers write evenly"
        return RoutesReport(active=False, reason=Reason.PAUSED, message=message)
    if table is None:
        return RoutesReport(
            active=False, reason=Reason.PENDING, message="the first table is not published yet"
        )
    return _active_routes(planned, table, facts.changed_epochs.get(name, table.epoch), before)


def _little_inflow(
    planned: TopicRoutes, owner_epoch: int, changed: int, last: RoutesReport | None
) -> RoutesReport:
    """Without fills: those would be of bytes that are not expected to come. What binds the weights is told."""
    relaxed = planned.reason is Reason.CAPS_RELAXED
    found = RoutesReport(
        True, planned.reason, planned.message if relaxed else LITTLE_INFLOW, owner_epoch, changed,
        binding_caps=planned.binding_caps,
    )  # fmt: skip
    if last is None or last.reason is not found.reason:
        return found
    same = replace(found, message=last.message, binding_caps=last.binding_caps) == last
    return last if same else found


def _active_routes(
    planned: TopicRoutes, table: RouteTable, changed: int, before: RoutesReport | None
) -> RoutesReport:
    """Fills and sentence are those of the last change of weights, or newer where they differ visibly."""
    last = before if before is not None and before.active else None
    if planned.raised:
        return _little_inflow(planned, table.owner_epoch, changed, last)
    found = RoutesReport(
        active=True,
        reason=planned.reason,
        message=planned.message,
        owner_epoch=table.owner_epoch,
        epoch=changed,
        predicted_max_fill_permille=settle_permille(
            planned.predicted_max_fill, last.predicted_max_fill_permille if last else None
        ),
        optimal_max_fill_permille=settle_permille(
            planned.optimal_max_fill, last.optimal_max_fill_permille if last else None
        ),
        uncapped_max_fill_permille=settle_permille(
            planned.uncapped_max_fill, last.uncapped_max_fill_permille if last else None
        ),
        uniform_max_fill_permille=settle_permille(
            planned.uniform_max_fill, last.uniform_max_fill_permille if last else None
        ),
        binding_caps=planned.binding_caps,
    )
    if last is None:
        return found
    same = replace(found, message=last.message, binding_caps=last.binding_caps) == last
    return last if same else found
