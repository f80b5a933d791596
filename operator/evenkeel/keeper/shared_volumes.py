"""Suspects log directories that share a volume without anybody having said so.

Two directories on one file system are planned as twice the room that there is. Kafka does not name volumes; but
what shares one shows the same size and the same free bytes whatever is written to which. Fresh disks of one
size do so too while they are empty, and so may the disks of a mirror: suspicion needs evidence that separate
disks cannot give. It is reported and not acted upon: BalancedCluster or pods have to say it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations, islice

from evenkeel.domain.exchange import BrokerPlace, Fault
from evenkeel.kafka.answers import TopicPartition
from evenkeel.keeper.measurement import Measurement
from evenkeel.reasons import Reason

Place = tuple[int, str]
"""Broker and path."""
EVIDENCE = 3
"""So many times data must have been told apart before anything is said."""
NAMED = 6
"""Directories that a message lists."""
MOST_PAIRS = 5000
"""Pairs that are followed: hundreds of empty disks of one size are all alike, and nothing can be said of them yet."""
MIB = 1024**2


def tolerance_bytes(total: int) -> int:
    """How far two readings of one file system may lie apart: brokers answer some milliseconds one after another."""
    return max(MIB, total // 2000)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One directory in one measurement."""

    total: int
    usable: int
    replica_bytes: int


@dataclass(slots=True)
class _Pair:
    """What speaks for two directories on one volume."""

    anchor: tuple[_Reading, _Reading]
    """Readings that growth is counted from."""
    votes: int = 0


@dataclass(slots=True)
class SharedVolumes:
    """History of the directories that look alike."""

    _pairs: dict[tuple[Place, Place], _Pair] = field(default_factory=dict)
    _replicas: dict[Place, Mapping[TopicPartition, int]] = field(default_factory=dict)
    """Of the newest answer of each directory."""

    def observe(self, measurement: Measurement, places: Iterable[BrokerPlace]) -> list[Fault]:
        """Add a measurement and tell who is suspected.

        Args:
            measurement: as gathered. Brokers that did not answer keep their history.
            places: directories whose volume is known there are never suspected.
        """
        known = {(place.broker, path) for place in places for path in place.volumes}
        answered = {broker for broker, dirs in measurement.dirs.items() if isinstance(dirs, tuple)}
        now = {place: entry for place, entry in _sized_dirs(measurement) if place not in known}
        silent = {place for place in self._replicas if place not in now and place[0] not in answered}
        alike = _alike({place: reading for place, (reading, _) in now.items()})
        candidates = {place for pair in alike for place in pair}
        shrunk = {place for place in candidates if _has_shrunk(self._replicas.get(place), now[place][1])}
        kept = {pair: facts for pair, facts in self._pairs.items() if silent & set(pair)}
        for pair in alike:
            readings = now[pair[0]][0], now[pair[1]][0]
            kept[pair] = self._pairs.get(pair) or _Pair(readings)
            _judge(kept[pair], readings, restart=bool(shrunk & set(pair)))
        self._pairs = kept
        self._replicas = {place: self._replicas[place] for place in silent}
        self._replicas |= {place: replicas for place, (_, replicas) in now.items()}
        groups = _join(pair for pair, facts in self._pairs.items() if facts.votes >= EVIDENCE)
        return [_build_fault(group) for group in groups]


def _sized_dirs(
    measurement: Measurement,
) -> Iterable[tuple[Place, tuple[_Reading, Mapping[TopicPartition, int]]]]:
    """Directories that are on and of known size; not those that a copy moves into, which is no replica yet."""
    for broker, dirs in measurement.dirs.items():
        for entry in dirs if isinstance(dirs, tuple) else ():
            total, usable = entry.total_bytes, entry.usable_bytes
            if entry.online and not entry.future_bytes and total is not None and usable is not None:
                reading = _Reading(total, usable, sum(entry.replica_bytes.values()))
                yield (broker, entry.path), (reading, entry.replica_bytes)


def _judge(facts: _Pair, now: tuple[_Reading, _Reading], *, restart: bool) -> None:
    """Count a vote where both directories lost what the one that grew more took, and the other took less.

    On separate disks the free bytes would lie apart by the difference. Where data was deleted or space was freed
    the count begins anew: deleted files keep their space for a minute, and free bytes and replicas do not go
    together until then.
    """
    before = facts.anchor
    grown = tuple(new.replica_bytes - old.replica_bytes for new, old in zip(now, before, strict=True))
    lost = min(old.usable - new.usable for new, old in zip(now, before, strict=True))
    tolerance = tolerance_bytes(now[0].total)
    if restart or lost < -tolerance:
        facts.anchor = now
    elif abs(grown[0] - grown[1]) > 4 * tolerance and lost >= max(grown) - tolerance:
        facts.votes += 1
        facts.anchor = now


def _has_shrunk(before: Mapping[TopicPartition, int] | None, now: Mapping[TopicPartition, int]) -> bool:
    """Whether any replica became smaller or went away."""
    if before is None:
        return True
    return any(now.get(key, -1) < size for key, size in before.items())


def _alike(now: Mapping[Place, _Reading]) -> list[tuple[Place, Place]]:
    """Pairs of equal size and, within the tolerance, equal free bytes; the first MOST_PAIRS."""
    by_total: dict[int, list[Place]] = {}
    for place in sorted(now):
        by_total.setdefault(now[place].total, []).append(place)
    pairs = (
        pair
        for total, group in by_total.items()
        for pair in combinations(group, 2)
        if abs(now[pair[0]].usable - now[pair[1]].usable) <= tolerance_bytes(total)
    )
    return list(islice(pairs, MOST_PAIRS))


def _join(pairs: Iterable[tuple[Place, Place]]) -> list[tuple[Place, ...]]:
    """Groups of directories that are suspected together."""
    groups: list[set[Place]] = []
    for pair in pairs:
        touching = [group for group in groups if group & set(pair)]
        groups = [group for group in groups if group not in touching]
        groups.append(set(pair).union(*touching))
    return sorted(tuple(sorted(group)) for group in groups)


def _build_fault(group: tuple[Place, ...]) -> Fault:
    told = ", ".join(f"{path} of broker {broker}" for broker, path in group[:NAMED])
    more = f" and {len(group) - NAMED} more" if len(group) > NAMED else ""
    message = (
        f"log directories {told}{more} have the same size and the same free bytes while different data comes to "
        "them: they seem to share one volume, and plans count its room once for each. Give each a volume of its own"
    )
    return Fault(Reason.SHARED_VOLUME_SUSPECTED, message, f"broker/{group[0][0]}")
