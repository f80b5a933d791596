"""The exact optimum of moves in a small cluster, by a mixed-integer program written apart from the planner's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from evenkeel.domain.snapshot import ClusterSnapshot, Partition
from tests.support.moves_yardstick import Disks, Place


@dataclass(frozen=True, slots=True)
class _Option:
    """One way to move one replica."""

    partition: int
    source: Place
    target: Place
    bytes: int


class Oracle:
    """All plans of a cluster whose brokers are all up and whose partitions are all healthy.

    Args:
        snapshot: small; sizes known.
        limit: fill that no disk may pass if nothing that goes is freed.
    """

    def __init__(self, snapshot: ClusterSnapshot, limit: float) -> None:
        self.disks = Disks(snapshot)
        self.mean = self.disks.mean()
        self._limit = limit
        self._places = self.disks.counted
        self._options = [
            option
            for number, partition in enumerate(snapshot.partitions)
            for option in self._moves_of(snapshot, number, partition)
        ]

    def _moves_of(self, snapshot: ClusterSnapshot, number: int, partition: Partition) -> list[_Option]:
        rack = {one.id: one.rack if one.rack is not None else f"b{one.id}" for one in snapshot.brokers}
        before = len({rack[b] for b in partition.replicas})
        found = []
        for source in partition.replicas:
            here = self.disks.place(partition, source)
            for target in self._places:
                after = [target[0] if b == source else b for b in partition.replicas]
                valid = len(set(after)) == len(after) and len({rack[b] for b in after}) >= before
                if valid and target != here:
                    found.append(_Option(number, here, target, partition.replica_bytes[source]))
        return found

    def least_deviation(self) -> float:
        """Of any plan."""
        found = self._solve(moved=0.0, outside=1.0, most=self.disks.deviation())
        assert found is not None
        return float(found[-1]) / 100

    def least_bytes(self, deviation: float) -> float:
        """Of any plan that ends within the deviation."""
        found = self._solve(moved=1.0, outside=0.0, most=deviation)
        assert found is not None
        sizes = np.array([one.bytes for one in self._options], dtype=np.float64)
        return float(sizes @ np.round(found[:-1]))

    def _solve(
        self, *, moved: float, outside: float, most: float
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
        """The last column is the deviation in percent: as a fraction the solver gives up at times."""
        count = len(self._options)
        rows, limits = [], []
        for place in self._places:
            total, used = self.disks.total[place], self.disks.used[place]
            even = self.mean * total
            change = np.array(
                [one.bytes * ((one.target == place) - (one.source == place)) for one in self._options]
            )
            inbound = np.array([one.bytes * (one.target == place) for one in self._options])
            rows += [
                np.append(change / even, -0.01),
                np.append(-change / even, -0.01),
                np.append(inbound / total, 0.0),
            ]
            limits += [1 - used / even, used / even - 1, max(0.0, self._limit - used / total)]
        for number in {one.partition for one in self._options}:
            rows.append(np.append([float(one.partition == number) for one in self._options], 0.0))
            limits.append(1.0)
        sizes = np.array([one.bytes for one in self._options], dtype=np.float64)
        result = milp(
            np.append(moved * sizes / sizes.sum(), outside),
            constraints=LinearConstraint(np.array(rows), -np.inf, np.array(limits)),
            bounds=Bounds(np.zeros(count + 1), np.append(np.ones(count), 100 * most)),
            integrality=np.append(np.ones(count), 0),
            options={"mip_rel_gap": 1e-6},
        )
        return None if result.x is None else np.asarray(result.x, dtype=np.float64)


def emptied_bound(snapshot: ClusterSnapshot, tolerance: float, drain: Collection[int]) -> float:
    """Bytes that any plan moves that empties brokers and ends within the band, by a linear program.

    It knows where the copies of each partition may go, which `lower_bound` does not: with as many replicas as
    brokers are left, few places are. Replicas may be split, so that this is a bound; 0 where no plan gets there.

    Args:
        snapshot: small.
        tolerance: half width of the band.
        drain: brokers to be emptied, lost ones among them.
    """
    disks = Disks(snapshot, drain)
    index = {place: i for i, place in enumerate(disks.counted)}
    columns: list[tuple[int, int, float, int]] = []  # source row or -1, target row, bytes, group
    groups: list[bool] = []
    for partition in snapshot.partitions:
        if partition.leader is None:
            continue
        whole = max(partition.replica_bytes.values(), default=0)
        for broker in partition.replicas:
            leaves = broker in disks.away
            groups.append(leaves)
            source = -1 if leaves else index[disks.place(partition, broker)]
            size = float(partition.replica_bytes.get(broker, whole))
            columns += [
                (source, row, size, len(groups) - 1)
                for (b, _), row in index.items()
                if row != source and (b not in partition.replicas or b == broker)
            ]
    return _least_split(disks, columns, groups, tolerance)


def _least_split(
    disks: Disks, columns: list[tuple[int, int, float, int]], groups: list[bool], tolerance: float
) -> float:
    total = np.array([disks.total[place] for place in disks.counted], dtype=np.float64)
    used = np.array([disks.used[place] for place in disks.counted], dtype=np.float64)
    sizes = np.array([size for _, _, size, _ in columns])
    change = np.zeros((len(total), len(columns)))
    member = np.zeros((len(groups), len(columns)))
    for column, (source, target, size, group) in enumerate(columns):
        member[group, column] = 1.0
        change[target, column] += size
        if source >= 0:
            change[source, column] -= size
    leaves = np.array(groups)
    coming = sum({g: size for _, _, size, g in columns if leaves[g]}.values())
    even = (used.sum() + coming) / total.sum() * total
    unit = float(even.mean())
    found = linprog(
        sizes / unit,
        A_ub=np.vstack([change / unit, -change / unit, member[~leaves]]),
        b_ub=np.concatenate(
            [
                (even * (1 + tolerance) - used) / unit,
                (used - even * (1 - tolerance)) / unit,
                np.ones((~leaves).sum()),
            ]
        ),
        A_eq=member[leaves],
        b_eq=np.ones(leaves.sum()),
        bounds=(0, 1),
        method="highs",
    )
    return 0.0 if found.fun is None else float(found.fun) * unit
