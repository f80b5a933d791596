"""What a Kafka cluster allows, and what to do next: findings for `evenkeel doctor`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from evenkeel.domain.exchange import Policy, TopicRouting
from evenkeel.domain.snapshot import Broker, ClusterSnapshot, Incoming, Partition
from evenkeel.names import INTERNAL_PREFIX, is_dataset_topic
from evenkeel.planning.inflow import FEW_PERCENT
from evenkeel.planning.routing import TopicRoutes, plan_routes
from evenkeel.planning.space import build_space
from evenkeel.reasons import Reason

LEAST_METADATA_VERSION = 19
"""metadata.version of Kafka 3.7, the oldest supported (3.7-IV4)."""
FULL_SHARE = 0.005
"""A gain below half a percent of capacity is not worth routing for."""

NEXT_STEPS: Mapping[Reason, str] = {
    Reason.COMPACTED: "records must stay with their keys: only moves can level it",
    Reason.REPLICATED_EVERYWHERE: "fewer replicas or more brokers",
    Reason.NOT_STEERED: "keyed records stay with their partition: only moves can level it",
    Reason.NO_INFLOW_KNOWN: "run with --seconds 60 while producers write",
    Reason.NO_LEADERS: "bring its brokers back",
    Reason.NOTHING_TO_DO: "more partitions, on other brokers",
    Reason.SNAPSHOT_INCOMPLETE: "see the findings on log directories",
}


class Grade(StrEnum):
    """How bad a finding is."""

    OK = "Ok"
    HINT = "Hint"
    """Works; could be better."""
    UNKNOWN = "Unknown"
    """Could not be found out."""
    BLOCKED = "Blocked"
    """Evenkeel cannot work until this is mended."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    grade: Grade
    message: str
    next_step: str = ""
    """What to do; empty: nothing."""


@dataclass(frozen=True, slots=True)
class TopicOutlook:
    """What routing could do for one topic."""

    topic: str
    partitions: int
    replication_factor: int
    bytes: int | None
    """Of one replica of each partition."""
    steerable_percent: int | None
    """Share of its newest bytes without a key; None: not looked at."""
    routable: bool
    reason: Reason
    message: str
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Rights:
    """What the principals may do, by Kafka's names; None: not told."""

    needed_cluster: frozenset[str]
    needed_topic: frozenset[str]
    cluster: frozenset[str] | None = None
    topics: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was gathered."""

    snapshot: ClusterSnapshot
    metadata_version: int | None = None
    observe: Rights | None = None
    move: Rights | None = None
    steerable: Mapping[str, int] = field(default_factory=dict)
    """Topic -> share of its newest bytes without a key, percent."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The doctor's answer. Fills are fractions of the fullest volume."""

    findings: tuple[Finding, ...]
    topics: tuple[TopicOutlook, ...]
    max_fill: float | None = None
    uniform_max_fill: float | None = None
    routed_max_fill: float | None = None

    @property
    def blocked(self) -> bool:
        """Whether something must be mended first."""
        return any(finding.grade is Grade.BLOCKED for finding in self.findings)


def diagnose(facts: Facts) -> Diagnosis:
    """Judge what was gathered.

    Raises:
        InputError: the snapshot holds an impossible value.
    """
    snapshot = _with_steerable(facts)
    topics = users_topics(snapshot)
    plan = plan_routes(snapshot, dict.fromkeys(topics, TopicRouting()), Policy()).topics
    gain = next((routes for routes in plan.values() if routes.active), None)
    return Diagnosis(
        findings=tuple(_findings(facts, gain)),
        topics=tuple(_outlooks(snapshot, plan, facts.steerable)),
        max_fill=_fullest(snapshot),
        uniform_max_fill=gain.uniform_max_fill if gain else None,
        routed_max_fill=gain.predicted_max_fill if gain else None,
    )


