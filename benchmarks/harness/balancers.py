"""Rules by which others level disks, written from what they publish; no line of their code is here.

Each is given what it asks people to type in (sizes of disks and of replicas) without error, and keeps the number
of racks of a partition. Where a broker has several directories the replica goes, as in Kafka, to the one with
the fewest. Moves are counted net: what lies elsewhere at the end.

* Cruise Control, disk usage distribution: band of 9 % around the mean use (threshold 1.10, margin 0.9), at most
  80 % of a disk; brokers above it give their largest replicas to the least used brokers, then swap; those below
  it take.
* kafka-kit, `topicmappr rebalance`: brokers with less free space than 80 % of the harmonic mean give of their 30
  largest partitions of 512 MB and more, one per pass, while both ends stay within a tolerance of the mean free
  space; of tolerances of 1 to 98 % the one with the smallest range of free space.
* Astraea, GreedyBalancer: one to four random replicas elsewhere, kept where the standard deviation of bytes per
  broker falls.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from statistics import fmean, harmonic_mean

from evenkeel.domain.snapshot import ClusterSnapshot

BAND, CAPACITY_LIMIT = 0.09, 0.8
OFFLOAD, LARGEST, SMALLEST = 0.8, 30, 512 * 10**6
TRIES = 20_000
"""Of the hill climb; its default is three seconds."""
SWAPS = 400


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule comes to."""

    deviation: float
    bytes: int
    highest: float
    """Fill of the fullest directory at the end."""


