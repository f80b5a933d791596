"""Copies of one dataset on nodes: loader jobs and the Preloaded condition. Pure.

Warm is what a NodeCache says; that a loader ended well is no evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from evenkeel import names
from evenkeel.api.node_cache import NodeCache
from evenkeel.api.training_dataset import PreloadMode, PreloadStatus, RevisionStatus, TrainingDataset
from evenkeel.controller.conditions import Condition, Status
from evenkeel.controller.ingest_jobs import (
    build_job,
    build_reference,
    credentials,
    dataset_labels,
    failure_policy,
)
from evenkeel.controller.jobs import LABEL_HOLDER, JobView, Problem, find_problem, newest, retry_wait
from evenkeel.controller.nodes import NodeView, fits, holder_digest, is_warm
from evenkeel.controller.plan import Child, Moment, Removal
from evenkeel.controller.pods import Images, PodShape, Size, build_meta, child_name
from evenkeel.controller.store import Object
from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.job import JobSpec, LoaderSettings, Role
from evenkeel.domain.nodes import HoldState
from evenkeel.kube import resources
from evenkeel.kube.resources import TRAINING_DATASET
from evenkeel.reasons import ConditionType, Reason

COMPONENT = "loader"
SIZE = Size(cpu="100m", memory="192Mi", memory_limit="768Mi")
TOKEN_SECONDS = 3600
KILLED_RETRIES = 3
SETTLE_SECONDS = 10.0
"""How long a cache may take to say Warm after the loader ended well, before it is tried again."""


@dataclass(frozen=True, slots=True)
class LoadingInput:
    """Everything that the copies of one dataset depend on."""

    dataset: TrainingDataset
    nodes: tuple[NodeView, ...]
    """Those that should hold it."""
    caches: Mapping[str, NodeCache]
    jobs: tuple[JobView, ...]
    pods: tuple[Object, ...]
    connection: Connection | None
    data_topic: str | None
    images: Images


@dataclass(frozen=True, slots=True)
class LoadingPlan:
    """What to do and to say."""

    conditions: tuple[Condition, ...] = ()
    children: tuple[Child, ...] = ()
    removals: tuple[Removal, ...] = ()
    status: PreloadStatus = field(default_factory=PreloadStatus)
    again_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class _Holder:
    """One node and how far its copy is."""

    node: NodeView
    cache: NodeCache | None
    warm: bool
    problem: Problem | None


def account_name(dataset: str) -> str:
    """Service account of loaders; its UID is what caches let in."""
    return child_name(dataset, COMPONENT)


def plan_loading(given: LoadingInput, revision: RevisionStatus | None, at: Moment) -> LoadingPlan:
    """One loader Job per node that should be warm and is not."""
    if given.dataset.spec.preload.mode is PreloadMode.DISABLED:
        return LoadingPlan()
    account = build_account(given.dataset)
    if revision is None:
        message = "nothing to preload until the dataset is sealed"
        waiting = Condition(ConditionType.PRELOADED, Status.FALSE, Reason.PENDING, message)
        return LoadingPlan((waiting,), (account,), status=PreloadStatus(wanted_nodes=len(given.nodes)))
    holders = [_view_holder(given, node, revision) for node in given.nodes]
    children, removals, waits = [account], [], []
    for holder in holders:
        child, old, wait = _load(given, holder, revision, at)
        children.extend(child)
        removals.extend(old)
        waits.extend(wait)
    warm = sum(holder.warm for holder in holders)
    return LoadingPlan(
        conditions=(decide_preloaded(given, holders, revision),),
        children=tuple(children),
        removals=tuple(removals),
        status=PreloadStatus(wanted_nodes=len(holders), warm_nodes=warm),
        again_seconds=min(waits, default=None),
    )


def build_account(dataset: TrainingDataset) -> Child:
    """The loaders' account; it has no right but to name itself."""
    meta = build_meta(
        dataset, TRAINING_DATASET, account_name(dataset.metadata.name), dataset_labels(dataset, COMPONENT)
    )
    return Child(resources.SERVICE_ACCOUNT, {"metadata": meta, "automountServiceAccountToken": False})


def decide_preloaded(given: LoadingInput, holders: list[_Holder], revision: RevisionStatus) -> Condition:
    """Whether every node that should hold the revision does."""
    kind, bad = ConditionType.PRELOADED, Status.FALSE
    warm = sum(holder.warm for holder in holders)
    if not holders:
        if given.dataset.spec.preload.node_selector:
            return Condition(kind, bad, Reason.NO_CACHE_NODES, "spec.preload.nodeSelector matches no node")
        return Condition(kind, bad, Reason.NO_GPU_NODES, f"no node has {names.GPU_RESOURCE} or its label")
    if warm == len(holders):
        return Condition(kind, Status.TRUE, Reason.WARM, f"{warm} of {warm} nodes hold the revision")
    said = f"{warm} of {len(holders)} nodes hold the revision"
    reason, why = _explain_cold([holder for holder in holders if not holder.warm], revision)
    return Condition(kind, bad, reason, f"{said}; {why}" if why else said)