def users_topics(snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """Topics that a user may want to declare, the largest first: neither internal nor Evenkeel's own."""
    internal = {topic.name for topic in snapshot.topics if topic.internal}
    names = {partition.topic for partition in snapshot.partitions} - internal
    mine = [name for name in names if not name.startswith(INTERNAL_PREFIX) and not is_dataset_topic(name)]
    sizes = {topic: _topic_bytes(rows) or 0 for topic, rows in snapshot.group_partitions(mine).items()}
    return tuple(sorted(mine, key=lambda name: (-sizes[name], name)))


def _with_steerable(facts: Facts) -> ClusterSnapshot:
    """Topics are planned with the share that could be steered, not with today's."""

    def steer(incoming: Incoming) -> Incoming:
        return replace(incoming, steered_percent=facts.steerable.get(incoming.topic, 100))

    return replace(facts.snapshot, incoming=tuple(map(steer, facts.snapshot.incoming)))


def _findings(facts: Facts, gain: TopicRoutes | None) -> Iterator[Finding]:
    yield _judge_version(facts.metadata_version)
    yield from _judge_brokers(facts.snapshot.brokers)
    if facts.observe is not None:
        yield _judge_rights("rights to observe", facts.observe, "observe", Grade.BLOCKED)
    if facts.move is not None:
        yield _judge_rights("rights to move", facts.move, "move", Grade.HINT)
    yield from _judge_volumes(facts.snapshot)
    yield _judge_gain(gain)


def _judge_version(version: int | None) -> Finding:
    subject = "Kafka version"
    if version is None:
        return Finding(
            subject,
            Grade.UNKNOWN,
            "the cluster names no metadata.version: it is older than 3.3, or runs with ZooKeeper",
            "Evenkeel is tested with Kafka 3.7 and newer in KRaft mode",
        )
    if version < LEAST_METADATA_VERSION:
        what = f"metadata.version is {version}, Kafka 3.7 has {LEAST_METADATA_VERSION}"
        return Finding(subject, Grade.HINT, what, "Evenkeel is tested with Kafka 3.7 and newer")
    return Finding(subject, Grade.OK, f"metadata.version is {version}: 3.7 or newer")


def _judge_brokers(brokers: Iterable[Broker]) -> Iterator[Finding]:
    away = [broker.id for broker in brokers if broker.fenced or not broker.online]
    there = [broker for broker in brokers if broker.id not in away]
    if away:
        what = f"brokers {_some(away)} do not answer"
        yield Finding("brokers", Grade.HINT, what, "bring them back, or unregister those that are gone")
    silent = [broker.id for broker in there if not broker.log_dirs]
    if silent:
        what = f"brokers {_some(silent)} name no log directories"
        yield Finding("log directories", Grade.BLOCKED, what, "grant Describe on the Cluster (evenkeel acl)")
    sizeless = [
        broker.id
        for broker in there
        if any(one.online and one.total_bytes is None for one in broker.log_dirs)
    ]
    if sizeless:
        what = f"brokers {_some(sizeless)} do not tell the sizes of their disks"
        yield Finding("log directories", Grade.BLOCKED, what, "they are older than Kafka 3.3: upgrade")
    for word, step, bad in (
        ("offline", "replace the disk, then start the broker again", lambda one: not one.online),
        (
            "cordoned",
            "nothing new is placed there until cordoned.log.dirs is lifted",
            lambda one: one.cordoned,
        ),
    ):
        named = [f"{b.id}:{one.path}" for b in there for one in b.log_dirs if bad(one)]
        if named:
            yield Finding("log directories", Grade.HINT, f"{_some(named)} {word}", step)
    if not (away or silent or sizeless):
        count = sum(len(broker.log_dirs) for broker in there)
        yield Finding("log directories", Grade.OK, f"{count} measured on {len(there)} brokers")


def _judge_rights(subject: str, rights: Rights, principal: str, grade: Grade) -> Finding:
    step = f"evenkeel acl --principal {principal} prints what to grant"
    if rights.cluster is None:
        return Finding(subject, Grade.UNKNOWN, "the brokers do not say what this principal may do", step)
    missing = [f"{operation} on the Cluster" for operation in sorted(rights.needed_cluster - rights.cluster)]
    for operation in sorted(rights.needed_topic):
        lacking = [name for name, has in sorted(rights.topics.items()) if operation not in has]
        if lacking:
            missing.append(f"{operation} on {_some(lacking)}")
    if missing:
        return Finding(subject, grade, "missing: " + "; ".join(missing), step)
    return Finding(subject, Grade.OK, "all that can be asked for; transactional ids cannot be")


def _judge_volumes(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    space = build_space(snapshot)
    if space.unknown or not space.volumes:
        return
    fills = {volume.name: volume.used_bytes / volume.total_bytes for volume in space.volumes}
    mean = float(space.used.sum() / space.capacity.sum())
    fullest = max(fills, key=lambda name: fills[name])
    spread = f"fills from {min(fills.values()):.1%} to {fills[fullest]:.1%} ({fullest}), mean {mean:.1%}"
    limit = Policy().max_fill_percent / 100
    if fills[fullest] > limit:
        step = "make room now: a full disk halts its broker"
        yield Finding("storage", Grade.HINT, f"{fullest} is above {limit:.0%}; {spread}", step)
    elif mean > 0 and fills[fullest] / mean - 1 > Policy().enter_percent / 100:
        yield Finding("storage", Grade.HINT, spread, "declare the topics below, or see evenkeel plan moves")
    else:
        yield Finding("storage", Grade.OK, spread)


def _judge_gain(gain: TopicRoutes | None) -> Finding:
    subject = "routing"
    if gain is None:
        return Finding(subject, Grade.HINT, "no topic can be routed", "the table of topics says why")
    predicted, uniform = gain.predicted_max_fill or 0.0, gain.uniform_max_fill or 0.0
    what = f"the fullest volume would go to {predicted:.1%} with routing, {uniform:.1%} without"
    if uniform - predicted <= FULL_SHARE:
        return Finding(subject, Grade.OK, what)
    return Finding(subject, Grade.HINT, what, "declare BalancedTopics for the routable topics below")


def _outlooks(
    snapshot: ClusterSnapshot, plan: Mapping[str, TopicRoutes], steerable: Mapping[str, int]
) -> Iterator[TopicOutlook]:
    grouped = snapshot.group_partitions(plan)
    outlooks = [
        _outlook(topic, grouped[topic], routes, steerable.get(topic)) for topic, routes in plan.items()
    ]
    yield from sorted(outlooks, key=lambda one: (-(one.bytes or 0), one.topic))


def _outlook(
    topic: str, partitions: list[Partition], routes: TopicRoutes, steerable: int | None
) -> TopicOutlook:
    few = routes.active and steerable is not None and steerable < FEW_PERCENT
    step = NEXT_STEPS.get(routes.reason, "")
    if routes.active:
        step = _advise(steerable)
    return TopicOutlook(
        topic=topic,
        partitions=len(partitions),
        replication_factor=min(len(partition.replicas) for partition in partitions),
        bytes=_topic_bytes(partitions),
        steerable_percent=steerable,
        routable=routes.active and not few,
        reason=routes.reason,
        message=routes.message,
        next_step=step,
    )


def _advise(steerable: int | None) -> str:
    """What to do about a topic that routes would help, by the share of its records that have no key."""
    declare = "declare a BalancedTopic; use evenkeel.router.Producer or the Java partitioner"
    if steerable is None:
        return f"no record was looked at: if most have no key, {declare}"
    return "most records have keys: moves will help more than routing" if steerable < FEW_PERCENT else declare


def _topic_bytes(partitions: Iterable[Partition]) -> int | None:
    sizes = [max(partition.replica_bytes.values(), default=None) for partition in partitions]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _fullest(snapshot: ClusterSnapshot) -> float | None:
    space = build_space(snapshot)
    return float((space.used / space.capacity).max()) if space.volumes else None


def _some(names: Iterable[object]) -> str:
    words = [str(name) for name in names]
    return ", ".join(words[:3]) + (f" and {len(words) - 3} more" if len(words) > 3 else "")  # noqa: PLR2004
