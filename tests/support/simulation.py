"""A cluster and its producers in memory, by a clock of our own: every byte is counted onto its volumes.

The producers are the router's own state, runs and schedules; only Kafka and the clock are not there.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evenkeel.domain import codec
from evenkeel.domain.exchange import Policy, TopicRouting
from evenkeel.domain.snapshot import Broker, ClusterSnapshot, Incoming, LogDir, Partition
from evenkeel.domain.table import RouteTable
from evenkeel.keeper.routes import Published, choose_tables
from evenkeel.planning.retention import Retention, look_ahead_seconds
from evenkeel.planning.routing import RoutesPlan, plan_routes
from evenkeel.planning.tables import TableRate
from evenkeel.router.settings import Settings
from evenkeel.router.state import RouterState
from tests.support.corpus import MESSAGE, TABLE_SECONDS, Case, Flow

Floats = NDArray[np.float64]


class SimulatedCluster:
    """Volumes that fill as bytes come and empty as retention takes them."""

    def __init__(self, snapshot: ClusterSnapshot, flows: Sequence[Flow], seconds: float) -> None:
        """`seconds`: how long the flows take, which is also the horizon of their topics."""
        self._snapshot = snapshot
        self.flows = {flow.topic: flow for flow in flows}
        self.seconds = seconds
        self.names, self._index = _index_volumes(snapshot)
        self.capacity = np.zeros(len(self.names))
        self.used = np.zeros(len(self.names))
        for one in snapshot.brokers:
            for entry in one.log_dirs:
                row = self._index[one.id, entry.path]
                self.capacity[row] = entry.total_bytes or 0
                self.used[row] = (entry.total_bytes or 0) - (entry.usable_bytes or 0)
        self.first = self.used.copy()
        self.partitions: dict[str, list[Partition]] = {topic: [] for topic in self.flows}
        for partition in snapshot.partitions:
            if partition.topic in self.partitions:
                self.partitions[partition.topic].append(partition)
        for found in self.partitions.values():
            found.sort(key=lambda partition: partition.partition)
        self._places = {
            topic: [[self._locate(one, b) for b in one.replicas] for one in found]
            for topic, found in self.partitions.items()
        }
        self.steered = {topic: np.zeros(len(found)) for topic, found in self.partitions.items()}
        """Bytes that routers wrote, by partition."""
        self._alive: dict[str, deque[tuple[float, Floats]]] = {topic: deque() for topic in self.flows}
        self.now = 0.0

    def _locate(self, partition: Partition, broker: int) -> int:
        return self._index[broker, partition.replica_dirs.get(broker, "/data")]

    def load(self, topic: str, by_partition: Floats) -> Floats:
        """Bytes on each volume if these are written to the topic's partitions."""
        rows = np.array([len(places) for places in self._places[topic]])
        flat = np.array([row for places in self._places[topic] for row in places], dtype=np.int64)
        weights = np.repeat(by_partition, rows)
        return np.bincount(flat, weights=weights, minlength=len(self.names)).astype(np.float64)

    def write(self, topic: str, by_partition: Floats, *, steered: bool) -> None:
        """Take bytes."""
        self.used += self.load(topic, by_partition)
        if steered:
            self.steered[topic] += by_partition
        if self.flows[topic].retention_seconds is not None:
            self._alive[topic].append((self.now, by_partition))

    def advance(self, seconds: float) -> None:
        """Let time pass: unsteered bytes come, old ones go."""
        for topic, flow in self.flows.items():
            if flow.unsteered:
                self.write(topic, self._unsteered(topic, seconds / self.seconds), steered=False)
            self.used -= self._expired_old(topic, self.now + seconds) - self._expired_old(topic, self.now)
            kept = flow.retention_seconds
            queue = self._alive[topic]
            while kept is not None and queue and queue[0][0] + kept < self.now + seconds:
                self.used -= self.load(topic, queue.popleft()[1])
        self.now += seconds

    def _unsteered(self, topic: str, part: float) -> Floats:
        result = np.zeros(len(self.partitions[topic]))
        for partition, size in self.flows[topic].unsteered.items():
            result[partition] = size * part
        return result

    def _old_bytes(self, topic: str) -> Floats:
        """Bytes of a retention-bound topic that lay there at first: what comes in one retention, no more, lies
        where its bytes lie; the rest of what the snapshot calls its own is not its, and stays."""
        flow = self.flows[topic]
        sizes = [max(one.replica_bytes.values(), default=0) for one in self.partitions[topic]]
        coming = (flow.steered + sum(flow.unsteered.values())) * (flow.retention_seconds or 0) / self.seconds
        return np.array(sizes, float) * min(1.0, coming / max(1, sum(sizes)))

    def _expired_old(self, topic: str, until: float) -> Floats:
        """Of the bytes that lay there at first, what retention has taken from each volume."""
        kept = self.flows[topic].retention_seconds
        if kept is None:
            return np.zeros(len(self.names))
        return self.load(topic, self._old_bytes(topic) * min(1.0, until / kept))

    def kept_part(self, topic: str) -> float:
        """Of all that is written until the end, the part that is still there then."""
        kept = self.flows[topic].retention_seconds
        return 1.0 if kept is None else min(1.0, kept / self.seconds)

    def look_ahead(self, topic: str) -> float:
        """How far a plan looks ahead, seconds."""
        flow = self.flows[topic]
        if flow.planned:
            return self.seconds
        kept = flow.retention_seconds
        retention = Retention(age_ms=None if kept is None else int(kept * 1000))
        return look_ahead_seconds(self.seconds, retention, None)

    def change(self, until: Mapping[str, float]) -> dict[str, float]:
        """What comes to each volume from the start until each topic's own time, steered bytes left out."""
        change = np.zeros(len(self.names))
        for topic, seconds in until.items():
            kept = self.flows[topic].retention_seconds
            alive = seconds if kept is None else min(seconds, kept)
            change += self.load(topic, self._unsteered(topic, alive / self.seconds))
            change -= self._expired_old(topic, seconds)
        return dict(zip(self.names, change.tolist(), strict=True))

    def measure(self) -> ClusterSnapshot:
        """What a keeper finds now."""
        return replace(
            self._snapshot,
            brokers=tuple(self._measured(one) for one in self._snapshot.brokers),
            partitions=self._measured_partitions(),
            incoming=tuple(self._incoming(flow) for flow in self.flows.values()),
            taken_at_ms=int(self.now * 1000),
        )

    def _measured(self, one: Broker) -> Broker:
        def disk(entry: LogDir) -> LogDir:
            row = self._index[one.id, entry.path]
            return replace(entry, usable_bytes=int(max(0.0, self.capacity[row] - self.used[row])))

        return replace(one, log_dirs=tuple(disk(entry) for entry in one.log_dirs))

    def _measured_partitions(self) -> tuple[Partition, ...]:
        flowing = [flow for flow in self.flows.values() if flow.unsteered or flow.retention_seconds]
        if not flowing:
            return self._snapshot.partitions
        rates = {flow.topic: self._unsteered(flow.topic, 1 / self.seconds) for flow in flowing}
        expiring = {flow.topic: self._expiring(flow) for flow in flowing}
        return tuple(
            replace(
                one,
                bytes_per_second=float(rates[one.topic][one.partition]),
                expiring_bytes=int(expiring[one.topic][one.partition]),
            )
            if one.topic in rates
            else one
            for one in self._snapshot.partitions
        )

    def _expiring(self, flow: Flow) -> Floats:
        """Bytes per partition that are deleted within the horizon from now."""
        kept = flow.retention_seconds
        if kept is None:
            return np.zeros(len(self.partitions[flow.topic]))
        until = self.now + self.look_ahead(flow.topic)
        old = self._old_bytes(flow.topic) * (min(1.0, until / kept) - min(1.0, self.now / kept))
        return np.asarray(old + sum(size for since, size in self._alive[flow.topic] if since + kept < until))

    def _incoming(self, flow: Flow) -> Incoming:
        total = flow.steered + sum(flow.unsteered.values())
        percent = round(100 * flow.steered / total)
        if flow.planned:
            left = max(0.0, 1 - self.now / self.seconds)
            return Incoming(flow.topic, planned_bytes=int(total * left), steered_percent=percent)
        return Incoming(flow.topic, bytes_per_second=total / self.seconds, steered_percent=percent)

    def fill(self) -> float:
        """Of the fullest volume, now."""
        return float((self.used / self.capacity).max())