def _explain_cold(cold: list[_Holder], revision: RevisionStatus) -> tuple[Reason, str]:
    """Why nodes do not hold the revision yet; the worst that is known."""
    small = next((one for one in cold if not fits(one.cache, revision.data_bytes)), None)
    if small is not None and small.cache is not None:
        room = small.cache.status.disk_total_bytes
        why = f"it has {revision.data_bytes} bytes, the cache disk of node {small.node.name} has {room}"
        return Reason.DOES_NOT_FIT, why
    silent = next((one for one in cold if one.cache is None or not one.cache.status.endpoint), None)
    if silent is not None:
        return Reason.CACHE_UNAVAILABLE, f"the cache of node {silent.node.name} does not answer yet"
    problem = next((one.problem for one in cold if one.problem is not None), None)
    return (Reason.PRELOADING, "") if problem is None else (problem.reason, problem.message)


def _view_holder(given: LoadingInput, node: NodeView, revision: RevisionStatus) -> _Holder:
    cache = given.caches.get(node.name)
    warm = is_warm(cache, node, given.dataset.metadata.uid, revision.digest)
    return _Holder(node, cache, warm, None if warm else _problem(given, node, cache, revision))


def _problem(
    given: LoadingInput, node: NodeView, cache: NodeCache | None, revision: RevisionStatus
) -> Problem | None:
    held = (one for one in (cache.status.revisions if cache else ()) if one.digest == revision.digest)
    failed = next((one for one in held if one.state is HoldState.FAILED), None)
    if failed is not None:
        reason = Reason(failed.reason) if failed.reason in set(Reason) else Reason.NOT_WARM
        return Problem(reason, f"node {node.name}: {failed.message}")
    job = newest(given.jobs, Role.LOADER, holder=_holder_label(node, revision))
    return None if job is None else find_problem(job, given.pods)


def _load(
    given: LoadingInput, holder: _Holder, revision: RevisionStatus, at: Moment
) -> tuple[list[Child], list[Removal], list[float]]:
    """The next loader Job for a node, old ones to remove, and seconds to wait for."""
    cache, node = holder.cache, holder.node
    if holder.warm or cache is None or given.connection is None or not _is_wanted(given, cache, revision):
        return [], [], []
    label = _holder_label(node, revision)
    job = newest(given.jobs, Role.LOADER, holder=label)
    if job is None:
        return [_build_loader(given, cache, node, revision, 0)], [], []
    if job.ended_at is None:
        return [], [], []
    settled = (job.ended_at + timedelta(seconds=SETTLE_SECONDS) - at.now).total_seconds()
    wait = max(retry_wait(job, at.now), settled if job.complete else 0.0)
    if wait > 0:
        return [], [], [wait]
    old = [one for one in given.jobs if one.holder == label and one.attempt < job.attempt]
    removals = [Removal(resources.JOB, one.namespace, one.name, one.uid) for one in old]
    return [_build_loader(given, cache, node, revision, job.attempt + 1)], removals, []


def _is_wanted(given: LoadingInput, cache: NodeCache, revision: RevisionStatus) -> bool:
    """Whether the cache was told to take it, and says where it listens."""
    uid = given.dataset.metadata.uid
    told = any((one.dataset_uid, one.digest) == (uid, revision.digest) for one in cache.spec.wanted)
    return told and bool(cache.status.endpoint)


def _holder_label(node: NodeView, revision: RevisionStatus) -> str:
    return f"{holder_digest(node.name)}-{revision.digest[:10]}"


def _build_loader(
    given: LoadingInput, cache: NodeCache, node: NodeView, revision: RevisionStatus, attempt: int
) -> Child:
    dataset = given.dataset
    assert given.connection is not None
    settings = LoaderSettings(digest=revision.digest, endpoint=cache.status.endpoint, holder_node=node.name)
    spec = JobSpec(
        role=Role.LOADER,
        dataset=build_reference(dataset, given.data_topic),
        connection=given.connection,
        loader=settings,
    )
    holder = _holder_label(node, revision)
    folder, file = settings.token_path.rsplit("/", 1)
    token = {"audience": names.TOKEN_AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": file}
    shape = PodShape(
        component=COMPONENT,
        image=given.images.data,
        pull_policy=given.images.pull_policy,
        arguments=(COMPONENT,),
        service_account=account_name(dataset.metadata.name),
        labels={**dataset_labels(dataset, COMPONENT), LABEL_HOLDER: holder},
        size=SIZE,
        defaults=dataset.spec.pod_defaults,
        environment={names.JOB_VARIABLE: codec.dumps(spec)},
        secrets=credentials(dataset),
        volumes=({"name": "token", "projected": {"sources": [{"serviceAccountToken": token}]}},),
        mounts=({"name": "token", "mountPath": folder, "readOnly": True},),
        restart_policy="Never",
    )
    policy = {"backoffLimit": KILLED_RETRIES, **failure_policy("FailJob")}
    suffix = f"{revision.digest[:8]}-{holder_digest(node.name)[:6]}"
    return build_job(dataset, shape, 0, attempt, policy, suffix)