class Layout:
    """Replicas and directories of a cluster, without the volumes and safeguards that planners of ours know."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.total: dict[tuple[int, str], int] = {}
        self.used: dict[tuple[int, str], int] = {}
        self.count: dict[tuple[int, str], int] = {}
        self.paths: dict[int, list[str]] = {}
        for broker in snapshot.brokers:
            for entry in broker.log_dirs:
                place = broker.id, entry.path
                self.total[place] = entry.total_bytes or 0
                self.used[place] = (entry.total_bytes or 0) - (entry.usable_bytes or 0)
                self.count[place] = 0
                self.paths.setdefault(broker.id, []).append(entry.path)
        self.rack = {one.id: one.rack if one.rack is not None else f"b{one.id}" for one in snapshot.brokers}
        self.size: list[int] = []
        self.places: list[dict[int, str]] = []
        self.on: dict[int, set[int]] = {broker: set() for broker in self.paths}
        for number, partition in enumerate(snapshot.partitions):
            self.size.append(max(partition.replica_bytes.values(), default=0))
            row = {b: partition.replica_dirs.get(b, self.paths[b][0]) for b in partition.replicas}
            self.places.append(row)
            for place in row.items():
                self.on[place[0]].add(number)
                self.count[place] += 1
        self.bytes = {b: sum(self.used[b, path] for path in paths) for b, paths in self.paths.items()}
        self.capacity = {b: sum(self.total[b, path] for path in paths) for b, paths in self.paths.items()}
        self.start = deepcopy(self.places)

    def may(self, number: int, source: int, target: int) -> bool:
        """No replica there yet, no rack lost."""
        row = self.places[number]
        if target in row or source not in row:
            return False
        after = {self.rack[target if b == source else b] for b in row}
        return len(after) >= len({self.rack[b] for b in row})

    def move(self, number: int, source: int, target: int) -> None:
        """Do it; the directory is the one with the fewest replicas."""
        path = min(self.paths[target], key=lambda one: (self.count[target, one], one))
        row, size = self.places[number], self.size[number]
        old = source, row.pop(source)
        row[target] = path
        for place, change in ((old, -1), ((target, path), 1)):
            self.used[place] += change * size
            self.count[place] += change
            self.bytes[place[0]] += change * size
        self.on[source].discard(number)
        self.on[target].add(number)

    def use(self, broker: int) -> float:
        """Fraction of its disks."""
        return self.bytes[broker] / self.capacity[broker]

    def largest_on(self, broker: int) -> list[int]:
        """Partitions there, the largest first."""
        return sorted(self.on[broker], key=lambda number: (-self.size[number], number))

    def outcome(self) -> Outcome:
        """As it stands."""
        mean = sum(self.used.values()) / sum(self.total.values())
        fills = [self.used[place] / self.total[place] for place in self.total]
        moved = sum(
            self.size[number] * len(row.items() - self.start[number].items())
            for number, row in enumerate(self.places)
        )
        return Outcome(max(abs(fill / mean - 1) for fill in fills), moved, max(fills))


def run_cruise_control(snapshot: ClusterSnapshot) -> Outcome:
    """Greedy towards a band."""
    layout = Layout(snapshot)
    mean = sum(layout.bytes.values()) / sum(layout.capacity.values())
    low, high = mean * (1 - BAND), mean * (1 + BAND)
    for source in sorted(layout.paths, key=lambda b: (-layout.use(b), b)):
        for number in layout.largest_on(source):
            if layout.use(source) <= high:
                break
            _give(layout, number, source, low, high)
        _swap(layout, source, low, high)
    for target in sorted(layout.paths, key=lambda b: (layout.use(b), b)):
        for source in sorted(layout.paths, key=lambda b: (-layout.use(b), b)):
            for number in layout.largest_on(source):
                if layout.use(target) >= low:
                    break
                if _keeps_band(layout, number, source, target, low, high):
                    layout.move(number, source, target)
    return layout.outcome()


def _give(layout: Layout, number: int, source: int, low: float, high: float) -> None:
    for target in sorted(layout.paths, key=lambda b: (layout.use(b), b)):
        if target != source and _keeps_band(layout, number, source, target, low, high):
            layout.move(number, source, target)
            return


def _keeps_band(layout: Layout, number: int, source: int, target: int, low: float, high: float) -> bool:
    size = layout.size[number]
    after = (layout.bytes[target] + size) / layout.capacity[target]
    left = (layout.bytes[source] - size) / layout.capacity[source]
    return layout.may(number, source, target) and after <= min(high, CAPACITY_LIMIT) and left >= low


def _swap(layout: Layout, source: int, low: float, high: float) -> None:
    """A large replica against a smaller one, while the broker is above the band."""
    tried = 0
    for number in layout.largest_on(source):
        for target in sorted(layout.paths, key=lambda b: (layout.use(b), b)):
            for other in reversed(layout.largest_on(target)):
                tried += 1
                if layout.use(source) <= high or tried > SWAPS:
                    return
                change = layout.size[number] - layout.size[other]
                after = (layout.bytes[target] + change) / layout.capacity[target]
                fits = change > 0 and after <= min(high, CAPACITY_LIMIT)
                fits = fits and (layout.bytes[source] - change) / layout.capacity[source] >= low
                if fits and layout.may(number, source, target) and layout.may(other, target, source):
                    layout.move(number, source, target)
                    layout.move(other, target, source)
                    break


def run_kafka_kit(snapshot: ClusterSnapshot) -> Outcome:
    """The best of 98 tolerances."""
    start = Layout(snapshot)
    free = {b: float(start.capacity[b] - start.bytes[b]) for b in start.paths}
    best: tuple[float, list[tuple[int, int, int]]] | None = None
    for percent in range(1, 99):
        after, moves = _relocate(start, free, percent / 100)
        spread = max(after.values()) - min(after.values())
        if best is None or spread < best[0]:
            best = spread, moves
    assert best is not None
    for number, source, target in best[1]:
        start.move(number, source, target)
    return start.outcome()


def _relocate(
    layout: Layout, before: Mapping[int, float], tolerance: float
) -> tuple[dict[int, float], list[tuple[int, int, int]]]:
    free = dict(before)
    mean = fmean(free.values())
    poor = [b for b in free if free[b] < OFFLOAD * harmonic_mean([max(1.0, one) for one in free.values()])]
    large = {b: [n for n in layout.largest_on(b)[:LARGEST] if layout.size[n] >= SMALLEST] for b in poor}
    moves: list[tuple[int, int, int]] = []
    moved: set[int] = set()
    going = True
    while going:
        going = False
        for source in sorted(poor, key=lambda b: (free[b], b)):
            found = _first_fit(layout, free, large[source], source, mean, tolerance, moved)
            if found is not None:
                number, target = found
                moves.append((number, source, target))
                moved.add(number)
                free[source] += layout.size[number]
                free[target] -= layout.size[number]
                going = True
    return free, moves


def _first_fit(
    layout: Layout,
    free: Mapping[int, float],
    numbers: list[int],
    source: int,
    mean: float,
    tolerance: float,
    moved: set[int],
) -> tuple[int, int] | None:
    for number in numbers:
        size = layout.size[number]
        if number in moved or free[source] + size > mean * (1 + tolerance):
            continue
        for target in sorted(free, key=lambda b: (-free[b], b)):
            if free[target] - size >= mean * (1 - tolerance) and layout.may(number, source, target):
                return number, target
    return None


def run_astraea(snapshot: ClusterSnapshot, seed: int = 1) -> Outcome:
    """Random tweaks that lower the standard deviation of bytes."""
    layout = Layout(snapshot)
    chance = random.Random(seed)
    brokers = sorted(layout.paths)
    if not layout.size:
        return layout.outcome()
    for _ in range(TRIES):
        before = sum(size * size for size in layout.bytes.values())
        done: list[tuple[int, int, int]] = []
        for _ in range(chance.randint(1, 4)):
            number = chance.randrange(len(layout.size))
            source, target = chance.choice(sorted(layout.places[number])), chance.choice(brokers)
            if layout.may(number, source, target):
                layout.move(number, source, target)
                done.append((number, source, target))
        if sum(size * size for size in layout.bytes.values()) >= before:
            for number, source, target in reversed(done):
                path = layout.start[number].get(source)
                layout.move(number, target, source)
                if path is not None:
                    _put_back(layout, number, source, path)
    return layout.outcome()


def _put_back(layout: Layout, number: int, broker: int, path: str) -> None:
    """Into the directory it came from."""
    old = layout.places[number][broker]
    for place, change in (((broker, old), -1), ((broker, path), 1)):
        layout.used[place] += change * layout.size[number]
        layout.count[place] += change
    layout.places[number][broker] = path


RULES = {"cruise-control": run_cruise_control, "kafka-kit": run_kafka_kit, "astraea": run_astraea}
"""Name -> rule."""
