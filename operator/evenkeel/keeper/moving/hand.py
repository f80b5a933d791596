"""Kafka for one turn: what the executor looks at and what it calls, by a fresh client."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast

from evenkeel.domain.connection import Connection
from evenkeel.domain.waits import Waits
from evenkeel.errors import EvenkeelError, RetryableError
from evenkeel.kafka.answers import TopicPartition
from evenkeel.kafka.clients.probe import TURN_SECONDS, probe
from evenkeel.kafka.moves import ConfigChange, ConfigOperation, MovesAdmin
from evenkeel.kafka.wire import LISTS
from evenkeel.keeper.moving.executor import Failures
from evenkeel.keeper.moving.observation import Observation, Wanted
from evenkeel.keeper.moving.steps import AddEntries, DropEntries, DropRate, Place, Reassign, SetRate, Step

log = logging.getLogger(__name__)
T = TypeVar("T")
LOOK_SECONDS = 5.0
Throttle = SetRate | DropRate | AddEntries | DropEntries
MIN_ISR = "min.insync.replicas"


class KafkaHand:
    """The executor's view of a real cluster. Made by `open_kafka`."""

    def __init__(
        self, admin: MovesAdmin, monotonic: Callable[[], float], waits: Callable[[], Waits | None]
    ) -> None:
        self._admin, self._monotonic, self._waits = admin, monotonic, waits

    def look(self, wanted: Wanted) -> Observation:
        """What Kafka shows. Brokers that do not answer are left out of `dirs` and `rates`.

        Raises:
            EvenkeelError: brokers, reassignments or metadata could not be learned.
        """
        admin = self._admin
        cluster = admin.describe_cluster()
        online = frozenset(broker.id for broker in cluster.brokers if not broker.fenced)
        version = None if wanted.brokers <= online else self._ask_version()
        asked = sorted(wanted.brokers & online)
        dirs, rates = admin.ask_log_dirs(asked), admin.ask_throttles(asked)
        reassignments = admin.list_reassignments()
        topics = admin.describe_topics()
        there = sorted(wanted.topics & topics.keys())
        settings = admin.describe_topic_configs(there, [MIN_ISR])
        lists = admin.describe_lists(there)
        found_dirs, found_rates = _answered(dirs.answers()), _answered(rates.answers())
        return Observation(
            at=self._monotonic(),
            cluster_id=cluster.cluster_id,
            online=online,
            reassignments=reassignments,
            topics=topics,
            min_isr={
                topic: int(values[MIN_ISR])
                for topic, values in settings.items()
                if values and MIN_ISR in values
            },
            lists=lists,
            dirs=found_dirs,
            rates=found_rates,
            waits=self._waits(),
            metadata_version=version,
        )

    def _ask_version(self) -> int | None:
        """Only moves of replicas that are lost depend on it; without an answer they wait."""
        try:
            return self._admin.describe_metadata_version()
        except EvenkeelError as error:
            log.info("moves metadata version not told why=%s", error.message)
            return None

    def apply(self, steps: Sequence[Step]) -> Failures:
        """Do steps of one kind."""
        try:
            match steps[0]:
                case Reassign():
                    return self._reassign(cast("Sequence[Reassign]", steps))
                case Place():
                    return self._place(cast("Sequence[Place]", steps))
                case SetRate() | DropRate():
                    return self._change(cast("Sequence[Throttle]", steps), self._admin.change_brokers)
                case AddEntries() | DropEntries():
                    return self._change(cast("Sequence[Throttle]", steps), self._admin.change_topics)
        except EvenkeelError as error:
            return [(step, error) for step in steps]

    def _reassign(self, steps: Sequence[Reassign]) -> Failures:
        failures: list[tuple[Step, EvenkeelError]] = []
        for resize in (False, True):
            chosen = {step.key: step for step in steps if step.resize is resize}
            if chosen:
                wanted = {key: step.replicas for key, step in chosen.items()}
                refused = self._admin.reassign(wanted, resize=resize)
                failures += [(chosen[key], error) for key, error in refused.items()]
        return failures

    def _place(self, steps: Sequence[Place]) -> Failures:
        paths: dict[int, dict[TopicPartition, str]] = defaultdict(dict)
        for step in steps:
            paths[step.broker][step.key] = step.path
        places = {(step.broker, step.key): step for step in steps}
        return [(places[key], error) for key, error in self._admin.place(paths).items()]

    def _change(
        self, steps: Sequence[Throttle], call: Callable[[Sequence[ConfigChange]], Mapping[str, EvenkeelError]]
    ) -> Failures:
        changes = {step: build_change(step) for step in steps}
        refused = call(list(changes.values()))
        return [(step, refused[change.name]) for step, change in changes.items() if change.name in refused]


@contextmanager
def open_kafka(
    connection: Connection,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    waits: Callable[[], Waits | None] = lambda: None,
) -> Iterator[KafkaHand]:
    """A hand with a client of its own.

    Args:
        connection: where and how; the credentials for moves are used.
        monotonic: the clock, seconds.
        waits: how long producers wait now, where anybody tells.

    Raises:
        ConfigurationError, RetryableError: as `Admin`.
    """
    with _connect(connection) as admin:
        yield KafkaHand(admin, monotonic, waits)


def _connect(connection: Connection) -> MovesAdmin:
    try:
        return MovesAdmin(connection, move=True, timeout=LOOK_SECONDS)
    except RetryableError:
        probe(connection, TURN_SECONDS, move=True)  # a wrong password looks like a dead address
        raise


def build_change(step: Throttle) -> ConfigChange:
    """The setting that a throttle step changes."""
    match step:
        case SetRate():
            return ConfigChange(str(step.broker), step.key, ConfigOperation.SET, str(step.value))
        case DropRate():
            return ConfigChange(str(step.broker), step.key, ConfigOperation.DELETE)
        case AddEntries():
            value = ",".join(step.entries)
            return ConfigChange(step.topic, LISTS[step.role], ConfigOperation.APPEND, value)
        case DropEntries():
            if step.whole:
                return ConfigChange(step.topic, LISTS[step.role], ConfigOperation.DELETE)
            value = ",".join(step.entries)
            return ConfigChange(step.topic, LISTS[step.role], ConfigOperation.SUBTRACT, value)


def _answered(answers: Mapping[int, T | EvenkeelError]) -> dict[int, T]:
    return {broker: answer for broker, answer in answers.items() if not isinstance(answer, EvenkeelError)}
