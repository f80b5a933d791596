from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kafka import errors as theirs
from kafka.protocol.admin import DescribeLogDirsResponse
from kafka.protocol.consumer import ListOffsetsResponse
from kafka.protocol.metadata import MetadataResponse

from evenkeel.kafka import wire
from evenkeel.kafka.answers import DirAnswer, PartitionAnswer

DIRECTORY = DescribeLogDirsResponse.DescribeLogDirsResult
TOPIC = ListOffsetsResponse.ListOffsetsTopicResponse


def log_dirs(version: int = 4, **facts: Any) -> Any:
    """The answer of a broker with one directory, as it comes from the network."""
    row = DIRECTORY(**{"error_code": 0, "log_dir": "/d", "topics": [], **facts})
    sent = DescribeLogDirsResponse(throttle_time_ms=0, results=[row])
    return DescribeLogDirsResponse.decode(sent.encode(version=version), version=version)


def test_a_failed_directory_is_unknown_not_empty() -> None:
    found = wire.parse_log_dirs(log_dirs(error_code=56, total_bytes=-1, usable_bytes=-1))
    assert found == (DirAnswer("/d", online=False, total_bytes=None, usable_bytes=None),)


def test_a_cordoned_directory_is_told() -> None:
    (found,) = wire.parse_log_dirs(log_dirs(5, total_bytes=9, usable_bytes=4, is_cordoned=True))
    assert (found.online, found.cordoned) == (True, True)


def test_brokers_that_know_no_sizes_leave_them_unknown() -> None:
    (found,) = wire.parse_log_dirs(log_dirs(3))
    assert (found.online, found.total_bytes, found.usable_bytes) == (True, None, None)


def test_copies_between_directories_are_kept_apart() -> None:
    row = DIRECTORY.DescribeLogDirsTopic.DescribeLogDirsPartition
    rows = [
        row(partition_index=0, partition_size=5, offset_lag=0, is_future_key=False),
        row(partition_index=0, partition_size=3, offset_lag=2, is_future_key=True),
    ]
    (found,) = wire.parse_log_dirs(
        log_dirs(topics=[DIRECTORY.DescribeLogDirsTopic(name="t", partitions=rows)])
    )
    assert (found.replica_bytes, found.future_bytes) == ({("t", 0): 5}, {("t", 0): 3})


def metadata(error: int = 0) -> Any:
    kind = MetadataResponse.MetadataResponseTopic
    row = kind.MetadataResponsePartition(
        error_code=5, partition_index=2, leader_id=-1, leader_epoch=0, replica_nodes=[1, 2], isr_nodes=[],
        offline_replicas=[],
    )  # fmt: skip
    topics = [kind(error_code=error, name="t", is_internal=True, partitions=[row])]
    sent = MetadataResponse(throttle_time_ms=0, brokers=[], cluster_id="c", controller_id=1, topics=topics)
    return MetadataResponse.decode(sent.encode(version=9), version=9)


def test_a_partition_without_a_leader_has_none() -> None:
    found = wire.parse_topics(metadata())["t"]
    assert found.internal
    assert found.partitions == (PartitionAnswer(2, None, (1, 2), ()),)


def test_a_topic_id_is_told_as_kafkas_own_tools_write_it() -> None:
    kind = MetadataResponse.MetadataResponseTopic
    topic = kind(error_code=0, name="t", topic_id=UUID(int=2**128 - 5), is_internal=False, partitions=[])
    sent = MetadataResponse(throttle_time_ms=0, brokers=[], cluster_id="c", controller_id=1, topics=[topic])
    found = wire.parse_topics(MetadataResponse.decode(sent.encode(version=12), version=12))
    assert found["t"].topic_id == "____________________-w"
    assert wire.parse_topics(metadata())["t"].topic_id == ""


def test_topics_that_may_not_be_seen_are_left_out() -> None:
    assert wire.parse_topics(metadata(error=29)) == {}


def offsets(*codes: int) -> Any:
    rows = [
        TOPIC.ListOffsetsPartitionResponse(
            partition_index=number, error_code=code, timestamp=-1, offset=7, leader_epoch=0
        )
        for number, code in enumerate(codes)
    ]
    sent = ListOffsetsResponse(throttle_time_ms=0, topics=[TOPIC(name="t", partitions=rows)])
    return ListOffsetsResponse.decode(sent.encode(version=7), version=7)


def test_a_partition_that_moved_away_is_left_out_and_hides_no_other() -> None:
    assert wire.parse_offsets(offsets(0, 6)) == {("t", 0): 7}


def test_a_leader_that_tells_nothing_says_why() -> None:
    with pytest.raises(theirs.TopicAuthorizationFailedError):
        wire.parse_offsets(offsets(29, 29))
