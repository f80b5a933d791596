"""The run of one topic: which partition takes bytes now, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from evenkeel.router.schedule import Schedule

RUN_BYTES = 1024 * 1024
"""Length of a run while nothing is known of the rate, and of a quick writer: what it writes in a short time must
be even, too."""
SHORTEST_RUN = 16 * 1024
"""A run of small messages is never cut shorter: a burst after silence would spread over all partitions."""
LARGE_MESSAGE = 256 * 1024
"""From this size on a message is a run of its own."""
BATCH_SECONDS = 0.005
"""A batching delay below this is taken as this: librdkafka's default."""
MOST_LINGERS, FEWEST_LINGERS = 40, 4
"""How many batching delays a run lasts. Each change of partition costs two requests: runs of 10 delays send 1.19
times the requests of the client's own partitioner, of 20 delays 1.10, of 40 delays 1.05, and the longer ones are
answered sooner, too (measured at 2 MB/s, round trips of 6 to 8 ms)."""
SLOW_LINGERS = 3
"""A broker answers the requests of a connection one after the other: where a round trip takes longer than this
many batching delays, the batches of a long run wait for each other, and runs are shorter."""
ROUND_SECONDS = 12.0
"""Every partition should have had its turn within this time, before the next table is made: fifty writers
of 300 partitions would be 8 % off their weights after 10 minutes with runs of 40 delays, and are 3 % with 10."""
SHORTENED = 4
"""A run is made shorter than it should be by this factor at most, however many partitions there are and however
quick the writer is."""
LONGEST_SECONDS = 1.0
FULL_BATCHES = 4
"""Where the client's queue is full, batches are as large as they may be, and a run is this many of them."""
UNASSIGNED = -1
"""librdkafka's own partitioner."""
ENDLESS = 1 << 62
LONG_SECONDS = 0.1
"""A run that has lasted this long, and twice as long as it should, is ended whatever its length."""
FEW_RUNS = 3
ALIKE = 1.25
"""Mean lengths that differ by less than this factor are taken as equal."""


def run_seconds(linger: float, round_trip: float | None = None) -> float:
    """How long a run of a steady producer should last where there are few partitions.

    Args:
        linger: batching delay of the client, seconds.
        round_trip: mean of the brokers' answers, seconds; None: not known.
    """
    delay = max(linger, BATCH_SECONDS)
    count, slow = float(MOST_LINGERS), SLOW_LINGERS * delay
    if round_trip is not None and round_trip > slow:
        count = max(float(FEWEST_LINGERS), MOST_LINGERS * (slow / round_trip) ** 2)
    return min(LONGEST_SECONDS, count * delay)


class HotRun:
    """What each record touches, side by side.

    Where records are large their copies push all else out of the processor's caches. What the router adds to a call
    is then the memory that it reads: at 64 KiB 0.1 us for a Python function with these arguments, 0.2 us more for a
    look at slots that lie together, 0.4 us where they are found by a dict. So these come first.
    """

    __slots__ = ("limit", "partition", "sent", "topic")

    limit: int
    """Bytes after which the run ends."""
    partition: int
    sent: int
    """Bytes of this run."""
    topic: str
    """Empty: of several topics."""


