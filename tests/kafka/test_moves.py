from __future__ import annotations

from typing import Any

import pytest
from kafka import errors as theirs
from kafka.admin import ConfigResourceType
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeConfigsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from evenkeel.errors import ConfigurationError, EvenkeelError, InputError, RetryableError
from evenkeel.kafka import moves, wire
from evenkeel.kafka.answers import BrokerRates
from evenkeel.kafka.moves import ConfigChange, ConfigOperation
from evenkeel.reasons import Reason


def sent(kind: Any, request: Any, version: int) -> Any:
    """A request as a broker reads it."""
    return kind.decode(request.encode(version=version), version=version)


@pytest.mark.parametrize("version", [0, 1])
def test_moves_and_cancellations_go_in_one_request(version: int) -> None:
    request = moves.reassign_request({("t", 0): (3, 2), ("t", 1): None, ("u", 5): (1,)}, 5000)
    found = sent(AlterPartitionReassignmentsRequest, request, version)
    assert found.timeout_ms == 5000
    assert {
        (topic.name, row.partition_index): row.replicas for topic in found.topics for row in topic.partitions
    } == {("t", 0): [3, 2], ("t", 1): None, ("u", 5): [1]}
    if version:
        assert not found.allow_replication_factor_change


def test_another_number_of_replicas_has_to_be_asked_for() -> None:
    request = moves.reassign_request({("t", 0): (3, 2)}, 5000, resize=True)
    assert sent(AlterPartitionReassignmentsRequest, request, 1).allow_replication_factor_change


def reassigned(*codes: int, error: int = 0) -> Any:
    kind = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
    row = kind.ReassignablePartitionResponse
    rows = [row(partition_index=i, error_code=code, error_message="no") for i, code in enumerate(codes)]
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        error_code=error,
        error_message="never",
        responses=[kind(name="t", partitions=rows)],
    )


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (theirs.InvalidReplicationAssignmentError.errno, InputError),
        (theirs.NotControllerError.errno, RetryableError),
        (theirs.ClusterAuthorizationFailedError.errno, ConfigurationError),
        (theirs.UnknownTopicOrPartitionError.errno, RetryableError),
    ],
)
def test_a_refused_move_says_so_and_others_do_not(code: int, kind: type[EvenkeelError]) -> None:
    found = moves.parse_reassign(reassigned(0, code))
    assert list(found) == [("t", 1)]
    assert isinstance(found["t", 1], kind)
    assert "t-1" in found["t", 1].message


def test_cancelling_what_is_over_is_no_failure() -> None:
    assert moves.parse_reassign(reassigned(theirs.NoReassignmentInProgressError.errno)) == {}


def test_a_request_that_is_refused_as_a_whole_raises() -> None:
    with pytest.raises(theirs.ClusterAuthorizationFailedError):
        moves.parse_reassign(reassigned(0, error=theirs.ClusterAuthorizationFailedError.errno))


def test_directories_are_asked_for_by_path() -> None:
    request = moves.place_request({("t", 0): "/a", ("t", 1): "/a", ("u", 0): "/b"})
    found = sent(AlterReplicaLogDirsRequest, request, 2)
    assert {(row.path, topic.name): topic.partitions for row in found.dirs for topic in row.topics} == {
        ("/a", "t"): [0, 1],
        ("/b", "u"): [0],
    }


def test_a_replica_that_is_not_there_yet_is_placed_all_the_same() -> None:
    kind = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
    row = kind.AlterReplicaLogDirPartitionResult
    codes = [0, theirs.ReplicaNotAvailableError.errno, theirs.LogDirNotFoundError.errno]
    rows = [row(partition_index=i, error_code=code) for i, code in enumerate(codes)]
    response = AlterReplicaLogDirsResponse(
        throttle_time_ms=0, results=[kind(topic_name="t", partitions=rows)]
    )
    assert list(moves.parse_place(response)) == [("t", 2)]


