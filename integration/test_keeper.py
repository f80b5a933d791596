from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from evenkeel import names
from evenkeel.cli.main import main as cli
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Deletion, DesiredDataset, DesiredTopic, Policy, Report
from evenkeel.domain.job import Order, SourceFormat
from evenkeel.domain.journal import PLAN_SLICE, Claim, Entry, JournalRecord, Plan, Seal, encode
from evenkeel.domain.table import WEIGHT_SCALE
from evenkeel.kafka.clients.append import Appender
from evenkeel.kafka.topics import ROLES
from evenkeel.reasons import Reason
from integration.conftest import StartKafka
from integration.kafka.clients import await_topic, create_topic, produce, unique
from integration.kafka.cluster import KafkaCluster
from integration.kafka.disks import MIB
from integration.kafka.settings import QUICK_DEATH, BrokerSpec
from integration.keeper import Keeper, build_desired, faults, plain, read_claims, read_routed, read_tables
from integration.processes import wait_until

pytestmark = pytest.mark.timeout(300)  # brokers that start count too, and the waits of a test sum up
UNEQUAL = [BrokerSpec(1, disks=(160,)), BrokerSpec(2, disks=(160,)), BrokerSpec(3, disks=(320,))]
SLICE_RECORDS = 100


@pytest.fixture(scope="module")
def cluster(kafka_home: object) -> Iterator[KafkaCluster]:
    """Three brokers of unequal, unequally filled disks; shared by the tests that break nothing."""
    with KafkaCluster.start(UNEQUAL) as started:
        started.fill(1, 64 * MIB)
        yield started


@pytest.fixture(scope="module")
def keeper(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keeper]:
    """One keeper for the tests of one cluster."""
    with Keeper(tmp_path_factory.mktemp("keeper"), build_desired(plain(cluster))) as started:
        started.wait_claim()
        yield started


def topic_names(cluster: KafkaCluster) -> set[str]:
    return set(AdminClient(cluster.client_config()).list_topics(timeout=30).topics)


def topic_config(cluster: KafkaCluster, name: str) -> dict[str, str]:
    admin = AdminClient(cluster.client_config())
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    found = admin.describe_configs([resource])[resource].result(30)
    return {key: str(entry.value) for key, entry in found.items()}


def append(cluster: KafkaCluster, topic: str, *records: JournalRecord) -> list[int]:
    with Appender(plain(cluster)) as appender:
        return [appender.append(topic, encode(record)) for record in records]


def write_plan(cluster: KafkaCluster, dataset: DesiredDataset, planned_bytes: int) -> int:
    """Journal a plan of two slices as its holder would; returns its offset."""
    journal = names.dataset_topic(dataset.uid, "journal")
    (attempt,) = append(cluster, journal, Claim(PLAN_SLICE, 0, "w"))
    plan = Plan(
        attempt=attempt,
        format=SourceFormat.FILES,
        order=Order.SHUFFLED,
        seed=1,
        listing_digest="0" * 64,
        objects=2 * SLICE_RECORDS,
        records=(SLICE_RECORDS, SLICE_RECORDS),
        message_bytes=1,
        message_records=1,
        max_record_bytes=1,
        slice_bytes=1,
        planned_bytes=planned_bytes,
        schema="",
        schema_digest="",
    )
    return append(cluster, journal, plan)[0]


def test_a_cluster_is_measured_and_claimed(cluster: KafkaCluster, keeper: Keeper) -> None:
    report = keeper.wait("volumes", lambda found: len(found.volumes) == 3)
    assert report.measured
    assert not report.faults
    assert report.brokers == 3
    for topic in (names.CONTROL_TOPIC, names.ROUTES_TOPIC, names.HEARTBEATS_TOPIC):
        await_topic(cluster.client_config(), topic, 1)
    for volume in report.volumes:
        assert volume.total_bytes == cluster.total_bytes(volume.broker)
        used = cluster.total_bytes(volume.broker) - cluster.usable_bytes(volume.broker)
        assert volume.used_bytes == pytest.approx(used, abs=0.02 * cluster.total_bytes(volume.broker))
    claims = read_claims(cluster.client_config())
    assert claims[-1]["name"] == "ns/one"


