"""What any routing could reach on a snapshot: written down apart from the planner, which it measures.

Notation as in the design: volumes v of C_v bytes hold u_v; a topic of P partitions writes W bytes before
replication, x_p of them to partition p. Every routing keeps to the caps: broker b leads at most
kappa_b = 2 max(1/B, C_b/C) of W, holds at most RF kappa_b of it, and 0.1/P <= x_p / W <= 8/P.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from evenkeel.domain.snapshot import Broker, ClusterSnapshot, Partition

Floats = NDArray[np.float64]
Bound = tuple[float, float | None]
LEADER_FACTOR, LOWEST, HIGHEST = 2.0, 0.1, 8.0


@dataclass(frozen=True, slots=True)
class Problem:
    """One topic on its cluster."""

    volumes: tuple[str, ...]
    """`BROKER:PATH`."""
    capacity: Floats
    used: Floats
    places: Floats
    """volumes x partitions: copies of the partition on the volume."""
    caps: Floats
    """cap rows x partitions, 0 or 1."""
    limits: Floats
    """Largest share of W of each cap row."""

    @property
    def partitions(self) -> int:
        """P."""
        return int(self.places.shape[1])

    def fills(self, sizes: Floats) -> Floats:
        """Fill of each volume once `sizes` bytes were written to the partitions."""
        return np.asarray((self.used + self.places @ sizes) / self.capacity)


def build_problem(snapshot: ClusterSnapshot, topic: str) -> Problem:
    """The topic of a complete snapshot: every size known, every partition led, every directory a volume."""
    rows = {
        (broker.id, one.path): row
        for row, (broker, one) in enumerate(
            (broker, one) for broker in snapshot.brokers for one in broker.log_dirs
        )
    }
    dirs = [one for broker in snapshot.brokers for one in broker.log_dirs]
    partitions = sorted((p for p in snapshot.partitions if p.topic == topic), key=lambda p: p.partition)
    places = np.zeros((len(rows), len(partitions)))
    for column, partition in enumerate(partitions):
        for broker in partition.replicas:
            places[rows[broker, partition.replica_dirs[broker]], column] += 1
    total = np.array([one.total_bytes for one in dirs], dtype=np.float64)
    usable = np.array([one.usable_bytes for one in dirs], dtype=np.float64)
    caps, limits = _build_caps(snapshot.brokers, partitions)
    names = tuple(f"{broker}:{path}" for broker, path in rows)
    return Problem(names, total, total - usable, places, caps, limits)


def _build_caps(brokers: tuple[Broker, ...], partitions: list[Partition]) -> tuple[Floats, Floats]:
    size = {broker.id: sum(one.total_bytes or 0 for one in broker.log_dirs) for broker in brokers}
    whole = sum(size.values())
    caps, limits = [], []
    for broker in sorted(size):
        fair = LEADER_FACTOR * max(1 / len(brokers), size[broker] / whole)
        caps += [
            [float(partition.leader == broker) for partition in partitions],
            [float(broker in partition.replicas) for partition in partitions],
        ]
        limits += [fair, fair * len(partitions[0].replicas)]
    return np.array(caps), np.array(limits)


def uniform_fill(problem: Problem, size: float) -> float:
    """Fill of the fullest volume after `size` bytes in equal shares: what default partitioning does."""
    even = np.full(problem.partitions, size / problem.partitions)
    return float(problem.fills(even).max())


def least_fill(problem: Problem, size: float) -> float:
    """Lowest fill of the fullest volume that any routing within the caps can reach with `size` bytes.

    Raises:
        ValueError: the caps cannot be kept with these leaders.
    """
    count = problem.partitions
    room = problem.capacity[:, None]
    rows = np.vstack(
        [
            np.hstack([problem.places * size / room, -np.ones((len(problem.volumes), 1))]),
            np.hstack([problem.caps, np.zeros((len(problem.limits), 1))]),
        ]
    )
    limits = np.concatenate([-problem.used / problem.capacity, problem.limits])
    sums = np.append(np.ones(count), 0.0)[None, :]
    cost = np.append(np.zeros(count), 1.0)
    bounds: list[Bound] = [(LOWEST / count, min(1.0, HIGHEST / count))] * count
    bounds.append((0.0, None))
    return float(_solve(cost, rows, limits, bounds, (sums, np.ones(1)))[-1])


def deviation(used: Floats, capacity: Floats) -> float:
    """Max over volumes of |fill / mean fill - 1|; the mean is that of the whole cluster."""
    return float(np.max(np.abs(used / capacity / (used.sum() / capacity.sum()) - 1)))


def least_bytes(problem: Problem, target: float) -> float:
    """Fewest bytes, before replication, after which some routing within the caps has deviation <= `target`.

    Raises:
        ValueError: no amount of bytes reaches it.
    """
    count, whole = problem.partitions, problem.capacity.sum()
    mean = problem.places.sum(axis=0) / whole
    fills, before = problem.places / problem.capacity[:, None], problem.used / problem.capacity
    level = problem.used.sum() / whole
    ones = np.ones(count)
    identity = np.eye(count)
    rows = np.vstack(
        [
            fills - (1 + target) * mean,
            (1 - target) * mean - fills,
            problem.caps - problem.limits[:, None] * ones,
            LOWEST / count * ones - identity,
            identity - min(1.0, HIGHEST / count) * ones,
        ]
    )
    limits = np.concatenate(
        [
            (1 + target) * level - before,
            before - (1 - target) * level,
            np.zeros(len(problem.limits) + 2 * count),
        ]
    )
    # In units of all capacity: bytes would stretch the numbers over ten orders.
    found = _solve(ones, rows * whole, limits, [(0.0, None)] * count)
    return float(found.sum() * whole)


def _solve(
    cost: Floats,
    rows: Floats,
    limits: Floats,
    bounds: list[Bound],
    equal: tuple[Floats, Floats] | None = None,
) -> Floats:
    sums, values = equal or (None, None)
    result = linprog(cost, A_ub=rows, b_ub=limits, A_eq=sums, b_eq=values, bounds=bounds, method="highs")
    if not result.success:
        raise ValueError(f"no routing within the caps: {result.message}")
    return np.asarray(result.x, dtype=np.float64)
