from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from evenkeel.domain.exchange import BrokerPlace
from evenkeel.domain.snapshot import Incoming, Throttle
from evenkeel.errors import EvenkeelError, RetryableError
from evenkeel.kafka.answers import DirAnswer, OffsetSpan, ReassignmentAnswer
from evenkeel.keeper.assembly import assemble
from evenkeel.keeper.growth import Growth
from evenkeel.keeper.inflow import Inflow
from evenkeel.keeper.last_known import LastKnown
from evenkeel.planning.space import build_space
from evenkeel.reasons import Reason
from tests.support.measurements import CONFIG, MIB, build_measurement

SILENT: EvenkeelError = RetryableError("no answer", reason=Reason.BROKERS_UNREACHABLE)


def grown(*ends: int, seconds: float = 10.0) -> Growth:
    growth = Growth()
    for number, end in enumerate(ends):
        growth.observe(build_measurement(end=end, taken_at_ms=int(number * seconds * 1000)))
    return growth


def test_answers_become_brokers_and_partitions() -> None:
    snapshot = assemble(build_measurement(), Growth())
    assert [broker.id for broker in snapshot.brokers] == [1, 2, 3]
    (log_dir,) = snapshot.brokers[0].log_dirs
    assert (log_dir.total_bytes, log_dir.usable_bytes) == (1000 * MIB, 400 * MIB)
    partition = snapshot.partitions[0]
    assert (partition.leader, partition.replicas, partition.replica_bytes) == (1, (1, 2), {1: MIB, 2: MIB})
    assert (partition.log_start, partition.end) == (0, 100)
    assert snapshot.unknown == ()
    assert snapshot.cluster_id == "cluster"


def test_topics_have_the_id_that_kafka_tells_and_none_where_it_tells_none() -> None:
    measurement = build_measurement()
    (name, answer), *_ = measurement.topics.items()
    for told, found in (("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAQ"), ("", None)):
        topics = {**measurement.topics, name: dataclasses.replace(answer, topic_id=told)}
        snapshot = assemble(dataclasses.replace(measurement, topics=topics), Growth())
        assert {topic.name: topic.topic_id for topic in snapshot.topics}[name] == found


def test_a_broker_without_an_answer_is_unknown_and_planning_sees_it() -> None:
    before = assemble(build_measurement(), Growth())
    error: EvenkeelError = RetryableError("no answer")
    snapshot = assemble(build_measurement(dirs={2: error}), Growth(), before=before)
    assert snapshot.unknown == ("brokers[1].logDirs",)
    (log_dir,) = snapshot.brokers[1].log_dirs
    assert (log_dir.path, log_dir.total_bytes, log_dir.usable_bytes) == ("/data", None, None)
    assert 2 not in snapshot.partitions[0].replica_bytes
    assert build_space(snapshot).unknown


def test_a_broker_that_is_down_is_known_by_name_and_does_not_stop_planning() -> None:
    before = assemble(build_measurement(), Growth())
    snapshot = assemble(build_measurement(fenced=(2,)), Growth(), before=before)
    broker = snapshot.brokers[1]
    assert (broker.online, broker.fenced, broker.log_dirs[0].total_bytes) == (False, True, None)
    assert "brokers[1].logDirs" in snapshot.unknown
    assert not build_space(snapshot).unknown


def test_offsets_of_a_silent_leader_are_unknown() -> None:
    snapshot = assemble(build_measurement(offsets={1: RetryableError("no answer")}), Growth())
    assert snapshot.partitions[0].end is None
    assert "partitions[0].end" in snapshot.unknown


def test_settings_that_may_not_be_seen_are_unknown() -> None:
    snapshot = assemble(build_measurement(configs={"t": None}), Growth())
    assert snapshot.unknown == ("topics[0].cleanupPolicy",)
    assert snapshot.topics[0].retention_ms is None


def test_places_name_nodes_and_volumes() -> None:
    places = [BrokerPlace(1, node="worker-1", volumes={"/data": "shared"})]
    broker = assemble(build_measurement(), Growth(), places=places).brokers[0]
    assert (broker.node, broker.log_dirs[0].volume) == ("worker-1", "shared")


def test_growth_is_a_median_over_observations() -> None:
    # 100 records of MIB / 100 bytes; 10, 10 and 50 new ones in 10 s each
    growth = grown(100, 110, 120, 170)
    snapshot = assemble(build_measurement(end=170), growth, inflow=Inflow(routed=frozenset({"t"})))
    (incoming,) = snapshot.incoming
    assert (incoming.steered_percent, incoming.observed_seconds) == (100, 30)
    assert incoming.bytes_per_second is not None
    assert incoming.bytes_per_second == snapshot.partitions[0].bytes_per_second
    assert abs(incoming.bytes_per_second - MIB / 120) < 1000


def test_without_history_inflow_is_unknown_not_zero() -> None:
    assert assemble(build_measurement(), grown(100)).incoming == (Incoming("t", None, None, 0),)


def test_a_replica_that_catches_up_is_no_inflow() -> None:
    growth = Growth()
    for number, size in enumerate((MIB, 5 * MIB)):
        growth.observe(build_measurement(replica_bytes={2: size}, taken_at_ms=number * 10_000))
    assert growth.topic_rate("t") == 0.0


def test_measurements_close_together_are_not_compared() -> None:
    assert grown(100, 110, seconds=1.0).topic_rate("t") is None


def test_a_topic_made_anew_has_no_negative_rate() -> None:
    assert grown(100, 5).topic_rate("t") is None


