"""TrainingDataset: records to train on, ingested into Kafka once and preloaded where the GPUs are."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from evenkeel.api.balanced_topic import CLUSTER_REF_STAYS
from evenkeel.api.fields import (
    SAFE_INTEGER,
    Bytes,
    Count,
    Digest,
    DnsName,
    Labels,
    Quantity,
    TopicName,
    between,
    quantity_bytes,
    rule,
    rules,
    unchanging,
)
from evenkeel.api.meta import (
    OBJECT_NAME,
    AllowedNamespaces,
    Base,
    Column,
    Definition,
    LocalRef,
    ObjectRef,
    PodDefaults,
    Resource,
    SecretRef,
    State,
    Status,
)
from evenkeel.domain.job import BadRecordPolicy, Compression, Order, SourceFormat


class SourceType(StrEnum):
    """Where records come from."""

    VOLUME = "Volume"


class VolumeSource(Base):
    """A folder on a PersistentVolumeClaim in the dataset's namespace, mounted read-only."""

    claim_name: DnsName
    """Name of the PersistentVolumeClaim."""
    path: Annotated[
        str,
        Field(
            max_length=1024,
            json_schema_extra=rules(
                rule(
                    "!self.startsWith('/') && !self.split('/').exists(part, part == '..')",
                    "path must be relative to the volume's root and must not contain ..",
                )
            ),
        ),
    ] = ""
    """Folder within the volume, relative to its root; default: the root."""


class Source(Base):
    """Where the records come from and how they lie there."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            unchanging("source", "declare another TrainingDataset for other records"),
            rule(
                "self.type != 'Volume' || has(self.volume)",
                "volume must be set when type is Volume",
                fieldPath=".volume",
                reason="FieldValueRequired",
            ),
        )
    )

    type: SourceType
    """Kind of source; the field of the same name says more. Volume: a PersistentVolumeClaim."""
    format: SourceFormat
    """ImageFolder: one folder per class, one image per file. Files: one record per file, its path and bytes."""
    volume: VolumeSource | None = None
    """The claim and folder, when type is Volume."""


class Storage(Base):
    """The data topic that holds the records."""

    replication_factor: Annotated[int, Field(ge=1, le=32)] | None = None
    """Copies of each partition. Default: min(3, brokers)."""
    partitions: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Number of partitions. Default: max(12, 6 x brokers)."""


class Ingest(Base):
    """How records are written to Kafka."""

    order: Annotated[
        Order,
        Field(json_schema_extra=rules(unchanging("ingest.order", "it decides what a revision is"))),
    ] = Order.SHUFFLED
    """Order of records in the revision: Shuffled is a permutation with a recorded seed, Source is as listed.
    Cannot change."""
    message_bytes: Annotated[
        Quantity,
        Field(
            json_schema_extra=rules(
                unchanging("ingest.messageBytes", "it decides what a revision is"),
                between("ingest.messageBytes", "1Ki", "900Ki"),
            )
        ),
    ] = "900Ki"
    """Records are packed into messages of up to this size, a quantity from 1Ki to 900Ki. Cannot change."""
    parallelism: Annotated[int, Field(ge=1, le=256)] = 4
    """Number of producer pods."""
    compression: Compression = Compression.NONE
    """Compression of what is sent to Kafka; images gain nothing by it."""
    on_bad_record: BadRecordPolicy = BadRecordPolicy.FAIL
    """What a record that cannot be read does: Fail stops the ingest, Quarantine lists it and goes on."""
    max_record_bytes: Annotated[
        Quantity,
        Field(json_schema_extra=rules(between("ingest.maxRecordBytes", "1Ki", "64Mi"))),
    ] = "8Mi"
    """Largest record that is taken, a quantity from 1Ki to 64Mi; larger ones count as bad."""

    @property
    def message_size(self) -> int:
        """`messageBytes` as a number."""
        return quantity_bytes(self.message_bytes)

    @property
    def max_record_size(self) -> int:
        """`maxRecordBytes` as a number."""
        return quantity_bytes(self.max_record_bytes)


class PreloadMode(StrEnum):
    """Whether nodes hold the data before training starts."""

    DISABLED = "Disabled"
    PREFERRED = "Preferred"
    REQUIRED = "Required"


class Preload(Base):
    """Copies on the nodes that train."""

    mode: PreloadMode = PreloadMode.DISABLED
    """Disabled: no copies. Preferred: copies, pods may start before they are complete. Required: pods wait for them."""
    node_selector: Labels | None = None
    """Labels of the nodes that should hold a copy; default: nodes with GPUs."""


