"""BalancedTopic: one topic whose settings and routes Evenkeel keeps."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from evenkeel.api.fields import Count, Permille, TopicName, listing, rule, rules, unchanging
from evenkeel.api.meta import OBJECT_NAME, Base, Column, Definition, ObjectRef, Resource, State, Status
from evenkeel.domain.exchange import DeletionPolicy, Score, TopicRouting

CAPS_SHOWN = 16
DRIFT_SHOWN = 16

CLUSTER_REF_STAYS = rule(
    "!has(self.status) || !has(self.status.clusterRef) || !has(self.spec.clusterRef)"
    " || (self.spec.clusterRef.name == self.status.clusterRef.name"
    " && (!has(self.spec.clusterRef.__namespace__)"
    " || self.spec.clusterRef.__namespace__ == self.status.clusterRef.__namespace__))",
    "clusterRef must not change once status.clusterRef names a cluster: the data stays where it is",
    fieldPath=".spec.clusterRef",
)
"""A wrong reference can be mended until it was resolved, not after."""


class ConfigEntry(Base):
    """One setting of a topic."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[a-z][a-z0-9.]*$")]
    """Kafka's name of the setting, such as `retention.ms`."""
    value: Annotated[str, Field(max_length=1024)]
    """Its value as text, as Kafka's own tools take it."""


class ScoreParameter(Base):
    """One setting of a score."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9._-]*$")]
    """Its name, such as `rack`; which there are is the score's business."""
    value: Annotated[str, Field(max_length=256)]
    """Its value as text."""


class ScoreWeight(Base):
    """A cost that routes take into account."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Z][A-Za-z0-9]*$")]
    """Name of the score: `Storage` (what the fill of disks will be), `DataDistribution`, `NodeLoad`, `WriteLatency`,
    `RackLocality`, or that of an installed package."""
    weight_percent: Annotated[int, Field(ge=0, le=1000)] = 100
    """Its weight in percent of the usual one; 0 switches it off."""
    parameters: Annotated[tuple[ScoreParameter, ...], listing("map", most=16, keys=("name",))] = ()
    """Settings of the score. An unknown or impossible one drops the score, with a reason in status."""

    def domain(self) -> Score:
        """The same as the keeper is told."""
        return Score(self.name, self.weight_percent, {item.name: item.value for item in self.parameters})


class TopicRoutingSpec(Base):
    """How new bytes are spread over the topic's partitions."""

    scores: Annotated[tuple[ScoreWeight, ...], listing("map", most=16, keys=("name",))] = (
        ScoreWeight(name="Storage"),
    )
    """Costs by which partitions are weighed; default: Storage alone."""
    horizon_seconds: Annotated[int, Field(ge=60, le=31_536_000)] = 86_400
    """How far ahead disks should be level, in seconds, but no further than to the day they are full; longer is
    calmer, shorter reacts faster."""
    stale_after_seconds: Annotated[int, Field(ge=60, le=86_400)] = 600
    """Age of a measurement, in seconds, after which routers begin to fall back to uniform weights."""

    def domain(self) -> TopicRouting:
        """The same as the keeper is told."""
        return TopicRouting(
            scores=tuple(item.domain() for item in self.scores),
            horizon_seconds=self.horizon_seconds,
            stale_after_seconds=self.stale_after_seconds,
        )


class BalancedTopicSpec(Base):
    """The topic as it should be. What is absent is not managed: an existing topic keeps it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.partitions) || !has(oldSelf.partitions) || self.partitions >= oldSelf.partitions",
                "partitions must not be lowered: Kafka cannot take partitions away",
                fieldPath=".partitions",
                reason="FieldValueForbidden",
            )
        )
    )

    state: State = State.ACTIVE
    """Paused: the topic is measured and routed as it is, and not changed."""
    cluster_ref: ObjectRef | None = None
    """BalancedCluster of the topic; may be absent where exactly one admits this namespace.
    Cannot change once status.clusterRef is set."""
    topic_name: Annotated[
        TopicName,
        Field(
            json_schema_extra=rules(
                unchanging("topicName", "declare another BalancedTopic for another topic"),
                rule(
                    "!self.startsWith('__')",
                    "topicName must not begin with __: such topics are internal to Kafka or Evenkeel",
                ),
                rule("self != '.' && self != '..'", "topicName must not be . or .."),
            )
        ),
    ]
    """Name of the topic in Kafka; cannot change."""
    partitions: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Number of partitions; may only grow. Default: as the topic has, or max(12, 6 x brokers) for a new one."""
    replication_factor: Annotated[int, Field(ge=1, le=32)] | None = None
    """Copies of each partition. Default: as the topic has, or min(3, brokers) for a new one."""
    config: Annotated[
        tuple[ConfigEntry, ...],
        listing("map", most=64, keys=("name",)),
        Field(
            json_schema_extra=rules(
                rule(
                    "self.all(entry, !entry.name.endsWith('.replication.throttled.replicas'))",
                    "config must not set replication throttles: moves manage them",
                )
            )
        ),
    ] = ()
    """Settings to keep; those not listed are left as they are."""
    routing: TopicRoutingSpec = TopicRoutingSpec()
    """How new bytes are spread over the partitions."""
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    """What becomes of the topic and its data when this object is deleted: Retain keeps them, Delete removes them."""


