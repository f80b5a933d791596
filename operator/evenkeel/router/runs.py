"""The run of one topic: which partition takes bytes now, and for how long."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from evenkeel.router.schedule import Schedule

RUN_BYTES = 512 * 1024
"""Shorter runs send up to 25 times the requests (measured); longer ones level no better."""
RUN_BATCHES = 4
LARGE_MESSAGE = 256 * 1024
"""From this size on a message is a run of its own."""
RUN_SECONDS = 0.1
UNASSIGNED = -1
"""librdkafka's own partitioner."""
ENDLESS = 1 << 62


class TopicRun:
    """Current run and schedule of a topic.

    `partition`, `sent` and `limit` are read and counted by the producing threads without a lock: a lost
    update makes a run a little longer, nothing else.
    """

    __slots__ = (
        "_done",
        "_lock",
        "_phase",
        "_quantum",
        "_schedule",
        "_started",
        "limit",
        "partition",
        "run_bytes",
        "runs",
        "sent",
    )

    def __init__(self, phase: float, message_bytes: int = 0) -> None:
        """`message_bytes`: usual size of a message, where known beforehand; 0: the first one tells."""
        self.partition = UNASSIGNED
        self.sent = 0
        self.limit = ENDLESS
        self.run_bytes = RUN_BYTES
        self.runs = 0
        self._phase = phase
        self._quantum = max(RUN_BYTES, message_bytes) if message_bytes else 0
        self._schedule: Schedule | None = None
        self._done = 0
        self._started = 0.0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """Bytes so far, whether routed or left to the default partitioner."""
        return self._done + self.sent

    @property
    def routed(self) -> bool:
        """Whether a schedule is in force."""
        return self._schedule is not None

    def turn(self, size: int) -> int:
        """End the run and begin the next with a message of `size` bytes, which `sent` holds already."""
        with self._lock:
            if self.sent <= self.limit:
                return self.partition  # another thread was faster
            self._close_run(self.sent - size)
            self.sent = size
            if self._schedule is None:
                self.partition, self.limit = UNASSIGNED, ENDLESS
                return UNASSIGNED
            if not self._quantum:
                self._quantum = max(RUN_BYTES, size)
            self.partition = self._schedule.pick()
            self.limit = 0 if size >= LARGE_MESSAGE else self.run_bytes
            self._started = time.monotonic()
            self.runs += 1
            return self.partition

    def _close_run(self, used: int) -> None:
        self._done += used
        if self._schedule is not None and self.partition != UNASSIGNED:
            self._schedule.account(self.partition, used / self._quantum)

    def follow(self, weights: Sequence[float] | None) -> None:
        """Go by these weights from the next run on; None: by the client's own partitioner.

        A run in progress is finished, unless its partition may not be used any more.
        """
        with self._lock:
            if weights is None:
                schedule = None
            elif self._schedule is None:
                schedule = Schedule(weights, self._phase)
            else:
                schedule = self._schedule.successor(weights)
            if self.partition != UNASSIGNED and self._schedule is not None:
                if schedule is None:
                    self._close_run(self.sent)
                    self.sent, self.partition, self.limit = 0, UNASSIGNED, ENDLESS
                elif self.partition not in schedule:
                    self.limit = -1
            elif schedule is not None:
                self.limit = -1
            self._schedule = schedule

    def expire(self, now: float) -> None:
        """End a run that lasts longer than 100 ms with the next record; called off the callers' threads."""
        if self._schedule is not None and now - self._started >= RUN_SECONDS:
            self.limit = -1
