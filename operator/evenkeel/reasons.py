"""Reasons: the one vocabulary of conditions, events, metrics, job terminations and the command line.

Every member has a line in docs/runbook.md; a test holds the two together.
"""

from __future__ import annotations

from enum import StrEnum


class ConditionType(StrEnum):
    """Types of conditions. `Ready` is always present; the others say more and never turn it false."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    """Only while work goes on, as kstatus reads it; absent otherwise."""
    STALLED = "Stalled"
    """Only where somebody has to change something, as kstatus reads it; absent otherwise."""
    BALANCED = "Balanced"
    PLAN_PENDING = "PlanPending"
    STORAGE_LOW = "StorageLow"
    ROUTES_ACTIVE = "RoutesActive"
    LOADS_KNOWN = "LoadsKnown"
    INGESTED = "Ingested"
    PRELOADED = "Preloaded"


class Reason(StrEnum):
    """Why something is as it is. CamelCase, part of the API: members are added, never renamed."""

    # All is well
    READY = "Ready"
    MEASURED = "Measured"
    BALANCED = "Balanced"
    ROUTED = "Routed"
    SEALED = "Sealed"
    WARM = "Warm"
    UP_TO_DATE = "UpToDate"
    DISABLED = "Disabled"
    NOTHING_TO_DO = "NothingToDo"
    # On the way
    PENDING = "Pending"
    STARTING = "Starting"
    CREATING_TOPICS = "CreatingTopics"
    INGESTING = "Ingesting"
    SEALING = "Sealing"
    PRELOADING = "Preloading"
    PLAN_PENDING = "PlanPending"
    PAUSED = "Paused"
    DELETING = "Deleting"
    # Kafka
    BROKERS_UNREACHABLE = "BrokersUnreachable"
    AUTHENTICATION_FAILED = "AuthenticationFailed"
    AUTHORIZATION_MISSING = "AuthorizationMissing"
    SECRET_MISSING = "SecretMissing"  # noqa: S105 - a reason, not a secret
    MEASUREMENT_STALE = "MeasurementStale"
    MEASUREMENT_INCOMPLETE = "MeasurementIncomplete"
    SHARED_VOLUME_SUSPECTED = "SharedVolumeSuspected"
    CLUSTER_OWNED_ELSEWHERE = "ClusterOwnedElsewhere"
    KEEPER_UNAVAILABLE = "KeeperUnavailable"
    STORAGE_LOW = "StorageLow"
    IMBALANCED = "Imbalanced"
    # References between resources
    NO_CLUSTER_PERMITTED = "NoClusterPermitted"
    CLUSTER_AMBIGUOUS = "ClusterAmbiguous"
    CLUSTER_NOT_FOUND = "ClusterNotFound"
    CLUSTER_NOT_READY = "ClusterNotReady"
    CONFLICT = "Conflict"
    # Topics and routing
    TOPIC_CREATING = "TopicCreating"
    TOPIC_DRIFT = "TopicDrift"
    MANAGED_ELSEWHERE = "ManagedElsewhere"
    TOPIC_MISSING = "TopicMissing"
    PARTITIONS_LOWERED = "PartitionsLowered"
    REPLICATION_ABOVE_BROKERS = "ReplicationAboveBrokers"
    REPLICATION_DIFFERS = "ReplicationDiffers"
    RETENTION_UNSAFE = "RetentionUnsafe"
    SINGLE_COPY = "SingleCopy"
    COMPACTED = "Compacted"
    REPLICATED_EVERYWHERE = "ReplicatedEverywhere"
    INTERNAL_TOPIC = "InternalTopic"
    NO_INFLOW_KNOWN = "NoInflowKnown"
    NOT_STEERED = "NotSteered"
    FEW_ROUTED_PRODUCERS = "FewRoutedProducers"
    NO_LEADERS = "NoLeaders"
    CAPS_RELAXED = "CapsRelaxed"
    ROUTES_LATE = "RoutesLate"
    SNAPSHOT_INCOMPLETE = "SnapshotIncomplete"
    NO_SCORES = "NoScores"
    SCORE_UNKNOWN = "ScoreUnknown"
    SCORE_FAILED = "ScoreFailed"
    SCORE_TIMED_OUT = "ScoreTimedOut"
    SCORE_INVALID = "ScoreInvalid"
    PROMETHEUS_UNREACHABLE = "PrometheusUnreachable"
    PROMETHEUS_QUERY_REFUSED = "PrometheusQueryRefused"
    SERIES_REFUSED = "SeriesRefused"
    # Moves
    MOVES_PLANNED = "MovesPlanned"
    BELOW_THRESHOLD = "BelowThreshold"
    NO_FEASIBLE_MOVE = "NoFeasibleMove"
    MOVE_BUDGET_TOO_SMALL = "MoveBudgetTooSmall"
    DRAIN_BLOCKED = "DrainBlocked"
    REPLICATION_BELOW_MIN_ISR = "ReplicationBelowMinIsr"
    ROUTING_HEALS = "RoutingHeals"
    ROUTING_TOO_SLOW = "RoutingTooSlow"
    LIMIT_COMES_FIRST = "LimitComesFirst"
    # Ingest
    SOURCE_MISSING = "SourceMissing"
    SOURCE_EMPTY = "SourceEmpty"
    SOURCE_CHANGED = "SourceChanged"
    BAD_RECORD = "BadRecord"
    RECORD_TOO_LARGE = "RecordTooLarge"
    SEAL_FAILED = "SealFailed"
    INGEST_FAILED = "IngestFailed"
    DATA_LOST = "DataLost"
    # Preload and reading
    NO_GPU_NODES = "NoGpuNodes"
    NO_CACHE_NODES = "NoCacheNodes"
    CACHE_UNAVAILABLE = "CacheUnavailable"
    DOES_NOT_FIT = "DoesNotFit"
    SHARD_CORRUPT = "ShardCorrupt"
    NOT_WARM = "NotWarm"
    DATASET_NOT_FOUND = "DatasetNotFound"
    NOT_PERMITTED = "NotPermitted"
    # Ourselves
    CRD_OLDER_THAN_OPERATOR = "CrdOlderThanOperator"
    INVALID_SPEC = "InvalidSpec"
    INTERNAL_ERROR = "InternalError"
