"""Many routers of one topic on a simulated clock: runs and schedules as they are, without Kafka and threads."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from evenkeel.router.rates import RateMeter
from evenkeel.router.runs import TopicRun, run_seconds

TICK = 0.1
"""Seconds between two looks of a router's thread."""
STEP = 0.05
LINGER, BATCH = 0.005, 1_000_000
LIGHTEST, HEAVIEST = 0.1, 8.0
"""Bounds of a partition's weight, as multiples of the mean: design section 5.1."""


class Clock:
    """Seconds since the start."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class SimulatedRouter:
    """One producer at a steady rate."""

    def __init__(self, clock: Clock, phase: float, rate: float, message: int) -> None:
        self.run = TopicRun(phase)
        self._clock, self._rate, self._message = clock, rate, message
        self._meter = RateMeter()
        self._debt = 0.0

    def write(self, seconds: float, volume: list[int]) -> None:
        """What `Producer.produce` does to the run, for all messages of this time."""
        run, size = self.run, self._message
        self._debt += self._rate * seconds
        messages = int(self._debt // size)
        self._debt -= messages * size
        while messages:
            room = max(0, run.limit - run.sent) // size
            if room:
                together = min(messages, room)
                run.sent += together * size
            else:
                together = 1
                run.sent += size
                run.turn(size)
            messages -= together
            if run.partition >= 0:
                volume[run.partition] += together * size

    def look(self) -> None:
        """What the router's thread does each second."""
        self._meter.add(self._clock.now, self.run.bytes)
        if self._meter.mean is not None:
            self.run.adapt(self._meter.burst, run_seconds(LINGER), BATCH)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of it."""

    volume: tuple[int, ...]
    """Bytes by partition."""
    expected: tuple[float, ...]
    """Bytes by partition as the tables asked for."""
    runs: int

    def errors(self) -> list[float]:
        """By partition, how far its bytes are from what was asked for, as a part of that."""
        return [abs(have / want - 1) for have, want in zip(self.volume, self.expected, strict=True) if want]


def simulate_fleet(
    tables: Callable[[], Sequence[float]],
    *,
    routers: int,
    rate: float,
    seconds: float,
    seed: int,
    message: int = 16 * 1024,
    every: float = 15.0,
) -> Outcome:
    """Let routers at random phases write at `rate` bytes per second each, with a new table every so often.

    `tables` gives the weights of the next table; it is called at the start and then each `every` seconds.
    """
    source, clock = random.Random(seed), Clock()
    fleet = [SimulatedRouter(clock, source.random(), rate, message) for _ in range(routers)]
    weights = tables()
    volume, expected = [0] * len(weights), [0.0] * len(weights)
    for part in range(round(seconds / every)):
        weights = weights if part == 0 else tables()
        for one in fleet:
            one.run.follow(weights)
        before = sum(volume)
        for tick in range(round(every / TICK)):
            clock.now = part * every + tick * TICK
            _step(fleet, volume, clock, source, second=tick % round(1 / TICK) == 0)
        written = sum(volume) - before
        expected = [total + written * weight for total, weight in zip(expected, weights, strict=True)]
    return Outcome(tuple(volume), tuple(expected), sum(one.run.runs for one in fleet))


def _step(
    fleet: list[SimulatedRouter], volume: list[int], clock: Clock, source: random.Random, *, second: bool
) -> None:
    """A tick of all routers; which of them comes first is a matter of chance."""
    start = clock.now
    for part in range(round(TICK / STEP)):
        clock.now = start + part * STEP
        for one in fleet:
            one.write(STEP, volume)
    source.shuffle(fleet)
    for one in fleet:
        one.run.expire(clock.now)
        if second:
            one.look()


def draw_tables(partitions: int, *, spread: float, drift: float, seed: int) -> Iterator[tuple[float, ...]]:
    """Weights as the planner bounds them: log-normal of this spread, drifting from table to table."""
    source = random.Random(seed)
    logs = [source.gauss(0.0, spread) for _ in range(partitions)]
    while True:
        yield _bound([math.exp(value) for value in logs])
        logs = [value + source.gauss(0.0, drift) for value in logs]


def _bound(raw: list[float]) -> tuple[float, ...]:
    """Shares of sum 1 between the lightest and the heaviest a partition may have."""
    count = len(raw)
    for _ in range(20):
        whole = sum(raw)
        raw = [min(HEAVIEST / count, max(LIGHTEST / count, value / whole)) for value in raw]
    return tuple(value / sum(raw) for value in raw)
