"""RebalancePlan: moves of replicas that were proposed, what was decided about them, and how far they are."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from evenkeel.api.fields import (
    MESSAGE_LIMIT,
    BrokerId,
    Bytes,
    Count,
    Permille,
    TopicName,
    listing,
    rule,
    rules,
)
from evenkeel.api.meta import OBJECT_NAME, Base, Column, Definition, LocalRef, Resource, Status
from evenkeel.domain.moves import Approval, MoveKind, PlanState

MOVES_LIMIT = 512
"""Most moves of a plan; the next plan goes on from there."""
FILLS_LIMIT = 512
PEAKS_LIMIT = 8
"""Volumes that a batch lists, the fullest first: a plan with all of them would not fit into etcd."""
REPLICAS_LIMIT = 32
PATH_LIMIT = 256
VOLUME_LIMIT = 280
NAME_LIMIT = 63
"""Longest name of a plan: that of its cluster, a dash and ten digits, and nothing is named after it."""

Path = Annotated[str, Field(min_length=1, max_length=PATH_LIMIT)]
VolumeName = Annotated[str, Field(min_length=1, max_length=VOLUME_LIMIT)]
Replicas = Annotated[tuple[BrokerId, ...], listing("atomic", least=1, most=REPLICAS_LIMIT)]


class PlannedMove(Base):
    """One replica of one partition. A partition is in at most one move of a plan."""

    batch: Annotated[int, Field(ge=0, le=MOVES_LIMIT - 1)]
    """Number of its batch, from 0; the moves of a batch run at the same time, batches one after the other."""
    topic: TopicName
    """Topic of the partition."""
    partition: Annotated[int, Field(ge=0, le=2**31 - 1)]
    """Number of the partition."""
    kind: MoveKind = MoveKind.BROKER
    """Broker: the replica goes to another broker. Directory: to another log directory of its broker. Add: the
    partition gets one replica more. Remove: one less."""
    source: Replicas
    """Ids of the brokers that hold the partition before, in Kafka's order."""
    target: Replicas
    """The same after; the first is the preferred leader."""
    bytes: Bytes = 0
    """What is copied, in bytes; 0 where a replica is only taken away."""
    target_dir: Path | None = None
    """Log directory on the broker that receives, where it has several."""
    copied_to: BrokerId | None = None
    """Broker that receives the bytes; default: the one that `target` has and `source` has not."""
    copied_from: BrokerId | None = None
    """Broker that sends them; default: the leader of the moment."""
    freed_on: BrokerId | None = None
    """Broker on which `freedBytes` become free; default: the one that `source` has and `target` has not."""
    freed_dir: Path | None = None
    """Log directory in which they become free."""
    freed_bytes: Bytes = 0
    """What becomes free, in bytes."""
    freed_after_seconds: Count = 60
    """How long deleted bytes keep their space after the copy, in seconds: file.delete.delay.ms of the topic."""
    topic_id: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Kafka's id of the topic that was measured: one that was made again under its name is another, and is not
    moved. Absent: not checked."""


class PlannedPeak(Base):
    """How far a volume rises while a batch runs."""

    volume: VolumeName
    """`BROKER:PATH`, or the name of a volume that several directories share."""
    bytes: Bytes = 0
    """What is used of it at most, in bytes."""
    permille: Permille
    """The same in thousandths of its capacity."""


class PlannedBatch(Base):
    """Moves that run at the same time; which they are is said by `batch` of the moves."""

    number: Annotated[int, Field(ge=0, le=MOVES_LIMIT - 1)]
    """From 0."""
    seconds: Count = 0
    """Expected time at the plan's throttle, in seconds."""
    bytes: Bytes = 0
    """What is copied in all, in bytes."""
    peaks: Annotated[tuple[PlannedPeak, ...], listing("atomic", most=PEAKS_LIMIT)] = ()
    """The volumes that receive and become fullest, up to 8."""


class PlannedFill(Base):
    """A volume before, during and after the moves, in thousandths of its capacity."""

    volume: VolumeName
    """`BROKER:PATH`, or the name of a volume that several directories share."""
    before_permille: Permille
    """Fill before the moves; where topics are routed, at the end of the time that routes look ahead to."""
    after_permille: Permille
    """Fill after them."""
    peak_permille: Permille
    """Highest fill while they run, if nothing that is deleted were freed before the end."""


def _stays(name: str) -> dict[str, str]:
    same = f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})"
    message = f"{name} must not change: what was approved is what runs; approval alone may change"
    return rule(same, message, fieldPath=f".{name}")


_FIXED = (
    "clusterRef",
    "planHash",
    "kafkaClusterId",
    "expirationTime",
    "reason",
    "message",
    "bytes",
    "lowerBoundBytes",
    "seconds",
    "throttleBytesPerSecond",
    "deviationBeforePermille",
    "deviationAfterPermille",
    "moves",
    "batches",
    "fills",
)
_DECISIONS = (
    rule(
        "oldSelf.approval != 'Rejected' || self.approval == 'Rejected'",
        "approval must stay Rejected: a rejection is final; a new plan is proposed when this one's time is over",
        fieldPath=".approval",
    ),
    rule(
        "oldSelf.approval != 'Approved' || self.approval != 'Pending'",
        "approval must not go back to Pending: set Rejected to stop a plan that was approved",
        fieldPath=".approval",
    ),
)


