"""TrainingDataset: topics, producer rounds, seal; what is the next step and what to say. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from evenkeel.api.fields import SAFE_INTEGER
from evenkeel.api.meta import State
from evenkeel.api.training_dataset import (
    IngestStatus,
    PreloadMode,
    RevisionStatus,
    TopicsStatus,
    TrainingDataset,
    TrainingDatasetStatus,
)
from evenkeel.controller import loading
from evenkeel.controller.conditions import Condition, Status, build_conditions, is_ready, ready, transitions
from evenkeel.controller.desired import build_connection
from evenkeel.controller.ingest_jobs import (
    IngestSetup,
    build_account,
    build_producer,
    build_reference,
    build_sealer,
)
from evenkeel.controller.jobs import JobView, Problem, before, find_problem, newest, retry_wait
from evenkeel.controller.plan import Child, Moment, Plan, Removal, Saying
from evenkeel.controller.pods import Images
from evenkeel.controller.references import Choice
from evenkeel.controller.store import Object
from evenkeel.controller.topic import decide_routes
from evenkeel.domain.connection import Protocol
from evenkeel.domain.exchange import DatasetReport, Fault, Report
from evenkeel.domain.job import Role
from evenkeel.kube import resources
from evenkeel.reasons import ConditionType, Reason

MAX_ROUNDS = 3
PROVING_SECONDS = 30.0
"""How long a repeated Job runs before the last failure is taken for mended."""
STALLING = frozenset(
    {
        Reason.SOURCE_MISSING,
        Reason.SOURCE_EMPTY,
        Reason.SOURCE_CHANGED,
        Reason.BAD_RECORD,
        Reason.RECORD_TOO_LARGE,
        Reason.SECRET_MISSING,
        Reason.AUTHENTICATION_FAILED,
        Reason.AUTHORIZATION_MISSING,
        Reason.SEAL_FAILED,
        Reason.DATA_LOST,
        Reason.REPLICATION_ABOVE_BROKERS,
    }
)


DANGERS = frozenset({Reason.SINGLE_COPY, Reason.RETENTION_UNSAFE, Reason.AUTHORIZATION_MISSING})
"""Faults of a dataset's topics that are said beside its state."""


@dataclass(frozen=True, slots=True)
class DatasetInput:
    """Everything that the plan of one dataset depends on."""

    item: Object
    dataset: TrainingDataset
    choice: Choice
    topic_problem: Condition | None
    """Why the BalancedTopic that topicRef names cannot be used."""
    data_topic: str | None
    report: Report | None
    jobs: tuple[JobView, ...]
    pods: tuple[Object, ...]
    preload: loading.LoadingInput
    images: Images


@dataclass(frozen=True, slots=True)
class Step:
    """The next thing to do for an ingest, and how it stands."""

    conditions: tuple[Condition, ...]
    children: tuple[Child, ...] = ()
    removals: tuple[Removal, ...] = ()
    again_seconds: float | None = None


def plan_dataset(given: DatasetInput, at: Moment) -> Plan:
    """Jobs, status and events. One that is being deleted is left to the garbage collector."""
    dataset = given.dataset
    if dataset.metadata.deletion_timestamp is not None:
        return Plan()
    step = decide_step(given, at)
    load = loading.plan_loading(given.preload, _revision(given), at)
    conditions = (*step.conditions, *load.conditions, *_routes(given))
    present = (given.item.get("status") or {}).get("conditions") or ()
    generation = dataset.metadata.generation
    status = _build_status(given, load).dump()
    status["observedGeneration"] = generation
    status["conditions"] = build_conditions(present, conditions, generation, at)
    waits = [wait for wait in (step.again_seconds, load.again_seconds) if wait is not None]
    return Plan(
        children=(*step.children, *load.children),
        removals=(*step.removals, *load.removals),
        status=status,
        sayings=tuple(Saying(given.item, note) for note in transitions(present, conditions, "Ingest")),
        again_seconds=min(waits, default=None),
    )


def decide_step(given: DatasetInput, at: Moment) -> Step:
    """Where the ingest stands; the first thing that is not as it should be decides."""
    lost = _fault(given, Reason.DATA_LOST)
    if lost is not None:
        return _said(lost.reason, lost.message)
    revision = _revision(given)
    if revision is not None:
        message = f"revision {revision.digest[:12]} with {revision.records} records is sealed"
        message = "; ".join((message, *_dangers(given)))
        sealed = Condition(ConditionType.INGESTED, Status.TRUE, Reason.SEALED, message)
        return Step((*is_ready(Reason.SEALED, message), sealed))
    if given.choice.cluster is None:
        return _said(given.choice.reason, given.choice.message, stalled=True)
    if given.topic_problem is not None:
        return _said(given.topic_problem.reason, given.topic_problem.message, stalled=True)
    if given.dataset.spec.state is State.PAUSED:
        return _said(Reason.PAUSED, "spec.state is Paused: no new jobs are started", stalled=True)
    return _before_topics(given) or _ingest(given, at)


