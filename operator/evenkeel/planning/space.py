"""Volumes: where bytes lie, how much room there is, and what will lie there without us.

Rows of every plan are volumes, not brokers: Kafka dies per log directory (facts measured on real disks).
A volume is one log directory, or what several directories share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenkeel.domain.snapshot import Broker, ClusterSnapshot, LogDir, Partition
from evenkeel.errors import InputError
from evenkeel.reasons import Reason

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Volume:
    """Space that fills up as one."""

    name: str
    """`BROKER:PATH`, or the shared volume's name."""
    brokers: tuple[int, ...]
    dirs: tuple[tuple[int, str], ...]
    total_bytes: int
    used_bytes: int
    """total - usable: deleted files that still lie there are counted."""
    cordoned: bool = False


@dataclass(frozen=True, slots=True)
class Space:
    """All measured volumes of a cluster, in a fixed order."""

    volumes: tuple[Volume, ...]
    index: Mapping[tuple[int, str], int]
    """(broker, log dir path) -> index in `volumes`."""
    sole: Mapping[int, int]
    """broker -> the index of its only volume, for brokers whose directories all lie on one."""
    absent: frozenset[int]
    """Brokers that are away and not measured: no row stands for them."""
    unknown: tuple[str, ...]
    """Paths of sizes that must be known and are not; planning refuses while there are any."""

    @property
    def capacity(self) -> Floats:
        """Bytes of each volume."""
        return np.array([volume.total_bytes for volume in self.volumes], dtype=np.float64)

    @property
    def used(self) -> Floats:
        """Bytes in use of each volume, as the disk says."""
        return np.array([volume.used_bytes for volume in self.volumes], dtype=np.float64)

    def locate(self, partition: Partition, broker: int) -> int | None:
        """Index of the volume that holds (or will hold) the replica of `partition` on `broker`.

        A replica that is copied to another directory of its broker is where it will be. None: the broker or the
        directory is away, or Kafka has not said which directory.
        """
        for paths in (partition.future_dirs, partition.replica_dirs):
            place = (broker, paths.get(broker, ""))
            if place in self.index:
                return self.index[place]
        return self.sole.get(broker)

    def broker_capacity(self) -> dict[int, float]:
        """Bytes per broker; a volume shared by several brokers counts in equal parts."""
        result: dict[int, float] = {}
        for volume in self.volumes:
            for broker in volume.brokers:
                result[broker] = result.get(broker, 0.0) + volume.total_bytes / len(volume.brokers)
        return result


def build_space(snapshot: ClusterSnapshot) -> Space:
    """Group the log directories of a snapshot into volumes.

    Brokers that are offline or fenced and not measured get no row: nothing can be written there now.
    For all others an unknown size is listed in `unknown`.

    Raises:
        InputError: a size is impossible, or a broker or partition appears twice.
    """
    _check(snapshot)
    groups: dict[str, list[tuple[int, LogDir]]] = {}
    for broker in snapshot.brokers:
        for log_dir in broker.log_dirs:
            if log_dir.online:
                name = log_dir.volume or f"{broker.id}:{log_dir.path}"
                groups.setdefault(name, []).append((broker.id, log_dir))
    measured = {name: volume for name, dirs in groups.items() if (volume := _volume(name, dirs))}
    order = {name: i for i, name in enumerate(measured)}
    index = {place: order[name] for name, volume in measured.items() for place in volume.dirs}
    return Space(
        volumes=tuple(measured.values()),
        index=index,
        sole=_sole_volumes(snapshot, index),
        absent=_absent(snapshot, index),
        unknown=tuple(_unknown(snapshot, index)),
    )


def add_to_replicas(volumes: Floats, space: Space, partition: Partition, size: float) -> None:
    """Add `size` to the volume of each replica of the partition, in place; replicas on none are left out."""
    for broker in partition.replicas:
        if (volume := space.locate(partition, broker)) is not None:
            volumes[volume] += size


def copied_bytes(space: Space, partition: Partition) -> Iterator[tuple[int, int]]:
    """What copies between directories of a broker still change: (index of a volume, bytes).

    The target takes the rest of the replica; its present directory is freed at the end.
    """
    for broker, path in partition.future_dirs.items():
        target = space.index.get((broker, path))
        size = partition.replica_bytes.get(broker)
        if target is None or size is None:
            continue  # an offline directory takes nothing; an unknown size is not guessed
        yield target, max(0, size - partition.future_bytes.get(broker, 0))
        source = space.index.get((broker, partition.replica_dirs.get(broker, "")))
        if source is not None:
            yield source, -size


