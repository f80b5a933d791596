"""The journal as its workers use it: append, follow, and know how long another worker has been silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from evenkeel.domain.connection import Connection
from evenkeel.domain.journal import Claim, JournalRecord, JournalState, encode, parse
from evenkeel.errors import DataError, RetryableError
from evenkeel.kafka.clients.append import Appender, UnknownOutcomeError
from evenkeel.kafka.clients.reader import PartitionReader
from evenkeel.reasons import Reason


class Log(Protocol):
    """One partition that many append to and follow."""

    def append(self, values: Sequence[bytes]) -> list[int]:
        """Write in order, wait, return the offsets; raises UnknownOutcomeError where that is not sure."""

    def poll(self, timeout: float) -> list[tuple[int, bytes]]:
        """What came since the last call."""

    def end(self) -> int:
        """Offset after the last record now."""

    def close(self) -> None:
        """Give the connections back."""


class KafkaLog:
    """The journal topic.

    Raises:
        DataError: DATA_LOST: its beginning is gone.
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection = connection
        self._topic = topic
        self._appender: Appender | None = None
        self._reader = PartitionReader(connection, topic)
        first, _ = self._reader.bounds(30.0)
        if first > 0:
            message = f"{topic}: begins at offset {first}, the journal must be whole"
            raise DataError(message, reason=Reason.DATA_LOST)
        self._tail = self._reader.tail(0)

    def append(self, values: Sequence[bytes]) -> list[int]:
        """As Log; after an unknown outcome the producer is dropped, so that it writes nothing more."""
        if self._appender is None:
            self._appender = Appender(self._connection)
        try:
            return self._appender.append_all(
                self._topic, [(value, None, ()) for value in values], partition=0
            )
        except UnknownOutcomeError:
            self._appender.close()
            self._appender = None
            raise

    def poll(self, timeout: float) -> list[tuple[int, bytes]]:
        """As Log."""
        return [(record.offset, record.value) for record in self._tail.poll(timeout)]

    def end(self) -> int:
        """As Log."""
        return self._reader.bounds()[1]

    def close(self) -> None:
        """As Log."""
        if self._appender is not None:
            self._appender.close()
        self._reader.close()


class Journal:
    """A log and its fold.

    Args:
        log: the journal topic.
        monotonic: the clock, seconds; silence is measured by it alone, never by anybody's wall clock.
    """

    def __init__(self, log: Log, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.state = JournalState()
        self._log = log
        self._monotonic = monotonic
        self._instances: dict[int, str] = {}
        self._heard: dict[str, float] = {}

    def poll(self, timeout: float = 0.0) -> bool:
        """Take what has come, waiting up to `timeout` seconds; says whether anything came.

        Raises:
            DataError: DATA_LOST: a record was skipped; without transactions and compaction none ever is.
        """
        found = self._log.poll(timeout)
        for offset, value in found:
            if offset != self.state.next_offset:
                message = f"journal: offset {self.state.next_offset} is missing, {offset} came"
                raise DataError(message, reason=Reason.DATA_LOST)
            record = parse(value)
            self.state.apply(offset, record)
            self._listen(offset, record)
        return bool(found)

    def catch_up(self, timeout: float = 60.0) -> None:
        """Take everything that is in the log now.

        Raises:
            RetryableError: nothing came for `timeout` seconds.
        """
        self._follow(self._log.end(), timeout)

    def append(self, *records: JournalRecord, timeout: float = 60.0) -> list[int]:
        """Write records, then take everything up to and with them; returns their offsets.

        Raises:
            UnknownOutcomeError: they may be in the log.
        """
        offsets = self._log.append([encode(record) for record in records])
        self._follow(offsets[-1] + 1, timeout)
        return offsets

    def silence(self, instance: str) -> float:
        """Seconds since a record of that worker process arrived here."""
        return self._monotonic() - self._heard.get(instance, self._monotonic())

    def close(self) -> None:
        """Give the connections back."""
        self._log.close()

    def _follow(self, end: int, timeout: float) -> None:
        deadline = self._monotonic() + timeout
        while self.state.next_offset < end:
            if self.poll(0.2):
                deadline = self._monotonic() + timeout
            elif self._monotonic() > deadline:
                message = f"journal: offset {end - 1} did not come, nothing did for {timeout:g} s"
                raise RetryableError(message, reason=Reason.BROKERS_UNREACHABLE)

    def _listen(self, offset: int, record: JournalRecord) -> None:
        if isinstance(record, Claim):
            self._instances[offset] = record.instance
            self._heard[record.instance] = self._monotonic()
            return
        attempt = getattr(record, "attempt", None)  # all but claims, reopens and seals have one
        instance = self._instances.get(attempt) if attempt is not None else None
        if instance is not None:
            self._heard[instance] = self._monotonic()
