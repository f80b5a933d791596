"""Kafka's administration through kafka-python: what confluent-kafka lacks (log dirs, reassignments).

A client goes stale when the broker it chose as its controller dies, and stays so for minutes: make a
fresh `Admin` per group of calls (25 ms).
"""

from __future__ import annotations

import logging
import ssl
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any, Self, TypeVar

from kafka import KafkaAdminClient
from kafka import TopicPartition as TheirPartition
from kafka import errors as theirs
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec

from evenkeel.domain.connection import Connection, Protocol
from evenkeel.errors import ConfigurationError, EvenkeelError, RetryableError
from evenkeel.kafka.answers import (
    BrokerAnswer,
    ClusterAnswer,
    DirAnswer,
    OffsetSpan,
    PartitionAnswer,
    ReassignmentAnswer,
    TopicAnswer,
    TopicPartition,
)
from evenkeel.kafka.clients.config import client_config
from evenkeel.kafka.failures import translate_code, translated
from evenkeel.reasons import Reason

T = TypeVar("T")
# kafka-python logs its whole configuration, the password included, at DEBUG; its errors come back as ours.
logging.getLogger("kafka").setLevel(logging.CRITICAL)

_PARALLEL = 16
_CLUSTER_RIGHT = "Describe on the Cluster"
_TOPIC_RIGHT = "Describe on Topic *"
_TRIES = 4
_NOT_SENT = (theirs.KafkaConnectionError, theirs.NodeNotReadyError)


