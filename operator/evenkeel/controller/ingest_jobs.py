"""The jobs of an ingest: producers, sealer, and the account without rights under which they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenkeel import names
from evenkeel.api.training_dataset import TrainingDataset
from evenkeel.controller.jobs import LABEL_ATTEMPT, LABEL_ROUND
from evenkeel.controller.plan import Child
from evenkeel.controller.pods import Images, PodShape, Size, build_labels, build_meta, build_pod, child_name
from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.job import DatasetRef, JobSpec, ProducerSettings, Role, SealerSettings
from evenkeel.kube import resources
from evenkeel.kube.resources import TRAINING_DATASET

SOURCE_PATH = "/var/lib/evenkeel/source"
KEEP_SECONDS = 600
"""How long an ended Job stays for people to look at."""
KILLED_RETRIES = 6
"""How often a pod that was killed (not one that failed by itself) is started again by its Job."""
FAILED = 1
"""Exit code of our jobs when they wrote a termination message: starting them again at once is no use."""
PRODUCER_SIZE = Size(cpu="100m", memory="256Mi", memory_limit="1Gi")
SEALER_SIZE = Size(cpu="100m", memory="256Mi", memory_limit="1Gi")


@dataclass(frozen=True, slots=True)
class IngestSetup:
    """What all jobs of one dataset are told."""

    dataset: TrainingDataset
    connection: Connection
    data_topic: str | None
    """Of the BalancedTopic that topicRef names; None: the dataset's own."""
    seed: int
    images: Images


def account_name(dataset: str) -> str:
    """Service account of producers and sealer: for pods without any right."""
    return child_name(dataset, "ingest")


def build_account(setup: IngestSetup) -> Child:
    """The account; it has no Role."""
    name = account_name(setup.dataset.metadata.name)
    meta = build_meta(setup.dataset, TRAINING_DATASET, name, dataset_labels(setup.dataset, "ingest"))
    return Child(resources.SERVICE_ACCOUNT, {"metadata": meta, "automountServiceAccountToken": False})


def build_producer(setup: IngestSetup, round_: int, attempt: int) -> Child:
    """The Indexed Job whose pods take slices by claim until none is left."""
    workers = setup.dataset.spec.ingest.parallelism
    spec = JobSpec(
        role=Role.PRODUCER,
        dataset=build_reference(setup.dataset, setup.data_topic),
        connection=setup.connection,
        producer=_producer_settings(setup),
        round=round_,
    )
    claim = setup.dataset.spec.source.volume
    volumes = []
    if claim is not None:
        source = {"claimName": claim.claim_name, "readOnly": True}
        volumes = [{"name": "source", "persistentVolumeClaim": source}]
    mounts = [{"name": "source", "mountPath": SOURCE_PATH, "readOnly": True}] if volumes else []
    shape = _shape(setup, spec, PRODUCER_SIZE, tuple(volumes), tuple(mounts))
    many = {
        "completionMode": "Indexed",
        "completions": workers,
        "parallelism": workers,
        "backoffLimitPerIndex": KILLED_RETRIES,
    }
    return build_job(setup.dataset, shape, round_, attempt, {**many, **failure_policy("FailIndex")})


def build_sealer(setup: IngestSetup, round_: int, attempt: int) -> Child:
    """The Job that reads back what the journal says and seals it, or reopens slices."""
    spec = JobSpec(
        role=Role.SEALER,
        dataset=build_reference(setup.dataset, setup.data_topic),
        connection=setup.connection,
        sealer=SealerSettings(),
        round=round_,
    )
    shape = _shape(setup, spec, SEALER_SIZE, (), ())
    return build_job(
        setup.dataset, shape, round_, attempt, {"backoffLimit": KILLED_RETRIES, **failure_policy("FailJob")}
    )


def failure_policy(action: str) -> dict[str, Any]:
    """Our own exit code ends the index or Job; a node that is drained costs no attempt."""
    return {
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": action, "onExitCodes": {"operator": "In", "values": [FAILED]}},
            ]
        }
    }


def build_job(
    dataset: TrainingDataset,
    shape: PodShape,
    round_: int,
    attempt: int,
    policy: dict[str, Any],
    suffix: str = "",
) -> Child:
    """A Job owned by the dataset, named by component, round (or `suffix`) and attempt."""
    name = dataset.metadata.name
    parts = [shape.component, suffix or str(round_), *([str(attempt)] if attempt else [])]
    labels = {**shape.labels, LABEL_ROUND: str(round_), LABEL_ATTEMPT: str(attempt)}
    meta = build_meta(dataset, TRAINING_DATASET, child_name(name, "-".join(parts)), labels)
    spec = {"ttlSecondsAfterFinished": KEEP_SECONDS, **policy, "template": build_pod(shape)}
    return Child(resources.JOB, {"metadata": meta, "spec": spec}, create_only=True)


def build_reference(dataset: TrainingDataset, data_topic: str | None) -> DatasetRef:
    """The dataset and its topics, as jobs are told."""
    meta = dataset.metadata
    return DatasetRef(
        uid=meta.uid,
        namespace=meta.namespace or "",
        name=meta.name,
        data_topic=data_topic or names.dataset_topic(meta.uid, "data"),
        journal_topic=names.dataset_topic(meta.uid, "journal"),
        manifest_topic=names.dataset_topic(meta.uid, "manifest"),
        rejected_topic=names.dataset_topic(meta.uid, "rejected"),
    )


def dataset_labels(dataset: TrainingDataset, component: str) -> dict[str, str]:
    """Labels of what we make for a dataset."""
    return build_labels(component, dataset.metadata.name, **{names.LABEL_DATASET_UID: dataset.metadata.uid})


def _producer_settings(setup: IngestSetup) -> ProducerSettings:
    spec = setup.dataset.spec
    path = spec.source.volume.path if spec.source.volume else ""
    return ProducerSettings(
        source_path=f"{SOURCE_PATH}/{path}".rstrip("/"),
        format=spec.source.format,
        order=spec.ingest.order,
        seed=setup.seed,
        message_bytes=spec.ingest.message_size,
        max_record_bytes=spec.ingest.max_record_size,
        on_bad_record=spec.ingest.on_bad_record,
        compression=spec.ingest.compression,
        workers=spec.ingest.parallelism,
    )


def _shape(
    setup: IngestSetup,
    spec: JobSpec,
    size: Size,
    volumes: tuple[dict[str, Any], ...],
    mounts: tuple[dict[str, Any], ...],
) -> PodShape:
    dataset = setup.dataset
    component = spec.role.value.lower()
    return PodShape(
        component=component,
        image=setup.images.data,
        pull_policy=setup.images.pull_policy,
        arguments=(component,),
        service_account=account_name(dataset.metadata.name),
        labels=dataset_labels(dataset, component),
        size=size,
        defaults=dataset.spec.pod_defaults,
        environment={names.JOB_VARIABLE: codec.dumps(spec)},
        secrets=credentials(dataset),
        volumes=volumes,
        mounts=mounts,
        restart_policy="Never",
    )


def credentials(dataset: TrainingDataset) -> dict[str, str]:
    """The Secret with which the dataset's jobs sign in to Kafka, mounted as `dataset`."""
    ref = dataset.spec.credentials_ref
    return {} if ref is None else {"dataset": ref.secret_name}
