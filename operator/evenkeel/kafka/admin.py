"""Kafka's administration through kafka-python: what confluent-kafka lacks (log dirs, reassignments).

A client goes stale when the broker it chose as its controller dies, and stays so for minutes: make a
fresh `Admin` per group of calls (25 ms).
"""

from __future__ import annotations

import functools
import itertools
import logging
import random
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from kafka import KafkaAdminClient
from kafka import errors as theirs
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.net.compat import KafkaNetClient

from evenkeel.domain.connection import Connection, Protocol
from evenkeel.errors import ConfigurationError, EvenkeelError, RetryableError
from evenkeel.kafka import wire
from evenkeel.kafka.answers import ClusterAnswer, DirAnswer, ReassignmentAnswer, TopicAnswer, TopicPartition
from evenkeel.kafka.asking import Asked, Asker, Pending
from evenkeel.kafka.clients.config import client_config
from evenkeel.kafka.failures import translate_code, translated
from evenkeel.reasons import Reason

# kafka-python logs its whole configuration, the password included, at DEBUG; its errors come back as ours.
logging.getLogger("kafka").setLevel(logging.CRITICAL)

_CLUSTER_RIGHT = "Describe on the Cluster"
CONFIGS_RIGHT = "DescribeConfigs on the Cluster"
_TOPIC_RIGHT = "Describe on Topic *"
_FIRST_TRY_SECONDS = 1.0
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
        with translated(f"connecting to {', '.join(connection.bootstrap_servers)}", "to log in"):
            self._client: Any = connect(admin_settings(connection, move=move), timeout)
        self._asker = Asker(self._client, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; calls still under way end with an error."""
        # Else each connection that is closed makes the client look for another broker, and open a new one.
        self._client._manager.cluster.close()  # noqa: SLF001
        self._client.close()

    def describe_cluster(self) -> ClusterAnswer:
        """Identity and brokers, dead ones included (fenced)."""
        what = "describing the cluster"
        return self._asker.ask_any(wire.cluster_request, what, _CLUSTER_RIGHT, wire.parse_cluster)

    def describe_metadata_version(self) -> int | None:
        """Level of the finalized feature metadata.version; None: there is none (before 3.3, or ZooKeeper)."""
        found = self._run("describing features", _CLUSTER_RIGHT, self._client.describe_features)
        levels = found.get("metadata.version", {}).get("finalized")
        return int(levels[1]) if levels else None

    def describe_topics(self, names: Sequence[str] | None = None) -> dict[str, TopicAnswer]:
        """Metadata of the topics that exist and may be seen, by name; of all where `names` is None."""
        wanted = list(names) if names is not None else None
        build = functools.partial(wire.topics_request, wanted)
        return self._asker.ask_any(build, "describing topics", _TOPIC_RIGHT, wire.parse_topics)

    def list_reassignments(self) -> dict[TopicPartition, ReassignmentAnswer]:
        """Partitions on their way to other brokers."""
        build = functools.partial(wire.reassignments_request, int(self._timeout * 1000))
        what = "listing reassignments"
        return self._asker.ask_any(build, what, _CLUSTER_RIGHT, wire.parse_reassignments)

    def describe_topic_configs(
        self, topics: Sequence[str], keys: Sequence[str]
    ) -> dict[str, dict[str, str] | None]:
        """Values in force of `keys` for each topic, defaults included; None where Kafka tells nothing."""
        if not topics:
            return {}
        build = functools.partial(wire.topic_configs_request, topics, keys)
        what, right = "describing topic settings", "DescribeConfigs on Topic *"
        found = self._asker.ask_any(build, what, right, wire.parse_topic_configs)
        return {topic: found.get(topic) for topic in topics}

    def ask_log_dirs(self, brokers: Iterable[int], *, replicas: bool = True) -> Asked[tuple[DirAnswer, ...]]:
        """Ask brokers for their log directories, with all replicas on them or with none."""

        def ask(broker: int) -> Pending[tuple[DirAnswer, ...]]:
            what = f"log directories of broker {broker}"

            def parse(response: Any) -> tuple[DirAnswer, ...]:
                found = wire.parse_log_dirs(response)
                if not found:
                    message = f"{what} need the right {_CLUSTER_RIGHT}"
                    raise ConfigurationError(message, reason=Reason.AUTHORIZATION_MISSING)
                return found

            request = wire.log_dirs_request(replicas=replicas)
            return self._asker.ask(broker, request, what, _CLUSTER_RIGHT, parse)

        return Asked({broker: ask(broker) for broker in brokers})

    def ask_offsets(
        self, times: Mapping[int, Mapping[TopicPartition, int]]
    ) -> Asked[dict[TopicPartition, int]]:
        """Ask leaders for the first offset that is not older than a time (ms), or wire.LATEST, wire.EARLIEST.

        Args:
            times: leader -> partition -> time. Partitions that the leader does not tell are left out of its
                answer; -1 where all records are older.
        """

        def ask(leader: int, wanted: Mapping[TopicPartition, int]) -> Pending[dict[TopicPartition, int]]:
            request, what = wire.offsets_request(wanted), f"offsets at broker {leader}"
            return self._asker.ask(leader, request, what, _TOPIC_RIGHT, wire.parse_offsets)

        return Asked({leader: ask(leader, wanted) for leader, wanted in times.items()})

    def ask_rates(self, brokers: Iterable[int]) -> Asked[dict[str, int]]:
        """Ask brokers for their replication throttles, bytes per second, as far as set: `leader`, `follower`."""

        def ask(broker: int) -> Pending[dict[str, int]]:
            request, what = wire.broker_configs_request(broker), f"throttles of broker {broker}"
            return self._asker.ask(broker, request, what, CONFIGS_RIGHT, wire.parse_rates)

        return Asked({broker: ask(broker) for broker in brokers})

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


def connect(settings: Mapping[str, Any], seconds: float) -> Any:
    """A client that has found the cluster through one of its addresses.

    kafka-python spends all its time on the first address that takes a connection and says nothing, as a
    stopped process does. So addresses are tried one by one, each longer than the last time.

    Raises:
        kafka.errors.KafkaError: none answers within `seconds`.
    """
    deadline = time.monotonic() + seconds
    addresses = random.sample(settings["bootstrap_servers"], len(settings["bootstrap_servers"]))
    for number, address in enumerate(itertools.cycle(addresses)):
        left = max(0.1, deadline - time.monotonic())
        slot = _FIRST_TRY_SECONDS * 2 ** (number // len(addresses)) if len(addresses) > 1 else left
        try:
            return _open(
                **{**settings, "bootstrap_servers": [address]},
                request_timeout_ms=int(seconds * 1000),
                bootstrap_timeout_ms=int(min(slot, left) * 1000),
                reconnect_backoff_ms=1000,  # for so long a dead node is not chosen again
                max_in_flight_requests_per_connection=100,  # what is above the limit fails, it does not wait
                client_id="evenkeel",
            )
        except theirs.KafkaError:
            if time.monotonic() >= deadline - _FIRST_TRY_SECONDS / 4:
                raise
    raise AssertionError("a cycle of addresses does not end")


def _open(**settings: Any) -> Any:
    """A client; one that finds no broker leaves no thread and no connection behind."""
    opened: list[Any] = []

    def build(**found: Any) -> Any:
        opened.append(KafkaNetClient(**found))
        return opened[-1]

    try:
        return KafkaAdminClient(**settings, kafka_client=build)
    except BaseException:
        for client in opened:
            client.cluster.close()
            client.close()
            client._net.stop()  # noqa: SLF001 - its close leaves the thread running
        raise


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