def _index_volumes(snapshot: ClusterSnapshot) -> tuple[list[str], dict[tuple[int, str], int]]:
    names: dict[str, int] = {}
    index = {}
    for one in snapshot.brokers:
        for entry in one.log_dirs:
            name = entry.volume or f"{one.id}/{entry.path}"
            index[one.id, entry.path] = names.setdefault(name, len(names))
    return list(names), index


class SimulatedProducers:
    """Routers that write messages of a given size."""

    def __init__(self, topics: Sequence[str], count: int, seed: int, message_bytes: int = MESSAGE) -> None:
        self._random = np.random.default_rng(seed)
        self._message = message_bytes
        self._states = [RouterState(f"p{i}", self._settings(topics, i, count)) for i in range(count)]
        self._left = {(i, topic): 0.0 for i in range(count) for topic in topics}

    def _settings(self, topics: Sequence[str], i: int, count: int) -> Settings:
        return Settings(topics=tuple(topics), phase=(i + 0.5) / count, message_bytes=self._message)

    def take(self, table: RouteTable, now_ms: int, led: Mapping[str, tuple[bool, ...]]) -> None:
        """A table comes to all of them."""
        value = codec.dumps(table).encode()
        for state in self._states:
            state.store.accept(table.topic, value, len(table.weights))
            state.refresh(now_ms, led)

    def refresh(self, now_ms: int, led: Mapping[str, tuple[bool, ...]]) -> None:
        """Time has passed: tables age."""
        for state in self._states:
            state.refresh(now_ms, led)

    def end_runs(self) -> None:
        """The time limit of a run is over, as it is each 100 ms."""
        for state in self._states:
            for run in state.runs.values():
                run.expire(np.inf)

    def write(self, topic: str, size: float, partitions: int) -> Floats:
        """All of them together write about `size` bytes -> bytes by partition; what is over counts next time."""
        result = np.zeros(partitions)
        for i, state in enumerate(self._states):
            left = self._left[i, topic] + size / len(self._states)
            sizes = self._random.uniform(0.85, 1.0, int(left / self._message / 0.85) + 2) * self._message
            run = state.runs[topic]
            for number in sizes.astype(np.int64).tolist():
                if left <= 0:
                    break
                run.sent += number
                result[run.turn(number) if run.sent > run.limit else run.partition] += number
                left -= number
            self._left[i, topic] = left
        return result


