"""How much measured fills jitter, and fills without that jitter.

Disks show more than what is written: segments are deleted whole, files of others come and go. Weights that
answered to it would send traffic to and fro. The jitter is measured (second differences, in which growth at
an even pace cancels), blunts the weights (beta, design section 5), and is taken out of the fills that routes
are planned by. Moves, limits and reports see fills as measured.

Fills are looked at without what retention is about to free: a segment that goes takes as much from the one as
from the other, so that its going is no jitter.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from evenkeel.domain.snapshot import Broker, ClusterSnapshot, LogDir
from evenkeel.planning.eligible import BETA

OBSERVATIONS = 40
FEWEST = 8
"""Below so many nothing is said of noise, and nothing taken out."""
SHARPNESS = 3.0
"""beta x sd: noise of one sd changes a weight by this exponent at most."""
GAIN = 0.1
"""Part of a deviation that is believed at once."""
LAG = 2.5
"""The steady fill is never further from the measured one than this many sd."""
PLAY = 0.6
"""And stands still until the smoothed one is this many sd away: 2.5 sd of the smoothed one (GAIN 0.1)."""
STEP, STEP_SDS = 0.05, 8.0
"""A fill that jumps by more than this share of the disk, and by so many sd, is no jitter: a topic was deleted, a
replica moved, or the disk fills in minutes. Taken for noise it blunted all weights and left bytes in the plan
that were gone, for ten minutes (measured: 7 % of capacity of regret after a topic was deleted)."""

Place = tuple[int, str]
"""Broker and path of a log directory."""


@dataclass(slots=True)
class _Level:
    """One directory's fill as it goes on."""

    fills: deque[float] = field(default_factory=lambda: deque(maxlen=OBSERVATIONS))
    smooth: float = 0.0
    held: float = 0.0

    def note(self, fill: float) -> None:
        if self.fills and abs(fill - self.fills[-1]) > max(STEP, STEP_SDS * (self.sd() or 0.0)):
            self._shift(fill - self.fills[-1])
        self.fills.append(fill)
        if len(self.fills) <= FEWEST:
            self.smooth = self.held = fill
            return
        sd = self.sd() or 0.0
        self.smooth = _clip(self.smooth + GAIN * (fill - self.smooth), fill, LAG * sd)
        self.held = _clip(self.held, self.smooth, PLAY * sd)

    def _shift(self, step: float) -> None:
        """Let everything begin from the new level; what is known of the noise stays."""
        self.fills = deque((seen + step for seen in self.fills), maxlen=OBSERVATIONS)
        self.smooth += step
        self.held += step

    def sd(self) -> float | None:
        """Standard deviation of the noise, a fraction of capacity; None: watched too shortly."""
        if len(self.fills) < FEWEST:
            return None
        seen = list(self.fills)
        bends = [a - 2 * b + c for a, b, c in zip(seen, seen[1:], seen[2:], strict=False)]
        return math.sqrt(
            sum(bend * bend for bend in bends) / (6 * len(bends))
        )  # var of a bend: (1 + 4 + 1) var


def _clip(value: float, middle: float, width: float) -> float:
    return min(max(value, middle - width), middle + width)


class FillNoise:
    """Fills of all directories over the last measurements. Used by one thread."""

    def __init__(self) -> None:
        self._levels: dict[Place, _Level] = {}

    def observe(self, snapshot: ClusterSnapshot) -> None:
        """Add a measurement."""
        going = _going(snapshot)
        known = {
            (broker.id, entry.path): fill
            for broker in snapshot.brokers
            if broker.measured_at_ms is None  # an answer that is only repeated says nothing of noise
            for entry in broker.log_dirs
            if (fill := _fill(entry, going.get((broker.id, entry.path), 0))) is not None
        }
        for place, fill in known.items():
            self._levels.setdefault(place, _Level()).note(fill)
        there = {(broker.id, entry.path) for broker in snapshot.brokers for entry in broker.log_dirs}
        for place in self._levels.keys() - there:
            del self._levels[place]

    def betas(self, snapshot: ClusterSnapshot, topics: Collection[str]) -> dict[str, float]:
        """Sharpness of each topic's weights: min(500, 3 / sd), over the brokers that hold the topic."""
        by_broker: dict[int, list[float]] = {}
        for (broker, _), level in self._levels.items():
            if (sd := level.sd()) is not None:
                by_broker.setdefault(broker, []).append(sd * sd)
        holders: dict[str, set[int]] = {topic: set() for topic in topics}
        for partition in snapshot.partitions:
            if partition.topic in holders:
                holders[partition.topic].update(partition.replicas)
        return {topic: _beta(by_broker, brokers) for topic, brokers in holders.items()}

    def steady(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot with fills that stand still while measured ones only jitter."""
        going = _going(snapshot)
        brokers = tuple(self._steady_broker(broker, going) for broker in snapshot.brokers)
        return replace(snapshot, brokers=brokers)

    def _steady_broker(self, broker: Broker, going: Mapping[Place, int]) -> Broker:
        dirs = tuple(self._steady_dir((broker.id, entry.path), entry, going) for entry in broker.log_dirs)
        return replace(broker, log_dirs=dirs)

    def _steady_dir(self, place: Place, entry: LogDir, going: Mapping[Place, int]) -> LogDir:
        level, fill = self._levels.get(place), _fill(entry, going.get(place, 0))
        if level is None or fill is None or len(level.fills) <= FEWEST:
            return entry
        assert entry.total_bytes is not None
        assert entry.usable_bytes is not None
        usable = entry.usable_bytes + round(entry.total_bytes * (fill - level.held))
        return replace(entry, usable_bytes=min(max(0, usable), entry.total_bytes))


def _fill(entry: LogDir, going: int) -> float | None:
    if not entry.total_bytes or entry.usable_bytes is None:
        return None
    return 1 - (entry.usable_bytes + going) / entry.total_bytes


def _going(snapshot: ClusterSnapshot) -> dict[Place, int]:
    """Bytes in each directory that retention will free."""
    only = {broker.id: broker.log_dirs[0].path for broker in snapshot.brokers if len(broker.log_dirs) == 1}
    found: dict[Place, int] = {}
    for partition in snapshot.partitions:
        if partition.expiring_bytes:
            for broker in partition.replicas:
                path = only.get(broker) or partition.replica_dirs.get(broker)
                if path is not None:
                    found[broker, path] = found.get((broker, path), 0) + partition.expiring_bytes
    return found


def _beta(variances: Mapping[int, list[float]], brokers: Collection[int]) -> float:
    known = [variance for broker in brokers for variance in variances.get(broker, ())]
    sd = math.sqrt(sum(known) / len(known)) if known else 0.0
    return min(BETA, SHARPNESS / sd) if sd > 0 else BETA
