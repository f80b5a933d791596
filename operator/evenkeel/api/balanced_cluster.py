"""BalancedCluster: one Kafka cluster that Evenkeel measures and keeps level."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from evenkeel.api.balance import Balance
from evenkeel.api.fields import (
    Bytes,
    Count,
    Labels,
    NamespaceName,
    Permille,
    listing,
    quantity_bytes,
    rule,
    rules,
)
from evenkeel.api.meta import (
    OBJECT_NAME,
    AllowedNamespaces,
    Base,
    Column,
    Definition,
    PodDefaults,
    Resource,
    SecretRef,
    State,
    Status,
)
from evenkeel.domain.connection import Protocol, SaslMechanism
from evenkeel.domain.exchange import LoadSource, Policy

_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_HOST = r"([A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]])"
_ADDRESS = rf"^{_HOST}:{_PORT}$"

Address = Annotated[
    str,
    Field(
        min_length=3,
        max_length=260,
        json_schema_extra=rules(
            rule(
                f"self.matches('{_ADDRESS}')",
                "bootstrapServers must each be HOST:PORT with a port from 1 to 65535",
            )
        ),
    ),
]


class Security(Base):
    """How the connection to Kafka is protected."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.protocol.startsWith('Sasl') == has(self.saslMechanism)",
                "saslMechanism must be set when protocol is SaslPlaintext or SaslTls, and only then",
                fieldPath=".saslMechanism",
            ),
            rule(
                "!has(self.caCertificates) || self.protocol in ['Tls', 'SaslTls']",
                "caCertificates must be set only when protocol is Tls or SaslTls",
                fieldPath=".caCertificates",
            ),
        )
    )

    protocol: Protocol = Protocol.PLAINTEXT
    """Kafka's security protocol of the listener that bootstrapServers name."""
    sasl_mechanism: SaslMechanism | None = None
    """How the password is proved; required with SaslPlaintext and SaslTls."""
    ca_certificates: (
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=65_536,
                json_schema_extra=rules(
                    rule(
                        "self.contains('-----BEGIN CERTIFICATE-----')",
                        "caCertificates must hold certificates as PEM",
                    ),
                    rule(
                        "!self.contains('PRIVATE KEY')",
                        "caCertificates must not hold a private key: it belongs into a Secret",
                    ),
                ),
            ),
        ]
        | None
    ) = None
    """Certificates that sign the brokers' own, as PEM, public; default: those of the operating system."""


class Credentials(Base):
    """Secrets with which the keeper of this cluster signs in."""

    observe: SecretRef
    """For measuring and for Evenkeel's own topics."""
    move: SecretRef
    """With the right to alter the cluster and its topics; used for moves and topic changes only.
    May be the same Secret as `observe`."""


class LoadQuery(Base):
    """A PromQL expression that tells one load of every broker or of its node."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z][A-Za-z0-9]*$")]
    """Load that it tells: `diskUtilisation`, `cpu` or `network` as a fraction, `produceLatencyMs` in milliseconds,
    or one that a score of your own reads."""
    query: Annotated[str, Field(max_length=4096)]
    """Expression that gives one series per broker (label `broker`) or node (labels `node`, `nodename`, `instance`);
    empty asks nothing."""


class PrometheusSource(Base):
    """A Prometheus server that scrapes the brokers' nodes."""

    url: Annotated[
        str,
        Field(
            min_length=1,
            max_length=512,
            json_schema_extra=rules(
                rule(
                    "isURL(self) && url(self).getScheme() in ['http', 'https'] && !self.contains('@')",
                    "url must be http://HOST:PORT or https://HOST:PORT, without a user and password",
                )
            ),
        ),
    ]
    """Its base address, such as `http://prometheus.monitoring:9090`; redirects are not followed."""
    queries: Annotated[tuple[LoadQuery, ...], listing("map", most=32, keys=("name",))] = ()
    """Queries by load; those that are absent are made for node-exporter and Kafka's JMX exporter."""
    timeout_seconds: Annotated[int, Field(ge=1, le=60)] = 5
    """How long one answer may take, in seconds; routing never waits for it."""

    def domain(self) -> LoadSource:
        """The same as the keeper is told."""
        queries = {item.name: item.query for item in sorted(self.queries, key=lambda one: one.name)}
        return LoadSource(self.url.rstrip("/"), queries, self.timeout_seconds)