def _before_topics(given: DatasetInput) -> Step | None:
    cluster, report = given.choice.cluster, given.report
    assert cluster is not None
    if (
        cluster.spec.security.protocol is not Protocol.PLAINTEXT
        and given.dataset.spec.credentials_ref is None
    ):
        message = f"spec.credentialsRef: required, BalancedCluster {cluster.key} wants credentials"
        return _said(Reason.SECRET_MISSING, message, stalled=True)
    if report is None:
        return _said(Reason.CLUSTER_NOT_READY, f"BalancedCluster {cluster.key} has not been measured yet")
    found = _reported(given)
    if found is not None and found.topics_ready:
        return None
    wide = next((one for one in report.faults if not one.subject), None)
    if wide is not None:
        return _said(Reason.CLUSTER_NOT_READY, f"the cluster is not ready: {wide.message}")
    fault = _fault(given)
    if fault is not None:
        return _said(fault.reason, fault.message)
    return _said(Reason.CREATING_TOPICS, "the dataset's topics are being created")


def _ingest(given: DatasetInput, at: Moment) -> Step:
    """Producers until all slices are finished, then the sealer; a reopened slice begins the next round."""
    found = _reported(given)
    assert found is not None
    if found.round > MAX_ROUNDS:
        message = f"{found.round} rounds of producers left gaps; the sealer's log says which"
        return _said(Reason.SEAL_FAILED, message)
    setup = _setup(given)
    producer = newest(given.jobs, Role.PRODUCER, round_=found.round)
    done = found.planned_slices is not None and found.finished_slices >= found.planned_slices
    if done or (producer is not None and producer.complete):
        return _run(given, at, Role.SEALER, setup)
    return _run(given, at, Role.PRODUCER, setup)


def _run(given: DatasetInput, at: Moment, role: Role, setup: IngestSetup) -> Step:
    """Have a Job of this role; one that failed is followed by another after a pause."""
    found = _reported(given)
    assert found is not None
    build = build_producer if role is Role.PRODUCER else build_sealer
    job = newest(given.jobs, role, round_=found.round)
    going = _going(found, role)
    if job is None:
        return Step(going, (build_account(setup), build(setup, found.round, 0)))
    problem = find_problem(job, given.pods)
    if not job.failed or (problem is not None and problem.reason is Reason.SEAL_FAILED):
        return _follow(at, job, problem or _last_problem(given, at, job), going, setup)
    if problem is None:
        problem = Problem(Reason.INGEST_FAILED, f"Job {job.name} failed and left no pod that says why")
    said = _said(problem.reason, problem.message).conditions
    wait = retry_wait(job, at.now)
    if wait > 0:
        return Step(said, (build_account(setup),), again_seconds=wait)
    old = [
        one
        for one in given.jobs
        if (one.role, one.round) == (role, found.round) and one.attempt < job.attempt
    ]
    removals = tuple(Removal(resources.JOB, one.namespace, one.name, one.uid) for one in old)
    return Step(said, (build_account(setup), build(setup, found.round, job.attempt + 1)), removals)


def _follow(
    at: Moment, job: JobView, problem: Problem | None, going: tuple[Condition, ...], setup: IngestSetup
) -> Step:
    """A Job that runs, or that nobody should repeat."""
    said = going if problem is None else _said(problem.reason, problem.message).conditions
    proven = (job.created_at - at.now).total_seconds() + PROVING_SECONDS
    again = proven if job.attempt > 0 and proven > 0 else None
    return Step(said, (build_account(setup),), again_seconds=again)


def _last_problem(given: DatasetInput, at: Moment, job: JobView) -> Problem | None:
    """What was wrong with the attempt before, until this one has run for a while: reasons must not flicker."""
    last = before(given.jobs, job)
    if (
        last is None
        or job.ended_at is not None
        or (at.now - job.created_at).total_seconds() > PROVING_SECONDS
    ):
        return None
    return find_problem(last, given.pods)


