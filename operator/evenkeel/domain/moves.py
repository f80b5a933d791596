"""Moves of replicas: what a plan consists of, how far one is, and what operator and keeper tell each other of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from evenkeel.reasons import Reason


class MoveKind(StrEnum):
    """What a move does."""

    BROKER = "Broker"
    """A replica goes to another broker."""
    DIRECTORY = "Directory"
    """A replica goes to another log directory of its broker (AlterReplicaLogDirs; no reassignment)."""
    ADD = "Add"
    """The partition gets one replica more."""
    REMOVE = "Remove"
    """The partition gets one replica less; nothing is copied."""


@dataclass(frozen=True, slots=True)
class Move:
    """One replica of one partition. A partition is in at most one move of a plan."""

    topic: str
    partition: int
    source: tuple[int, ...]
    """Replicas before."""
    target: tuple[int, ...]
    """Replicas after; the first is the preferred leader. Equal to `source` where only the directory changes."""
    bytes: int
    """What is copied; 0 where a replica is only taken away."""
    target_dir: str | None = None
    """Log directory on the broker that receives, where it has several volumes."""
    kind: MoveKind = MoveKind.BROKER
    copied_to: int | None = None
    """Broker that receives the bytes."""
    copied_from: int | None = None
    """Broker that sends them: the partition's leader, whichever replica goes."""
    freed_on: int | None = None
    """Broker on which `freed_bytes` become free, `freed_after_ms` after the copy."""
    freed_dir: str | None = None
    """Directory they are freed in, where Kafka has told it."""
    freed_bytes: int = 0
    freed_after_ms: int = 60_000
    """file.delete.delay.ms of the topic: until then deleted bytes keep their space."""
    topic_id: str | None = None
    """Of the topic that was measured, as Kafka writes it: one that was made again under its name is another, and is
    not moved. None: not checked."""


@dataclass(frozen=True, slots=True)
class VolumePeak:
    """How far a volume rises while a batch runs."""

    volume: str
    """As in planning.space: `BROKER:PATH`, or the shared volume's name."""
    bytes: int
    fill: float


@dataclass(frozen=True, slots=True)
class Batch:
    """Moves that run at the same time; the next batch begins when all of them have ended."""

    number: int
    """0 for the first."""
    moves: tuple[Move, ...]
    seconds: float
    """Expected, at the plan's throttle: the busiest broker's bytes, sent or received, over the throttle."""
    bytes: int
    """What is copied in all."""
    peaks: tuple[VolumePeak, ...] = ()
    """Of each volume that receives."""


class Approval(StrEnum):
    """What was decided about a plan."""

    PENDING = "Pending"
    APPROVED = "Approved"
    REJECTED = "Rejected"
    """Also of a plan that runs: what is under way is cancelled where that is safe."""


class PlanState(StrEnum):
    """Where a plan stands."""

    PROPOSED = "Proposed"
    """Waits for a decision; its facts still hold."""
    RUNNING = "Running"
    PAUSED = "Paused"
    """The batch under way is finished, no other begins."""
    FINISHED = "Finished"
    """It will do nothing more, and nothing of it is left in Kafka. Reason says how it ended."""


@dataclass(frozen=True, slots=True)
class VolumeFill:
    """A volume before, during and after the moves, in thousandths of its capacity."""

    volume: str
    """As in planning.space: `BROKER:PATH`, or the shared volume's name."""
    before_permille: int
    after_permille: int
    peak_permille: int


@dataclass(frozen=True, slots=True)
class ProposedPlan:
    """A plan that the keeper asks to have approved. It stands until it is decided, or a fact contradicts it."""

    hash: str
    """The planner's: over snapshot, policy, request and moves."""
    reason: Reason
    message: str
    """Why, as a sentence."""
    batches: tuple[Batch, ...]
    bytes: int
    """To be copied in all."""
    lower_bound_bytes: int
    seconds: int
    """Expected, at the throttle."""
    cluster_id: str | None = None
    throttle_bytes_per_second: int | None = None
    """Per broker and direction; None: Auto."""
    deviation_before_permille: int | None = None
    deviation_after_permille: int | None = None
    fills: tuple[VolumeFill, ...] = ()


@dataclass(frozen=True, slots=True)
class DesiredPlan:
    """The one RebalancePlan of a cluster that is not finished: what runs is this or nothing."""

    uid: str
    """Of the RebalancePlan."""
    name: str
    hash: str
    approval: Approval
    batches: tuple[Batch, ...]
    cluster_id: str | None = None
    throttle_bytes_per_second: int | None = None
    expired: bool = False
    """Nobody decided in time: the keeper confirms that nothing of it runs."""


@dataclass(frozen=True, slots=True)
class PlanEvent:
    """Something to tell once."""

    number: int
    """From 1 within a plan."""
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class PlanReport:
    """How far the plan of `Desired.plan` is, by Kafka."""

    uid: str
    state: PlanState
    reason: Reason
    message: str
    batch: int = 0
    """That runs, from 1; 0: none has begun."""
    batches: int = 0
    moves: int = 0
    moves_done: int = 0
    """That have had their turn, those included that were not moved."""
    moves_failed: int = 0
    bytes: int = 0
    bytes_done: int = 0
    """Copied so far, by the growth of log directories."""
    percent: int = 0
    bytes_per_second: int = 0
    """Throttle in force, per broker and direction."""
    eta_seconds: int | None = None
    """Expected time until the end; None: not known."""
    events: tuple[PlanEvent, ...] = ()
    """The newest 20."""