class Measure(Base):
    """How the cluster is measured."""

    interval_seconds: Annotated[int, Field(ge=5, le=300)] = 15
    """Time between two measurements, in seconds; Ready turns false when three are missed."""
    prometheus: PrometheusSource | None = None
    """Where loads of nodes come from, for the score NodeLoad; default: nowhere."""


class Routing(Base):
    """How routes are planned, for all topics of the cluster."""

    slack_permille: Annotated[int, Field(ge=0, le=100)] = 5
    """How far above the best possible level the fullest volume may end for the sake of smooth weights,
    in thousandths of its capacity."""


class BrokerIdSource(StrEnum):
    """How a broker's pod is recognised."""

    HOST = "Host"
    POD_INDEX = "PodIndex"
    LABEL = "Label"


class BrokerPods(Base):
    """Where the brokers' pods are, and which of them is which broker.

    With it Evenkeel knows the node of each broker, and which log directories share one volume. What cannot
    be told stays unknown.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "(self.idFrom == 'Label') == has(self.idLabel)",
                "idLabel must be set when idFrom is Label, and only then",
                fieldPath=".idLabel",
            )
        )
    )

    namespace: NamespaceName | None = None
    """Namespace of the brokers' pods; default: that of this object."""
    match_labels: Annotated[Labels, Field(min_length=1)]
    """Labels that a broker's pod carries, all of them."""
    id_from: BrokerIdSource = BrokerIdSource.HOST
    """Host: the pod whose DNS name, address or (with hostNetwork) node the broker advertises; PodIndex: the
    number of the pod within its StatefulSet or at the end of its name; Label: the label that idLabel names."""
    id_label: Annotated[str, Field(min_length=1, max_length=317)] | None = None
    """Label of the pods whose value is the broker's id, when idFrom is Label."""
    first_id: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Id of the broker in the pod with number 0, when idFrom is PodIndex."""


class BalancedClusterSpec(Base):
    """What to connect to and how level to keep it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.security.protocol == 'Plaintext' || has(self.credentials)",
                "credentials must be set unless security.protocol is Plaintext",
                fieldPath=".credentials",
                reason="FieldValueRequired",
            ),
            rule(
                "self.security.protocol != 'Plaintext' || !has(self.credentials)",
                "credentials must not be set when security.protocol is Plaintext: nothing would use them",
                fieldPath=".credentials",
                reason="FieldValueForbidden",
            ),
        )
    )

    state: State = State.ACTIVE
    """Paused: measure and report only."""
    bootstrap_servers: Annotated[tuple[Address, ...], listing("set", least=1, most=16)]
    """Addresses of some brokers as `host:port`; the others are found through them."""
    security: Security = Security()
    """How the connection is protected; default: not at all."""
    credentials: Credentials | None = None
    """Secrets to sign in with; required unless security.protocol is Plaintext."""
    allowed_namespaces: AllowedNamespaces = AllowedNamespaces()
    """Namespaces whose topics and datasets may use this cluster."""
    measure: Measure = Measure()
    """How the cluster is measured."""
    balance: Balance = Balance()
    """When replicas should move between disks."""
    routing: Routing = Routing()
    """How routes are planned."""
    brokers: BrokerPods | None = None
    """Where the brokers' pods are; default: the brokers' nodes and shared volumes are not known."""
    pod_defaults: PodDefaults = PodDefaults()
    """Scheduling and size of the keeper's pod."""

    def policy(self) -> Policy:
        """What the keeper is told of measure, balance and routing."""
        budget = self.balance.move_budget_bytes
        return Policy(
            interval_seconds=self.measure.interval_seconds,
            mode=self.balance.mode,
            enter_percent=self.balance.enter_percent,
            leave_percent=self.balance.leave_percent,
            max_fill_percent=self.balance.max_fill_percent,
            exclude_topics=tuple(sorted(self.balance.exclude_topics)),
            slack_percent=self.routing.slack_permille / 10,
            move_budget_bytes=None if budget is None else quantity_bytes(budget),
            loads=self.measure.prometheus.domain() if self.measure.prometheus is not None else None,
            throttle_bytes_per_second=self.balance.throttle.fixed(),
            drain=tuple(sorted(self.balance.drain_brokers)),
        )


