"""The calls that move replicas and slow their copying down; each answers for every thing that it was asked.

Requests that any broker hands on to the controller may go out twice when a broker is slow to answer: each of
them leaves the same behind, however often it is done.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kafka import errors as theirs
from kafka.admin import ConfigResourceType
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)

from evenkeel.errors import EvenkeelError
from evenkeel.kafka import wire
from evenkeel.kafka.admin import CONFIGS_RIGHT, Admin
from evenkeel.kafka.answers import BrokerRates, TopicPartition
from evenkeel.kafka.asking import Asked, Pending
from evenkeel.kafka.failures import translate

_MOVE_RIGHT = "Alter on the Cluster"
_CONFIG_RIGHT = "AlterConfigs on the Cluster and on Topic *"
_DONE = (theirs.NoError, theirs.NoReassignmentInProgressError)
_PLACED = (theirs.NoError, theirs.ReplicaNotAvailableError)
"""A replica that is not there yet: the broker remembers where to make it (until it restarts)."""
_ELECTED = (theirs.NoError, theirs.ElectionNotNeededError)
_PREFERRED = 0
"""Type of election: the first replica, if it is in sync."""


class ConfigOperation(IntEnum):
    """What to do to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of one setting of a topic or a broker."""

    name: str
    """The topic, or the broker's id."""
    key: str
    operation: ConfigOperation
    value: str | None = None


