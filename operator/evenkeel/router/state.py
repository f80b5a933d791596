"""What a Producer and its background thread share: runs, tables, and how they are mixed just now."""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.domain.heartbeat import RouteMode, RouterHeartbeat, TopicHeartbeat
from evenkeel.domain.table import RouteTable
from evenkeel.router.fallback import effective_weights
from evenkeel.router.runs import RUN_BATCHES, RUN_BYTES, TopicRun
from evenkeel.router.settings import Settings
from evenkeel.router.stats import RouterStats, TopicStats
from evenkeel.router.store import TableStore

MIX_STEP = 0.01
"""A change of the mixture below this is not worth a new schedule."""


class _Followed:
    """The table a topic follows, and since how many bytes."""

    __slots__ = ("led", "mix", "since", "table")

    def __init__(self, table: RouteTable, since: int) -> None:
        self.table = table
        self.since = since
        self.mix = -1.0
        self.led: tuple[bool, ...] = ()


class RouterState:
    """Shared state. `runs` is read by the producing threads, all else belongs to the background thread."""

    def __init__(self, router: str, settings: Settings) -> None:
        self.router = router
        self.settings = settings
        self.store = TableStore()
        self.runs: dict[str, TopicRun] = {topic: self._new_run() for topic in settings.topics}
        self.read_errors = 0
        self.heartbeats_sent = 0
        self.heartbeats_failed = 0
        self.last_problem = ""
        self._followed: dict[str, _Followed] = {}
        self._rates: dict[str, int] = {}

    def _new_run(self) -> TopicRun:
        return TopicRun(self.settings.phase, self.settings.message_bytes)

    def wants(self, topic: str) -> bool:
        """Whether tables of this topic matter to us."""
        return not self.settings.topics or topic in self.settings.topics

    def routed_topics(self) -> tuple[str, ...]:
        """Topics that have a table."""
        return tuple(self.store.tables())

    def refresh(self, now_ms: int, leaders: Mapping[str, tuple[bool, ...]]) -> None:
        """Bring every topic's schedule up to its newest table, its age, bytes and leaders."""
        tables = self.store.tables()
        for topic in [topic for topic in self._followed if topic not in tables]:
            del self._followed[topic]
            self.runs[topic].follow(None)
        for topic, table in tables.items():
            self._refresh_topic(topic, table, now_ms, leaders.get(topic, ()))

    def _refresh_topic(self, topic: str, table: RouteTable, now_ms: int, led: tuple[bool, ...]) -> None:
        run = self.runs.get(topic)
        if run is None:
            run = self.runs[topic] = self._new_run()
        followed = self._followed.get(topic)
        if followed is None or followed.table is not table:
            followed = self._followed[topic] = _Followed(table, run.bytes)
        written = run.bytes - followed.since
        effective = effective_weights(table, now_ms=now_ms, written_bytes=written, led=led)
        if abs(effective.mix - followed.mix) >= MIX_STEP or led != followed.led:
            followed.mix, followed.led = effective.mix, led
            run.follow(effective.weights)
            self.store.announce(topic, table.plan_offset)

    def adapt_runs(self, seconds: float, linger: float, batch: int) -> None:
        """Let runs grow with the rate: 512 KiB or four batches, whichever is more."""
        for topic, run in list(self.runs.items()):
            rate = (run.bytes - self._rates.get(topic, 0)) / seconds
            self._rates[topic] = run.bytes
            run.run_bytes = max(RUN_BYTES, int(RUN_BATCHES * min(batch, rate * linger)))

    def mode(self, topic: str) -> RouteMode:
        """How partitions of the topic are chosen."""
        followed = self._followed.get(topic)
        if followed is None or not self.runs[topic].routed:
            return RouteMode.DEFAULT
        return RouteMode.MIXED if followed.mix > 0 else RouteMode.TABLE

    def heartbeat(self) -> RouterHeartbeat:
        """Counters for the keeper."""
        topics = {}
        for topic, run in list(self.runs.items()):
            followed = self._followed.get(topic)
            owner_epoch, epoch = (followed.table.owner_epoch, followed.table.epoch) if followed else (0, 0)
            topics[topic] = TopicHeartbeat(run.bytes, self.mode(topic), owner_epoch, epoch)
        return RouterHeartbeat(self.router, topics)

    def stats(self) -> RouterStats:
        """Counters for the user."""
        topics = {}
        for topic, run in list(self.runs.items()):
            followed = self._followed.get(topic)
            mode = self.mode(topic)
            topics[topic] = TopicStats(
                mode=mode,
                bytes=run.bytes,
                runs=run.runs,
                mix=1.0 if mode is RouteMode.DEFAULT or followed is None else followed.mix,
                owner_epoch=followed.table.owner_epoch if followed else 0,
                epoch=followed.table.epoch if followed else 0,
            )
        return RouterStats(
            router=self.router,
            topics=topics,
            tables=self.store.counts,
            read_errors=self.read_errors,
            heartbeats_sent=self.heartbeats_sent,
            heartbeats_failed=self.heartbeats_failed,
            last_problem=self.last_problem or self.store.last_problem,
        )
