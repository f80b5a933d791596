"""What a job (producer, sealer, loader) is told: one JSON in the variable EVENKEEL_JOB. Holds no secret."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from evenkeel.domain.connection import Connection


class Role(StrEnum):
    """Which job this is."""

    PRODUCER = "Producer"
    SEALER = "Sealer"
    LOADER = "Loader"


class SourceFormat(StrEnum):
    """How records lie in the source."""

    IMAGE_FOLDER = "ImageFolder"
    """One folder per class, one image per file; label = index of the class folder in sorted order."""
    FILES = "Files"
    """One record per file: its path and bytes."""


class Order(StrEnum):
    """Order of records within the revision."""

    SHUFFLED = "Shuffled"
    SOURCE = "Source"


class BadRecordPolicy(StrEnum):
    """What a record that cannot be read does."""

    FAIL = "Fail"
    QUARANTINE = "Quarantine"


class Compression(StrEnum):
    """Compression of produce batches."""

    NONE = "None"
    LZ4 = "Lz4"
    ZSTD = "Zstd"


@dataclass(frozen=True, slots=True)
class DatasetRef:
    """The dataset a job works for, and its topics."""

    uid: str
    namespace: str
    name: str
    data_topic: str
    journal_topic: str
    manifest_topic: str
    rejected_topic: str


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """What the workers read and how they pack it. Equal for all workers of one ingest."""

    source_path: str
    """Mounted folder of the source, read-only."""
    format: SourceFormat
    order: Order = Order.SHUFFLED
    seed: int = 0
    """64-bit seed of the permutation; chosen by the operator once per revision, stored in the plan record."""
    message_bytes: int = 900 * 1024
    message_records: int = 4096
    max_record_bytes: int = 8 * 1024 * 1024
    on_bad_record: BadRecordPolicy = BadRecordPolicy.FAIL
    compression: Compression = Compression.NONE
    workers: int = 1
    slice_bytes: int = 8 * 1024 * 1024
    routes_wait_seconds: int = 30


@dataclass(frozen=True, slots=True)
class SealerSettings:
    """What the sealer needs beyond the dataset."""

    shard_bytes: int = 64 * 1024 * 1024
    max_rounds: int = 3


@dataclass(frozen=True, slots=True)
class LoaderSettings:
    """Which revision goes where."""

    digest: str
    endpoint: str
    """`http://ADDRESS:PORT` of the first holder's cache."""
    token_path: str = "/var/run/secrets/evenkeel/token"  # noqa: S105 - a path
    holder_node: str = ""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job. Exactly the settings of its role are set."""

    role: Role
    dataset: DatasetRef
    connection: Connection
    producer: ProducerSettings | None = None
    sealer: SealerSettings | None = None
    loader: LoaderSettings | None = None
    round: int = 0
    """0 for the first producer job, n for the one that the n-th reopen asked for."""
    schema_version: int = 1


@dataclass(frozen=True, slots=True)
class Termination:
    """Termination message of a job that failed, at most 4 KiB. Success writes none."""

    reason: str
    """A value of reasons.Reason."""
    message: str