class MovesAdmin(Admin):
    """The administration with what moves need. Opened and closed as `Admin`."""

    def reassign(
        self, wanted: Mapping[TopicPartition, tuple[int, ...] | None], *, resize: bool = False
    ) -> dict[TopicPartition, EvenkeelError]:
        """Begin moves, or cancel them (None); returns those that Kafka refused.

        Args:
            wanted: partition -> its replicas from now on, preferred leader first.
            resize: their number may change. Kafka before 4.1 does not check that; newer ones do.

        Raises:
            EvenkeelError: no answer, or the right Alter on the Cluster is missing.
        """
        limit_ms = int(self._timeout * 1000)
        build = functools.partial(reassign_request, wanted, limit_ms, resize=resize)
        return self._asker.ask_any(build, "moving replicas", _MOVE_RIGHT, parse_reassign)

    def place(
        self, wanted: Mapping[int, Mapping[TopicPartition, str]]
    ) -> dict[tuple[int, TopicPartition], EvenkeelError]:
        """Choose log directories: broker -> replica -> path; returns those that were refused or not answered.

        A replica that is there moves; one that is not will be made there, unless the broker restarts before.
        """

        def ask(broker: int, paths: Mapping[TopicPartition, str]) -> Pending[dict[TopicPartition, Any]]:
            what = f"placing replicas on broker {broker}"
            return self._asker.ask(broker, place_request(paths), what, _MOVE_RIGHT, parse_place)

        asked = Asked({broker: ask(broker, paths) for broker, paths in wanted.items()})
        failed: dict[tuple[int, TopicPartition], EvenkeelError] = {}
        for broker, answer in asked.answers().items():
            if isinstance(answer, EvenkeelError):
                failed.update({(broker, key): answer for key in wanted[broker]})
            else:
                failed.update({(broker, key): error for key, error in answer.items()})
        return failed

    def elect_preferred(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, EvenkeelError]:
        """Make the first replica lead, where it is in sync; returns those that Kafka refused.

        Raises:
            EvenkeelError: no answer, or the right Alter on the Cluster is missing.
        """
        build = functools.partial(elect_request, partitions, int(self._timeout * 1000))
        return self._asker.ask_any(build, "electing leaders", _MOVE_RIGHT, parse_elected)

    def change_topics(self, changes: Sequence[ConfigChange]) -> dict[str, EvenkeelError]:
        """Change settings of topics; returns topics that were refused, with why.

        Raises:
            EvenkeelError: no answer.
        """
        build = functools.partial(configs_request, ConfigResourceType.TOPIC, changes)
        return self._asker.ask_any(build, "throttling topics", _CONFIG_RIGHT, parse_changed)

    def change_brokers(self, changes: Sequence[ConfigChange]) -> dict[str, EvenkeelError]:
        """Change settings of brokers, each by the broker itself; returns ids that were refused or silent."""

        def ask(broker: int, own: Sequence[ConfigChange]) -> Pending[dict[str, EvenkeelError]]:
            request, what = configs_request(ConfigResourceType.BROKER, own), f"throttling broker {broker}"
            return self._asker.ask(broker, request, what, _CONFIG_RIGHT, parse_changed)

        rows: dict[int, list[ConfigChange]] = defaultdict(list)
        for change in changes:
            rows[int(change.name)].append(change)
        failed: dict[str, EvenkeelError] = {}
        for broker, answer in (
            Asked({broker: ask(broker, own) for broker, own in rows.items()}).answers().items()
        ):
            failed |= {str(broker): answer} if isinstance(answer, EvenkeelError) else answer
        return failed

    def ask_throttles(self, brokers: Iterable[int]) -> Asked[BrokerRates]:
        """Ask brokers for every throttle of copying, own ones apart from inherited ones."""

        def ask(broker: int) -> Pending[BrokerRates]:
            request, what = wire.throttles_request(broker), f"throttles of broker {broker}"
            return self._asker.ask(broker, request, what, CONFIGS_RIGHT, wire.parse_throttles)

        return Asked({broker: ask(broker) for broker in brokers})

    def describe_lists(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Throttled replicas by topic and role, as far as set; a topic that tells nothing is absent."""
        if not topics:
            return {}
        build = functools.partial(wire.topic_configs_request, topics, list(wire.LISTS.values()))
        what, right = "describing throttled replicas", "DescribeConfigs on Topic *"
        return self._asker.ask_any(build, what, right, wire.parse_lists)


def reassign_request(
    wanted: Mapping[TopicPartition, tuple[int, ...] | None], timeout_ms: int, *, resize: bool = False
) -> Any:
    """AlterPartitionReassignments; None cancels."""
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    row = topic.ReassignablePartition
    rows: dict[str, list[Any]] = defaultdict(list)
    for (name, partition), replicas in wanted.items():
        listed = None if replicas is None else list(replicas)
        rows[name].append(row(partition_index=partition, replicas=listed))
    topics = [topic(name=name, partitions=found) for name, found in rows.items()]
    return AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms, allow_replication_factor_change=resize, topics=topics
    )


def parse_reassign(response: Any) -> dict[TopicPartition, EvenkeelError]:
    """Partitions that were refused."""
    wire.check(response.error_code, response.error_message)
    return {
        (topic.name, row.partition_index): _refusal(row, f"moving {topic.name}-{row.partition_index}")
        for topic in response.responses
        for row in topic.partitions
        if theirs.for_code(row.error_code) not in _DONE
    }


def place_request(paths: Mapping[TopicPartition, str]) -> Any:
    """AlterReplicaLogDirs for one broker."""
    directory = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    rows: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (name, partition), path in paths.items():
        rows[path][name].append(partition)
    return AlterReplicaLogDirsRequest(
        dirs=[
            directory(
                path=path,
                topics=[
                    directory.AlterReplicaLogDirTopic(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
            )
            for path, topics in rows.items()
        ]
    )


def parse_place(response: Any) -> dict[TopicPartition, EvenkeelError]:
    """Replicas that were refused."""
    return {
        (topic.topic_name, row.partition_index): _refusal(
            row, f"placing {topic.topic_name}-{row.partition_index}"
        )
        for topic in response.results
        for row in topic.partitions
        if theirs.for_code(row.error_code) not in _PLACED
    }


def elect_request(partitions: Sequence[TopicPartition], timeout_ms: int) -> Any:
    """ElectLeaders of the preferred replicas."""
    rows: dict[str, list[int]] = defaultdict(list)
    for name, partition in partitions:
        rows[name].append(partition)
    kind = ElectLeadersRequest.TopicPartitions
    topics = [kind(topic=name, partitions=found) for name, found in rows.items()]
    return ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=topics, timeout_ms=timeout_ms)


def parse_elected(response: Any) -> dict[TopicPartition, EvenkeelError]:
    """Partitions whose election was refused."""
    wire.check(response.error_code)
    return {
        (topic.topic, row.partition_id): _refusal(row, f"electing {topic.topic}-{row.partition_id}")
        for topic in response.replica_election_results
        for row in topic.partition_result
        if theirs.for_code(row.error_code) not in _ELECTED
    }


def configs_request(kind: Any, changes: Sequence[ConfigChange]) -> Any:
    """IncrementalAlterConfigs; changes of one resource are taken together or not at all."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    rows: dict[str, list[Any]] = defaultdict(list)
    for change in changes:
        rows[change.name].append(
            resource.AlterableConfig(
                name=change.key, config_operation=int(change.operation), value=change.value
            )
        )
    return IncrementalAlterConfigsRequest(
        resources=[
            resource(resource_type=kind.value, resource_name=name, configs=found)
            for name, found in rows.items()
        ],
        validate_only=False,
    )


def parse_changed(response: Any) -> dict[str, EvenkeelError]:
    """Topics or brokers whose changes were refused."""
    return {
        row.resource_name: _refusal(row, f"throttling {row.resource_name}", _CONFIG_RIGHT)
        for row in response.responses
        if row.error_code != 0
    }


def _refusal(row: Any, what: str, right: str = _MOVE_RIGHT) -> EvenkeelError:
    kind: Callable[[str], theirs.KafkaError] = theirs.for_code(row.error_code)
    return translate(kind(getattr(row, "error_message", None) or ""), what, right)
