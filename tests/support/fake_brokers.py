"""Brokers that answer what a measurement asks, over real sockets, with kafka-python's codec.

One process plays all brokers, each on a port of its own. What they say is a `Story`; `large_cluster` has a
large one.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import NAMESPACE_DNS, uuid5

from kafka.protocol.admin import (
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse

from evenkeel.domain.topic_id import topic_id_text
from evenkeel.kafka.answers import (
    DirAnswer,
    PartitionAnswer,
    ReassignmentAnswer,
    TopicAnswer,
    TopicPartition,
)

VERSIONS = {2: (1, 9), 3: (0, 12), 18: (0, 4), 32: (1, 4), 35: (1, 5), 46: (0, 0), 60: (0, 2), 74: (0, 0)}
"""API key -> versions served: those of Kafka 4."""
_LATEST, _TOPIC = -1, 2


@dataclass
class Story:
    """What the brokers say; a test may change it while they run."""

    topics: dict[str, TopicAnswer] = field(default_factory=dict)
    dirs: dict[int, tuple[DirAnswer, ...]] = field(default_factory=dict)
    """Broker -> its directories; these are the brokers."""
    offset: Callable[[TopicPartition, int], int] = lambda _, at: 100 if at == _LATEST else 0
    """Offset of a partition for a time, -1 (latest) or -2 (earliest)."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Settings of every topic."""
    rates: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Settings of brokers."""
    moving: Mapping[TopicPartition, ReassignmentAnswer] = field(default_factory=dict)
    racks: int = 3
    fenced: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()
    """Brokers that take connections and say nothing, like a stopped process."""


class FakeBrokers:
    """The brokers of a story, in a thread; use as a context manager."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.ports: dict[int, int] = {}
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._cache: dict[tuple[Any, ...], bytes] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def address(self, broker: int) -> str:
        return f"127.0.0.1:{self.ports[broker]}"

    async def _listen(self) -> None:
        for broker in sorted(self.story.dirs):
            server = await asyncio.start_server(self._build_handler(broker), "127.0.0.1", 0)
            self._servers.append(server)
            self.ports[broker] = server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _build_handler(self, broker: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while True:
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                    request = await reader.readexactly(size)
                    if broker in self.story.silent:
                        continue
                    answer = self.answer(broker, request)
                    writer.write(struct.pack(">i", len(answer)) + answer)
                    await writer.drain()
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

        return serve

    def answer(self, broker: int, request: bytes) -> bytes:
        """Header and body of the answer to a request without its length."""
        key, version, correlation, name_length = struct.unpack_from(">hhih", request)
        kind = _RESPONSES[key]
        flexible = kind.flexible_version_q(version)
        begin = 10 + max(0, name_length) + (1 if flexible else 0)
        body = request[begin:]
        place = (broker if key in (32, 35) else None, key, version, body)
        if place not in self._cache:
            self._cache[place] = _ANSWERS[key](self, broker, version, body).encode(version=version)
        tagged = b"\0" if flexible and key != ApiVersionsResponse.API_KEY else b""
        return struct.pack(">i", correlation) + tagged + self._cache[place]

    def forget(self) -> None:
        """Tell the story anew: answers are kept otherwise."""
        self._cache.clear()

    def versions(self, _broker: int, version: int, _body: bytes) -> Any:
        row = ApiVersionsResponse.ApiVersion
        rows = [
            row(version=version, api_key=k, min_version=a, max_version=b) for k, (a, b) in VERSIONS.items()
        ]
        return ApiVersionsResponse(error_code=0, api_keys=rows, throttle_time_ms=0)

    def cluster(self, _broker: int, version: int, _body: bytes) -> Any:
        row = DescribeClusterResponse.DescribeClusterBroker
        rows = [
            row(
                version=version, broker_id=id_, host="127.0.0.1", port=self.ports[id_],
                rack=f"rack{id_ % self.story.racks}", **_newer(version, 2, is_fenced=id_ in self.story.fenced),
            )
            for id_ in self.story.dirs
        ]  # fmt: skip
        return DescribeClusterResponse(
            throttle_time_ms=0, error_code=0, error_message=None, cluster_id="fake", controller_id=min(self.ports),
            brokers=rows, **_newer(version, 1, endpoint_type=1),
        )  # fmt: skip

    def metadata(self, _broker: int, version: int, body: bytes) -> Any:
        asked = MetadataRequest.decode(body, version=version).topics
        names = self.story.topics if asked is None else [row.name for row in asked]
        broker = MetadataResponse.MetadataResponseBroker
        alive = [id_ for id_ in self.story.dirs if id_ not in self.story.fenced]
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[broker(node_id=id_, host="127.0.0.1", port=self.ports[id_], rack=None) for id_ in alive],
            cluster_id="fake",
            controller_id=min(self.ports),
            topics=[
                _metadata(self.story.topics[name], version) for name in names if name in self.story.topics
            ],
        )

    def log_dirs(self, broker: int, version: int, body: bytes) -> Any:
        replicas = DescribeLogDirsRequest.decode(body, version=version).topics is None
        rows = [_log_dir(entry, version, replicas=replicas) for entry in self.story.dirs[broker]]
        return DescribeLogDirsResponse(throttle_time_ms=0, results=rows, **_newer(version, 3, error_code=0))

    def offsets(self, _broker: int, version: int, body: bytes) -> Any:
        asked = ListOffsetsRequest.decode(body, version=version).topics
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        row = kind.ListOffsetsPartitionResponse
        topics = [
            kind(
                name=topic.name,
                partitions=[
                    row(
                        version=version, partition_index=entry.partition_index, error_code=0, timestamp=0,
                        offset=self.story.offset((topic.name, entry.partition_index), entry.timestamp),
                        leader_epoch=1,
                    )
                    for entry in topic.partitions
                ],
            )
            for topic in asked
        ]  # fmt: skip
        return ListOffsetsResponse(throttle_time_ms=0, topics=topics)

    def configs(self, broker: int, version: int, body: bytes) -> Any:
        rows = []
        kind = DescribeConfigsResponse.DescribeConfigsResult
        entry = kind.DescribeConfigsResourceResult
        for asked in DescribeConfigsRequest.decode(body, version=version).resources:
            topic = asked.resource_type == _TOPIC
            values = self.story.config if topic else self.story.rates.get(broker, {})
            found = [
                entry(
                    version=version, name=key, value=values[key], read_only=False, config_source=5,
                    is_sensitive=False, synonyms=[], config_type=2, documentation=None,
                )
                for key in asked.configuration_keys or values
                if key in values
            ]  # fmt: skip
            rows.append(
                kind(
                    error_code=0, error_message=None, resource_type=asked.resource_type,
                    resource_name=asked.resource_name, configs=found,
                )
            )  # fmt: skip
        return DescribeConfigsResponse(throttle_time_ms=0, results=rows)

    def reassignments(self, _broker: int, _version: int, _body: bytes) -> Any:
        kind = ListPartitionReassignmentsResponse.OngoingTopicReassignment
        row = kind.OngoingPartitionReassignment
        rows = [
            kind(
                name=topic,
                partitions=[
                    row(
                        partition_index=partition, replicas=list(found.replicas),
                        adding_replicas=list(found.adding), removing_replicas=list(found.removing),
                    )
                ],
            )
            for (topic, partition), found in self.story.moving.items()
        ]  # fmt: skip
        return ListPartitionReassignmentsResponse(
            throttle_time_ms=0, error_code=0, error_message=None, topics=rows
        )