class RebalancePlanSpec(Base):
    """The plan. Everything but `approval` stays as it was created."""

    model_config = ConfigDict(json_schema_extra=rules(*_DECISIONS, *(_stays(name) for name in _FIXED)))

    cluster_ref: LocalRef
    """BalancedCluster of this namespace whose replicas move."""
    approval: Approval = Approval.PENDING
    """Pending: nothing moves. Approved: these moves run, and no others. Rejected: they never run, or are
    cancelled where that is safe. Rejected is final; Approved can only become Rejected."""
    plan_hash: Annotated[str, Field(max_length=64, pattern=r"^[0-9a-f]*$")] = ""
    """The planner's: SHA-256 over measurement, policy and moves, as hex digits."""
    kafka_cluster_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Kafka's id of the cluster that was measured; the plan never runs on another. Absent: not checked."""
    expiration_time: datetime | None = None
    """A plan that nobody decides until then expires; default: 24 hours after it was made. After a rejection
    nothing new is proposed before it, nor within 24 hours after the end of the rejected plan."""
    reason: Annotated[str, Field(max_length=128, pattern=r"^([A-Z][A-Za-z]*)?$")] = ""
    """Why it was proposed, as one CamelCase word."""
    message: Annotated[str, Field(max_length=MESSAGE_LIMIT)] = ""
    """The same as a sentence."""
    bytes: Bytes | None = None
    """What is copied in all, in bytes."""
    lower_bound_bytes: Bytes | None = None
    """No plan can reach the same end with less, in bytes."""
    seconds: Count | None = None
    """Expected time, in seconds, at the throttle."""
    throttle_bytes_per_second: Annotated[int, Field(ge=1)] | None = None
    """Limit of copying, per broker and direction; absent: Auto."""
    deviation_before_permille: Permille | None = None
    """Largest difference of a volume's fill from the mean before the moves, in thousandths of the mean."""
    deviation_after_permille: Permille | None = None
    """The same after the moves."""
    moves: Annotated[tuple[PlannedMove, ...], listing("atomic", least=1, most=MOVES_LIMIT)]
    """Which replicas go where; a partition at most once."""
    batches: Annotated[tuple[PlannedBatch, ...], listing("atomic", most=MOVES_LIMIT)] = ()
    """What is expected of each batch."""
    fills: Annotated[tuple[PlannedFill, ...], listing("atomic", most=FILLS_LIMIT)] = ()
    """Every volume before, during and after, up to 512."""


class RebalancePlanStatus(Status):
    """How far the plan is, by what Kafka shows."""

    state: PlanState | None = None
    """Proposed: nothing runs. Running: its moves do. Paused: the batch under way is finished, no other begins.
    Finished: it will do nothing more; condition Ready says how it ended, and what may be left in Kafka."""
    batch: Count = 0
    """Number of the batch that runs, from 1; 0: none has begun."""
    batches: Count = 0
    """How many there are."""
    moves: Count = 0
    """How many moves there are."""
    moves_done: Count = 0
    """Moves that have had their turn, those included that were not carried out."""
    moves_failed: Count = 0
    """Moves that were not carried out."""
    bytes: Bytes = 0
    """To be copied in all, in bytes."""
    bytes_done: Bytes = 0
    """Copied so far, in bytes, by the growth of log directories."""
    percent: Count = 0
    """How far it is, in percent of the bytes."""
    eta_seconds: Count | None = None
    """Expected time until the end, in seconds; absent: not known, or nothing runs."""
    bytes_per_second: Count = 0
    """Throttle in force, per broker and direction; 0: none."""
    last_event: Count = 0
    """Number of the newest event that was written."""


class RebalancePlan(Resource):
    """Moves of replicas that level the disks of one Kafka cluster: proposed, decided, carried out.

    Ready means: finished; its reason says how. Only spec.approval may change.
    """

    definition: ClassVar[Definition] = Definition(
        plural="rebalanceplans",
        short_name="rbp",
        columns=(
            Column("Cluster", "string", ".spec.clusterRef.name"),
            Column("Approval", "string", ".spec.approval"),
            Column("State", "string", ".status.state"),
            Column("Percent", "integer", ".status.percent"),
            Column("Moves", "integer", ".status.moves"),
            Column("Bytes", "integer", ".status.bytes", wide=True),
            Column("Eta", "integer", ".status.etaSeconds"),
        ),
        name_pattern=OBJECT_NAME,
        name_limit=NAME_LIMIT,
    )

    kind: str = "RebalancePlan"
    spec: RebalancePlanSpec
    """The plan; only `approval` may change."""
    status: RebalancePlanStatus = RebalancePlanStatus()
    """How far it is; written by Evenkeel alone."""

    @property
    def is_finished(self) -> bool:
        """Whether it will do nothing more."""
        return self.status.state is PlanState.FINISHED

    @property
    def has_begun(self) -> bool:
        """Whether moves of it may be under way."""
        return self.status.state in (PlanState.RUNNING, PlanState.PAUSED)