def test_health_and_metrics_are_served(keeper: Keeper) -> None:
    keeper.wait("a measurement", lambda found: found.measured)
    for path in ("healthz", "readyz"):
        with urllib.request.urlopen(f"http://127.0.0.1:{keeper.port}/{path}", timeout=30) as answer:
            assert answer.read() == b"ok\n"
    with urllib.request.urlopen(f"http://127.0.0.1:{keeper.port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    assert "evenkeel_claim_held 1.0" in text
    assert 'evenkeel_volume_total_bytes{broker="1"' in text


def test_an_idle_cluster_changes_no_report(keeper: Keeper) -> None:
    keeper.want(topics=(), datasets=())
    keeper.wait("a quiet report", lambda found: not found.topics)
    path = keeper.folder / "report.json"
    # Turns go on every 5 s; two of them must leave the file alone once the first has settled it.
    wait_until("a settled report", lambda: time.time() - path.stat().st_mtime > 12, seconds=60)


def test_topics_become_as_declared(cluster: KafkaCluster, keeper: Keeper) -> None:
    name = unique("declared")
    wanted = DesiredTopic("o", name, partitions=6, replication_factor=2, config={"retention.ms": "60000"})
    keeper.want(topics=(wanted,))
    report = keeper.wait("the topic", lambda found: found.topics[0].exists)
    assert (report.topics[0].partitions, report.topics[0].replication_factor) == (6, 2)
    await_topic(cluster.client_config(), name, 6)
    assert topic_config(cluster, name)["retention.ms"] == "60000"

    changed = DesiredTopic("o", name, partitions=8, config={"retention.ms": "70000"})
    keeper.want(topics=(changed,))
    keeper.wait("8 partitions", lambda found: found.topics[0].partitions == 8)
    wait_until("the setting", lambda: topic_config(cluster, name)["retention.ms"] == "70000")

    keeper.want(topics=(DesiredTopic("o", name, partitions=4, replication_factor=3),))
    assert "has 8, 4 are asked" in keeper.wait_fault(Reason.PARTITIONS_LOWERED).message
    assert "has 2, 3 is asked" in keeper.wait_fault(Reason.REPLICATION_DIFFERS).message

    keeper.want(topics=())
    keeper.wait("no faults", lambda found: not found.faults)
    assert name in topic_names(cluster)
    keeper.want(deletions=(Deletion(name, "o"),))
    wait_until("its deletion", lambda: name not in topic_names(cluster))
    keeper.want(deletions=())


def test_impossible_replication_is_said_with_numbers(keeper: Keeper) -> None:
    keeper.want(topics=(DesiredTopic("o", unique("wide"), partitions=1, replication_factor=4),))
    fault = keeper.wait_fault(Reason.REPLICATION_ABOVE_BROKERS)
    assert "needs 4 brokers, 3 of 3 are online" in fault.message
    keeper.want(topics=())
    keeper.wait("no faults", lambda found: not found.faults)


def test_a_plan_in_a_journal_is_routed_without_waiting_for_the_next_measurement(
    cluster: KafkaCluster, keeper: Keeper, record_property: Callable[[str, object], None]
) -> None:
    usual, unhurried = keeper.desired.policy, Policy(interval_seconds=60)
    dataset = DesiredDataset(uid=unique("uid"), name="ns/pictures", replication_factor=2, partitions=12)
    keeper.want(datasets=(dataset,))
    # By the usual policy: a broker that does not know them yet is asked again at the next measurement.
    keeper.wait("its topics", lambda found: bool(found.datasets) and found.datasets[0].topics_ready)
    keeper.want(policy=unhurried)
    report = keeper.wait("a measurement", lambda found: found.measured and found.datasets[0].topics_ready)
    data = names.dataset_topic(dataset.uid, "data")
    await_topic(cluster.client_config(), data, 12)
    wanted = {names.dataset_topic(dataset.uid, role) for role in ROLES}
    wait_until("all its topics", lambda: wanted <= topic_names(cluster))
    assert topic_config(cluster, data)["retention.ms"] == "-1"
    assert report.datasets[0].planned_records is None

    offset = write_plan(cluster, dataset, planned_bytes=60 * MIB)
    planned_at = time.time()

    def routed() -> float | None:
        found = [
            at
            for table, at in read_tables(cluster.client_config())
            if table.topic == data and table.plan_offset == offset
        ]
        return found[0] if found else None

    published_at = wait_until("a table for the plan", routed, seconds=unhurried.interval_seconds / 2)
    record_property("seconds", f"{published_at - planned_at:.1f}")  # 1 to 2 on an idle machine
    (table,) = [
        table
        for table, _ in read_tables(cluster.client_config())
        if table.plan_offset == offset and table.topic == data
    ]
    table.check(12)
    assert sum(table.weights) == WEIGHT_SCALE

    def told(report: Report) -> bool:
        routes = report.datasets[0].routes
        return report.datasets[0].planned_records == 200 and routes is not None and routes.active

    keeper.wait("the plan and its routes in the report", told)
    keeper.want(policy=usual)


def test_progress_and_seal_are_followed(cluster: KafkaCluster, keeper: Keeper) -> None:
    dataset = DesiredDataset(uid=unique("uid"), name="ns/sealed", replication_factor=2, partitions=12)
    keeper.want(datasets=(dataset,))
    keeper.wait("its topics", lambda found: bool(found.datasets) and found.datasets[0].topics_ready)
    write_plan(cluster, dataset, planned_bytes=MIB)
    journal = names.dataset_topic(dataset.uid, "journal")
    (attempt,) = append(cluster, journal, Claim(0, 0, "w"))
    entry = Entry(
        0,
        attempt,
        first=0,
        span=SLICE_RECORDS,
        records=SLICE_RECORDS,
        partition=0,
        offset=0,
        length=500,
        digest="d",
    )
    append(cluster, journal, entry)
    report = keeper.wait("progress", lambda found: found.datasets[0].acknowledged_records == SLICE_RECORDS)
    assert report.datasets[0].finished_slices == 1
    append(
        cluster,
        journal,
        Seal("digest", records=200, shards=2, data_bytes=1000, rejected=0, schema_digest="s"),
    )
    report = keeper.wait("the seal", lambda found: found.datasets[0].seal is not None)
    assert report.datasets[0].seal is not None
    assert report.datasets[0].seal.digest == "digest"


def test_an_unsafe_setting_of_a_dataset_is_said_and_set_back(cluster: KafkaCluster, keeper: Keeper) -> None:
    dataset = DesiredDataset(uid=unique("uid"), name="ns/guarded", replication_factor=2, partitions=12)
    keeper.want(datasets=(dataset,))
    keeper.wait("its topics", lambda found: bool(found.datasets) and found.datasets[0].topics_ready)
    data = names.dataset_topic(dataset.uid, "data")
    admin = AdminClient(cluster.client_config())
    entry = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, data, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)
    assert data in keeper.wait_fault(Reason.RETENTION_UNSAFE).message
    wait_until("the guard", lambda: topic_config(cluster, data)["retention.ms"] == "-1")
    keeper.wait("no faults", lambda found: not found.faults)


