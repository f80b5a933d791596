"""What librdkafka's statistics tell a router: bytes on the wire by topic, and how fast brokers answer.

The client emits one JSON text per interval from `poll`. With 5,000 partitions it has 5 MB, which `json`
parses in 37 ms (measured) without letting another thread run; so the thread that polls only puts it down
(0.4 us), and the routing thread looks for the few fields that matter: 4 ms, 0.3 ms with 300 partitions, and
others may run in between.

Which fields (checked against librdkafka 2.16): a topic's `batchsize.sum` is what went out in the interval,
compressed and framed, of all its records; a partition's `txbytes` is the sum of their keys and values so
far. So the first over the growth of the second is the share of its size that a record takes on the wire;
keyed and pinned records of the same producer are in both. A broker's `rtt` runs from the last byte of a
request to its answer; `int_latency` and `outbuf_latency` are waiting times inside the client.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from evenkeel.domain.heartbeat import BrokerHeartbeat

INTERVAL_MS = 10_000
"""Of the statistics where the user has asked for none."""
SAMPLE_SECONDS = 5.0
"""Between two looks at what has come."""
FEWEST_TEXTS, KEPT_CHARACTERS = 2, 16 << 20
"""What may lie between two looks. Where a text is missing, bytes of intervals are no growth of sums."""
FEWEST_TRIPS = 100
"""The 99th percentile of fewer is their largest, which says nothing about the others."""
FORGET_SECONDS = 60.0
"""Older round trips say nothing about now."""

_NUMBER = r":\s*(-?\d+)"
_BROKER = re.compile(
    rf'"nodeid"{_NUMBER}.*?"rtt":.*?"sum"{_NUMBER}.*?"p99"{_NUMBER}.*?"cnt"{_NUMBER}'
    rf'.*?"req":.*?"Produce"{_NUMBER}',
    re.DOTALL,
)
_TOPIC = re.compile(r'"topic":\s*"([^"]+)",\s*"age":')
_SUM = re.compile(rf'"batchsize":.*?"sum"{_NUMBER}', re.DOTALL)
_SENT = '"txbytes":'


@dataclass(frozen=True, slots=True)
class BrokerReading:
    """One broker."""

    round_trips: int
    """Of this interval."""
    round_trip_us: int
    """Their sum."""
    p99_us: int
    """Their 99th percentile."""
    requests: int
    """Produce requests so far."""


@dataclass(frozen=True, slots=True)
class TopicReading:
    """One topic."""

    wire_bytes: int
    """Of this interval."""
    sent_bytes: int
    """Keys and values so far."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one text says."""

    brokers: Mapping[int, BrokerReading] = field(default_factory=dict)
    topics: Mapping[str, TopicReading] = field(default_factory=dict)
    """Of those asked for, the ones that the client knew."""
    asked: frozenset[str] | None = None
    """None: before anything was sent, when all sums were nothing."""


def read_statistics(text: str, topics: Iterable[str]) -> Reading:
    """The brokers, and those of the topics that the client knows.

    Raises:
        ValueError: a field that a topic should have is not there.
    """
    starts = [(match[1], match.start()) for match in _TOPIC.finditer(text)]
    ends = [start for _, start in starts] + [len(text)]
    wanted = set(topics)
    return Reading(
        brokers=_read_brokers(text, ends[0]),
        topics={
            name: _read_topic(text, start, end)
            for (name, start), end in zip(starts, ends[1:], strict=True)
            if name in wanted
        },
        asked=frozenset(wanted),
    )


def _read_brokers(text: str, end: int) -> dict[int, BrokerReading]:
    found = (tuple(map(int, match.groups())) for match in _BROKER.finditer(text, 0, end))
    return {
        node: BrokerReading(trips, total, p99, requests)
        for node, total, p99, trips, requests in found
        if node >= 0
    }


def _read_topic(text: str, start: int, end: int) -> TopicReading:
    batches = _SUM.search(text, start, end)
    if batches is None:
        raise ValueError("statistics: a topic without batchsize.sum")
    total, at = 0, text.find(_SENT, start, end)
    while at >= 0:
        stop = text.index(",", at, end)
        total += int(text[at + len(_SENT) : stop])
        at = text.find(_SENT, stop, end)
    return TopicReading(int(batches[1]), total)


