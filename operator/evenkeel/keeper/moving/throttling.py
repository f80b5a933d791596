"""Throttles on just what moves: which there should be, which are ours, and what to do about the difference.

KIP-73: a broker's rate holds for the replicas that a topic's lists name, and for those only while they are out
of sync. A value that is not ours is never changed or removed, ours are removed when nothing needs them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evenkeel.domain.moves import Move, MoveKind
from evenkeel.kafka.wire import DIRECTORY_RATE, FOLLOWER_RATE, LEADER_RATE, LISTS
from evenkeel.keeper.moving.observation import Observation
from evenkeel.keeper.moving.run import OwnEntry, OwnRate, Run
from evenkeel.keeper.moving.steps import AddEntries, DropEntries, DropRate, SetRate, Step

RateKey = tuple[int, str]
EVERYTHING = "*"
"""A list that names all replicas."""


@dataclass(frozen=True, slots=True)
class Throttles:
    """What should be set."""

    rates: Mapping[RateKey, int]
    entries: frozenset[OwnEntry]


@dataclass(frozen=True, slots=True)
class Shown:
    """Throttles of ours that a look has shown: one that is missing later was removed by others."""

    rates: frozenset[RateKey] = frozenset()
    entries: frozenset[OwnEntry] = frozenset()


@dataclass(frozen=True, slots=True)
class Throttling:
    """What to do about throttles. Rates and entries are to be committed before the steps."""

    rates: tuple[OwnRate, ...]
    entries: tuple[OwnEntry, ...]
    begin: tuple[Step, ...]
    """Settings to make; nothing is copied before they are there."""
    end: tuple[Step, ...]
    """Settings to take away."""
    ready: bool
    """Everything wanted is there."""
    overridden: tuple[str, ...]
    """What others have set or removed, as sentences."""
    in_force: Shown
    """What is ours and Kafka shows."""


NOTHING_SHOWN = Shown()


def find_wanted(moves: Iterable[Move], seen: Observation, bytes_per_second: int) -> Throttles:
    """Throttles for moves that copy.

    A partition's leader sends, and another replica does when the leader changes: each that may is listed.
    """
    rates: dict[RateKey, int] = {}
    entries: set[OwnEntry] = set()
    for move in moves:
        if move.copied_to is None:
            continue
        key = move.topic, move.partition
        found = seen.partition(key)
        # Of a replica that is added Kafka shows the target at once, and copies for as long as the reassignment is there.
        landed = found is not None and found.replicas == move.target and key not in seen.reassignments
        if move.kind is MoveKind.DIRECTORY or landed:
            rates[move.copied_to, DIRECTORY_RATE] = bytes_per_second
            continue
        leader = found.leader if found is not None and found.leader is not None else move.copied_from
        if leader is not None:
            rates[leader, LEADER_RATE] = bytes_per_second
        rates[move.copied_to, FOLLOWER_RATE] = bytes_per_second
        entries.add(OwnEntry(move.topic, "follower", f"{move.partition}:{move.copied_to}"))
        entries |= {OwnEntry(move.topic, "leader", f"{move.partition}:{one}") for one in move.source}
    return Throttles({key: _capped(key, value, seen) for key, value in rates.items()}, frozenset(entries))


def _capped(key: RateKey, value: int, seen: Observation) -> int:
    """A limit of the whole cluster holds for us too."""
    broker = seen.rates.get(key[0])
    inherited = broker.inherited.get(key[1]) if broker is not None else None
    return value if inherited is None else min(value, inherited)


def plan_throttles(
    run: Run,
    wanted: Throttles,
    seen: Observation,
    shown: Shown = NOTHING_SHOWN,
    gone: frozenset[str] = frozenset(),
    *,
    doubtful: bool = False,
) -> Throttling:
    """From what is to what should be.

    Args:
        run: whose throttles.
        wanted: what should be set.
        seen: what is set.
        shown: what earlier looks have shown.
        gone: topics that do not exist any more, and their lists with them.
        doubtful: a call may take effect yet: what is not there is not taken for removed.
    """
    rates = _Rates(run.rates, seen, shown.rates, doubtful=doubtful)
    for key, value in sorted(wanted.rates.items()):
        rates.want(key, value)
    rates.drop_others(wanted.rates)
    entries = _Entries(run.entries, seen, shown.entries, gone, doubtful=doubtful)
    for entry in sorted(wanted.entries, key=_order):
        entries.want(entry)
    entries.drop_others(wanted.entries)
    return Throttling(
        rates=tuple(sorted(rates.owned, key=lambda own: (own.broker, own.key))),
        entries=tuple(sorted(entries.owned, key=_order)),
        begin=(*rates.begin, *entries.build_begin()),
        # Lists first: a listed replica without a rate is not slowed down, which is what is wanted by then.
        end=(*entries.build_end(), *rates.end),
        ready=rates.ready and entries.ready and not entries.adding,
        overridden=(*rates.overridden, *entries.tell_removed()),
        in_force=Shown(frozenset(rates.in_force), frozenset(entries.in_force)),
    )


class _Rates:
    """Rates of brokers, one by one."""

    def __init__(
        self, own: Sequence[OwnRate], seen: Observation, shown: frozenset[RateKey], *, doubtful: bool
    ) -> None:
        self._own = {(one.broker, one.key): one for one in own}
        self._seen, self._shown, self._doubtful = seen, shown, doubtful
        self.owned: list[OwnRate] = []
        self.begin: list[Step] = []
        self.end: list[Step] = []
        self.overridden: list[str] = []
        self.in_force: set[RateKey] = set()
        self.ready = True

    def want(self, key: RateKey, value: int) -> None:
        broker, name = key
        told, own = self._seen.rates.get(broker), self._own.get(key)
        if told is None:
            self.ready = False
            self.owned += [own] if own is not None else []
            return
        found = told.own.get(name)
        if found is None:
            if own is not None and key in self._shown:
                self.overridden.append(f"{name} of broker {broker} was removed")
            self._set(key, value, (value,))
        elif own is not None and found in own.values:
            self.in_force.add(key)
            if found == value:
                self._own_up(key, (value,))
            else:
                self._set(key, value, (found, value), ready=True)
        elif found != value:
            self.ready = False
            self.overridden.append(f"{name} of broker {broker} is {found}, not ours")

    def _set(self, key: RateKey, value: int, values: tuple[int, ...], *, ready: bool = False) -> None:
        self.ready = self.ready and ready
        self._own_up(key, values)
        self.begin.append(SetRate(*key, value))

    def _own_up(self, key: RateKey, values: tuple[int, ...]) -> None:
        """Values that are ours; while a call may take effect yet, those of before are too."""
        before = self._own[key].values if self._doubtful and key in self._own else ()
        self.owned.append(OwnRate(*key, tuple(dict.fromkeys((*before, *values)))))

    def drop_others(self, wanted: Iterable[RateKey]) -> None:
        for key, own in sorted(self._own.items()):
            if key in wanted:
                continue
            told = self._seen.rates.get(key[0])
            if told is None or (self._doubtful and key[1] not in told.own):
                self.owned.append(own)  # only the broker itself takes it away, when it is back
            elif told.own.get(key[1]) in own.values:
                self.owned.append(own)
                self.end.append(DropRate(*key))


class _Entries:
    """Throttled replicas in topics' lists, one by one."""

    def __init__(
        self,
        own: Sequence[OwnEntry],
        seen: Observation,
        shown: frozenset[OwnEntry],
        gone: frozenset[str],
        *,
        doubtful: bool,
    ) -> None:
        self._own, self._seen, self._shown, self._gone = frozenset(own), seen, shown, gone
        self._doubtful = doubtful
        self.ready = True
        self.owned: list[OwnEntry] = []
        self.adding: list[OwnEntry] = []
        self.in_force: list[OwnEntry] = []
        self._dropping: list[OwnEntry] = []

    def want(self, entry: OwnEntry) -> None:
        listed = self._listed(entry)
        if listed is None:
            self.ready = False
            self.owned += [entry] if entry in self._own else []
        elif EVERYTHING in listed:
            return
        elif entry.entry in listed:
            self.owned += [entry] if entry in self._own else []
            self.in_force += [entry] if entry in self._own else []
        else:
            self.owned.append(entry)
            self.adding.append(entry)

    def tell_removed(self) -> list[str]:
        """What others have taken out of lists, as sentences."""
        known = self._own & self._shown
        removed = [entry for entry in self.adding if entry in known]
        return [
            f"{LISTS[role]} of {topic} lost {', '.join(found)}"
            for (topic, role), found in _by_list(removed).items()
        ]

    def drop_others(self, wanted: Iterable[OwnEntry]) -> None:
        for entry in sorted(self._own.difference(wanted), key=_order):
            listed = self._listed(entry)
            if entry.topic in self._gone:
                continue
            if listed is None or (self._doubtful and entry.entry not in listed):
                self.owned.append(entry)
            elif entry.entry in listed:
                self.owned.append(entry)
                self._dropping.append(entry)

    def build_begin(self) -> list[Step]:
        return [AddEntries(*place, tuple(found)) for place, found in _by_list(self.adding).items()]

    def build_end(self) -> list[Step]:
        steps: list[Step] = []
        for (topic, role), found in _by_list(self._dropping).items():
            rest = set(_split(self._seen.lists[topic].get(role, ""))).difference(found)
            steps.append(DropEntries(topic, role, tuple(found), whole=not rest))
        return steps

    def _listed(self, entry: OwnEntry) -> list[str] | None:
        """What the list holds; None: not told."""
        found = self._seen.lists.get(entry.topic)
        return None if found is None else _split(found.get(entry.role, ""))


def _by_list(entries: Iterable[OwnEntry]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in entries:
        found[one.topic, one.role].append(one.entry)
    return found


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _order(entry: OwnEntry) -> tuple[str, str, str]:
    return entry.topic, entry.role, entry.entry
