"""What the keeper measures on real brokers: moves between directories, throttles, failed and silent brokers."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka import KafkaAdminClient
from kafka.structs import TopicPartitionReplica

from evenkeel import names
from evenkeel.domain.exchange import DatasetReport, Desired, DesiredDataset, Owner, Report, SealReport
from evenkeel.domain.revision import Location, ShardLocation
from evenkeel.domain.snapshot import ClusterSnapshot, LogDir, Partition, Throttle
from evenkeel.errors import EvenkeelError, RetryableError
from evenkeel.format.manifest import encode_location
from evenkeel.kafka.clients.append import Appender
from evenkeel.kafka.clients.identity import wait_for_topic
from evenkeel.kafka.manifests import ManifestWriter
from evenkeel.keeper.assembly import assemble
from evenkeel.keeper.collector import gather
from evenkeel.keeper.faults import measurement_faults
from evenkeel.keeper.growth import Growth
from evenkeel.keeper.last_known import KEPT_INTERVALS, LastKnown
from evenkeel.keeper.measurement import Measurement
from evenkeel.keeper.revisions import Revisions
from evenkeel.planning.space import build_space
from evenkeel.reasons import Reason
from integration.kafka.clients import create_topic, produce, remake_topic, unique
from integration.kafka.cluster import KafkaCluster
from integration.kafka.disks import MIB, may_mount
from integration.kafka.settings import BrokerSpec
from integration.keeper import plain
from integration.processes import wait_until

DEADLINE = 3.0
INTERVAL = 5.0
TWO_DISKS = [
    BrokerSpec(1, disks=(160, 160)),
    BrokerSpec(2, disks=(160, 160)),
    BrokerSpec(3, disks=(160, 160)),
]


@pytest.fixture(scope="module")
def cluster(kafka_home: object) -> Iterator[KafkaCluster]:
    """Three brokers of two disks; broken bit by bit by the tests, in their order."""
    if not may_mount():
        pytest.skip("disks of chosen sizes need root and loop devices")
    with KafkaCluster.start(TWO_DISKS) as started:
        yield started


def measure(cluster: KafkaCluster) -> Measurement:
    return gather(plain(cluster), now_ms=time.time_ns() // 1_000_000, deadline=DEADLINE)


def measure_all(cluster: KafkaCluster) -> Measurement | None:
    """None where an answer is missing, as on a busy machine."""
    try:
        found = measure(cluster)
    except RetryableError:  # not even brokers and topics
        return None
    return None if any(found.errors()) else found


def await_measurement(cluster: KafkaCluster) -> Measurement:
    """One in which no answer is missing."""
    return wait_until("a whole measurement", lambda: measure_all(cluster))


def snap(cluster: KafkaCluster) -> ClusterSnapshot:
    return assemble(await_measurement(cluster), Growth())


def dirs_of(snapshot: ClusterSnapshot, broker: int) -> dict[str, LogDir]:
    (found,) = [one for one in snapshot.brokers if one.id == broker]
    return {entry.path: entry for entry in found.log_dirs}


def partition_of(snapshot: ClusterSnapshot, topic: str) -> Partition:
    (found,) = [one for one in snapshot.partitions if one.topic == topic]
    return found


def set_config(cluster: KafkaCluster, kind: Any, name: str, **config: str) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in config.items()
    ]
    admin = AdminClient(cluster.client_config())
    for future in admin.incremental_alter_configs(
        [ConfigResource(kind, name, incremental_configs=entries)]
    ).values():
        future.result(60)


@pytest.fixture(scope="module")
def filled(cluster: KafkaCluster) -> str:
    """A topic of one partition on brokers 1 and 2 with 24 MiB."""
    topic = create_topic(cluster.client_config(), unique("filled"), [[1, 2]], min_insync_replicas="1")
    produce(cluster.client_config(), topic, [bytes(MIB // 2)] * 48, partition=0)
    return topic


def test_a_replica_that_moves_to_another_directory_is_told_apart(cluster: KafkaCluster, filled: str) -> None:
    before = partition_of(snap(cluster), filled)
    home = before.replica_dirs[1]
    (target,) = dirs_of(snap(cluster), 1).keys() - {home}
    set_config(
        cluster, ConfigResource.Type.BROKER, "1", replica_alter_log_dirs_io_max_bytes_per_second=str(MIB)
    )
    admin: Any = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        admin.alter_replica_log_dirs({TopicPartitionReplica(filled, 0, 1): target})
    finally:
        admin.close()

    def moving() -> Partition | None:
        found = partition_of(snap(cluster), filled)
        return found if found.future_bytes.get(1) else None

    found = wait_until("a copy under way", moving, seconds=60)
    assert found.future_dirs == {1: target}
    assert found.future_bytes[1] < found.replica_bytes[1]
    assert found.replica_bytes == before.replica_bytes
    assert found.replica_dirs[1] == home
    set_config(
        cluster,
        ConfigResource.Type.BROKER,
        "1",
        replica_alter_log_dirs_io_max_bytes_per_second=str(1024 * MIB),
    )

    def moved() -> bool:
        now = partition_of(snap(cluster), filled)
        return now.replica_dirs[1] == target and not now.future_dirs

    wait_until("the copy's end", moved, seconds=60)


def test_throttles_are_seen(cluster: KafkaCluster, filled: str) -> None:
    assert snap(cluster).throttles == ()
    set_config(
        cluster, ConfigResource.Type.BROKER, "2",
        leader_replication_throttled_rate="20000000", follower_replication_throttled_rate="10000000",
    )  # fmt: skip
    set_config(cluster, ConfigResource.Type.TOPIC, filled, leader_replication_throttled_replicas="0:1")
    expected = (Throttle(2, 20_000_000, "leader"), Throttle(2, 10_000_000, "follower"))
    wait_until("throttles", lambda: snap(cluster).throttles == expected)

    def throttled() -> bool:
        (topic,) = [one for one in snap(cluster).topics if one.name == filled]
        return topic.throttled_replicas == {"leader": "0:1"}

    wait_until("throttled replicas", throttled)  # any broker is asked


def test_a_cordoned_directory_is_seen(cluster: KafkaCluster) -> None:
    path = str(cluster.log_dir(3, 1))
    set_config(cluster, ConfigResource.Type.BROKER, "3", cordoned_log_dirs=path)
    wait_until("cordoned", lambda: dirs_of(snap(cluster), 3)[path].cordoned)
    assert not dirs_of(snap(cluster), 3)[str(cluster.log_dir(3, 0))].cordoned


def test_a_frozen_broker_costs_a_deadline_and_is_known_for_a_while(
    cluster: KafkaCluster, filled: str
) -> None:
    known = LastKnown()
    first = await_measurement(cluster)
    assert known.complete(first, INTERVAL) == first
    cluster.freeze(1)
    try:
        began = time.monotonic()
        late = measure(cluster)
        took = time.monotonic() - began
    finally:
        cluster.thaw(1)
    # Connecting may try the frozen one first, what any broker can tell is asked of the next after a second;
    # the rest is for a busy machine.
    assert took < 4 * DEADLINE
    assert isinstance(late.dirs[1], RetryableError)
    assert isinstance(late.dirs[2], tuple)
    kept = known.complete(late, INTERVAL)
    snapshot = assemble(kept, Growth())
    assert kept.kept_dirs == {1: first.taken_at_ms}
    assert not build_space(snapshot).unknown
    now, before = partition_of(snapshot, filled), partition_of(assemble(first, Growth()), filled)
    assert (now.replica_bytes, now.end) == (before.replica_bytes, before.end)
    faults = measurement_faults(late, kept.kept_dirs)
    assert [(fault.reason, fault.subject) for fault in faults] == [(Reason.BROKERS_UNREACHABLE, "broker/1")]
    assert_unknown_later(known, late)


def assert_unknown_later(known: LastKnown, late: Measurement) -> None:
    """The same answers missing for longer than KEPT_INTERVALS."""
    later_ms = late.taken_at_ms + int(KEPT_INTERVALS * INTERVAL * 1000) + 1
    gone = known.complete(dataclasses.replace(late, taken_at_ms=later_ms), INTERVAL)
    assert isinstance(gone.dirs[1], EvenkeelError)
    assert "brokers[0].logDirs" in assemble(gone, Growth()).unknown


def test_a_data_topic_that_loses_what_a_revision_needs_is_found(cluster: KafkaCluster) -> None:
    dataset = DesiredDataset(unique("uid"), "ns/pictures", data_topic=unique("data"), follow=False)
    data, manifest = str(dataset.data_topic), names.dataset_topic(dataset.uid, "manifest")
    config, connection = cluster.client_config(), plain(cluster)
    create_topic(config, data, [[3]], min_insync_replicas="1")
    create_topic(config, manifest, [[3]], min_insync_replicas="1")
    produce(config, data, [b"record"] * 10, partition=0)
    topic_id = wait_for_topic(connection, data, 30).topic_id  # as the sealer does
    location = Location("", "", data, topic_id, (ShardLocation(0, 0, (2, 9)),))
    with Appender(connection) as appender:
        digest = ManifestWriter(appender, manifest, "w").write(b"content", encode_location(location))
    desired = Desired(Owner("i", "u", "n"), connection, datasets=(dataset,))
    seal = SealReport(digest, 10, 1, 100, 0, 5)
    report = Report("", datasets=(DatasetReport(dataset.uid, topics_ready=True, seal=seal),))
    revisions = Revisions(time.monotonic)

    def losses() -> list[str]:
        return [fault.message for fault in revisions.check(desired, report, await_measurement(cluster))]

    assert losses() == []
    admin = AdminClient(config)
    for wanted, found in ((2, []), (3, ["begins at offset 3, the revision needs 2"])):
        admin.delete_records([TopicPartition(data, 0, wanted)])[TopicPartition(data, 0)].result(60)
        assert [told.split("partition 0 of topic ")[1].split(" ", 1)[1] for told in losses()] == [
            f"{text} and on" for text in found
        ]
    remake_topic(config, data, [[3]], min_insync_replicas="1")
    wait_until("a new topic id", lambda: any("was deleted and made again" in told for told in losses()))


def test_a_failed_directory_is_told_and_never_empty(cluster: KafkaCluster) -> None:
    """Disk 0 of broker 2 fills up: Kafka gives that directory up and goes on with the other."""
    rows = [[2] for _ in range(4)]
    topic = create_topic(cluster.client_config(), unique("victim"), rows)
    for partition in range(len(rows)):
        produce(cluster.client_config(), topic, [b"x"], partition=partition)
    placed = {one.partition: one.replica_dirs[2] for one in snap(cluster).partitions if one.topic == topic}
    path = str(cluster.log_dir(2, 0))
    victim = next(partition for partition, home in placed.items() if home == path)
    cluster.fill(2, fraction=1.0, disk=0)
    with pytest.raises(KafkaException):
        produce(
            cluster.client_config() | {"message.timeout.ms": 5000},
            topic,
            [bytes(MIB // 2)] * 40,
            partition=victim,
            seconds=8,
        )
    wait_until("a failed directory", lambda: not dirs_of(snap(cluster), 2)[path].online, seconds=60)
    measurement = await_measurement(cluster)
    failed = dirs_of(assemble(measurement, Growth()), 2)[path]
    assert (failed.online, failed.total_bytes, failed.usable_bytes) == (False, None, None)
    assert dirs_of(assemble(measurement, Growth()), 2)[str(cluster.log_dir(2, 1))].online
    told = [fault.message for fault in measurement_faults(measurement) if fault.subject == "broker/2"]
    assert told == [f"log directory {path} has failed"]