class ClientStatistics:
    """Takes texts from whoever polls, and what they mean to the routing thread.

    `offer` is called by any thread; all else belongs to the routing thread.
    """

    def __init__(self) -> None:
        self._texts: deque[tuple[int, str]] = deque()
        self._offered = 0
        self._last: tuple[int, Reading] = (0, Reading())
        self._taken = -FORGET_SECONDS
        self._brokers: dict[int, BrokerHeartbeat] = {}
        self._ratios: dict[str, float] = {}

    def offer(self, text: str) -> None:
        """Put a text down; of many large ones only the newest stay."""
        self._offered += 1
        self._texts.append((self._offered, text))
        if len(self._texts) > FEWEST_TEXTS and len(self._texts) * len(text) > KEPT_CHARACTERS:
            self._texts.popleft()

    def sample(self, now: float, topics: Iterable[str]) -> None:
        """Read the texts put down since the last time, if it is time; `now` in monotonic seconds.

        Raises:
            ValueError: a text is not as expected; the next ones are tried.
        """
        if not self._texts or now - self._taken < SAMPLE_SECONDS:
            return
        self._taken = now
        wanted, start = tuple(topics), self._last[1]
        grown: dict[str, list[int]] = {}
        trips: dict[int, _Trips] = {}
        while self._texts:
            number, text = self._texts.popleft()
            reading = read_statistics(text, wanted)
            if number == self._last[0] + 1:
                _add_growth(grown, self._last[1], reading)
            _add_trips(trips, reading)
            self._last = (number, reading)
        self._ratios |= {name: wire / sent for name, (wire, sent) in grown.items() if wire and sent > 0}
        self._brokers = _build_brokers(trips, start, self._last[1])

    def ratio(self, topic: str) -> float | None:
        """Bytes on the wire per byte of keys and values, as last seen; None: not seen yet."""
        return self._ratios.get(topic)

    def brokers(self, now: float) -> dict[int, BrokerHeartbeat]:
        """Round trips by broker as last seen; nothing where that is long ago."""
        return self._brokers if now - self._taken <= FORGET_SECONDS else {}


def _add_growth(grown: dict[str, list[int]], before: Reading, after: Reading) -> None:
    """Bytes of an interval, and by how much what was sent grew in it."""
    for name, topic in after.topics.items():
        earlier = before.topics.get(name)
        if before.asked is not None and name not in before.asked:
            continue  # not asked for then
        one = grown.setdefault(name, [0, 0])
        one[0] += topic.wire_bytes
        one[1] += topic.sent_bytes - (earlier.sent_bytes if earlier else 0)


@dataclass(slots=True)
class _Trips:
    """Round trips of one broker, of all the intervals read together."""

    total_us: int = 0
    count: int = 0
    p99s_us: list[int] = field(default_factory=list)
    """Of the intervals that had enough."""

    def add(self, reading: BrokerReading) -> None:
        self.total_us += reading.round_trip_us
        self.count += reading.round_trips
        if reading.round_trips >= FEWEST_TRIPS:
            self.p99s_us.append(reading.p99_us)

    def p99_ms(self) -> float | None:
        """The middle one: percentiles cannot be added."""
        if not self.p99s_us:
            return None
        return round(sorted(self.p99s_us)[len(self.p99s_us) // 2] / 1000, 3)


def _add_trips(trips: dict[int, _Trips], reading: Reading) -> None:
    for node, broker in reading.brokers.items():
        trips.setdefault(node, _Trips()).add(broker)


def _build_brokers(trips: dict[int, _Trips], before: Reading, after: Reading) -> dict[int, BrokerHeartbeat]:
    found = {}
    for node, seen in trips.items():
        now, earlier = after.brokers.get(node), before.brokers.get(node)
        requests = (now.requests if now else 0) - (earlier.requests if earlier else 0)
        if requests > 0 and seen.count > 0:
            mean_ms = round(seen.total_us / seen.count / 1000, 3)
            found[node] = BrokerHeartbeat(mean_ms, requests, seen.p99_ms())
    return found
