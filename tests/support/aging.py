"""A cluster whose logs age: segments are written by weights and deleted whole, and snapshots are taken of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from evenkeel.domain.snapshot import Broker, ClusterSnapshot, Incoming, LogDir, Partition, Topic
from evenkeel.planning.retention import (
    Horizons,
    Log,
    Retention,
    expiring_bytes,
    expiry_cutoff_ms,
    topic_retention,
)


@dataclass(slots=True)
class Segment:
    first_ms: float
    last_ms: float
    size: float = 0.0


@dataclass(slots=True)
class AgingLog:
    """One partition of one replica."""

    segments: deque[Segment] = field(default_factory=deque)
    deleted: deque[tuple[float, float]] = field(default_factory=deque)
    """(when, bytes) that still lie on the disk."""

    @property
    def size(self) -> float:
        return sum(one.size for one in self.segments)

    def write(self, size: float, now_ms: float, limit: float) -> None:
        if not self.segments or self.segments[-1].size + size > limit:
            self.segments.append(Segment(now_ms, now_ms))
        self.segments[-1].size += size
        self.segments[-1].last_ms = now_ms

    def expire(self, now_ms: float, retention: Retention) -> None:
        while len(self.segments) > 1 and self._goes(self.segments[0], now_ms, retention):
            self.deleted.append((now_ms, self.segments.popleft().size))
        while self.deleted and self.deleted[0][0] <= now_ms - retention.delete_delay_ms:
            self.deleted.popleft()

    def _goes(self, oldest: Segment, now_ms: float, retention: Retention) -> bool:
        old = retention.age_ms is not None and oldest.last_ms < now_ms - retention.age_ms
        many = retention.limit_bytes is not None and self.size - oldest.size >= retention.limit_bytes
        return old or many

    def older_than(self, cutoff_ms: float) -> float:
        """Bytes written before a time, by even writing within each segment."""
        found = 0.0
        for one in self.segments:
            span = max(1.0, one.last_ms - one.first_ms)
            found += one.size * min(1.0, max(0.0, (cutoff_ms - one.first_ms) / span))
        return found


class AgingCluster:
    """One topic `t` of one replica per partition on brokers of one disk each, beside bytes that stay."""

    def __init__(
        self, topic: Topic, capacity: Sequence[int], ballast: Sequence[int], leaders: Sequence[int]
    ) -> None:
        self.topic = topic
        self.capacity = capacity
        self.ballast = ballast
        self.leaders = leaders
        self.logs = [AgingLog() for _ in leaders]
        self.retention = topic_retention(topic)
        self.now_ms = 0.0

    def step(self, seconds: float, rate: float, weights: Sequence[float]) -> None:
        self.now_ms += seconds * 1000
        for log, weight in zip(self.logs, weights, strict=True):
            log.write(rate * weight * seconds, self.now_ms, self.topic.segment_bytes or 1 << 62)
            log.expire(self.now_ms, self.retention)

    def used(self) -> list[float]:
        used = [float(size) for size in self.ballast]
        for leader, log in zip(self.leaders, self.logs, strict=True):
            used[leader] += log.size + sum(size for _, size in log.deleted)
        return used

    def fills(self) -> list[float]:
        return [used / size for used, size in zip(self.used(), self.capacity, strict=True)]

    def snapshot(self, rate: float, weights: Sequence[float], horizons: Horizons) -> ClusterSnapshot:
        """As the keeper would measure it: offsets by time, sizes, rates by the weights of lately."""
        seconds = horizons.seconds("t", self.retention)
        brokers = tuple(
            Broker(number, log_dirs=(LogDir("/data", size, max(0, size - round(used))),))
            for number, (size, used) in enumerate(zip(self.capacity, self.used(), strict=True))
        )
        partitions = tuple(
            self._partition(number, rate * weights[number], seconds) for number in range(len(self.logs))
        )
        observed = None if horizons.observed_seconds is None else int(horizons.observed_seconds)
        incoming = (Incoming("t", rate, steered_percent=100, observed_seconds=observed),)
        return ClusterSnapshot(brokers, partitions, incoming, (self.topic,), taken_at_ms=round(self.now_ms))

    def _partition(self, number: int, rate: float, seconds: float) -> Partition:
        log, leader = self.logs[number], self.leaders[number]
        size = round(log.size)
        cutoff = expiry_cutoff_ms(round(self.now_ms), seconds, self.retention)
        expired = 0 if cutoff is None else round(log.older_than(cutoff))
        freed = expiring_bytes(Log(size, max(1, size), expired, rate), self.retention, seconds)
        assert freed is not None
        return Partition(
            topic="t",
            partition=number,
            leader=leader,
            replicas=(leader,),
            isr=(leader,),
            replica_bytes={leader: size},
            bytes_per_second=rate,
            expiring_bytes=freed + round(sum(gone for _, gone in log.deleted)),
        )