def test_planned_bytes_of_an_ingest_stand_alone() -> None:
    inflow = Inflow(routed=frozenset({"t"}), ingests={"t": 7 * MIB})
    assert assemble(build_measurement(), grown(100, 110), inflow=inflow).incoming == (
        Incoming("t", 0.0, 7 * MIB, 100),
    )


def test_an_ingest_without_a_plan_is_unknown() -> None:
    inflow = Inflow(ingests={"t": None})
    assert assemble(build_measurement(), grown(100, 110), inflow=inflow).incoming == (
        Incoming("t", None, None, 0),
    )


def test_moves_under_way_are_told_with_what_is_still_inbound() -> None:
    moving = {("t", 0): ReassignmentAnswer((1, 2, 3), adding=(3,), removing=(2,))}
    partition = assemble(build_measurement(reassignments=moving), Growth()).partitions[0]
    assert (partition.adding, partition.removing, partition.adding_bytes) == ((3,), (2,), MIB)


def expiring(config: Mapping[str, str], kept_from: int | None = 0) -> int | None:
    measurement = build_measurement(
        configs={"t": config}, offsets={1: {("t", 0): OffsetSpan(0, 100)}}, kept_from={("t", 0): kept_from}
    )
    return assemble(measurement, Growth()).partitions[0].expiring_bytes


def test_expiring_bytes_are_the_share_of_records_that_go() -> None:
    assert expiring({"cleanup.policy": "delete", "retention.ms": "1000"}, 25) == MIB // 4
    assert expiring({"cleanup.policy": "delete", "retention.ms": "1000"}, None) == MIB
    assert expiring({"cleanup.policy": "delete", "retention.ms": "-1"}) == 0
    assert expiring({"cleanup.policy": "compact", "retention.ms": "1000"}) == 0
    over = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": str(MIB // 2)}
    assert expiring(over) == MIB - MIB // 2


def test_rates_are_told_again_soon_after_the_clock_was_set_back() -> None:
    growth = Growth()
    for end, seconds in ((100, 5000), (100, 10), (200, 20)):
        growth.observe(build_measurement(end=end, taken_at_ms=seconds * 1000))
    rate = growth.topic_rate("t")
    assert rate is not None
    assert rate > 0
    assert growth.observed_seconds() == 10


def test_what_was_said_before_is_told_with_its_time() -> None:
    known = LastKnown()
    known.complete(build_measurement(taken_at_ms=1000), 15)
    late = build_measurement(taken_at_ms=9000, dirs={1: SILENT, 2: SILENT}, offsets={1: SILENT})
    snapshot = assemble(known.complete(late, 15), Growth())
    assert [broker.measured_at_ms for broker in snapshot.brokers] == [1000, 1000, None]
    (partition,) = snapshot.partitions
    assert (partition.end, partition.offsets_at_ms, partition.replica_bytes) == (100, 1000, {1: MIB, 2: MIB})
    assert snapshot.unknown == ()
    assert not build_space(snapshot).unknown


def test_a_broker_that_is_down_has_last_sizes_and_no_room() -> None:
    known = LastKnown()
    known.complete(build_measurement(), 15)
    snapshot = assemble(known.complete(build_measurement(taken_at_ms=1, fenced=(2,)), 15), Growth())
    (log_dir,) = snapshot.brokers[1].log_dirs
    assert (log_dir.online, log_dir.total_bytes) == (False, 1000 * MIB)
    assert 2 in build_space(snapshot).absent


def test_a_copy_between_directories_is_no_part_of_the_replica() -> None:
    dirs = (
        DirAnswer(
            "/a", online=True, total_bytes=100 * MIB, usable_bytes=50 * MIB, replica_bytes={("t", 0): MIB}
        ),
        DirAnswer(
            "/b", online=True, total_bytes=100 * MIB, usable_bytes=50 * MIB, future_bytes={("t", 0): 7}
        ),
    )
    measurement = build_measurement()
    snapshot = assemble(dataclasses.replace(measurement, dirs={**measurement.dirs, 1: dirs}), Growth())
    (partition,) = snapshot.partitions
    assert partition.replica_bytes == {1: MIB, 2: MIB}
    assert partition.replica_dirs == {1: "/a"}
    assert (partition.future_dirs, partition.future_bytes) == ({1: "/b"}, {1: 7})


def test_a_cordoned_directory_is_told() -> None:
    dirs = (DirAnswer("/a", online=True, total_bytes=9, usable_bytes=4, cordoned=True),)
    measurement = build_measurement()
    snapshot = assemble(dataclasses.replace(measurement, dirs={**measurement.dirs, 3: dirs}), Growth())
    assert [log_dir.cordoned for broker in snapshot.brokers for log_dir in broker.log_dirs] == [
        False,
        False,
        True,
    ]


def test_throttles_are_told_where_they_are_set() -> None:
    config = {
        **CONFIG,
        "leader.replication.throttled.replicas": "0:1",
        "follower.replication.throttled.replicas": "",
    }
    measurement = dataclasses.replace(
        build_measurement(configs={"t": config}),
        throttles={1: {"leader": 5, "follower": 6}, 2: {}, 3: SILENT},
    )
    snapshot = assemble(measurement, Growth())
    assert snapshot.throttles == (Throttle(1, 5, "leader"), Throttle(1, 6, "follower"))
    assert snapshot.topics[0].throttled_replicas == {"leader": "0:1"}
    assert snapshot.unknown == ("throttles",)
