"""Records that know their own number and digest, so that after any disaster each can be asked for one by one."""

from __future__ import annotations

import hashlib
import itertools
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka

from integration.kafka.clients import read_all

_HEAD = struct.Struct(">Q8s")
DELIVERY_MS = 180_000
"""Longer than any fault lasts: a record that fails would only make the comparison weaker."""
Position = tuple[str, int, int]
"""Topic, partition, offset."""


def make_value(number: int, size: int, filler: bytes) -> bytes:
    """A record's value of about `size` bytes: number, digest, and a piece of `filler` that the number chooses."""
    length = max(0, size - _HEAD.size)
    start = number * 8191 % max(1, len(filler) - length)
    body = filler[start : start + length]
    return _HEAD.pack(number, _digest(number, body)) + body


def read_value(value: bytes | None) -> int | None:
    """The number in a value; None: it is damaged."""
    if value is None or len(value) < _HEAD.size:
        return None
    number, digest = _HEAD.unpack_from(value)
    return int(number) if digest == _digest(number, value[_HEAD.size :]) else None


def _digest(number: int, body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=8, key=number.to_bytes(8, "big")).digest()


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of all records."""

    acked: int
    """Acknowledged: each must be there once, where Kafka said."""
    failed: int
    """Not acknowledged: they may be in the log once, or not at all."""
    lost: int
    """Acknowledged and not there, or elsewhere."""
    repeated: int
    """Copies too many."""
    damaged: int
    """Not what was written."""

    @property
    def intact(self) -> bool:
        """None lost, none repeated, none damaged."""
        return not (self.lost or self.repeated or self.damaged)


def count_records(
    acked: Mapping[int, Position], failed: Iterable[int], found: Iterable[tuple[Position, bytes | None]]
) -> Tally:
    """Compare what was acknowledged with what is there, record by record.

    Args:
        acked: number -> where Kafka said that it is.
        failed: numbers that were not acknowledged.
        found: every record of the log, or every record that a consumer was given.
    """
    unsure, copies, placed, damaged = set(failed), Counter[int](), set[int](), 0
    for position, value in found:
        number = read_value(value)
        if number is None or (number not in acked and number not in unsure):
            damaged += 1
            continue
        copies[number] += 1
        if acked.get(number) == position:
            placed.add(number)
    return Tally(
        acked=len(acked),
        failed=len(unsure),
        lost=sum(number not in placed for number in acked),
        repeated=sum(count - 1 for count in copies.values()),
        damaged=damaged,
    )


@dataclass(slots=True)
class _Log:
    """What one writer knows of its records."""

    acked: dict[int, Position] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)


class Trail:
    """Writes numbered records to chosen partitions, at once or at a steady pace beside whatever happens.

    Args:
        config: of the client.
        filler: bytes that values are cut from.
    """

    def __init__(self, config: Mapping[str, Any], filler: bytes) -> None:
        self._config = dict(config)
        self._filler = filler
        self._numbers = itertools.count()
        self._log = _Log()
        self._topics: set[str] = set()
        self._dropped: set[str] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._producer = confluent_kafka.Producer(
            {
                **config,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": DELIVERY_MS,
                "enable.metrics.push": False,
                "reconnect.backoff.max.ms": 1000,
                "log_level": 0,
            }
        )

    def write(self, topic: str, partition: int, size: int) -> None:
        """One record, without waiting for its acknowledgement."""
        number = next(self._numbers)
        value = make_value(number, size, self._filler)
        self._topics.add(topic)
        while True:
            try:
                self._producer.produce(topic, value, None, partition, self._note(number))
            except BufferError:
                self._producer.poll(0.05)
            else:
                break
        self._producer.poll(0)

    def _note(self, number: int) -> Callable[[Any, confluent_kafka.Message], None]:
        def note(error: Any, message: confluent_kafka.Message) -> None:
            if error is not None:
                self._log.failed.add(number)
                return
            where = message.topic(), message.partition(), message.offset()
            self._log.acked[number] = where  # type: ignore[assignment] # all three are known by then

        return note

    def flush(self, seconds: float = DELIVERY_MS / 1000 + 5) -> None:
        """Wait for all acknowledgements.

        Raises:
            TimeoutError: some are missing.
        """
        left = self._producer.flush(seconds)
        if left:
            raise TimeoutError(f"{left} records are neither acknowledged nor refused after {seconds:g} s")

    def follow(self, partitions: Sequence[tuple[str, int]], rate: float, size: int) -> None:
        """Go on writing to these partitions in turn, `rate` records per second, until `stop`."""

        def run() -> None:
            chosen = itertools.cycle(partitions)
            while not self._stop.wait(1 / rate):
                topic, partition = next(chosen)
                if topic not in self._dropped:
                    self.write(topic, partition, size)

        self._thread = threading.Thread(target=run, name="trail", daemon=True)
        self._thread.start()

    def drop(self, topic: str) -> None:
        """The topic is going to be deleted: nothing of it is written or asked for any more."""
        self._dropped.add(topic)

    def halt(self) -> None:
        """Write no more. May be called twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def stop(self) -> None:
        """The same, and all that was written is acknowledged or refused."""
        self.halt()
        self.flush()

    def check(self) -> Tally:
        """Read all topics from their start and compare; after `stop`."""
        kept = {number: at for number, at in self._log.acked.items() if at[0] not in self._dropped}
        return count_records(kept, self._log.failed, self._read())

    def _read(self) -> Iterator[tuple[Position, bytes | None]]:
        for topic in sorted(self._topics - self._dropped):
            for message in read_all(self._config, topic, seconds=60):
                where = topic, message.partition() or 0, message.offset() or 0
                yield where, message.value()
