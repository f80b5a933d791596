"""Follows the heartbeats topic: what routers say of the newest minute, or None where it cannot be read."""

from __future__ import annotations

import time
from collections.abc import Callable

from evenkeel import names
from evenkeel.domain.connection import Connection
from evenkeel.errors import EvenkeelError
from evenkeel.kafka.clients.reader import PartitionReader, Tail
from evenkeel.keeper.heartbeats import WINDOW_MS, HeartbeatBook, Steering

LOOK_BACK_MS = 2 * WINDOW_MS
"""Read at the start: so that a new keeper knows rates at once."""
RETRY_SECONDS = 5.0
"""Pause after trouble: each try makes a new client."""
BURST_SECONDS = 2.0
"""Longest time of one poll; what is left comes with the next."""
CALL_SECONDS = 5.0


class HeartbeatLog:
    """The end of the heartbeats topic. Used by one thread.

    Args:
        wall_ms: wall clock, milliseconds since the epoch.
        monotonic: clock of pauses, seconds.
    """

    def __init__(self, wall_ms: Callable[[], int], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall_ms = wall_ms
        self._monotonic = monotonic
        self._book = HeartbeatBook()
        self._connection: Connection | None = None
        self._reader: PartitionReader | None = None
        self._tail: Tail | None = None
        self._position = self._end = 0
        self.problem: EvenkeelError | None = None
        """Why the topic cannot be read, until it can."""
        self._retry_at = self._opened_at = 0.0

    def poll(self, connection: Connection) -> None:
        """Take what has come.

        Raises:
            EvenkeelError: the topic cannot be read; tried again after a pause, in which `problem` tells it.
        """
        if connection != self._connection:
            self.close()
            self._connection, self._book = connection, HeartbeatBook()
        began = self._monotonic()
        if self.problem is not None and began < self._retry_at:
            return
        try:
            self._open(connection)
            self._take(began + BURST_SECONDS)
            self.problem = None
        except EvenkeelError as error:
            self.close()
            self.problem, self._retry_at = error, self._monotonic() + RETRY_SECONDS
            raise

    def steering(self) -> Steering | None:
        """What is known now; None while the topic is not read up to its end, or what it says is doubtful."""
        now_ms = self._wall_ms()
        if self._tail is None or self._position < self._end or self._book.doubt(now_ms):
            return None
        return self._book.summarise(now_ms)

    def doubt(self) -> str:
        """Why what was read is not believed; empty: it is.

        What is read at the start may be of routers that ended a minute ago: that is no doubt.
        """
        young = self._monotonic() - self._opened_at < WINDOW_MS / 1000
        return "" if young else self._book.doubt(self._wall_ms())

    def close(self) -> None:
        """Give the connection back; the next poll begins two minutes before then."""
        if self._reader is not None:
            self._reader.close()
        self._reader = self._tail = self.problem = None

    def _open(self, connection: Connection) -> None:
        if self._tail is not None:
            return
        self._reader = PartitionReader(connection, names.HEARTBEATS_TOPIC)
        self._end = self._reader.bounds(CALL_SECONDS)[1]
        self._position = self._reader.offset_at(self._wall_ms() - LOOK_BACK_MS, CALL_SECONDS)
        self._tail = self._reader.tail(self._position)
        self._opened_at = self._monotonic()

    def _take(self, deadline: float) -> None:
        assert self._tail is not None
        while records := self._tail.poll(0.05):
            for record in records:
                self._book.note(record.value, record.timestamp_ms, self._wall_ms())
            self._position = records[-1].offset + 1
            if self._monotonic() > deadline:
                return