class Admin:
    """One connection to the administration of a cluster; use as a context manager.

    Probe with `kafka.clients.probe` first: a wrong password looks like a dead address here.
    """

    def __init__(self, connection: Connection, *, move: bool = False, timeout: float = 8.0) -> None:
        """Connect.

        Args:
            connection: where and how.
            move: use the credentials for moves and topic changes.
            timeout: seconds that one call may take.

        Raises:
            ConfigurationError: the files of the credentials are missing.
            RetryableError: no broker answers within `timeout`.
        """
        self._timeout = timeout
        settings = admin_settings(connection, move=move)
        limit = int(timeout * 1000)
        with translated(f"connecting to {', '.join(connection.bootstrap_servers)}", "to log in"):
            self._client: Any = KafkaAdminClient(
                **settings,
                request_timeout_ms=limit,
                bootstrap_timeout_ms=limit,
                reconnect_backoff_ms=1000,  # for so long a dead node is not chosen again
                client_id="evenkeel",
            )
        self._threads = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="kafka-admin")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; calls still under way end with an error."""
        self._client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def describe_cluster(self) -> ClusterAnswer:
        """Identity and brokers, dead ones included (fenced)."""
        found = self._run("describing the cluster", _CLUSTER_RIGHT, self._client.describe_cluster)
        return ClusterAnswer(found["cluster_id"], tuple(_broker(raw) for raw in found["brokers"]))

    def describe_topics(self, names: Sequence[str] | None = None) -> dict[str, TopicAnswer]:
        """Metadata of the topics that exist and may be seen, by name; of all where `names` is None."""
        wanted = list(names) if names is not None else None
        found = self._run("describing topics", _TOPIC_RIGHT, self._client.describe_topics, wanted)
        return {raw["name"]: _topic(raw) for raw in found if raw["error_code"] in (0, 5)}

    def describe_log_dirs(
        self, brokers: Iterable[int], topics: Mapping[str, TopicAnswer]
    ) -> dict[int, tuple[DirAnswer, ...] | EvenkeelError]:
        """Log directories of each broker, asked all at once, with the replicas of `topics` on them.

        The value is an error where no answer came. No directories at all is Kafka's way of saying that a
        right is missing.
        """
        wanted = {name: [entry.partition for entry in topic.partitions] for name, topic in topics.items()}

        def ask(broker: int) -> tuple[DirAnswer, ...]:
            what = f"log directories of broker {broker}"
            (answer,) = self._run(what, _CLUSTER_RIGHT, self._client.describe_log_dirs, wanted, [broker])
            if not answer["log_dirs"]:
                message = f"{what} need the right {_CLUSTER_RIGHT}"
                raise ConfigurationError(message, reason=Reason.AUTHORIZATION_MISSING)
            return tuple(_dir(raw) for raw in answer["log_dirs"])

        return self._each(ask, brokers)

    def list_offsets(
        self, leaders: Mapping[TopicPartition, int]
    ) -> dict[int, dict[TopicPartition, OffsetSpan] | EvenkeelError]:
        """First and next offset of partitions, by the leader that was asked; an error where none came."""
        by_leader: dict[int, list[TheirPartition]] = defaultdict(list)
        for (topic, partition), leader in leaders.items():
            by_leader[leader].append(TheirPartition(topic, partition))

        def ask(leader: int) -> dict[TopicPartition, OffsetSpan]:
            partitions = by_leader[leader]
            what = f"offsets at broker {leader}"
            ends = self._offsets(what, dict.fromkeys(partitions, OffsetSpec.LATEST))
            starts = self._offsets(what, dict.fromkeys(partitions, OffsetSpec.EARLIEST))
            return {key: OffsetSpan(starts[key], end) for key, end in ends.items() if key in starts}

        return self._each(ask, by_leader)

    def list_offsets_at(
        self, times: Mapping[int, Mapping[TopicPartition, int]]
    ) -> dict[int, dict[TopicPartition, int | None] | EvenkeelError]:
        """First offset whose record is not older than a time (ms); None: all are older.

        Args:
            times: leader -> partition -> time.
        """

        def ask(leader: int) -> dict[TopicPartition, int | None]:
            wanted = {TheirPartition(*key): at for key, at in times[leader].items()}
            found = self._offsets(f"offsets by time at broker {leader}", wanted)
            return {key: offset if offset >= 0 else None for key, offset in found.items()}

        return self._each(ask, times)

    def list_reassignments(self) -> dict[TopicPartition, ReassignmentAnswer]:
        """Partitions on their way to other brokers."""
        found = self._run("listing reassignments", _CLUSTER_RIGHT, self._client.list_partition_reassignments)
        return {
            (key.topic, key.partition): ReassignmentAnswer(
                tuple(raw["replicas"]), tuple(raw["adding_replicas"]), tuple(raw["removing_replicas"])
            )
            for key, raw in found.items()
        }

    def describe_topic_configs(
        self, topics: Sequence[str], keys: Sequence[str]
    ) -> dict[str, dict[str, str] | None]:
        """Values in force of `keys` for each topic, defaults included; None where Kafka tells nothing."""
        if not topics:
            return {}
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic, list(keys)) for topic in topics]
        what, right = "describing topic settings", "DescribeConfigs on Topic *"
        found = self._run(what, right, self._client.describe_configs, resources, config_filter="all")
        by_name = found.get("topic", {})
        answers = {topic: by_name.get(topic) for topic in topics}
        # kafka-python drops the error code of a resource: no key at all means that we may not see it.
        return {
            topic: {key: str(entry["value"]) for key, entry in raw.items()} if raw else None
            for topic, raw in answers.items()
        }

    def create_topic(
        self, name: str, assignments: Sequence[Sequence[int]], config: Mapping[str, str]
    ) -> bool:
        """Create a topic whose partition i lies on the brokers `assignments[i]`, preferred leader first.

        Returns False where it exists already (as it may be after an answer that got lost).
        """
        wanted = {"assignments": dict(enumerate(map(list, assignments))), "configs": dict(config)}
        try:
            what, right = f"creating topic {name}", f"Create on Topic {name}"
            self._run(what, right, self._client.create_topics, {name: wanted}, wait_for_metadata=True)
        except EvenkeelError as error:
            if isinstance(error.__cause__, theirs.TopicAlreadyExistsError):
                return False
            raise
        return True

    def create_partitions(self, name: str, count: int, assignments: Sequence[Sequence[int]]) -> None:
        """Grow a topic to `count` partitions; `assignments` are those of the new ones in order."""
        wanted = {name: {"count": count, "assignments": [list(row) for row in assignments]}}
        what = f"growing topic {name} to {count} partitions"
        self._run(what, f"Alter on Topic {name}", self._client.create_partitions, wanted)

    def alter_topic_config(self, name: str, config: Mapping[str, str]) -> None:
        """Set exactly these keys; others stay."""
        what, right = f"setting {', '.join(sorted(config))} of topic {name}", f"AlterConfigs on Topic {name}"
        resource = ConfigResource(ConfigResourceType.TOPIC, name, dict(config))
        found = self._run(what, right, self._client.alter_configs, [resource], raise_on_unknown=False)
        error = translate_code(found["topic"][name], what, right)
        if error is not None:
            raise error

    def delete_topic(self, name: str) -> bool:
        """Delete a topic; False where there is none."""
        try:
            what = f"deleting topic {name}"
            self._run(what, f"Delete on Topic {name}", self._client.delete_topics, [name])
        except EvenkeelError as error:
            if isinstance(error.__cause__, theirs.UnknownTopicOrPartitionError):
                return False
            raise
        return True

    def _run(self, what: str, right: str, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Call, and again where the node that the client happened to choose is dead.

        Only failures to connect are tried again: nothing was sent then.
        """
        deadline = time.monotonic() + self._timeout
        for _ in range(_TRIES - 1):
            try:
                with translated(what, right):
                    return call(*args, **named)
            except RetryableError as error:
                if not isinstance(error.__cause__, _NOT_SENT) or time.monotonic() > deadline:
                    raise
            # The client would ask the same dead node for as long as it lives.
            self._client._controller_id = None  # noqa: SLF001
        with translated(what, right):
            return call(*args, **named)

    def _offsets(self, what: str, specs: Mapping[TheirPartition, int]) -> dict[TopicPartition, int]:
        found = self._run(what, _TOPIC_RIGHT, self._client.list_partition_offsets, dict(specs))
        return {(key.topic, key.partition): answer.offset for key, answer in found.items()}

    def _each(self, ask: Callable[[int], T], brokers: Iterable[int]) -> dict[int, T | EvenkeelError]:
        futures = {broker: self._threads.submit(ask, broker) for broker in brokers}
        answers: dict[int, T | EvenkeelError] = {}
        for broker, future in futures.items():
            try:
                answers[broker] = future.result(self._timeout * 2)
            except EvenkeelError as error:
                answers[broker] = error
            except FutureTimeout:
                message = f"broker {broker} gave no answer within {self._timeout * 2:g} s"
                answers[broker] = RetryableError(message, reason=Reason.BROKERS_UNREACHABLE)
        return answers