def test_routes_of_a_declared_topic_avoid_the_full_disk(cluster: KafkaCluster, keeper: Keeper) -> None:
    name = create_topic(cluster.client_config(), unique("routed"), [[1], [2], [3]] * 4, retention_ms="-1")
    keeper.want(topics=(DesiredTopic("o", name),), datasets=())
    keeper.wait(
        "active routes", lambda found: found.topics[0].routes is not None and found.topics[0].routes.active
    )
    table = [table for table, _ in read_tables(cluster.client_config()) if table.topic == name][-1]
    on_full = sum(weight for partition, weight in enumerate(table.weights) if partition % 3 == 0)
    on_empty = sum(weight for partition, weight in enumerate(table.weights) if partition % 3 == 2)
    assert on_full < on_empty


def test_a_second_keeper_writes_nothing(cluster: KafkaCluster, keeper: Keeper, tmp_path: Path) -> None:
    name = unique("foreign")
    wanted = build_desired(plain(cluster), "other/two", topics=(DesiredTopic("o", name, partitions=1),))
    before = read_claims(cluster.client_config())[-1]
    with Keeper(tmp_path / "second", wanted) as second:
        fault = second.wait_fault(Reason.CLUSTER_OWNED_ELSEWHERE)
        assert "ns/one" in fault.message
        report = second.wait("a measurement", lambda found: found.measured)
        assert report.claim is not None
        assert not report.claim.held
        assert report.claim.owner == "ns/one"
        assert len(report.volumes) == 3
    assert name not in topic_names(cluster)
    # The first renews its claim every few minutes, by the same record.
    claims = read_claims(cluster.client_config())
    assert claims[-1] == before
    assert "other/two" not in {claim["name"] for claim in claims}


