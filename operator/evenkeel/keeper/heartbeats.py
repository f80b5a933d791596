"""What routers say of themselves: bytes by topic, and how brokers answered. Pure: the clock is an argument.

Whoever may write to the heartbeats topic may write anything: names, counts and numbers are bounded, and a
record that cannot be read or cannot be true is passed over. A lie about bytes ends at what the topic really
grew by (`TopicSteering.disk_rate`), one about round trips at the median of all routers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from evenkeel.domain import codec
from evenkeel.domain.heartbeat import BrokerHeartbeat, RouteMode, RouterHeartbeat, TopicHeartbeat
from evenkeel.errors import InputError

WINDOW_MS = 60_000
"""Everything is told over the newest minute."""
GONE_MS = 20_000
"""A router that was not heard for four heartbeats is gone."""
AHEAD_MS = 5_000
"""The topic bears the brokers' time; a record further ahead of ours than this is passed over."""
SPACING_MS = 9_000
"""Of three samples within this time the middle one goes, so that memory is bounded; two heartbeats take longer."""
MOST_ROUTERS = 10_000
MOST_SERIES = 60_000
"""Routers times topics or brokers, in all: 3 KiB each at most (measured)."""
MOST_RATIOS = 10_000
"""Topics whose last ratio is kept; the one that was not heard of for longest makes room."""
MOST_ENTRIES = 2_000
"""Topics or brokers of one record."""
LONGEST_NAME = 249
LARGEST_RECORD = 512 * 1024
LARGEST_BYTES = 1 << 62
LARGEST_RATE = 100e9
"""Bytes per second of one process: no machine writes more."""
LONGEST_ROUND_TRIP_MS = 600_000.0
MOST_REQUESTS = 100_000
"""Within the 10 s of a heartbeat; more than that does not weigh more."""
LARGEST_RATIO = 16.0


@dataclass(frozen=True, slots=True)
class TopicSteering:
    """What the live routers together write to one topic."""

    bytes_per_second: float = 0.0
    """As routers count: values, before compression and replication."""
    wire_bytes_per_second: float | None = 0.0
    """The same on disk, before replication; None where no router ever told how well it compresses."""
    ratio: float | None = None
    """On-disk bytes per router byte; None: never told."""
    routers: int = 0
    fallback: int = 0
    """Routers among them that leave partitions to the client's partitioner."""
    by_table: float = 1.0
    """Share of the bytes that went by the weights; the rest was even."""

    def disk_rate(self, growth: float) -> float:
        """Steered on-disk bytes per second of a topic that grows by `growth` in all: never more than that."""
        told = self.bytes_per_second if self.wire_bytes_per_second is None else self.wire_bytes_per_second
        return min(told, growth)


@dataclass(frozen=True, slots=True)
class Steering:
    """What the heartbeats of the newest minute say together."""

    topics: Mapping[str, TopicSteering] = field(default_factory=dict)
    round_trips_ms: Mapping[int, float] = field(default_factory=dict)
    """broker -> round trip of Produce requests, the median of the routers."""
    p99s_ms: Mapping[int, float] = field(default_factory=dict)
    """broker -> 99th percentile of the same, of the routers that tell one."""
    routers: int = 0
    """Live ones."""


@dataclass(slots=True)
class _Sample:
    at_ms: int
    """By the broker's clock."""
    clock_ms: int | None
    """By the router's own."""
    beat: TopicHeartbeat


@dataclass(slots=True)
class _Router:
    seen_ms: int
    topics: dict[str, list[_Sample]] = field(default_factory=dict)
    brokers: dict[int, list[tuple[int, BrokerHeartbeat]]] = field(default_factory=dict)

    def size(self) -> int:
        return len(self.topics) + len(self.brokers)