def admin_settings(connection: Connection, *, move: bool = False) -> dict[str, Any]:
    """Security and addresses as arguments of kafka-python's client.

    Raises:
        ConfigurationError: as `client_config`.
    """
    config = client_config(connection, move=move)
    settings: dict[str, Any] = {
        "bootstrap_servers": list(connection.bootstrap_servers),
        "security_protocol": config["security.protocol"],
    }
    if "sasl.mechanism" in config:
        settings["sasl_mechanism"] = config["sasl.mechanism"]
        settings["sasl_plain_username"] = config["sasl.username"]
        settings["sasl_plain_password"] = config["sasl.password"]
    if connection.protocol in (Protocol.TLS, Protocol.SASL_TLS):
        settings["ssl_context"] = _ssl_context(connection, move=move)
    return settings


def _ssl_context(connection: Connection, *, move: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=connection.ca_certificates)
    folder = (connection.move_credentials_path if move else None) or connection.credentials_path
    if connection.protocol is Protocol.TLS and folder is not None:
        try:
            context.load_cert_chain(Path(folder) / "tls.crt", Path(folder) / "tls.key")
        except (OSError, ssl.SSLError) as error:
            message = f"{folder}/tls.crt, tls.key: not a certificate and its key"
            raise ConfigurationError(message, reason=Reason.SECRET_MISSING) from error
    return context


def _broker(raw: Mapping[str, Any]) -> BrokerAnswer:
    return BrokerAnswer(
        raw["broker_id"], raw["host"], raw["port"], raw.get("rack"), bool(raw.get("is_fenced", False))
    )


def _topic(raw: Mapping[str, Any]) -> TopicAnswer:
    partitions = sorted(raw["partitions"], key=lambda entry: entry["partition_index"])
    return TopicAnswer(
        raw["name"],
        str(raw.get("topic_id", "")),
        bool(raw["is_internal"]),
        tuple(map(_partition, partitions)),
    )


def _partition(raw: Mapping[str, Any]) -> PartitionAnswer:
    leader = raw["leader_id"]
    return PartitionAnswer(
        raw["partition_index"],
        leader if leader >= 0 else None,
        tuple(raw["replica_nodes"]),
        tuple(raw["isr_nodes"]),
    )


def _dir(raw: Mapping[str, Any]) -> DirAnswer:
    """An offline directory answers with error 56, sizes -1 and no topics: failed, never empty."""
    current: dict[TopicPartition, int] = {}
    future: dict[TopicPartition, int] = {}
    for topic in raw["topics"]:
        for entry in topic["partitions"]:
            target = future if entry["is_future_key"] else current
            target[topic["name"], entry["partition_index"]] = entry["partition_size"]
    total, usable = raw.get("total_bytes", -1), raw.get("usable_bytes", -1)
    return DirAnswer(
        path=raw["log_dir"],
        online=raw["error_code"] == 0,
        total_bytes=total if total >= 0 else None,
        usable_bytes=usable if usable >= 0 else None,
        cordoned=bool(raw.get("is_cordoned", False)),
        replica_bytes=current,
        future_bytes=future,
    )
