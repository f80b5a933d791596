"""Replica assignments for a new topic: every broker equally often, racks kept, neighbours on other pairs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from evenkeel.domain.snapshot import Broker
from evenkeel.errors import InputError
from evenkeel.reasons import Reason


def plan_assignments(
    brokers: Sequence[Broker], partitions: int, replication_factor: int, exclude: Collection[int] = ()
) -> tuple[tuple[int, ...], ...]:
    """Replicas of each partition, the leader first. A function of its arguments alone.

    Every broker leads equally often (up to one) and holds equally many replicas (up to one, as far as
    racks of unequal size allow); a partition uses as many racks as it can; pairs of brokers are used
    equally often too, so that routing is free to raise one broker without another.

    Args:
        brokers: the cluster's; order does not matter.
        partitions: how many, at least 1.
        replication_factor: replicas of each, at least 1.
        exclude: broker ids that get none.

    Raises:
        InputError: fewer brokers than replicas, or a number below 1.
    """
    usable = [broker for broker in brokers if broker.id not in exclude]
    _check(len(usable), partitions, replication_factor)
    racks = {
        broker.id: broker.rack if broker.rack is not None else f"broker {broker.id}" for broker in usable
    }
    return _Placement(_interleave(usable, racks), racks, partitions, replication_factor).place()


def _check(brokers: int, partitions: int, replication_factor: int) -> None:
    if partitions < 1:
        raise InputError(f"partitions: must be at least 1, not {partitions}", reason=Reason.INVALID_SPEC)
    if replication_factor < 1:
        what = f"replicationFactor: must be at least 1, not {replication_factor}"
        raise InputError(what, reason=Reason.INVALID_SPEC)
    if replication_factor > brokers:
        what = f"replicationFactor: {replication_factor} is above the number of usable brokers, {brokers}"
        raise InputError(what, reason=Reason.REPLICATION_ABOVE_BROKERS)


def _interleave(brokers: Sequence[Broker], racks: dict[int, str]) -> list[int]:
    """Broker ids, racks taking turns."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(brokers, key=lambda one: one.id):
        by_rack.setdefault(racks[broker.id], []).append(broker.id)
    groups = sorted(by_rack.items(), key=lambda item: (-len(item[1]), item[0]))
    longest = len(groups[0][1])
    rows = ([ids[i] for _, ids in groups if i < len(ids)] for i in range(longest))
    return list(chain.from_iterable(rows))


class _Placement:
    """Counts that steer the choice of each follower."""

    def __init__(self, order: list[int], racks: dict[int, str], partitions: int, factor: int) -> None:
        self._order = order
        self._racks = racks
        self._partitions = partitions
        self._factor = factor
        self._spread = min(factor, len(set(racks.values())))
        self._leaders = [order[i % len(order)] for i in range(partitions)]
        self._replicas = {broker: self._leaders.count(broker) for broker in order}
        self._pairs: dict[tuple[int, int], int] = {}

    def place(self) -> tuple[tuple[int, ...], ...]:
        chosen = [[leader] for leader in self._leaders]
        for position in range(1, self._factor):
            for number, replicas in enumerate(chosen):
                broker = self._follower(replicas, number + position)
                self._count(replicas, broker, 1)
                replicas.append(broker)
        while self._even_out(chosen):
            pass
        return tuple(tuple(replicas) for replicas in chosen)

    def _follower(self, replicas: list[int], turn: int) -> int:
        size = len(self._order)

        def cost(index: int) -> tuple[bool, int, int, int]:
            broker = self._order[index]
            return (
                self._crowds(replicas, broker),
                self._replicas[broker],
                self._shared(replicas, broker),
                (index - turn) % size,
            )

        free = (index for index in range(size) if self._order[index] not in replicas)
        return self._order[min(free, key=cost)]

    def _crowds(self, replicas: list[int], broker: int) -> bool:
        """Whether the broker's rack is taken while a partition could still use another."""
        used = {self._racks[one] for one in replicas}
        return self._racks[broker] in used and len(used) < self._spread

    def _shared(self, replicas: list[int], broker: int) -> int:
        return sum(self._pairs.get((min(one, broker), max(one, broker)), 0) for one in replicas)

    def _count(self, replicas: list[int], broker: int, change: int) -> None:
        self._replicas[broker] += change
        for one in replicas:
            pair = (min(one, broker), max(one, broker))
            self._pairs[pair] = self._pairs.get(pair, 0) + change

    def _even_out(self, chosen: list[list[int]]) -> bool:
        """Hand one follower from the most to the least used broker, where racks allow it."""
        ranked = sorted(self._order, key=lambda broker: (self._replicas[broker], broker))
        for least in ranked:
            for most in reversed(ranked):
                if self._replicas[most] - self._replicas[least] <= 1:
                    break
                if self._hand_over(chosen, most, least):
                    return True
        return False

    def _hand_over(self, chosen: list[list[int]], giver: int, taker: int) -> bool:
        fits = (
            replicas
            for replicas in chosen
            if giver in replicas[1:] and taker not in replicas and self._keeps_racks(replicas, giver, taker)
        )
        replicas = min(fits, key=lambda found: self._shared(found, taker), default=None)
        if replicas is None:
            return False
        position = replicas.index(giver)
        rest = [one for one in replicas if one != giver]
        self._count(rest, giver, -1)
        self._count(rest, taker, 1)
        replicas[position] = taker
        return True

    def _keeps_racks(self, replicas: list[int], giver: int, taker: int) -> bool:
        after = {self._racks[taker if one == giver else one] for one in replicas}
        return len(after) >= self._spread