def leaders(cluster: SimulatedCluster) -> dict[str, tuple[bool, ...]]:
    """By topic and partition, whether there is one."""
    return {
        topic: tuple(one.leader is not None for one in found) for topic, found in cluster.partitions.items()
    }


class Steering:
    """Keeper and producers of one simulated cluster: tables are `age` intervals old when they come."""

    def __init__(self, cluster: SimulatedCluster, producers: SimulatedProducers, policy: Policy) -> None:
        self.cluster = cluster
        self.plans: list[RoutesPlan] = []
        self.plan_seconds: list[float] = []
        """CPU time of each."""
        self._producers = producers
        self._policy = policy
        self._led = leaders(cluster)
        self._published = Published()

    def plan(self) -> RoutesPlan:
        """Measure and plan now."""
        routing = TopicRouting(horizon_seconds=int(self.cluster.seconds))
        snapshot, began = self.cluster.measure(), time.process_time()
        found = plan_routes(snapshot, dict.fromkeys(self.cluster.flows, routing), self._policy)
        self.plan_seconds.append(time.process_time() - began)
        self.plans.append(found)
        return found

    def publish(self, found: RoutesPlan) -> None:
        """Give producers what the keeper would publish of a plan."""
        rates = {
            topic: TableRate(flow.steered / self.cluster.seconds)
            for topic, flow in self.cluster.flows.items()
        }
        for table in choose_tables(found, self._published, 1, {}, rates):
            self._published.note(table)
            self._producers.take(table, int(self.cluster.now * 1000), self._led)

    def write(self, seconds: float) -> None:
        """Producers write what is theirs in this time, spread as the newest tables say."""
        self._producers.refresh(int(self.cluster.now * 1000), self._led)
        for topic, flow in self.cluster.flows.items():
            size = flow.steered * seconds / self.cluster.seconds
            written = self._producers.write(topic, size, len(self.cluster.partitions[topic]))
            self.cluster.write(topic, written, steered=True)
        self.cluster.advance(seconds)


def play(case: Case, producers: int = 8, policy: Policy | None = None) -> Steering:
    """The whole case: a table each 15 s, from the measurement before. Nothing is written where a topic of it is
    not routed."""
    cluster = SimulatedCluster(case.snapshot, case.flows, case.seconds)
    writers = SimulatedProducers(tuple(cluster.flows), producers, case.seed)
    steering = Steering(cluster, writers, policy or Policy())
    found = steering.plan()
    if not all(routes.active for routes in found.topics.values()):
        return steering
    for _ in range(case.tables):
        steering.publish(found)
        found = steering.plan()
        steering.write(TABLE_SECONDS)
    return steering