class TopicRun(HotRun):
    """Current run and schedule of a topic.

    `partition`, `sent` and `limit` are read and counted by the producing threads without a lock: a lost
    update makes a run a little longer, nothing else.

    The schedule counts in strides, the usual length of a run in bytes. Its partitions have their first
    turns spread over one stride, so that after any number of bytes the expected error is nothing: were the
    stride longer than the runs really are, light partitions would start too late, were it shorter, too
    early, and the same way in all routers at once. So it follows the mean length of the runs.
    """

    __slots__ = (
        "_done",
        "_lock",
        "_measured",
        "_phase",
        "_schedule",
        "_seen",
        "_started",
        "_stride",
        "_wanted_seconds",
        "full",
        "run_bytes",
        "runs",
    )

    def __init__(self, phase: float, message_bytes: int = 0, topic: str = "") -> None:
        """`message_bytes`: usual size of a message, where known beforehand; 0: the first one tells."""
        self.topic = topic
        self.partition = UNASSIGNED
        self.sent = 0
        self.limit = ENDLESS
        self.run_bytes = RUN_BYTES
        self.runs = 0
        self._wanted_seconds = run_seconds(0.0)
        self.full = False
        """Set when the client had no room for a record."""
        self._phase = phase
        self._stride = 0
        if message_bytes:
            self._stride = message_bytes if message_bytes >= LARGE_MESSAGE else RUN_BYTES
        self._schedule: Schedule | None = None
        self._done = 0
        self._seen = 0
        self._started = 0.0
        self._measured = (0, 0)
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """Bytes so far, whether routed or left to the default partitioner."""
        return self._done + self.sent

    @property
    def seconds(self) -> float:
        """How long a run should last with the partitions that there are."""
        wanted, schedule = self._wanted_seconds, self._schedule
        if schedule is None:
            return wanted
        return max(wanted / SHORTENED, min(wanted, ROUND_SECONDS / len(schedule)))

    @property
    def routed(self) -> bool:
        """Whether a schedule is in force."""
        return self._schedule is not None

    def turn(self, size: int) -> int:
        """End the run and begin the next with a message of `size` bytes, which `sent` holds already.

        Never waits: while another thread is at it, or a schedule is being made, the run goes on.
        """
        # By position: parsing a keyword takes 7 us more where the caches are cold.
        if not self._lock.acquire(False):
            return self.partition
        try:
            sent, schedule = self.sent, self._schedule
            if sent <= self.limit:
                return self.partition  # another thread was faster
            used = sent - size
            self._done += used
            self.sent = size
            if schedule is None:
                self.partition, self.limit = UNASSIGNED, ENDLESS
                return UNASSIGNED
            if not self._stride:
                self._stride = size if size >= LARGE_MESSAGE else self.run_bytes
            last = self.partition
            chosen = schedule.pick() if last < 0 else schedule.advance(last, used / self._stride)
            self.partition = chosen
            self.limit = 0 if size >= LARGE_MESSAGE else self.run_bytes
            self.runs += 1
            return chosen
        finally:
            self._lock.release()

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
                    self._done += self.sent
                    self.sent, self.partition, self.limit = 0, UNASSIGNED, ENDLESS
                elif self.partition not in schedule:
                    self.limit = -1
            elif schedule is not None:
                self.limit = -1
            self._schedule = schedule

    def adapt(self, rate: float, seconds: float, batch: int) -> None:
        """Fit the length of the runs to what is written; called off the callers' threads.

        Args:
            rate: bytes per second of late.
            seconds: how long a run of few partitions should last: `run_seconds`.
            batch: largest batch of the client, bytes.
        """
        self._wanted_seconds = seconds
        usual = max(rate * seconds / SHORTENED, min(rate * self.seconds, RUN_BYTES))
        self.run_bytes = max(SHORTEST_RUN, int(usual), FULL_BATCHES * batch if self.full else 0)
        self.full = False
        with self._lock:
            total, before = self.bytes, self._measured
            runs = self.runs - before[1]
            if runs >= FEW_RUNS and self._stride:
                mean = (total - before[0]) / runs
                if mean > 0 and not 1 / ALIKE <= mean / self._stride <= ALIKE:
                    self._stride = max(1, int(mean))
            if runs >= FEW_RUNS or not self.routed:
                self._measured = (total, self.runs)

    def expire(self, now: float) -> None:
        """End a run that lasts far longer than it should; called off the callers' threads, every 0.1 s or so.

        A run has begun when it was first seen: a look at the clock at each turn shows in what `produce` costs.
        """
        if self._seen != self.runs:
            self._seen, self._started = self.runs, now
        elif self._schedule is not None and now - self._started >= max(LONG_SECONDS, 2 * self.seconds):
            self.limit = -1