def test_changes_of_one_resource_go_together() -> None:
    changes = [
        ConfigChange("1", wire.LEADER_RATE, ConfigOperation.SET, "5"),
        ConfigChange("1", wire.FOLLOWER_RATE, ConfigOperation.DELETE),
        ConfigChange("2", wire.LEADER_RATE, ConfigOperation.SET, "6"),
    ]
    request = moves.configs_request(ConfigResourceType.BROKER, changes)
    found = sent(IncrementalAlterConfigsRequest, request, 1)
    assert [
        (row.resource_type, row.resource_name, [(e.name, e.config_operation, e.value) for e in row.configs])
        for row in found.resources
    ] == [
        (4, "1", [(wire.LEADER_RATE, 0, "5"), (wire.FOLLOWER_RATE, 1, None)]),
        (4, "2", [(wire.LEADER_RATE, 0, "6")]),
    ]


def test_refused_settings_are_told_by_resource() -> None:
    kind = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    rows = [
        kind(error_code=code, error_message="no", resource_type=2, resource_name=name)
        for name, code in (("t", 0), ("u", theirs.TopicAuthorizationFailedError.errno))
    ]
    found = moves.parse_changed(IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=rows))
    assert list(found) == ["u"]
    assert found["u"].reason is Reason.AUTHORIZATION_MISSING


def configs(*entries: tuple[str, str | None, int], error: int = 0) -> Any:
    kind = DescribeConfigsResponse.DescribeConfigsResult
    row = kind.DescribeConfigsResourceResult
    found = [row(name=name, value=value, config_source=source) for name, value, source in entries]
    result = kind(error_code=error, error_message="", resource_type=2, resource_name="t", configs=found)
    return DescribeConfigsResponse(throttle_time_ms=0, results=[result])


def test_own_throttles_are_told_apart_from_inherited_ones() -> None:
    found = wire.parse_throttles(
        configs(
            (wire.LEADER_RATE, "5", 2),
            (wire.FOLLOWER_RATE, "6", 3),
            (wire.DIRECTORY_RATE, str(2**63 - 1), 5),
        )
    )
    assert found == BrokerRates({wire.LEADER_RATE: 5}, {wire.FOLLOWER_RATE: 6})


def test_lists_are_told_as_far_as_the_topic_sets_them() -> None:
    leader, follower = wire.LISTS["leader"], wire.LISTS["follower"]
    assert wire.parse_lists(configs((leader, "0:1", 1), (follower, "", 5))) == {"t": {"leader": "0:1"}}
    assert wire.parse_lists(configs((leader, "", 1))) == {"t": {"leader": ""}}
    assert wire.parse_lists(configs(error=3)) == {}


def test_only_preferred_leaders_are_elected() -> None:
    found = sent(ElectLeadersRequest, moves.elect_request([("t", 0), ("u", 2), ("t", 1)], 5000), 2)
    assert (found.election_type, found.timeout_ms) == (0, 5000)
    assert {row.topic: row.partitions for row in found.topic_partitions} == {"t": [0, 1], "u": [2]}


def test_an_election_that_is_not_needed_is_no_refusal() -> None:
    kind = ElectLeadersResponse.ReplicaElectionResult
    row = kind.PartitionResult
    codes = [0, theirs.ElectionNotNeededError.errno, theirs.PreferredLeaderNotAvailableError.errno]
    rows = [row(partition_id=i, error_code=code, error_message="no") for i, code in enumerate(codes)]
    results = [kind(topic="t", partition_result=rows)]
    response = ElectLeadersResponse(throttle_time_ms=0, error_code=0, replica_election_results=results)
    assert list(moves.parse_elected(response)) == [("t", 2)]
    refused = ElectLeadersResponse(
        throttle_time_ms=0,
        error_code=theirs.ClusterAuthorizationFailedError.errno,
        replica_election_results=[],
    )
    with pytest.raises(theirs.ClusterAuthorizationFailedError):
        moves.parse_elected(refused)
