"""Looks at partitions several times a second by a client of its own, and knows whom the fault has hit."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.protocol.metadata import MetadataRequest

from integration.kafka.cluster import KafkaCluster
from integration.moving import Key

EVERY_SECONDS = 0.3
LIMIT_MS = 1000
HANGING = (KafkaError, RuntimeError, TimeoutError)
"""What a broker that died under the question looks like; the next question goes to another one."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """Too few replicas in sync, and not because of those that were hit."""

    second: float
    key: Key
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    least: int


def find_shortage(
    replicas: Sequence[int], isr: Sequence[int], hit: frozenset[int], least: int, copies: int
) -> bool:
    """Whether a partition has fewer replicas in sync than it would have without the fault.

    Args:
        replicas: of the partition now, in any order.
        isr: those in sync.
        hit: brokers that the fault took away at some time: their replicas may be missing.
        least: min.insync.replicas of the topic.
        copies: replicas that the partition has when nothing moves.
    """
    excused = set(replicas) & hit
    return len(set(isr) | excused) < min(least, copies)


@dataclass(slots=True)
class _Seen:
    samples: list[float] = field(default_factory=list)
    shortages: list[Shortage] = field(default_factory=list)


class IsrWatch:
    """A thread that samples until `stop`.

    Args:
        cluster: whose brokers are asked, each in turn.
        least: topic -> its min.insync.replicas.
        copies: topic -> its replication factor.
    """

    def __init__(self, cluster: KafkaCluster, least: Mapping[str, int], copies: Mapping[str, int]) -> None:
        self._cluster, self._least, self._copies = cluster, dict(least), dict(copies)
        self._brokers = [spec.id for spec in cluster.layout.brokers]
        self._hit: frozenset[int] = frozenset()
        self._away: frozenset[int] = frozenset()
        self._seen = _Seen()
        self._done = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="isr", daemon=True)
        self._thread.start()

    def expect_loss(self, broker: int) -> None:
        """Before a fault hits a broker: it may be missing from now on, and is not asked until it is back."""
        self._hit |= {broker}
        self._away |= {broker}

    def expect_back(self, broker: int) -> None:
        """It answers again."""
        self._away -= {broker}

    def forget(self, topic: str) -> None:
        """It is going to be deleted."""
        self._least = {name: least for name, least in self._least.items() if name != topic}

    def stop(self) -> None:
        """End; may be called twice."""
        self._done.set()
        self._thread.join()

    @property
    def samples(self) -> int:
        """How often it looked."""
        return len(self._seen.samples)

    @property
    def largest_gap(self) -> float:
        """Longest time between two looks, seconds."""
        return max((b - a for a, b in itertools.pairwise(self._seen.samples)), default=0.0)

    @property
    def shortages(self) -> list[Shortage]:
        """What was found."""
        return list(self._seen.shortages)

    def _run(self) -> None:
        turn = itertools.cycle(self._brokers)
        while not self._done.is_set():
            healthy = [one for one in self._brokers if one not in self._away]
            broker = next(one for one in turn if one in healthy or not healthy)
            with contextlib.suppress(*HANGING), self._client(broker) as client:
                while not self._done.is_set() and broker not in self._away:
                    self._look(client, broker)
                    self._done.wait(EVERY_SECONDS)
            self._done.wait(0.05)

    @contextlib.contextmanager
    def _client(self, broker: int) -> Any:
        address = f"127.0.0.1:{self._cluster.layout.ports[broker]}"
        config = {**self._cluster.admin_config(), "bootstrap_servers": [address]}
        client = KafkaAdminClient(**config, request_timeout_ms=LIMIT_MS, bootstrap_timeout_ms=LIMIT_MS)
        try:
            yield client
        finally:
            client._manager.cluster.close()  # noqa: SLF001 - else it connects anew while it closes
            client.close()

    def _look(self, client: Any, broker: int) -> None:
        hit, leasts = self._hit, self._least
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in leasts]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        manager = client._manager  # noqa: SLF001 - there is no public way to ask one broker

        async def ask() -> Any:
            return await manager.send(request, broker)

        found = manager.run(ask)
        now = time.monotonic() - self._began
        self._seen.samples.append(now)
        for topic in found.topics:
            for row in topic.partitions if not topic.error_code else ():
                least, copies = leasts[topic.name], self._copies[topic.name]
                replicas, isr = tuple(row.replica_nodes), tuple(row.isr_nodes)
                if find_shortage(replicas, isr, hit, least, copies):
                    key = (topic.name, row.partition_index)
                    self._seen.shortages.append(Shortage(round(now, 2), key, isr, replicas, least))