def _going(found: DatasetReport, role: Role) -> tuple[Condition, ...]:
    if role is Role.SEALER:
        return _said(Reason.SEALING, "all slices are written; the sealer reads them back").conditions
    if found.planned_records is None:
        return _said(Reason.INGESTING, "producers are starting; the source is being listed").conditions
    said = f"{found.acknowledged_records} of {found.planned_records} records are written"
    more = f", round {found.round} of {MAX_ROUNDS}" if found.round else ""
    return _said(Reason.INGESTING, said + more).conditions


def _said(reason: Reason, message: str, *, stalled: bool = False) -> Step:
    ingested = Condition(ConditionType.INGESTED, Status.FALSE, reason, message)
    return Step((*ready(reason, message, stalled=stalled or reason in STALLING), ingested))


def _setup(given: DatasetInput) -> IngestSetup:
    assert given.choice.cluster is not None
    return IngestSetup(
        dataset=given.dataset,
        connection=build_connection(given.choice.cluster, folder="dataset"),
        data_topic=given.data_topic,
        seed=seed_of(given.dataset),
        images=given.images,
    )


def seed_of(dataset: TrainingDataset) -> int:
    """The seed of the shuffle: chosen once, from the UID, so that losing the status changes nothing."""
    if dataset.status.seed is not None:
        return dataset.status.seed
    return int.from_bytes(hashlib.sha256(dataset.metadata.uid.encode()).digest()[:8], "big") & SAFE_INTEGER


def _reported(given: DatasetInput) -> DatasetReport | None:
    datasets = given.report.datasets if given.report else ()
    return next((one for one in datasets if one.uid == given.dataset.metadata.uid), None)


def _fault(given: DatasetInput, reason: Reason | None = None) -> Fault | None:
    faults = given.report.faults if given.report else ()
    subject = f"dataset/{given.dataset.metadata.uid}"
    return next((one for one in faults if one.subject == subject and reason in (None, one.reason)), None)


def _dangers(given: DatasetInput) -> list[str]:
    """What threatens records that are written; it does not make them unreadable."""
    subject = f"dataset/{given.dataset.metadata.uid}"
    faults = given.report.faults if given.report else ()
    return [one.message for one in faults if one.subject == subject and one.reason in DANGERS]


def _revision(given: DatasetInput) -> RevisionStatus | None:
    """The seal record is the truth; status keeps it when the keeper no longer follows the journal."""
    found = _reported(given)
    if found is None or found.seal is None:
        return given.dataset.status.revision
    seal = found.seal
    return RevisionStatus(
        digest=seal.digest,
        records=seal.records,
        shards=seal.shards,
        data_bytes=seal.data_bytes,
        rejected_records=seal.rejected,
        schema_digest=seal.schema_digest,
    )


def _routes(given: DatasetInput) -> tuple[Condition, ...]:
    found = _reported(given)
    return () if found is None or found.routes is None else (decide_routes(found.routes),)


def _build_status(given: DatasetInput, load: loading.LoadingPlan) -> TrainingDatasetStatus:
    dataset = given.dataset
    reference = build_reference(dataset, given.data_topic)
    ref = given.choice.ref or dataset.status.cluster_ref
    # A BalancedTopic that was never there says nothing of where the data will be.
    known = ref is not None and (dataset.spec.topic_ref is None or given.data_topic is not None)
    topics = TopicsStatus(
        data=reference.data_topic,
        journal=reference.journal_topic,
        manifest=reference.manifest_topic,
        rejected=reference.rejected_topic,
    )
    return TrainingDatasetStatus(
        cluster_ref=ref,
        topics=topics if known else None,
        seed=seed_of(dataset) if ref is not None else None,
        ingest=_ingest_status(given),
        revision=_revision(given),
        preload=None if dataset.spec.preload.mode is PreloadMode.DISABLED else load.status,
    )


def _ingest_status(given: DatasetInput) -> IngestStatus | None:
    """As reported; what was known stays where a keeper that started anew has not read, or need not read, it."""
    found, present = _reported(given), given.dataset.status.ingest
    if found is None or not found.topics_ready or (found.planned_records is None and present is not None):
        return present
    planned = found.planned_records
    seen = found.acknowledged_records + found.rejected_records
    return IngestStatus(
        round=found.round,
        planned_records=planned,
        planned_bytes=found.planned_bytes,
        acknowledged_records=found.acknowledged_records,
        acknowledged_bytes=found.acknowledged_bytes,
        rejected_records=found.rejected_records,
        percent=None if planned is None else min(100, seen * 100 // planned) if planned else 100,
    )
