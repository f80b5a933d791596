"""The search for moves that level the volumes: the worst volume first, and for it the replica that fits best.

Large replicas go first, and none that is larger than what the volume has too much of (or too little): so the
bytes that are moved beyond need are those of the last, small ones. `refine` then takes back what turned out not
to be needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice, takewhile

import numpy as np

from evenkeel.planning.levels import Goal, Levels
from evenkeel.planning.movable import Movable, Replica, Seats
from evenkeel.planning.space import Floats, Ints

TRIES = 40
"""So many replicas of a volume are tried on each side of the wanted size."""
GIVERS = 12
"""So many volumes are asked for a replica for one that is too empty."""
IMPROVEMENT = 0.9
"""A move that ends outside the band must bring the worse end at least this much closer."""


@dataclass(frozen=True, slots=True)
class Step:
    """A replica to a seat."""

    index: int
    """Of the replica."""
    source: int
    """Volume it leaves."""
    seat: int
    target: int
    """Volume of the seat."""
    gain: float = 0.0
    """Bytes by which it brings both ends closer to the band."""


class Board:
    """Levels, band and rules together: what a move may do, and what it did.

    Args:
        seats: where replicas may go.
        movable: what may go.
        levels: how full the volumes are; changed by `take`.
        goal: how full they should be.
        highest: fill that no volume may pass at any moment, as a fraction.
    """

    def __init__(self, seats: Seats, movable: Movable, levels: Levels, goal: Goal, highest: float) -> None:
        self.seats = seats
        self.movable = movable
        self.levels = levels
        self.goal = goal
        self.limit = highest * levels.capacity
        self._highest = highest

    def copy(self) -> Board:
        """The same, to try something on."""
        return Board(self.seats, self.movable.copy(), self.levels.copy(), self.goal, self._highest)

    def replica(self, index: int) -> Replica:
        """By its number."""
        return self.movable.replicas[index]

    def open_seats(self, index: int) -> Ints:
        """Seats that rules and the peak leave for a replica."""
        replica = self.replica(index)
        there = np.flatnonzero(self.seats.for_move(replica))
        volumes = self.seats.volumes[there]
        fits = self.levels.highest[volumes] + replica.bytes <= self.limit[volumes]
        return np.asarray(there[fits], dtype=np.int64)

    def gain(self, source: int, target: int, size: float) -> float:
        """Bytes that a move brings both ends closer to the band."""
        used, goal = self.levels.used, self.goal
        out = min(size, max(0.0, used[source] - goal.high[source]))
        into = min(size, max(0.0, goal.low[target] - used[target]))
        return float(out + into)

    def take(self, index: int, source: int, seat: int) -> Step:
        """Do it."""
        replica, target = self.replica(index), int(self.seats.volumes[seat])
        gain = self.gain(source, target, replica.lasting)
        self.levels.remove(source, replica.lasting)
        self.levels.add(target, replica.lasting, replica.bytes)
        self.movable.use(replica.key)
        return Step(index, source, seat, target, gain)

    def undo(self, step: Step) -> None:
        """Levels as if it had not been; the partition stays used."""
        replica = self.replica(step.index)
        self.levels.add(step.source, replica.lasting, 0)
        self.levels.remove(step.target, replica.lasting)
        self.levels.highest[step.target] -= replica.bytes


class Search:
    """Greedy. Volumes for which nothing was found are looked at again once all others are done."""

    def __init__(self, board: Board, most: int) -> None:
        self._board = board
        self._most = most
        self._steps: list[Step] = []

    def run(self) -> list[Step]:
        """Steps in their order."""
        board = self._board
        stuck: set[int] = set()
        tried_at = 0
        while len(self._steps) < self._most:
            worst = board.goal.worst(board.levels.used, stuck)
            if worst is None:
                if not stuck or tried_at == len(self._steps):
                    break
                stuck, tried_at = set(), len(self._steps)
                continue
            found = self._relieve(worst[0]) if worst[1] else self._fill(worst[0])
            if found is None:
                stuck.add(worst[0])
            else:
                self._steps.append(board.take(*found))
        return self._steps

    def _relieve(self, source: int) -> tuple[int, int, int] | None:
        """A replica on `source` no larger than its surplus, to where bytes are wanted most."""
        board, used, goal = self._board, self._board.levels.used, self._board.goal
        need = float(used[source] - goal.high[source])
        room = np.delete(goal.high - used, source)
        wanted = np.delete(goal.deficit(used), source)
        tight = float(goal.deficit(used).sum()) >= float(goal.surplus(used).sum())
        most = min(need, float(wanted.max() if tight and wanted.any() else room.max(initial=0.0)))
        best: tuple[float, int, int] | None = None
        lacking = self._brokers_of(np.flatnonzero(used < goal.low))
        roomy = self._brokers_of(np.flatnonzero(used < goal.high))
        for index in chain(self._around(source, most, lacking), self._around(source, most, roomy)):
            seat = self._emptiest_seat(index, source)
            if seat is None:
                continue
            size = board.replica(index).lasting
            gain = board.gain(source, int(board.seats.volumes[seat]), size)
            if gain >= 2 * size:  # every byte leaves where there are too many and comes where they lack
                return index, source, seat
            if best is None or gain > best[0]:
                best = gain, index, seat
        return (best[1], source, best[2]) if best is not None else self._improve(source, need, None)

    def _emptiest_seat(self, index: int, source: int) -> int | None:
        """Where both ends stay in the band; on the replica's own broker where that fills a lack too."""
        board, used, goal = self._board, self._board.levels.used, self._board.goal
        size = board.replica(index).lasting
        if size > used[source] - goal.low[source]:
            return None
        seats = board.open_seats(index)
        volumes = board.seats.volumes[seats]
        seats = seats[(used[volumes] + size <= goal.high[volumes]) & (volumes != source)]
        if not len(seats):
            return None
        volumes = board.seats.volumes[seats]
        lack = goal.low[volumes] - used[volumes]
        near = board.seats.brokers[seats] == board.replica(index).broker
        rank = lack / board.levels.capacity[volumes] + np.where(lack >= size, 10.0 + 10.0 * near, 0.0)
        return int(seats[np.argmax(rank)])

    def _fill(self, target: int) -> tuple[int, int, int] | None:
        """The largest replica no larger than what `target` lacks, from the fullest volumes."""
        board, used, goal = self._board, self._board.levels.used, self._board.goal
        need = float(goal.low[target] - used[target])
        best: tuple[float, int, int, int] | None = None
        takers = self._brokers_of(np.array([target]))
        for source in self._givers(target):
            most = min(need, self._spare(source))
            for index in self._around(source, most, takers):
                seat = self._seat_on(index, source, target)
                if seat is not None:
                    size = board.replica(index).lasting
                    if best is None or abs(size - need) < best[0]:
                        best = abs(size - need), index, source, seat
                    break
            if best is not None and best[0] <= need / 2:
                break
        return best[1:] if best is not None else self._improve(None, need, target)

    def _givers(self, target: int) -> list[int]:
        board, used, goal = self._board, self._board.levels.used, self._board.goal
        order = np.argsort((goal.high - used) / board.levels.capacity, kind="stable")
        return [int(v) for v in order if v != target and used[v] > goal.low[v]][:GIVERS]

    def _spare(self, source: int) -> float:
        """What a volume can give: its surplus where the bound is surplus, else down to the low end."""
        used, goal = self._board.levels.used, self._board.goal
        above = float(used[source] - goal.high[source])
        loose = float(goal.deficit(used).sum()) >= float(goal.surplus(used).sum())
        return above if above > 0 and not loose else float(used[source] - goal.low[source])

    def _seat_on(self, index: int, source: int, target: int) -> int | None:
        board, used, goal = self._board, self._board.levels.used, self._board.goal
        size = board.replica(index).lasting
        if used[target] + size > goal.high[target] or size > used[source] - goal.low[source]:
            return None
        seats = board.open_seats(index)
        seats = seats[board.seats.volumes[seats] == target]
        return int(seats[0]) if len(seats) else None

    def _around(self, volume: int, size: float, takers: frozenset[int]) -> Iterator[int]:
        """Replicas to try: those up to `size`, the largest first, then those above it, the smallest first.

        Only those that one of `takers` could take.
        """
        movable = self._board.movable

        def could(index: int) -> bool:
            replica = movable.replicas[index]
            return replica.broker in takers or not takers <= set(replica.partition.replicas)

        smaller = takewhile(lambda index: movable.replicas[index].lasting > 0, movable.at_most(volume, size))
        yield from islice(filter(could, smaller), TRIES)
        yield from islice(filter(could, movable.above(volume, size)), TRIES)

    def _brokers_of(self, volumes: Ints) -> frozenset[int]:
        """Brokers with seats there."""
        seats = self._board.seats
        return frozenset(int(one) for one in seats.brokers[np.isin(seats.volumes, volumes)])

    def _improve(self, source: int | None, need: float, target: int | None) -> tuple[int, int, int] | None:
        """The move after which the worse end is least outside, where replicas are too large for the band."""
        board = self._board
        sources = [source] if source is not None else self._givers(target if target is not None else -1)
        best: tuple[float, int, int, int] | None = None
        below = (
            board.levels.used < board.goal.high if target is None else np.arange(len(board.limit)) == target
        )
        takers = self._brokers_of(np.flatnonzero(below))
        for one in sources:
            for index in self._around(one, need, takers):
                found = self._least_outside(index, one, target)
                if found is not None and (best is None or found[0] < best[0]):
                    best = found[0], index, one, found[1]
        worst = source if source is not None else target
        assert worst is not None
        now = float(board.goal.outside(board.levels.used)[worst])
        return best[1:] if best is not None and best[0] < IMPROVEMENT * now else None

    def _least_outside(self, index: int, source: int, target: int | None) -> tuple[float, int] | None:
        board = self._board
        size = board.replica(index).lasting
        seats = board.open_seats(index)
        volumes = board.seats.volumes[seats]
        seats = seats[volumes != source if target is None else volumes == target]
        if size <= 0 or not len(seats):
            return None
        volumes = board.seats.volumes[seats]
        outside = np.maximum(self._outside(volumes, size), float(self._outside(np.array([source]), -size)[0]))
        return float(outside.min()), int(seats[np.argmin(outside)])

    def _outside(self, volumes: Ints, change: float) -> Floats:
        board, goal = self._board, self._board.goal
        then = board.levels.used[volumes] + change
        beyond = np.maximum(np.maximum(then - goal.high[volumes], goal.low[volumes] - then), 0.0)
        return np.asarray(beyond / board.levels.capacity[volumes])