class VolumeStatus(Base):
    """One volume of a broker. Sizes are rounded to a percent of capacity."""

    broker: Count
    """Id of the broker."""
    path: Annotated[str, Field(max_length=1024)]
    """Its log directory."""
    total_bytes: Bytes | None = None
    """Size of the file system, in bytes; absent: unknown or offline."""
    used_bytes: Bytes | None = None
    """What is used of it, in bytes, by whomever; absent: unknown."""
    node: Annotated[str, Field(max_length=253)] | None = None
    """Kubernetes node of the broker, where it is known."""
    full_in_days: Count | None = None
    """Whole days until it is full if inflow and retention go on as now; absent: not within a year, or not known."""


class MovesStatus(Base):
    """What moving replicas would bring, as of the newest measurement."""

    reason: Annotated[str, Field(max_length=128)]
    """Why these moves, or none, as one CamelCase word."""
    message: Annotated[str, Field(max_length=4096)]
    """The same as a sentence."""
    moves: Count = 0
    """Replicas that would move."""
    move_bytes: Bytes = 0
    """Bytes that would be copied."""
    deviation_before_permille: Permille | None = None
    """Largest difference of a volume's fill from the mean now, in thousandths of the mean."""
    deviation_after_permille: Permille | None = None
    """The same after the moves."""
    cure: Annotated[str, Field(max_length=32)] | None = None
    """What heals the imbalance: Route, Move or None; absent: not decided, as nothing is routed."""
    routing_seconds: Count | None = None
    """Time that routing alone needs, in seconds; absent: it never heals it, or nothing is routed."""
    limit_seconds: Count | None = None
    """Time until the first volume reaches maxFillPercent, in seconds; absent: not within a year, or not known."""
    plan: Annotated[str, Field(max_length=63)] | None = None
    """Name of the RebalancePlan that is not finished; absent: there is none."""


class BalancedClusterStatus(Status):
    """What was found."""

    cluster_id: Annotated[str, Field(max_length=128)] | None = None
    """Kafka's id of the cluster."""
    brokers: Count | None = None
    """Number of brokers."""
    volumes: Annotated[tuple[VolumeStatus, ...], listing("map", most=512, keys=("broker", "path"))] = ()
    """Every volume of every broker, up to 512."""
    deviation_permille: Permille | None = None
    """Largest difference of a volume's fill from the mean, in thousandths of the mean."""
    max_fill_permille: Permille | None = None
    """Fill of the fullest volume, in thousandths of its capacity."""
    claim_owner: Annotated[str, Field(max_length=512)] | None = None
    """Who owns the Kafka cluster, as written in Kafka: `namespace/name` of a BalancedCluster."""
    moves: MovesStatus | None = None
    """What moving replicas would bring."""


class BalancedCluster(Resource):
    """One Kafka cluster that Evenkeel measures and keeps level.

    Ready means: measured within the last three intervals. Balanced, PlanPending and StorageLow are separate.
    """

    definition: ClassVar[Definition] = Definition(
        plural="balancedclusters",
        short_name="bcl",
        columns=(
            Column("MaxFillPermille", "integer", ".status.maxFillPermille"),
            Column("DeviationPermille", "integer", ".status.deviationPermille"),
            Column("Brokers", "integer", ".status.brokers", wide=True),
            Column("Cluster-Id", "string", ".status.clusterId", wide=True),
        ),
        name_pattern=OBJECT_NAME,
    )

    kind: str = "BalancedCluster"
    spec: BalancedClusterSpec
    """What to connect to and how level to keep it."""
    status: BalancedClusterStatus = BalancedClusterStatus()
    """What was found; written by Evenkeel alone."""