class ScoreStatus(Base):
    """One score that routes were asked to take into account."""

    name: Annotated[str, Field(max_length=63)]
    """Name of the score."""
    reason: Annotated[str, Field(max_length=128)]
    """Routed: it counts; any other word says why it was left out of the newest cycle."""
    message: Annotated[str, Field(max_length=1024)] = ""
    """The same as a sentence; empty where it counts."""


class RoutesStatus(Base):
    """The newest routes table; the condition RoutesActive says whether it steers producers.

    Fills are of the fullest volume, in thousandths of its capacity.
    """

    owner_epoch: Count = 0
    """Epoch of the keeper's claim that published the table."""
    epoch: Count = 0
    """Number of the table within that claim."""
    predicted_max_fill_permille: Permille | None = None
    """Fill at the end of the horizon with these routes; this and the three below are absent where little inflow is
    expected: the weights steer what comes then, and there is nothing to foretell."""
    optimal_max_fill_permille: Permille | None = None
    """The lowest that any routes within the caps can reach."""
    uncapped_max_fill_permille: Permille | None = None
    """The lowest without the caps."""
    uniform_max_fill_permille: Permille | None = None
    """Fill with equal shares for all partitions."""
    binding_caps: Annotated[
        tuple[Annotated[str, Field(max_length=128)], ...], listing("atomic", most=CAPS_SHOWN)
    ] = ()
    """Caps that keep the fullest volume higher than it need be, such as `leader share of broker 3`, up to 16."""
    steered_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """Share of the topic's inflow that routers steer, in percent, in steps of 5; the last one known while
    heartbeats of routers cannot be read or believed; absent: never known."""
    scores: Annotated[tuple[ScoreStatus, ...], listing("map", most=16, keys=("name",))] = ()
    """The scores asked for, and which of them did not count in the newest cycle."""


class BalancedTopicStatus(Status):
    """The topic as it is."""

    cluster_ref: ObjectRef | None = None
    """BalancedCluster of the topic, written once."""
    topic_id: Annotated[str, Field(max_length=64)] | None = None
    """Kafka's id of the topic."""
    partitions: Count | None = None
    """Number of partitions it has."""
    replication_factor: Count | None = None
    """Copies of each partition."""
    drift: Annotated[
        tuple[Annotated[str, Field(max_length=512)], ...], listing("atomic", most=DRIFT_SHOWN)
    ] = ()
    """What of the topic is not as declared and why it stays so, then what somebody else changed and was set
    back within ten minutes; up to 16 sentences."""
    managed_by: Annotated[str, Field(max_length=320)] | None = None
    """KafkaTopic of Strimzi, as `namespace/name`, that manages the topic; then Evenkeel only routes it."""
    routes: RoutesStatus | None = None
    """The newest routes table and what it is expected to do; absent: none was made."""


class BalancedTopic(Resource):
    """One topic whose settings and routes Evenkeel keeps.

    Ready means: the topic exists as declared. RoutesActive is separate.
    """

    model_config = ConfigDict(json_schema_extra=rules(CLUSTER_REF_STAYS))

    definition: ClassVar[Definition] = Definition(
        plural="balancedtopics",
        short_name="btp",
        columns=(
            Column("Routes", "string", ".status.conditions[?(@.type=='RoutesActive')].reason"),
            Column("PredictedPermille", "integer", ".status.routes.predictedMaxFillPermille"),
            Column("OptimalPermille", "integer", ".status.routes.optimalMaxFillPermille"),
            Column("UniformPermille", "integer", ".status.routes.uniformMaxFillPermille", wide=True),
            Column("SteeredPercent", "integer", ".status.routes.steeredPercent", wide=True),
            Column("Partitions", "integer", ".status.partitions", wide=True),
            Column("Topic", "string", ".spec.topicName", wide=True),
            Column("Cluster", "string", ".status.clusterRef.name", wide=True),
        ),
        name_pattern=OBJECT_NAME,
    )

    kind: str = "BalancedTopic"
    spec: BalancedTopicSpec
    """The topic as it should be."""
    status: BalancedTopicStatus = BalancedTopicStatus()
    """The topic as it is; written by Evenkeel alone."""