def test_epochs_go_on_after_a_kill(cluster: KafkaCluster, keeper: Keeper) -> None:
    name = create_topic(cluster.client_config(), unique("epochs"), [[1], [2], [3]], retention_ms="-1")
    keeper.want(topics=(DesiredTopic("o", name),), datasets=())
    keeper.wait(
        "active routes", lambda found: found.topics[0].routes is not None and found.topics[0].routes.active
    )
    before = read_tables(cluster.client_config())
    epoch = keeper.wait_claim().claim
    keeper.kill()
    keeper.start()
    wait_until("a claim of the new life", lambda: _epoch(keeper) > (epoch.epoch if epoch else 0), seconds=120)

    def news() -> bool:
        mine = [table for table, _ in read_tables(cluster.client_config()) if table.topic == name]
        return mine[-1].owner_epoch == _epoch(keeper)

    wait_until("a table of the new life", news, seconds=120)
    after = [table for table, _ in read_tables(cluster.client_config()) if table.topic == name]
    assert after[-1].epoch > max(table.epoch for table, _ in before)


def _epoch(keeper: Keeper) -> int:
    report = keeper.report()
    return report.claim.epoch if report is not None and report.claim is not None else 0


def test_releasing_frees_the_cluster_for_another(
    cluster: KafkaCluster, keeper: Keeper, tmp_path: Path
) -> None:
    assert read_routed(cluster.client_config())
    keeper.want(release=True, topics=(), datasets=())
    report = keeper.wait("the release", lambda found: found.released)
    assert not read_routed(cluster.client_config())  # nobody keeps them up to date any more
    assert report.claim is not None
    assert not report.claim.held
    assert read_claims(cluster.client_config())[-1]["state"] == "Released"
    with Keeper(tmp_path / "next", build_desired(plain(cluster), "other/next")) as following:
        following.wait_claim()
    # the module's keeper gets it back only once it is free again
    with Keeper(tmp_path / "free", build_desired(plain(cluster), "other/next", release=True)) as last:
        last.wait("a release", lambda found: found.released)
    keeper.want(release=False)
    keeper.wait_claim()


def test_what_lies_on_a_killed_broker_is_unknown_not_zero(kafka_cluster: StartKafka, tmp_path: Path) -> None:
    broken = kafka_cluster(properties=QUICK_DEATH)
    name = create_topic(broken.client_config(), "t", [[1, 2], [2, 3], [3, 1]] * 2, retention_ms="-1")
    produce(broken.client_config(), name, [b"x" * 10_000] * 100, partition=0)
    with Keeper(
        tmp_path / "keeper", build_desired(plain(broken), topics=(DesiredTopic("o", name),))
    ) as keeper:
        keeper.wait_claim()
        broken.kill(3)
        fault = keeper.wait_fault(Reason.MEASUREMENT_INCOMPLETE, told="broker 3 is not online")
        assert fault.subject == "broker/3"
        report = keeper.wait(
            "an unknown volume", lambda found: any(v.used_bytes is None for v in found.volumes)
        )
        assert {volume.broker for volume in report.volumes if volume.used_bytes is None} == {3}
        assert report.measured
        broken.start_broker(3)
        keeper.wait(
            "all volumes", lambda found: not found.faults and all(v.used_bytes for v in found.volumes)
        )
        keeper.stop()


def test_a_snapshot_is_printed_and_can_be_planned_with(
    cluster: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = create_topic(cluster.client_config(), unique("offline"), [[1], [2], [3]], retention_ms="-1")
    assert cli(["snapshot", "--bootstrap", cluster.bootstrap, "--seconds", "5"]) == 0
    path = tmp_path / "snapshot.json"
    path.write_text(capsys.readouterr().out)
    assert cli(["plan", "routes", "--snapshot", str(path), "--topic", name, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(found["weights"].values()) == pytest.approx(1)
    assert cli(["snapshot", "--bootstrap", "127.0.0.1:1"]) == 1
    assert "no broker answers" in capsys.readouterr().err


def test_a_dead_address_is_said_and_heals_in_place(
    cluster: KafkaCluster, keeper: Keeper, tmp_path: Path
) -> None:
    nowhere = build_desired(Connection(("127.0.0.1:1",)), "other/three")
    began = time.monotonic()
    with Keeper(tmp_path / "lost", nowhere) as lost:
        lost.wait_fault(Reason.BROKERS_UNREACHABLE, 30)
        assert time.monotonic() - began < 30
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"http://127.0.0.1:{lost.port}/readyz", timeout=30)
        lost.want(connection=plain(cluster))
        report = lost.wait("a measurement", lambda found: found.measured)
        assert not faults(report, Reason.BROKERS_UNREACHABLE)
