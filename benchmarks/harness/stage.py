"""A real cluster in the state that a layout says, and topics on it that come and go."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from benchmarks.harness.layouts import Layout
from evenkeel.domain.snapshot import Broker, ClusterSnapshot, LogDir, Partition
from integration.kafka.clients import create_topic, produce
from integration.kafka.cluster import KafkaCluster
from integration.kafka.disks import MIB
from integration.processes import wait_until

BALLAST = "ballast"
SEGMENT_BYTES = 8 * MIB
RECORD = 256 * 1024
"""Size of a ballast record: whole batches of one record, so that the disk holds what was written."""
SETTLED = MIB // 2
"""Bytes of a disk that may come and go by themselves: logs of the broker's own topics."""
PROPERTIES = {
    "log.segment.bytes": str(SEGMENT_BYTES),
    # Deleted bytes come back after a second, not a minute: the next arm needs the disk.
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "2000",
    # An index is made at its largest size and cut when its segment is closed; sparse, but counted by some.
    "log.index.size.max.bytes": str(MIB),
}


_quiet = logging.getLogger("benchmarks.quiet")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


@dataclass(frozen=True, slots=True)
class DiskFill:
    """One disk as Kafka reports it."""

    broker: int
    path: str
    total_bytes: int
    usable_bytes: int

    @property
    def used_bytes(self) -> int:
        """Total - usable, which counts deleted files that still lie there."""
        return self.total_bytes - self.usable_bytes

    @property
    def fill(self) -> float:
        """Used share."""
        return self.used_bytes / self.total_bytes


@dataclass(frozen=True, slots=True)
class Sample:
    """The disks of the brokers that ran at a time."""

    second: float
    """Since sampling began."""
    disks: list[DiskFill]