class TrainingDatasetSpec(Base):
    """What to ingest, how to store it and where to preload it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.clusterRef) || !has(self.topicRef)",
                "topicRef must not be set together with clusterRef: the topic names its cluster",
                fieldPath=".topicRef",
                reason="FieldValueForbidden",
            ),
            rule(
                "has(self.topicRef) == has(oldSelf.topicRef)"
                " && (!has(self.topicRef) || self.topicRef.name == oldSelf.topicRef.name)",
                "topicRef must not change: the data stays where it is",
                fieldPath=".topicRef",
            ),
            rule(
                "!has(self.topicRef) || !has(self.storage)",
                "storage must not be set together with topicRef: the topic has its own settings",
                fieldPath=".storage",
                reason="FieldValueForbidden",
            ),
        )
    )

    state: State = State.ACTIVE
    """Paused: no new jobs; what runs finishes."""
    cluster_ref: ObjectRef | None = None
    """BalancedCluster to store in; may be absent where exactly one admits this namespace.
    Cannot change once status.clusterRef is set."""
    topic_ref: LocalRef | None = None
    """An empty BalancedTopic of this namespace to use as data topic; default: the dataset makes its own.
    Cannot change."""
    source: Source
    """Where the records come from; cannot change."""
    storage: Storage = Storage()
    """The data topic that holds the records."""
    ingest: Ingest = Ingest()
    """How records are written to Kafka."""
    preload: Preload = Preload()
    """Copies on the nodes that train."""
    allowed_namespaces: AllowedNamespaces = AllowedNamespaces()
    """Namespaces whose pods may mount the dataset."""
    credentials_ref: SecretRef | None = None
    """Secret in this namespace with which the dataset's jobs sign in to Kafka;
    required by every cluster whose protocol is not Plaintext."""
    pod_defaults: PodDefaults = PodDefaults()
    """Scheduling and size of the dataset's jobs."""


class TopicsStatus(Base):
    """Topics of the dataset."""

    data: TopicName
    """Holds the records."""
    journal: TopicName
    """Holds what was written, and the seal."""
    manifest: TopicName
    """Holds the content and location tables of revisions."""
    rejected: TopicName
    """Holds what was refused, by position and reason."""


class IngestStatus(Base):
    """How far the ingest is."""

    round: Count = 0
    """0 for the first pass, then how often gaps were reopened."""
    planned_records: Count | None = None
    """Records of the source; absent until the plan is made."""
    planned_bytes: Bytes | None = None
    """Bytes that will be written to Kafka, before replication; absent until the plan is made."""
    acknowledged_records: Count = 0
    """Records that Kafka has acknowledged."""
    acknowledged_bytes: Bytes = 0
    """Bytes that Kafka has acknowledged, before replication."""
    rejected_records: Count = 0
    """Records that were refused."""
    percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """Acknowledged and refused records of the planned ones, in percent, rounded down; absent until the plan is made."""


class RevisionStatus(Base):
    """The sealed revision."""

    digest: Digest
    """SHA-256 of its content manifest: the revision's name."""
    records: Count
    """Records in it."""
    shards: Count
    """Files in it."""
    data_bytes: Bytes
    """Sum of its files, in bytes: what a node that holds it needs."""
    rejected_records: Count = 0
    """Records of the source that are not in it."""
    schema_digest: Annotated[str, Field(max_length=64)] = ""
    """SHA-256 of its Arrow schema."""


class PreloadStatus(Base):
    """Copies on nodes."""

    wanted_nodes: Count = 0
    """Nodes that should hold the revision."""
    warm_nodes: Count = 0
    """Nodes that hold it, every file verified."""


class TrainingDatasetStatus(Status):
    """What was done."""

    cluster_ref: ObjectRef | None = None
    """BalancedCluster of the dataset, written once."""
    topics: TopicsStatus | None = None
    """Topics of the dataset."""
    seed: Annotated[int, Field(ge=0, le=SAFE_INTEGER)] | None = None
    """Seed of the shuffle, chosen once, at most 2^53 - 1 so that every JSON reader reads it exactly."""
    ingest: IngestStatus | None = None
    """How far the ingest is."""
    revision: RevisionStatus | None = None
    """The sealed revision; absent: none yet."""
    preload: PreloadStatus | None = None
    """Copies on nodes; absent: none are wanted."""


class TrainingDataset(Resource):
    """Records to train on, ingested into Kafka once and preloaded where the GPUs are.

    Ready means: one sealed revision is readable. Ingested and Preloaded are separate.
    """

    model_config = ConfigDict(json_schema_extra=rules(CLUSTER_REF_STAYS))

    definition: ClassVar[Definition] = Definition(
        plural="trainingdatasets",
        short_name="tds",
        columns=(
            Column("IngestedPercent", "integer", ".status.ingest.percent"),
            Column("WarmNodes", "integer", ".status.preload.warmNodes"),
            Column("Records", "integer", ".status.revision.records", wide=True),
            Column("Digest", "string", ".status.revision.digest", wide=True),
            Column("Cluster", "string", ".status.clusterRef.name", wide=True),
        ),
        name_pattern=OBJECT_NAME,
    )

    kind: str = "TrainingDataset"
    spec: TrainingDatasetSpec
    """What to ingest, how to store it and where to preload it."""
    status: TrainingDatasetStatus = TrainingDatasetStatus()
    """What was done; written by Evenkeel alone."""