def refine(board: Board, steps: list[Step]) -> list[Step]:
    """Without the moves that are not needed, and with smaller replicas where those do."""
    kept = dict(enumerate(steps))
    order = sorted(kept, key=lambda i: (-board.replica(kept[i].index).bytes, i))
    for i in order:
        if _needless(board, kept[i]):
            board.undo(kept.pop(i))
    for i in order:
        if i in kept and (smaller := _smaller(board, kept[i])) is not None:
            board.undo(kept[i])
            kept[i] = board.take(smaller[0], kept[i].source, smaller[1])
    return [kept[i] for i in sorted(kept)]


def _slack(board: Board, step: Step) -> float:
    """Bytes by which the move may be smaller with both ends still in the band; negative: none."""
    used, goal = board.levels.used, board.goal
    return float(min(goal.high[step.source] - used[step.source], used[step.target] - goal.low[step.target]))


def _needless(board: Board, step: Step) -> bool:
    return _slack(board, step) >= board.replica(step.index).lasting


def _smaller(board: Board, step: Step) -> tuple[int, int] | None:
    """The smallest replica of the source that does as well: its number and seat."""
    replica, slack = board.replica(step.index), _slack(board, step)
    if slack <= 0:
        return None
    for index in islice(board.movable.above(step.source, replica.lasting - slack), TRIES):
        other = board.replica(index)
        if other.lasting >= replica.lasting:
            return None
        if other.bytes >= replica.bytes:
            continue
        seats = board.open_seats(index)
        there = seats[board.seats.volumes[seats] == step.target]
        if len(there):
            return index, int(there[0])
    return None
