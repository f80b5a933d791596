"""Decides what to do so that topics are as declared. Only explicit deletions delete; nothing is lowered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from evenkeel import names
from evenkeel.domain.exchange import BalanceMode, Deletion, Desired, DesiredDataset, DesiredTopic, Fault
from evenkeel.domain.snapshot import Broker
from evenkeel.errors import InputError
from evenkeel.kafka.answers import TopicAnswer
from evenkeel.kafka.topics import (
    TopicSpec,
    data_topic,
    dataset_topics,
    guarded_config,
    internal_topics,
    journal_topic,
    topic_role,
)
from evenkeel.planning.placement import plan_assignments
from evenkeel.reasons import Reason

Assignments = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Make a topic with explicit replicas."""

    name: str
    assignments: Assignments
    config: Mapping[str, str]
    subject: str


@dataclass(frozen=True, slots=True)
class GrowTopic:
    """Add partitions; `assignments` are those of the new ones."""

    name: str
    count: int
    assignments: Assignments
    subject: str


@dataclass(frozen=True, slots=True)
class SetConfig:
    """Set these keys, leave others."""

    name: str
    config: Mapping[str, str]
    subject: str


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete a topic, as its owner asked."""

    name: str
    subject: str


Action = CreateTopic | GrowTopic | SetConfig | DeleteTopic


@dataclass(frozen=True, slots=True)
class FoundTopics:
    """The cluster as measured."""

    topics: Mapping[str, TopicAnswer]
    configs: Mapping[str, Mapping[str, str] | None]
    """Values in force of at least the desired keys; None: unknown, then nothing is changed."""
    brokers: tuple[Broker, ...]
    empty: frozenset[str] = frozenset()
    """Topics of which it is known that they hold no record."""

    @property
    def online(self) -> list[Broker]:
        """Brokers that can take replicas now."""
        return [broker for broker in self.brokers if broker.online and not broker.fenced]


@dataclass(slots=True)
class TopicsPlan:
    """What to do, and what cannot be done."""

    actions: list[Action] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def say(self, reason: Reason, message: str, subject: str) -> None:
        """Add a fault."""
        self.faults.append(Fault(reason, message, subject))


def config_keys(desired: Desired) -> tuple[str, ...]:
    """Topic settings that a measurement must ask for, so that `plan_topics` can compare them."""
    return tuple(sorted({key for topic in desired.topics for key in topic.config}))


def plan_internal(found: FoundTopics) -> list[Action]:
    """The topics that Evenkeel itself needs on every cluster, as far as they are missing."""
    missing = [spec for spec in internal_topics(len(found.online)) if spec.name not in found.topics]
    return [_create(spec, found.online, spec.config, "") for spec in missing]


def plan_topics(desired: Desired, found: FoundTopics) -> TopicsPlan:
    """Actions and faults for declared topics, datasets and deletions."""
    plan = TopicsPlan()
    for topic in desired.topics:
        _plan_topic(plan, topic, desired, found)
    for dataset in desired.datasets:
        _plan_dataset(plan, dataset, desired, found)
    for deletion in desired.deletions:
        _plan_deletion(plan, deletion, desired, found)
    return plan


def build_refused(action: Action, reason: Reason, why: str) -> Fault:
    """What is said of an action that is due and may not be done."""
    return Fault(reason, f"topic {action.name} is not as declared and is not changed: {why}", action.subject)


def _is_reserved(plan: TopicsPlan, name: str, found: FoundTopics, subject: str) -> bool:
    """Whether nobody may declare or delete a topic, and if so says it."""
    existing = found.topics.get(name)
    if name.startswith(names.INTERNAL_PREFIX) or (existing is not None and existing.internal):
        plan.say(
            Reason.INTERNAL_TOPIC, f"topic {name} is internal: it is neither changed nor deleted", subject
        )
        return True
    if names.is_dataset_topic(name):
        message = f"topic {name} belongs to a TrainingDataset: it is neither changed nor deleted from here"
        plan.say(Reason.CONFLICT, message, subject)
        return True
    return False


def _plan_topic(plan: TopicsPlan, topic: DesiredTopic, desired: Desired, found: FoundTopics) -> None:
    subject = f"topic/{topic.name}"
    if _is_reserved(plan, topic.name, found, subject):
        return
    existing = found.topics.get(topic.name)
    if existing is not None:
        helps = _explain_copies(topic, desired)
        _check_shape(plan, existing, topic.partitions, topic.replication_factor, subject, helps)
        _grow(plan, existing, topic.partitions, found, subject)
        _set_config(plan, topic.name, _without_guarded(plan, topic, existing, desired), found, subject)
    elif not topic.create:
        plan.say(Reason.TOPIC_MISSING, f"topic {topic.name} does not exist", subject)
    else:
        brokers = len(found.brokers)
        spec = TopicSpec(
            topic.name,
            topic.partitions if topic.partitions is not None else max(12, 6 * brokers),
            topic.replication_factor if topic.replication_factor is not None else min(3, brokers),
            topic.config,
        )
        _create_or_say(plan, spec, found, subject)


def _without_guarded(
    plan: TopicsPlan, topic: DesiredTopic, existing: TopicAnswer, desired: Desired
) -> Mapping[str, str]:
    """The declared settings, less those that a dataset on the topic needs otherwise: both would fight for ever."""
    user = next((one for one in desired.datasets if one.data_topic == topic.name), None)
    if user is None:
        return topic.config
    guarded = guarded_config(_copies(existing))
    clash = {
        key for key, value in topic.config.items() if key in guarded and not is_same(guarded[key], value)
    }
    if clash:
        told = ", ".join(f"{key}={topic.config[key]} (needs {guarded[key]})" for key in sorted(clash))
        message = f"config: not set on topic {topic.name}, for TrainingDataset {user.name} would lose records: {told}"
        plan.say(Reason.RETENTION_UNSAFE, message, f"topic/{topic.name}")
    return {key: value for key, value in topic.config.items() if key not in clash}


def _refuse_dataset(
    dataset: DesiredDataset, desired: Desired, found: FoundTopics
) -> tuple[Reason, str] | None:
    """Why nothing is made or set for a dataset, or None."""
    journal = journal_topic(dataset)
    if not dataset.follow:
        specs = dataset_topics(dataset, len(found.brokers))
        # What the rejected topic holds is not needed to read the revision.
        wanted = {data_topic(dataset), *(spec.name for spec in specs if not spec.name.endswith("-rejected"))}
        gone = sorted(wanted - found.topics.keys())
        if gone:
            topics = ", ".join(gone)
            message = f"topic {topics} of the sealed dataset {dataset.name} is not there, or may not be seen"
            return Reason.DATA_LOST, message
    if dataset.data_topic is not None and journal not in found.topics:
        if dataset.data_topic not in found.topics:
            if any(one.name == dataset.data_topic and one.create for one in desired.topics):
                return None
            return Reason.TOPIC_MISSING, f"topicRef: topic {dataset.data_topic} does not exist"
        if dataset.data_topic not in found.empty:
            message = (
                f"topicRef: topic {dataset.data_topic} holds records, whose retention would change: name an "
                "empty one"
            )
            return Reason.CONFLICT, message
    return None


def _plan_dataset(plan: TopicsPlan, dataset: DesiredDataset, desired: Desired, found: FoundTopics) -> None:
    subject = f"dataset/{dataset.uid}"
    refusal = _refuse_dataset(dataset, desired, found)
    if refusal is not None:
        plan.say(*refusal, subject)
        if refusal[0] is not Reason.DATA_LOST:
            return
    for spec in dataset_topics(dataset, len(found.brokers)):
        existing = found.topics.get(spec.name)
        if existing is None and refusal is None:
            _create_or_say(plan, spec, found, subject)
        elif existing is not None and spec.name == data_topic(dataset):
            helps = "topics of a TrainingDataset keep the number they were made with"
            _check_shape(plan, existing, dataset.partitions, dataset.replication_factor, subject, helps)
            _grow(plan, existing, dataset.partitions, found, subject)
    own = {spec.name for spec in dataset_topics(dataset, len(found.brokers))} | {data_topic(dataset)}
    for name in sorted(own & found.topics.keys()):
        _guard(plan, found.topics[name], dataset, found, subject)
    data = found.topics.get(data_topic(dataset))
    if data is not None and _copies(data) == 1:
        message = f"topic {data.name} has one copy of each record: a lost disk loses the dataset"
        plan.say(Reason.SINGLE_COPY, message, subject)


def _guard(
    plan: TopicsPlan, topic: TopicAnswer, dataset: DesiredDataset, found: FoundTopics, subject: str
) -> None:
    """Set back what would let records of a dataset vanish, and say so."""
    config = found.configs.get(topic.name)
    if config is None:
        return
    wanted = guarded_config(_copies(topic), topic_role(dataset, topic.name))
    drift = {key: value for key, value in wanted.items() if key in config and config[key] != value}
    if not drift:
        return
    told = ", ".join(f"{key}={config[key]} (needs {value})" for key, value in sorted(drift.items()))
    message = f"topic {topic.name} of dataset {dataset.name} is not safe: {told}"
    plan.say(Reason.RETENTION_UNSAFE, message, subject)
    plan.actions.append(SetConfig(topic.name, drift, subject))


def _plan_deletion(plan: TopicsPlan, deletion: Deletion, desired: Desired, found: FoundTopics) -> None:
    name, subject = deletion.topic, f"topic/{deletion.topic}"
    if name not in found.topics or _is_reserved(plan, name, found, subject):
        return
    if deletion.topic_id not in (None, found.topics[name].topic_id):
        message = f"topic {name} is not deleted: it is another one than was declared (id {deletion.topic_id})"
        plan.say(Reason.CONFLICT, message, subject)
        return
    others = [
        topic for topic in desired.topics if topic.name == name and topic.owner_uid != deletion.owner_uid
    ]
    borrowers = [dataset for dataset in desired.datasets if dataset.data_topic == name]
    if others or borrowers:
        user = f"TrainingDataset {borrowers[0].name} uses it" if borrowers else "another resource declares it"
        plan.say(Reason.CONFLICT, f"topic {name} is not deleted: {user}", subject)
        return
    plan.actions.append(DeleteTopic(name, subject))


def _explain_copies(topic: DesiredTopic, desired: Desired) -> str:
    """How an existing topic gets the number of copies that is declared."""
    if topic.name in desired.policy.exclude_topics:
        return "spec.balance.excludeTopics of the cluster keeps its replicas where they are"
    if desired.policy.mode is BalanceMode.DISABLED:
        return "spec.balance.mode of the cluster is Disabled: with Propose a plan of moves would be proposed"
    return "a plan of moves is proposed for it, one copy per partition and plan"


def _check_shape(
    plan: TopicsPlan,
    topic: TopicAnswer,
    partitions: int | None,
    copies: int | None,
    subject: str,
    helps: str,
) -> None:
    """Say what Kafka cannot do, or what is not done by itself; `helps`: what becomes of another number of copies."""
    count = len(topic.partitions)
    if partitions is not None and partitions < count:
        message = (
            f"partitions: topic {topic.name} has {count}, {partitions} are asked for; Kafka removes none"
        )
        plan.say(Reason.PARTITIONS_LOWERED, message, subject)
    if copies is not None and copies != _copies(topic):
        message = f"replicationFactor: topic {topic.name} has {_copies(topic)}, {copies} is asked for"
        plan.say(Reason.REPLICATION_DIFFERS, f"{message}; {helps}", subject)


def _grow(
    plan: TopicsPlan, topic: TopicAnswer, partitions: int | None, found: FoundTopics, subject: str
) -> None:
    count = len(topic.partitions)
    if partitions is None or partitions <= count:
        return
    try:
        rows = plan_assignments(found.online, partitions, _copies(topic))
    except InputError as error:
        plan.say(error.reason, f"topic {topic.name} cannot grow: {error.message}", subject)
        return
    plan.actions.append(GrowTopic(topic.name, partitions, rows[count:], subject))


def _set_config(
    plan: TopicsPlan, name: str, wanted: Mapping[str, str], found: FoundTopics, subject: str
) -> None:
    config = found.configs.get(name)
    if config is None:
        return
    changed = {key: value for key, value in wanted.items() if not is_same(config.get(key), value)}
    if changed:
        plan.actions.append(SetConfig(name, changed, subject))


def is_same(found: str | None, wanted: str) -> bool:
    """Kafka writes values its own way: `0.50` as `0.5`, `TRUE` as `true`; `compact,delete` has no order."""
    if found is None:
        return False
    return found == wanted or sorted(_words(found)) == sorted(_words(wanted))


def _words(text: str) -> Iterable[str]:
    return (_plain(word.strip()) for word in text.split(","))


def _plain(word: str) -> str:
    if word.lower() in ("true", "false"):
        return word.lower()
    try:
        return str(Decimal(word).normalize())
    except InvalidOperation:
        return word


def _create_or_say(plan: TopicsPlan, spec: TopicSpec, found: FoundTopics, subject: str) -> None:
    if spec.replication_factor > len(found.online):
        message = (
            f"replicationFactor: topic {spec.name} needs {spec.replication_factor} brokers, "
            f"{len(found.online)} of {len(found.brokers)} are online"
        )
        plan.say(Reason.REPLICATION_ABOVE_BROKERS, message, subject)
        return
    try:
        plan.actions.append(_create(spec, found.online, spec.config, subject))
    except InputError as error:
        plan.say(error.reason, f"topic {spec.name}: {error.message}", subject)


def _create(
    spec: TopicSpec, brokers: Sequence[Broker], config: Mapping[str, str], subject: str
) -> CreateTopic:
    rows = plan_assignments(brokers, spec.partitions, spec.replication_factor)
    return CreateTopic(spec.name, rows, config, subject)


def _copies(topic: TopicAnswer) -> int:
    """Replicas of a partition; the least where they differ, as during a move."""
    return min((len(entry.replicas) for entry in topic.partitions), default=0)
