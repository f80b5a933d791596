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
"""Statistics that come more often are not all read."""
FORGET_SECONDS = 60.0
"""Older round trips say nothing about now."""

_NUMBER = r":\s*(-?\d+)"
_BROKER = re.compile(
    rf'"nodeid"{_NUMBER}.*?"rtt":.*?"sum"{_NUMBER}.*?"cnt"{_NUMBER}.*?"req":.*?"Produce"{_NUMBER}', re.DOTALL
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
    )


def _read_brokers(text: str, end: int) -> dict[int, BrokerReading]:
    found = (tuple(map(int, match.groups())) for match in _BROKER.finditer(text, 0, end))
    return {
        node: BrokerReading(trips, total, requests) for node, total, trips, requests in found if node >= 0
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
        self._texts: deque[tuple[int, str]] = deque(maxlen=2)
        self._offered = 0
        self._last: tuple[int, Reading] = (0, Reading())
        self._taken = -FORGET_SECONDS
        self._brokers: dict[int, BrokerHeartbeat] = {}
        self._ratios: dict[str, float] = {}

    def offer(self, text: str) -> None:
        """Put a text down."""
        self._offered += 1
        self._texts.append((self._offered, text))

    def sample(self, now: float, topics: Iterable[str]) -> None:
        """Read the newest text if it is time; `now` in monotonic seconds.

        Raises:
            ValueError: the text is not as expected; the next one is tried.
        """
        if not self._texts or now - self._taken < SAMPLE_SECONDS:
            return
        self._taken = now
        wanted, texts = tuple(topics), list(self._texts)
        self._texts.clear()
        number, text = texts[-1]
        newest = read_statistics(text, wanted)
        before = self._find_before(number, texts, wanted)
        if before is not None:
            self._compare(before, newest)
        self._brokers = _compare_brokers(self._last[1], newest)
        self._last = (number, newest)

    def _find_before(
        self, number: int, texts: list[tuple[int, str]], wanted: tuple[str, ...]
    ) -> Reading | None:
        """What the text just before this one said: bytes of an interval are compared with growth in it."""
        if self._last[0] == number - 1:
            return self._last[1]
        if texts[0][0] == number - 1:
            return read_statistics(texts[0][1], wanted)
        return None

    def _compare(self, before: Reading, newest: Reading) -> None:
        for name, topic in newest.topics.items():
            earlier = before.topics.get(name)
            if earlier is None and before.brokers:
                continue  # not asked for then
            sent = topic.sent_bytes - (earlier.sent_bytes if earlier else 0)
            if sent > 0 and topic.wire_bytes > 0:
                self._ratios[name] = topic.wire_bytes / sent

    def ratio(self, topic: str) -> float | None:
        """Bytes on the wire per byte of keys and values, as last seen; None: not seen yet."""
        return self._ratios.get(topic)

    def brokers(self, now: float) -> dict[int, BrokerHeartbeat]:
        """Round trips by broker as last seen; nothing where that is long ago."""
        return self._brokers if now - self._taken <= FORGET_SECONDS else {}


def _compare_brokers(before: Reading, newest: Reading) -> dict[int, BrokerHeartbeat]:
    found = {}
    for node, one in newest.brokers.items():
        earlier = before.brokers.get(node)
        requests = one.requests - (earlier.requests if earlier else 0)
        if requests > 0 and one.round_trips > 0:
            mean = one.round_trip_us / one.round_trips / 1000
            found[node] = BrokerHeartbeat(round(mean, 3), requests)
    return found
