"""The capped optimum of routing, written down a second time and independently, to check the planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from evenkeel.domain.snapshot import ClusterSnapshot, Partition


class Yardstick:
    """Fills and caps of a snapshot, by plain loops.

    Args:
        snapshot: brokers and partitions; its inflow is not looked at.
        steerable: bytes of each topic that are to be placed, before replication.
        change: bytes that come to (or leave) a volume besides, by its name.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        steerable: Mapping[str, float],
        change: Mapping[str, float] | None = None,
    ) -> None:
        self.steerable = steerable
        self.brokers = len(snapshot.brokers)
        self.volume: dict[tuple[int, str], str] = {}
        self.total: dict[str, float] = {}
        self.used: dict[str, float] = {}
        for broker in snapshot.brokers:
            for log_dir in broker.log_dirs:
                name = log_dir.volume or f"{broker.id}/{log_dir.path}"
                self.volume[broker.id, log_dir.path] = name
                assert log_dir.total_bytes is not None
                assert log_dir.usable_bytes is not None
                self.total[name] = log_dir.total_bytes
                self.used[name] = log_dir.total_bytes - log_dir.usable_bytes
        for name, size in (change or {}).items():
            self.used[name] = max(0.0, self.used[name] + size)
        self.names = sorted(self.total)
        self.partitions = {
            topic: [partition for partition in snapshot.partitions if partition.topic == topic]
            for topic in steerable
        }
        self.fair = self._fair_shares(snapshot)
        self._factors: dict[str, float] = {}

    def _fair_shares(self, snapshot: ClusterSnapshot) -> dict[int, float]:
        owners: dict[str, set[int]] = {}
        for (broker, _), name in self.volume.items():
            owners.setdefault(name, set()).add(broker)
        size = {broker.id: 0.0 for broker in snapshot.brokers}
        for name, ids in owners.items():
            for one in ids:
                size[one] += self.total[name] / len(ids)
        whole = sum(size.values())
        return {one: 2 * max(1 / self.brokers, part / whole) for one, part in size.items()}

    def places(self, partition: Partition) -> list[str]:
        default = "/data"
        return [self.volume[one, partition.replica_dirs.get(one, default)] for one in partition.replicas]

    def fill(self, weights: Mapping[str, Sequence[float]]) -> float:
        """Fill of the fullest volume after W."""
        load = dict(self.used)
        for topic, partitions in self.partitions.items():
            for partition in partitions:
                for name in self.places(partition):
                    load[name] += self.steerable[topic] * weights[topic][partition.partition]
        return max(load[name] / self.total[name] for name in self.names)

    def uniform(self) -> dict[str, list[float]]:
        """Equal shares of all partitions that have a leader, as the default partitioners give over time."""
        result = {}
        for topic, partitions in self.partitions.items():
            led = sum(partition.leader is not None for partition in partitions)
            result[topic] = [0.0] * len(partitions)
            for partition in partitions:
                result[topic][partition.partition] = 0.0 if partition.leader is None else 1 / led
        return result

    def highest(self, topic: str) -> float:
        """Upper bound of a share; what few partitions with a leader must take anyway is always allowed."""
        partitions = self.partitions[topic]
        led = sum(partition.leader is not None for partition in partitions)
        return max(min(1.0, 8 / len(partitions)), 1 / led)

    def relaxation(self, topic: str) -> float:
        """Least factor by which this topic's leader and inbound caps are possible at all."""
        if topic not in self._factors:
            self._factors[topic] = self._least_factor(topic)
        return self._factors[topic]

    def _least_factor(self, topic: str) -> float:
        open_ = [partition for partition in self.partitions[topic] if partition.leader is not None]
        ids = {one: i for i, one in enumerate(sorted(self.fair))}
        entries, count = [], len(self.partitions[topic])
        for column, partition in enumerate(open_):
            assert partition.leader is not None
            entries.append((2 * ids[partition.leader], column, 1.0))
            entries += [(2 * ids[one] + 1, column, 1.0) for one in partition.replicas]
        for one, i in ids.items():
            factor = len(self.partitions[topic][0].replicas)
            entries += [
                (2 * i, len(open_), -self.fair[one]),
                (2 * i + 1, len(open_), -factor * self.fair[one]),
            ]
        found = linprog(  # type: ignore[call-overload]  # as below
            np.append(np.zeros(len(open_)), 1.0),
            A_ub=_matrix(entries, (2 * len(ids), len(open_) + 1)),
            b_ub=np.zeros(2 * len(ids)),
            A_eq=np.append(np.ones(len(open_)), 0.0)[None, :],
            b_eq=[1.0],
            bounds=[*[(0.1 / count, self.highest(topic))] * len(open_), (1.0, np.inf)],
            method="highs",
        )
        assert found.success, found.message
        return float(found.fun)

    def worst_cap(self, topic: str, weights: Sequence[float]) -> float:
        """By how much a leader or replica cap or a bound of a share is exceeded, as a ratio.

        Where the caps are impossible it is the least possible factor that they are measured by.
        """
        partitions = self.partitions[topic]
        leads: dict[int, float] = {}
        holds: dict[int, float] = {}
        count = len(partitions)
        worst = 0.0
        for partition in partitions:
            weight = weights[partition.partition]
            if partition.leader is None:
                worst = max(worst, 2.0 if weight > 0 else 0.0)
                continue
            low = (0.1 / count) / weight if weight > 0 else np.inf
            worst = max(worst, weight / self.highest(topic), low)
            leads[partition.leader] = leads.get(partition.leader, 0.0) + weight
            for one in partition.replicas:
                holds[one] = holds.get(one, 0.0) + weight
        factor = len(partitions[0].replicas)
        caps = [value / self.fair[one] for one, value in leads.items()]
        caps += [value / (factor * self.fair[one]) for one, value in holds.items()]
        return max(worst, max(caps) / self.relaxation(topic))

    def optimum(self) -> float:
        """Least fill of the fullest volume under caps and bounds, by linprog."""
        columns = [
            (topic, partition)
            for topic, partitions in self.partitions.items()
            for partition in partitions
            if partition.leader is not None
        ]
        row_of = {name: i for i, name in enumerate(self.names)}
        topics = list(self.partitions)
        ids = sorted(self.fair)
        cap_row = {
            (topic, one): len(self.names) + 2 * (t * len(ids) + i)
            for t, topic in enumerate(topics)
            for i, one in enumerate(ids)
        }
        rows = len(self.names) + 2 * len(topics) * len(ids)
        limits = np.zeros(rows)
        entries: list[tuple[int, int, float]] = []
        sums: list[tuple[int, int, float]] = []
        bounds: list[tuple[float, float]] = []
        for name, row in row_of.items():
            entries.append((row, len(columns), -1.0))
            limits[row] = -self.used[name] / self.total[name]
        for (topic, one), row in cap_row.items():
            limits[row] = self.fair[one] * self.relaxation(topic)
            limits[row + 1] = limits[row] * len(self.partitions[topic][0].replicas)
        for column, (topic, partition) in enumerate(columns):
            load = self.steerable[topic]
            entries += [(row_of[name], column, load / self.total[name]) for name in self.places(partition)]
            assert partition.leader is not None
            entries.append((cap_row[topic, partition.leader], column, 1.0))
            entries += [(cap_row[topic, one] + 1, column, 1.0) for one in partition.replicas]
            sums.append((topics.index(topic), column, 1.0))
            count = len(self.partitions[topic])
            bounds.append((0.1 / count, self.highest(topic)))
        cost = np.zeros(len(columns) + 1)
        cost[-1] = 1.0
        found = linprog(  # type: ignore[call-overload]  # its stubs know no sparse rows
            cost,
            A_ub=_matrix(entries, (rows, len(columns) + 1)),
            b_ub=limits,
            A_eq=_matrix(sums, (len(topics), len(columns) + 1)),
            b_eq=np.ones(len(topics)),
            bounds=np.array([*bounds, (0, np.inf)]),
            method="highs-ipm",
        )
        assert found.success, found.message
        return float(found.fun)


def _matrix(entries: list[tuple[int, int, float]], shape: tuple[int, int]) -> csr_matrix:
    rows, columns, values = zip(*entries, strict=True)
    return csr_matrix((values, (rows, columns)), shape=shape)