def inbound_bytes(space: Space, partition: Partition) -> Iterator[tuple[int, float]]:
    """What replicas that are being added have still to receive: (index of a volume, bytes).

    As Kafka tells it; where it does not, up to the size of the largest replica that is whole.
    """
    sizes = partition.replica_bytes
    whole = max((size for broker, size in sizes.items() if broker not in partition.adding), default=0)
    for broker in partition.adding:
        volume = space.locate(partition, broker)
        if volume is None:
            continue
        if partition.adding_bytes is not None:
            yield volume, partition.adding_bytes / len(partition.adding)
        else:
            yield volume, max(0, whole - sizes.get(broker, 0))


def unplaced(space: Space, partitions: tuple[Partition, ...]) -> tuple[str, ...]:
    """Paths of replicas on measured brokers with several volumes of which the directory is not known."""
    known = {broker for broker, _ in space.index}
    return tuple(
        f"partitions[{partition.topic}-{partition.partition}].replicaDirs.{broker}"
        for partition in partitions
        for broker in partition.replicas
        if broker in known and not _settled(space, partition, broker)
    )


def _settled(space: Space, partition: Partition, broker: int) -> bool:
    """Whether the replica's place is known, be it one that is offline."""
    return broker in space.sole or broker in partition.replica_dirs or broker in partition.adding


def _volume(name: str, dirs: list[tuple[int, LogDir]]) -> Volume | None:
    sizes = [
        (log_dir.total_bytes, log_dir.usable_bytes)
        for _, log_dir in dirs
        if log_dir.total_bytes is not None and log_dir.usable_bytes is not None
    ]
    if not sizes:
        return None
    total = max(total for total, _ in sizes)
    return Volume(
        name=name,
        brokers=tuple(sorted({broker for broker, _ in dirs})),
        dirs=tuple((broker, log_dir.path) for broker, log_dir in dirs),
        total_bytes=total,
        used_bytes=total - min(usable for _, usable in sizes),
        cordoned=all(log_dir.cordoned for _, log_dir in dirs),
    )


def _sole_volumes(snapshot: ClusterSnapshot, index: Mapping[tuple[int, str], int]) -> dict[int, int]:
    result = {}
    for broker in snapshot.brokers:
        found = {index.get((broker.id, log_dir.path)) for log_dir in broker.log_dirs}
        if len(found) == 1 and (only := found.pop()) is not None:
            result[broker.id] = only
    return result


def _away(broker: Broker) -> bool:
    return broker.fenced or not broker.online


def _absent(snapshot: ClusterSnapshot, index: Mapping[tuple[int, str], int]) -> frozenset[int]:
    measured = {broker for broker, _ in index}
    return frozenset(broker.id for broker in snapshot.brokers if _away(broker) and broker.id not in measured)


def _unknown(snapshot: ClusterSnapshot, index: Mapping[tuple[int, str], int]) -> Iterator[str]:
    for i, broker in enumerate(snapshot.brokers):
        if _away(broker):
            continue
        if not broker.log_dirs:
            yield f"brokers[{i}].logDirs"
        for j, log_dir in enumerate(broker.log_dirs):
            if log_dir.online and (broker.id, log_dir.path) not in index:
                yield f"brokers[{i}].logDirs[{j}].{'totalBytes' if log_dir.total_bytes is None else 'usableBytes'}"


def _check(snapshot: ClusterSnapshot) -> None:
    """Refuse what no measurement can have found."""
    seen: set[int] = set()
    for i, broker in enumerate(snapshot.brokers):
        if broker.id in seen:
            _refuse(f"brokers[{i}].id", f"{broker.id} appears twice")
        seen.add(broker.id)
        for j, log_dir in enumerate(broker.log_dirs):
            _check_dir(f"brokers[{i}].logDirs[{j}]", log_dir)
    if not seen:
        _refuse("brokers", "must name at least one broker")
    places = {(partition.topic, partition.partition) for partition in snapshot.partitions}
    if len(places) != len(snapshot.partitions):
        _refuse("partitions", "a partition appears twice")
    for i, partition in enumerate(snapshot.partitions):
        if not partition.replicas or len(set(partition.replicas)) != len(partition.replicas):
            _refuse(f"partitions[{i}].replicas", f"must be distinct brokers, not {list(partition.replicas)}")


def _check_dir(path: str, log_dir: LogDir) -> None:
    total, usable = log_dir.total_bytes, log_dir.usable_bytes
    if total is not None and total <= 0:
        _refuse(f"{path}.totalBytes", f"must be above 0, not {total}")
    if usable is not None and (usable < 0 or (total is not None and usable > total)):
        _refuse(f"{path}.usableBytes", f"must be between 0 and totalBytes ({total}), not {usable}")


def _refuse(path: str, why: str) -> None:
    raise InputError(f"snapshot.{path}: {why}", reason=Reason.INVALID_SPEC)