class HeartbeatBook:
    """The newest minute of heartbeats. Used by one thread."""

    def __init__(self) -> None:
        self._routers: dict[str, _Router] = {}
        self._series = 0
        self._ratios: dict[str, float] = {}
        self.refused = 0
        """Records passed over."""
        self._full_ms = self._odd_ms = -math.inf
        """When, by our clock, there was last no room for a record, and a record of another time than now."""

    def note(self, value: bytes, at_ms: int, now_ms: int) -> None:
        """Take one record.

        Args:
            value: as read.
            at_ms: when it was written, by the broker's clock.
            now_ms: our clock.
        """
        if not now_ms - GONE_MS <= at_ms <= now_ms + AHEAD_MS:
            self._odd_ms = now_ms
        if at_ms < now_ms - 2 * WINDOW_MS:
            return
        beat = read_heartbeat(value)
        if beat is None or at_ms > now_ms + AHEAD_MS:
            self.refused += 1
            return
        if not self._has_room(beat):
            self._expire(now_ms)
            if not self._has_room(beat):
                self.refused += 1
                self._full_ms = now_ms
                return
        self._take(beat, min(at_ms, now_ms))

    def summarise(self, now_ms: int) -> Steering:
        """What is known now; routers that vanished do not count."""
        self._expire(now_ms)
        live = [router for router in self._routers.values() if router.seen_ms >= now_ms - GONE_MS]
        by_topic: dict[str, list[list[_Sample]]] = {}
        for router in live:
            for topic, samples in router.topics.items():
                by_topic.setdefault(topic, []).append(samples)
        return Steering(
            topics={topic: self._sum_topic(topic, series) for topic, series in by_topic.items()},
            round_trips_ms=_take_medians(live, _find_mean),
            p99s_ms=_take_medians(live, _find_p99),
            routers=len(live),
        )

    def doubt(self, now_ms: int) -> str:
        """Why what is known may be far from the truth, so that it counts as unknown; empty: it is not.

        Records had to be passed over for want of room, or no router seems to live while records come that
        are not of now: then our clock and the brokers' differ.
        """
        if now_ms - self._full_ms < WINDOW_MS:
            return (
                f"there are more of them than are kept ({MOST_ROUTERS} routers, {MOST_SERIES} topics in all)"
            )
        live = any(router.seen_ms >= now_ms - GONE_MS for router in self._routers.values())
        if not live and now_ms - self._odd_ms < WINDOW_MS:
            return "their times are not those of now, the clocks of keeper and brokers differ"
        return ""

    def _has_room(self, beat: RouterHeartbeat) -> bool:
        router = self._routers.get(beat.router)
        if router is None:
            new = len(beat.topics) + len(beat.brokers)
            return len(self._routers) < MOST_ROUTERS and self._series + new <= MOST_SERIES
        new = len(beat.topics.keys() - router.topics.keys()) + len(
            beat.brokers.keys() - router.brokers.keys()
        )
        return self._series + new <= MOST_SERIES

    def _take(self, beat: RouterHeartbeat, at_ms: int) -> None:
        router = self._routers.get(beat.router)
        if router is None:
            router = self._routers[beat.router] = _Router(at_ms)
        elif at_ms < router.seen_ms:
            return
        before = router.size()
        router.seen_ms = at_ms
        for topic, sent in beat.topics.items():
            _add_sample(router.topics.setdefault(topic, []), _Sample(at_ms, beat.clock_ms, sent))
        for broker, answer in beat.brokers.items():
            answers = router.brokers.setdefault(broker, [])
            if len(answers) > 1 and at_ms - answers[-2][0] < SPACING_MS:
                answers.pop()
            answers.append((at_ms, answer))
        self._series += router.size() - before

    def _expire(self, now_ms: int) -> None:
        """Drop what is older than the window, but for one sample before it: a rate needs two."""
        oldest = now_ms - WINDOW_MS
        for name, router in list(self._routers.items()):
            if router.seen_ms < oldest:
                self._series -= router.size()
                del self._routers[name]
                continue
            for samples in router.topics.values():
                while len(samples) > 2 and samples[1].at_ms <= oldest:  # noqa: PLR2004 - first and last
                    del samples[0]
            for answers in router.brokers.values():
                while answers and answers[0][0] < oldest:
                    del answers[0]

    def _sum_topic(self, topic: str, series: Iterable[list[_Sample]]) -> TopicSteering:
        rates = [_Rates.of(samples) for samples in series]
        known = [one for one in rates if one.wire is not None and one.bytes > 0]
        if known:
            ratio = sum(one.wire or 0.0 for one in known) / sum(one.bytes for one in known)
            if 0 < ratio <= LARGEST_RATIO:
                self._keep_ratio(topic, ratio)
        last = self._ratios.get(topic)
        whole = sum(one.bytes for one in rates)
        wire = sum(one.bytes * last if one.wire is None else one.wire for one in rates) if last else None
        return TopicSteering(
            bytes_per_second=whole,
            wire_bytes_per_second=wire,
            ratio=last,
            routers=len(rates),
            fallback=sum(one.mode is RouteMode.DEFAULT for one in rates),
            by_table=sum(one.bytes * _TABLE_SHARE[one.mode] for one in rates) / whole if whole > 0 else 1.0,
        )

    def _keep_ratio(self, topic: str, ratio: float) -> None:
        self._ratios.pop(topic, None)
        if len(self._ratios) >= MOST_RATIOS:
            del self._ratios[next(iter(self._ratios))]
        self._ratios[topic] = ratio