class Stage:
    """A running cluster with its ballast. Made by `open`."""

    def __init__(self, layout: Layout, cluster: KafkaCluster) -> None:
        self.layout = layout
        self.cluster = cluster

    @classmethod
    def open(cls, layout: Layout, properties: Mapping[str, str] | None = None) -> Self:
        """Start the brokers and write the ballast.

        Raises:
            ServerError, OSError: the cluster does not start.
        """
        cluster = KafkaCluster.start(layout.broker_specs(), properties={**PROPERTIES, **(properties or {})})
        stage = cls(layout, cluster)
        try:
            stage._write_ballast()
        except BaseException:
            cluster.close()
            raise
        return stage

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()

    def disks(self) -> list[DiskFill]:
        """All disks of the brokers that run, by DescribeLogDirs."""
        return [
            DiskFill(broker, one["log_dir"], one["total_bytes"], one["usable_bytes"])
            for broker, dirs in sorted(self._describe({}).items())
            for one in sorted(dirs, key=lambda found: str(found["log_dir"]))
        ]

    def create_topic(self, name: str) -> None:
        """The layout's topic, empty."""
        create_topic(
            self.cluster.client_config(),
            name,
            self.layout.assignments,
            retention_ms="-1",
            segment_bytes=str(SEGMENT_BYTES),
            file_delete_delay_ms="1000",
        )
        wait_until(f"leaders of {name}", lambda: self._led(name), seconds=30)
        wait_until(f"places of {name}", lambda: self._placed(name), seconds=30)

    def drop_topics(self, names: Sequence[str], before: Sequence[DiskFill], seconds: float = 60) -> None:
        """Delete topics; returns when the disks hold what they held `before`.

        Raises:
            ServerError: the bytes are not back within `seconds`.
        """
        admin = _admin(self.cluster)
        for result in admin.delete_topics(list(names)).values() if names else ():
            result.result(timeout=15)
        free = {(disk.broker, disk.path): disk.usable_bytes for disk in before}
        wait_until(
            f"the bytes of {', '.join(names)}",
            lambda: all(free[d.broker, d.path] - d.usable_bytes < SETTLED for d in self.disks()),
            seconds=seconds,
            every=0.5,
        )

    def topics(self) -> set[str]:
        """Names of all topics."""
        return set(_admin(self.cluster).list_topics(timeout=10).topics)

    def snapshot(self, topic: str) -> ClusterSnapshot:
        """Disks of all brokers and the places of one topic, measured without Evenkeel's collector."""
        described = self._describe({topic: list(range(len(self.layout.assignments)))})
        dirs = _places(described, topic)
        admin = _admin(self.cluster)
        metadata = admin.list_topics(topic, timeout=10).topics[topic].partitions
        brokers = tuple(
            Broker(
                broker,
                f"rack{broker}",
                log_dirs=tuple(
                    LogDir(one["log_dir"], one["total_bytes"], one["usable_bytes"]) for one in found
                ),
            )
            for broker, found in sorted(described.items())
        )
        partitions = tuple(
            Partition(
                topic,
                number,
                entry.leader,
                tuple(entry.replicas),
                tuple(entry.isrs),
                replica_dirs=dirs.get(number, {}),
            )
            for number, entry in sorted(metadata.items())
        )
        return ClusterSnapshot(brokers=brokers, partitions=partitions, incoming=())

    def _describe(self, topics: Mapping[str, list[int]]) -> dict[int, list[dict[str, Any]]]:
        running = [spec.id for spec in self.layout.broker_specs() if self.cluster.running(spec.id)]
        # Fresh each time: a client goes stale when its broker dies.
        client = KafkaAdminClient(**self.cluster.admin_config(), request_timeout_ms=10_000)
        try:
            return {
                broker: client.describe_log_dirs(dict(topics), brokers=[broker])[0]["log_dirs"]
                for broker in running
            }
        finally:
            client.close()

    def _led(self, topic: str) -> bool:
        found = _admin(self.cluster).list_topics(topic, timeout=10).topics[topic]
        if len(found.partitions) != len(self.layout.assignments):
            return False
        return all(
            entry.leader == self.layout.assignments[number][0] and len(entry.isrs) == self.layout.replication
            for number, entry in found.partitions.items()
        )

    def _placed(self, topic: str) -> bool:
        """Whether every replica has a directory: logs are made a moment after the leaders are known."""
        found = _places(self._describe({topic: list(range(len(self.layout.assignments)))}), topic)
        return all(
            set(row) == found.get(number, {}).keys() for number, row in enumerate(self.layout.assignments)
        )

    def _write_ballast(self) -> None:
        """Real records, a partition for each disk, until it is as full as the layout says."""
        config = self.cluster.client_config()
        rows = [(broker,) for broker, disks in enumerate(self.layout.brokers, 1) for _ in disks]
        create_topic(
            config,
            BALLAST,
            rows,
            retention_ms="-1",
            min_insync_replicas="1",
            segment_bytes=str(SEGMENT_BYTES),
        )
        wait_until("places of the ballast", lambda: self._ballast_places(len(rows)), seconds=30)
        wanted = {
            (broker, str(self.cluster.log_dir(broker, index))): disk.fill
            for broker, disks in enumerate(self.layout.brokers, 1)
            for index, disk in enumerate(disks)
        }
        free = {(disk.broker, disk.path): disk for disk in self.disks()}
        for (broker, path), partition in self._ballast_places(len(rows)).items():
            disk = free[broker, path]
            missing = int(disk.total_bytes * wanted[broker, path]) - disk.used_bytes
            records = (os.urandom(RECORD) for _ in range(max(0, missing) // RECORD))
            produce(config, BALLAST, records, partition=partition, seconds=120)

    def _ballast_places(self, count: int) -> dict[tuple[int, str], int]:
        """Disk -> ballast partition; empty until Kafka has put each on a disk of its own."""
        places = _places(self._describe({BALLAST: list(range(count))}), BALLAST)
        found = {(broker, path): number for number, dirs in places.items() for broker, path in dirs.items()}
        return found if len(found) == count else {}


def _admin(cluster: KafkaCluster) -> AdminClient:
    return AdminClient(cluster.client_config(), logger=_quiet)


def _places(described: Mapping[int, list[dict[str, Any]]], topic: str) -> dict[int, dict[int, str]]:
    """Partition -> broker -> log directory."""
    places: dict[int, dict[int, str]] = {}
    for broker, dirs in described.items():
        for one in dirs:
            for entry in one["topics"]:
                for partition in entry["partitions"] if entry["name"] == topic else ():
                    places.setdefault(partition["partition_index"], {})[broker] = one["log_dir"]
    return places


@contextlib.contextmanager
def sampled(stage: Stage, every: float = 1.0) -> Iterator[list[Sample]]:
    """Samples, added to the list until the block ends."""
    samples: list[Sample] = []
    done = threading.Event()
    began = time.monotonic()

    def sample() -> None:
        while not done.is_set():
            # A broker may die under the question: then this second has no sample.
            with contextlib.suppress(KafkaError):
                samples.append(Sample(time.monotonic() - began, stage.disks()))
            done.wait(every)

    thread = threading.Thread(target=sample, name="sampler", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        done.set()
        thread.join()
