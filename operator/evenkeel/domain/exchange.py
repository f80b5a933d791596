"""What operator and keeper write to each other, through two ConfigMaps or two files.

`Desired` is written by the operator alone, `Report` by the keeper alone. Neither holds a clock reading:
equal facts give equal text, so that nothing is written while nothing changes. Nothing is ever deleted
because it is absent from `Desired`: deletions are entries of their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.moves import DesiredPlan, PlanReport, ProposedPlan
from evenkeel.reasons import Reason

SCHEMA_VERSION = 1


class BalanceMode(StrEnum):
    """Whether replicas may move."""

    DISABLED = "Disabled"
    PROPOSE = "Propose"
    AUTOMATIC = "Automatic"


class DeletionPolicy(StrEnum):
    """What becomes of a topic when its resource is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who this keeper works for; the claim in Kafka names it."""

    installation: str
    """Unique per installation of Evenkeel (the UID of its namespace, or of a file-run keeper's choice)."""
    uid: str
    """UID of the BalancedCluster."""
    name: str
    """`namespace/name`, for people."""


@dataclass(frozen=True, slots=True)
class LoadSource:
    """A Prometheus server that knows how busy the brokers' nodes are."""

    url: str
    """Its base address."""
    queries: Mapping[str, str] = field(default_factory=dict)
    """Load name -> PromQL, instead of domain.loads.DEFAULT_QUERIES; an empty one asks nothing."""
    timeout_seconds: int = 5


@dataclass(frozen=True, slots=True)
class Policy:
    """How to measure, balance and route."""

    interval_seconds: int = 15
    mode: BalanceMode = BalanceMode.PROPOSE
    enter_percent: int = 10
    leave_percent: int = 3
    max_fill_percent: int = 85
    exclude_topics: tuple[str, ...] = ()
    slack_percent: float = 0.5
    """How far above the optimum the fullest volume may end, in percent of capacity, for smoother weights."""
    move_budget_bytes: int | None = None
    loads: LoadSource | None = None
    """Where loads for the score NodeLoad come from; None: nowhere."""
    throttle_bytes_per_second: int | None = None
    """Of moves, per broker and direction; None: Auto."""
    drain: tuple[int, ...] = ()
    """Brokers to be emptied."""


@dataclass(frozen=True, slots=True)
class Score:
    """One score with its weight."""

    name: str
    weight: int = 100
    """Percent; 0 switches it off."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Of this score, as text; which there are is the score's business."""


@dataclass(frozen=True, slots=True)
class TopicRouting:
    """Routing of one topic."""

    scores: tuple[Score, ...] = (Score("Storage"),)
    horizon_seconds: int = 86_400
    stale_after_seconds: int = 600


@dataclass(frozen=True, slots=True)
class DesiredTopic:
    """A topic that a BalancedTopic declares. None means: not managed, leave it as it is."""

    owner_uid: str
    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    routing: TopicRouting = TopicRouting()
    create: bool = True
    """False where the resource only adopts (paused)."""


@dataclass(frozen=True, slots=True)
class DesiredDataset:
    """A dataset whose topics the keeper creates and guards, and whose journal it follows."""

    uid: str
    name: str
    """`namespace/name`, for people."""
    replication_factor: int | None = None
    """None: min(3, brokers)."""
    partitions: int | None = None
    """None: max(12, 6 x brokers)."""
    data_topic: str | None = None
    """A BalancedTopic's topic instead of an own one."""
    follow: bool = True
    """Whether its journal is read: while an ingest runs or no seal is known."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """A topic to delete, because its owner with deletionPolicy Delete is going away."""

    topic: str
    owner_uid: str
    topic_id: str | None = None
    """Kafka's id of the topic that its owner had; one of that name with another id is not deleted."""


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """Where a broker runs, as far as the operator can tell."""

    broker: int
    node: str | None = None
    volumes: Mapping[str, str] = field(default_factory=dict)
    """log dir path -> volume name."""


@dataclass(frozen=True, slots=True)
class Desired:
    """Everything the keeper of one Kafka cluster should do."""

    owner: Owner
    connection: Connection
    policy: Policy = Policy()
    paused: bool = False
    """Measure and report only."""
    release: bool = False
    """Give the claim back and stop: the BalancedCluster is being deleted."""
    topics: tuple[DesiredTopic, ...] = ()
    datasets: tuple[DesiredDataset, ...] = ()
    deletions: tuple[Deletion, ...] = ()
    places: tuple[BrokerPlace, ...] = ()
    plan: DesiredPlan | None = None
    """The RebalancePlan that is not finished; None: there is none, and whatever of ours still runs is cancelled."""
    propose: bool = True
    """Whether a new plan is welcome: False after a rejection that still stands."""
    schema_version: int = SCHEMA_VERSION
    version: str = ""
    """SHA-256 of the rest; the report echoes it."""

    def sealed(self) -> Desired:
        """The same with `version` filled in."""
        body = codec.dumps(replace(self, version=""))
        return replace(self, version=hashlib.sha256(body.encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong, with the thing it is wrong with."""

    reason: Reason
    message: str
    subject: str = ""
    """`topic/NAME`, `dataset/UID`, `broker/ID`, `routers`, or empty for the cluster."""


@dataclass(frozen=True, slots=True)
class ClaimReport:
    """Who owns the Kafka cluster."""

    held: bool
    owner: str = ""
    """Name of the owner found in Kafka."""
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class VolumeReport:
    """One volume. Sizes are rounded to a percent of capacity, so that an idle cluster writes nothing."""

    broker: int
    path: str
    total_bytes: int | None
    used_bytes: int | None
    node: str | None = None
    full_in_days: int | None = None
    """Whole days until it is full if inflow and retention go on as now; None: never within a year, or unknown."""


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """One score of a topic."""

    name: str
    reason: Reason
    """ROUTED: it counted; any other says why it was dropped for the cycle."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class RoutesReport:
    """The table in force of one topic; fills in thousandths of capacity."""

    active: bool
    reason: Reason
    message: str
    owner_epoch: int = 0
    epoch: int = 0
    predicted_max_fill_permille: int | None = None
    optimal_max_fill_permille: int | None = None
    uncapped_max_fill_permille: int | None = None
    uniform_max_fill_permille: int | None = None
    binding_caps: tuple[str, ...] = ()
    """Caps that keep the fullest volume higher than it need be, such as `leader share of broker 3`."""
    steered_percent: int | None = None
    """Share of the topic's inflow that routers steer, in steps of 5; None: not known."""
    scores: tuple[ScoreReport, ...] = ()
    """The scores asked for, and which of them did not count in the newest cycle."""


@dataclass(frozen=True, slots=True)
class TopicReport:
    """A topic as Kafka has it."""

    name: str
    exists: bool
    topic_id: str | None = None
    partitions: int | None = None
    replication_factor: int | None = None
    routes: RoutesReport | None = None
    drift: tuple[str, ...] = ()
    """What differs from what is declared and why it stays so, then what somebody else changed and was set back
    within ten minutes, as sentences."""


@dataclass(frozen=True, slots=True)
class SealReport:
    """The seal record of a dataset: the truth about its revision."""

    digest: str
    """SHA-256 hex of the content manifest: the revision's name."""
    records: int
    shards: int
    data_bytes: int
    """Sum of the shards' files."""
    rejected: int
    journal_offset: int
    schema_digest: str = ""


@dataclass(frozen=True, slots=True)
class DatasetReport:
    """How far an ingest is, from its journal."""

    uid: str
    topics_ready: bool
    planned_records: int | None = None
    planned_slices: int | None = None
    planned_bytes: int | None = None
    acknowledged_records: int = 0
    acknowledged_bytes: int = 0
    finished_slices: int = 0
    rejected_records: int = 0
    round: int = 0
    """How often the sealer reopened slices."""
    reopened_at: int | None = None
    """Journal offset of the newest reopen record that no seal follows."""
    seal: SealReport | None = None
    routes: RoutesReport | None = None


@dataclass(frozen=True, slots=True)
class MovesReport:
    """What `plan moves` says of the newest snapshot."""

    reason: Reason
    message: str
    cure: str | None = None
    """`Route`, `Move` or `None` (planning.moves_plan.Cure); None: not decided, as nothing is routed."""
    routing_seconds: int | None = None
    """Time that routing alone needs until no volume deviates by more than leave_percent; None: it never does."""
    limit_seconds: int | None = None
    """Time until the first volume reaches max_fill_percent; None: not within a year, or not known."""
    proposal: ProposedPlan | None = None
    """A plan for which there is no RebalancePlan yet."""
    moves: int = 0
    move_bytes: int = 0
    deviation_before_permille: int | None = None
    deviation_after_permille: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything the keeper found out."""

    desired_version: str
    claim: ClaimReport | None = None
    """None: not known yet."""
    measured: bool = False
    """A snapshot younger than three intervals is at hand."""
    cluster_id: str | None = None
    brokers: int | None = None
    hosts: Mapping[int, str] = field(default_factory=dict)
    """broker -> host that it advertises: by it the operator finds the pod."""
    volumes: tuple[VolumeReport, ...] = ()
    deviation_permille: int | None = None
    max_fill_permille: int | None = None
    topics: tuple[TopicReport, ...] = ()
    datasets: tuple[DatasetReport, ...] = ()
    moves: MovesReport | None = None
    plan: PlanReport | None = None
    """Of `Desired.plan`."""
    faults: tuple[Fault, ...] = ()
    released: bool = False
    """The claim was given back, as Desired.release asked."""
    settled: bool = False
    """Nothing of any plan is under way in Kafka, for all that this keeper can do about it. False, too, while it does not
    know: without the claim, or before its first turn."""
    schema_version: int = SCHEMA_VERSION

    def is_for(self, desired: Desired) -> bool:
        """Whether the keeper had taken up all that is wanted now when it said this."""
        return self.desired_version == desired.version