_ANSWERS: dict[int, Callable[[FakeBrokers, int, int, bytes], Any]] = {
    2: FakeBrokers.offsets,
    3: FakeBrokers.metadata,
    18: FakeBrokers.versions,
    32: FakeBrokers.configs,
    35: FakeBrokers.log_dirs,
    46: FakeBrokers.reassignments,
    60: FakeBrokers.cluster,
}
_RESPONSES: dict[int, Any] = {
    2: ListOffsetsResponse,
    3: MetadataResponse,
    18: ApiVersionsResponse,
    32: DescribeConfigsResponse,
    35: DescribeLogDirsResponse,
    46: ListPartitionReassignmentsResponse,
    60: DescribeClusterResponse,
}


def _newer(version: int, since: int, **fields: Any) -> dict[str, Any]:
    return fields if version >= since else {}


def _metadata(topic: TopicAnswer, version: int) -> Any:
    kind = MetadataResponse.MetadataResponseTopic
    row = kind.MetadataResponsePartition
    rows = [
        row(
            version=version, error_code=0, partition_index=entry.partition,
            leader_id=-1 if entry.leader is None else entry.leader, leader_epoch=1,
            replica_nodes=list(entry.replicas), isr_nodes=list(entry.isr), offline_replicas=[],
        )
        for entry in topic.partitions
    ]  # fmt: skip
    return kind(
        version=version, error_code=0, name=topic.name, topic_id=uuid5(NAMESPACE_DNS, topic.name),
        is_internal=topic.internal, partitions=rows,
    )  # fmt: skip


def _log_dir(entry: DirAnswer, version: int, *, replicas: bool) -> Any:
    kind = DescribeLogDirsResponse.DescribeLogDirsResult
    by_topic: dict[str, list[Any]] = {}
    for future, sizes in ((False, entry.replica_bytes), (True, entry.future_bytes)):
        for (topic, partition), size in sizes.items() if replicas else ():
            row = kind.DescribeLogDirsTopic.DescribeLogDirsPartition(
                partition_index=partition, partition_size=size, offset_lag=0, is_future_key=future
            )
            by_topic.setdefault(topic, []).append(row)
    return kind(
        error_code=0 if entry.online else 56,
        log_dir=entry.path,
        topics=[kind.DescribeLogDirsTopic(name=name, partitions=rows) for name, rows in by_topic.items()],
        total_bytes=-1 if entry.total_bytes is None else entry.total_bytes,
        usable_bytes=-1 if entry.usable_bytes is None else entry.usable_bytes,
        is_cordoned=entry.cordoned,
    )


def topic_id(name: str) -> str:
    """A fixed id for a topic's name."""
    return topic_id_text(uuid5(NAMESPACE_DNS, name))


def build_story(brokers: int) -> Story:
    """A topic `t` of one partition per broker, one copy each; a directory of 1 GiB on every broker."""
    rows = tuple(
        PartitionAnswer(number, number + 1, (number + 1,), (number + 1,)) for number in range(brokers)
    )
    dirs: dict[int, tuple[DirAnswer, ...]] = {
        row.replicas[0]: (
            DirAnswer("/data", True, 2**30, 2**29, replica_bytes={("t", row.partition): 2**20}),
        )
        for row in rows
    }
    return Story({"t": TopicAnswer("t", topic_id("t"), False, rows)}, dirs, config={"retention.ms": "-1"})
