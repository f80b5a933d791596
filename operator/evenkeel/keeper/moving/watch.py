"""What a process remembers between two looks. It is lost with the process, and nothing depends on that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from evenkeel.domain.waits import Waits
from evenkeel.errors import EvenkeelError
from evenkeel.kafka.answers import TopicPartition
from evenkeel.keeper.moving.observation import Observation
from evenkeel.keeper.moving.run import OwnEntry, Run
from evenkeel.keeper.moving.settings import MoveSettings
from evenkeel.keeper.moving.throttling import RateKey, Shown


@dataclass(frozen=True, slots=True)
class Watch:
    """Times are of the monotonic clock, seconds."""

    fresh: bool = True
    """The process has just started: what its predecessor asked for a moment ago may take effect yet."""
    since: Mapping[str, float] = field(default_factory=dict)
    """What goes on -> since when."""
    grown: Mapping[TopicPartition, tuple[tuple[int, int], float]] = field(default_factory=dict)
    """Copy -> its stage and size at the last look, and when it was last larger than a look before."""
    sizes: Mapping[TopicPartition, tuple[int, float]] = field(default_factory=dict)
    """Partition under way -> size of its log when it was first seen, and when that was."""
    tried: Mapping[TopicPartition, float] = field(default_factory=dict)
    """Partition -> when Kafka was last asked to move it: an answer that got lost may still take effect."""
    refused: Mapping[TopicPartition, EvenkeelError] = field(default_factory=dict)
    """What Kafka said to the newest attempts."""
    shown_rates: frozenset[RateKey] = frozenset()
    """Rates of ours that the look before showed: each broker tells its own."""
    shown_entries: Mapping[OwnEntry, float] = field(default_factory=dict)
    """Throttled replica of ours -> when a list first showed it. Any broker tells lists, perhaps one that is late."""
    doubt_at: float | None = None
    """When a throttle was last set without an answer: it may appear yet."""
    foreign_at: float | None = None
    """When somebody else's reassignment was seen last."""
    overridden_at: float | None = None
    """When a throttle of ours was last found changed or removed."""
    paced_at: float | None = None
    """When the throttle was set as it is."""
    paced_bytes: int = 0
    """What had been copied by then."""
    lagged_before: bool = False
    """Replicas were behind when the batch began, and not because of it."""
    accepted_lag: TopicPartition | None = None
    """A partition whose replica was waited for long enough: later batches do not wait for it again."""
    calm: Waits | None = None
    """How long producers wait while no batch has begun; the run keeps it when one does."""


class Timers:
    """For how long things have been going on; those that are not marked in a turn are forgotten after it."""

    def __init__(self, watch: Watch, now: float) -> None:
        self._before, self._now = watch.since, now
        self.marked: dict[str, float] = {}

    def mark(self, what: str) -> float:
        """It goes on: seconds since it was first marked, in every turn since."""
        self.marked[what] = self._before.get(what, self._now)
        return self._now - self.marked[what]


def find_shown(watch: Watch, run: Run, seen: Observation, settle_seconds: float) -> Shown:
    """Throttles of ours that are missing only if others have removed them.

    Lists of a topic that was made again are not those that were shown.
    """
    same = {
        flight.move.topic
        for flight in run.flights
        if flight.move.topic in seen.topics and seen.topics[flight.move.topic].topic_id == flight.topic_id
    }
    entries = (
        one for one, at in watch.shown_entries.items() if one.topic in same and seen.at - at >= settle_seconds
    )
    return Shown(watch.shown_rates, frozenset(entries))


def note_shown(watch: Watch, shown: Shown, owned: Iterable[OwnEntry], now: float) -> Watch:
    """The same, with what this look showed of throttles."""
    before = watch.shown_entries
    entries = {one: before[one] for one in owned if one in before}
    entries |= {one: before.get(one, now) for one in shown.entries}
    return replace(watch, shown_rates=shown.rates, shown_entries=entries)


def estimate_writes(settings: MoveSettings, watch: Watch, seen: Observation) -> dict[TopicPartition, float]:
    """What producers write: as told, and never less than logs were seen to grow while they were copied."""
    rates = dict(settings.write_rates)
    for key, (size, at) in watch.sizes.items():
        found = seen.partition(key)
        leader = None if found is None else found.leader
        now = None if leader is None else seen.replica_bytes(leader, key)
        if now is not None and seen.at - at >= settings.settle_seconds:
            rates[key] = max(rates.get(key, 0.0), (now - size) / (seen.at - at))
    return rates
