from __future__ import annotations

from dataclasses import replace

import pytest

from evenkeel.domain.snapshot import Broker, ClusterSnapshot, LogDir, Partition
from evenkeel.errors import InputError
from evenkeel.planning.space import build_space, copied_bytes, unplaced
from tests.support.snapshots import broker, cluster, partitions_of


def two_dirs(number: int, *, paths: tuple[str, str] = ("/a", "/b"), volume: str | None = None) -> Broker:
    return Broker(number, log_dirs=tuple(LogDir(path, 100, 60, volume=volume) for path in paths))


def test_each_log_dir_is_a_volume() -> None:
    space = build_space(cluster([two_dirs(1), broker(2, 200, 50)], ()))
    assert [volume.name for volume in space.volumes] == ["1:/a", "1:/b", "2:/data"]
    assert space.capacity.tolist() == [100, 100, 200]
    assert space.used.tolist() == [40, 40, 50]


def test_dirs_of_one_volume_count_once() -> None:
    space = build_space(cluster([two_dirs(1, volume="v"), two_dirs(2, volume="v")], ()))
    assert len(space.volumes) == 1
    assert space.volumes[0].brokers == (1, 2)
    assert space.broker_capacity() == {1: 50, 2: 50}


def test_a_replica_is_found_by_its_directory_or_by_the_only_one() -> None:
    space = build_space(cluster([two_dirs(1), broker(2, 200, 50)], ()))
    partition = Partition("t", 0, 1, (1, 2), replica_dirs={1: "/b"})
    assert space.locate(partition, 1) == 1
    assert space.locate(partition, 2) == 2
    assert space.locate(Partition("t", 1, 1, (1,)), 1) is None


def test_a_replica_that_moves_between_directories_is_where_it_will_be() -> None:
    space = build_space(cluster([two_dirs(1)], ()))
    partition = Partition(
        "t",
        0,
        1,
        (1,),
        replica_bytes={1: 30},
        replica_dirs={1: "/a"},
        future_dirs={1: "/b"},
        future_bytes={1: 10},
    )
    assert space.locate(partition, 1) == 1
    assert list(copied_bytes(space, partition)) == [(1, 20), (0, -30)]
    assert list(copied_bytes(space, replace(partition, replica_bytes={}))) == []
    lost = replace(partition, future_dirs={1: "/gone"})
    assert space.locate(lost, 1) == 0
    assert list(copied_bytes(space, lost)) == []


def test_a_replica_without_directory_on_a_broker_with_two_is_unplaced() -> None:
    space = build_space(cluster([two_dirs(1), broker(2, 200, 50)], ()))
    lost = partitions_of("t", [(1, 2)])
    assert unplaced(space, lost) == ("partitions[t-0].replicaDirs.1",)
    assert unplaced(space, (replace(lost[0], replica_dirs={1: "/a"}),)) == ()


@pytest.mark.parametrize(
    ("one", "path"),
    [
        (Broker(1), "brokers[0].logDirs"),
        (broker(1, None, None), "brokers[0].logDirs[0].totalBytes"),
        (broker(1, 100, None), "brokers[0].logDirs[0].usableBytes"),
    ],
)
def test_unknown_sizes_are_listed_never_zero(one: Broker, path: str) -> None:
    assert build_space(cluster([one], ())).unknown == (path,)


def test_a_broker_that_is_away_is_no_row_and_not_unknown() -> None:
    space = build_space(cluster([broker(1, 100, 50), broker(2, None, None, online=False)], ()))
    assert space.absent == {2}
    assert space.unknown == ()
    assert len(space.volumes) == 1


@pytest.mark.parametrize(
    ("snapshot", "path"),
    [
        (cluster([], ()), "snapshot.brokers"),
        (cluster([broker(1, 9, 1), broker(1, 9, 1)], ()), r"brokers\[1\]\.id"),
        (cluster([broker(1, 0, 0)], ()), r"totalBytes: must be above 0"),
        (cluster([broker(1, 9, 10)], ()), r"usableBytes: must be between 0 and totalBytes \(9\), not -1"),
        (cluster([broker(1, 9, 1)], partitions_of("t", [(1,)]) * 2), "twice"),
        (cluster([broker(1, 9, 1)], [Partition("t", 0, 1, (1, 1))]), r"partitions\[0\]\.replicas"),
    ],
)
def test_impossible_values_are_refused_by_name(snapshot: ClusterSnapshot, path: str) -> None:
    with pytest.raises(InputError, match=path):
        build_space(snapshot)