_TABLE_SHARE = {RouteMode.TABLE: 1.0, RouteMode.MIXED: 0.5, RouteMode.DEFAULT: 0.0}
"""How far bytes follow the weights; of a mixture only is known that it is one."""


@dataclass(frozen=True, slots=True)
class _Rates:
    """One router's bytes per second of one topic."""

    bytes: float
    wire: float | None
    mode: RouteMode

    @staticmethod
    def of(samples: list[_Sample]) -> _Rates:
        first, last = samples[0], samples[-1]
        seconds = _find_span_ms(first, last) / 1000
        if seconds <= 0:
            return _Rates(0.0, None, last.beat.mode)
        rate = (last.beat.bytes - first.beat.bytes) / seconds
        if rate > LARGEST_RATE:
            return _Rates(0.0, None, last.beat.mode)
        wire = None
        if last.beat.wire_bytes is not None and first.beat.wire_bytes is not None:
            wire = max(0, last.beat.wire_bytes - first.beat.wire_bytes) / seconds
            if wire > LARGEST_RATIO * rate:
                wire = None
        return _Rates(rate, wire, last.beat.mode)


def _find_span_ms(first: _Sample, last: _Sample) -> int:
    """Time between two samples, by the router's clock where it tells one."""
    if first.clock_ms is None or last.clock_ms is None:
        return last.at_ms - first.at_ms
    return last.clock_ms - first.clock_ms


def _add_sample(samples: list[_Sample], new: _Sample) -> None:
    if samples and (new.beat.bytes < samples[-1].beat.bytes or _find_span_ms(samples[-1], new) < 0):
        samples.clear()  # another process under the same name: counters and clocks begin anew
    if len(samples) > 1 and new.at_ms - samples[-2].at_ms < SPACING_MS:
        samples.pop()
    samples.append(new)


def _take_medians(
    routers: Iterable[_Router], find: Callable[[Sequence[BrokerHeartbeat]], float | None]
) -> dict[int, float]:
    """Broker -> median of what `find` says of each router's minute, which counts once, however much it claims."""
    found: dict[int, list[float]] = {}
    for router in routers:
        for broker, answers in router.brokers.items():
            one = find([answer for _, answer in answers])
            if one is not None:
                found.setdefault(broker, []).append(one)
    return {broker: median(told) for broker, told in found.items()}


def _find_mean(answers: Sequence[BrokerHeartbeat]) -> float | None:
    """Of all round trips."""
    count = sum(answer.requests for answer in answers)
    return sum(answer.round_trip_ms * answer.requests for answer in answers) / count if count else None


def _find_p99(answers: Sequence[BrokerHeartbeat]) -> float | None:
    """The middle one of those told: a single slow interval is no change."""
    told = [answer.p99_ms for answer in answers if answer.p99_ms is not None]
    return median(told) if told else None


def read_heartbeat(value: bytes) -> RouterHeartbeat | None:
    """A record as a heartbeat; None where it cannot be read or cannot be true."""
    if len(value) > LARGEST_RECORD:
        return None
    try:
        beat = codec.loads(RouterHeartbeat, value)
    except InputError:
        return None
    fits = (
        0 < len(beat.router) <= LONGEST_NAME
        and 0 <= (beat.clock_ms or 0) <= LARGEST_BYTES
        and max(len(beat.topics), len(beat.brokers)) <= MOST_ENTRIES
    )
    if not fits or not all(_is_possible(name, sent) for name, sent in beat.topics.items()):
        return None
    return beat if all(_is_answer(broker, answer) for broker, answer in beat.brokers.items()) else None


def _is_possible(name: str, sent: TopicHeartbeat) -> bool:
    counts = (sent.bytes, sent.owner_epoch, sent.epoch, sent.wire_bytes or 0)
    return 0 < len(name) <= LONGEST_NAME and all(0 <= count <= LARGEST_BYTES for count in counts)


def _is_answer(broker: int, answer: BrokerHeartbeat) -> bool:
    times = (answer.round_trip_ms, answer.p99_ms or 0.0)
    return (
        broker >= 0
        and all(math.isfinite(time) and 0 <= time <= LONGEST_ROUND_TRIP_MS for time in times)
        and 0 <= answer.requests <= MOST_REQUESTS
    )
