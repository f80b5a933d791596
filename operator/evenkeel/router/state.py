"""What a Producer and its background thread share: runs, tables, and how they are mixed just now."""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.domain.heartbeat import RouteMode, RouterHeartbeat, TopicHeartbeat
from evenkeel.domain.table import RouteTable
from evenkeel.router.fallback import budget_share, effective_weights, mixture
from evenkeel.router.rates import RateMeter
from evenkeel.router.runs import TopicRun, run_seconds
from evenkeel.router.settings import Settings
from evenkeel.router.statistics import ClientStatistics
from evenkeel.router.stats import RouterStats, TopicStats
from evenkeel.router.store import TableStore

MIX_STEP = 0.01
"""A change of the mixture below this is not worth a new schedule."""
COUNTED_TOPICS = 256
"""How many topics without a table are counted; heartbeats must stay small."""
LANES = 4096
"""How many topics are looked up at full speed."""


class _Followed:
    """The table a topic follows, and since how many bytes."""

    __slots__ = ("came", "due", "led", "mix", "share", "since", "table")

    def __init__(self, table: RouteTable, since: int, came: float | None) -> None:
        self.table = table
        self.since = since
        self.came = came
        """Monotonic seconds; None: not known yet."""
        self.share: float | None = None
        self.due = -1.0
        """The mixture by limits when the schedule was made; more where no partition was left."""
        self.mix = 0.0
        self.led: tuple[bool, ...] = ()


class RouterState:
    """Shared state. `lanes` is read by the producing threads, all else belongs to the background thread.

    `runs` are the topics that are counted; `lanes` has them too, and topics that are not to be routed,
    which all share one run that nobody looks at.
    """

    def __init__(self, router: str, settings: Settings) -> None:
        self.router = router
        self.settings = settings
        self.store = TableStore()
        self.statistics = ClientStatistics()
        self.runs: dict[str, TopicRun] = {}
        self.lanes: dict[str, TopicRun] = {}
        self.read_errors = 0
        self.heartbeats_sent = 0
        self.heartbeats_failed = 0
        self.last_problem = ""
        self._followed: dict[str, _Followed] = {}
        self._rates: dict[str, RateMeter] = {}
        self._wire: dict[str, tuple[int, float]] = {}
        self._now: float | None = None
        self._unused: set[str] = set()
        """Topics with a table that nobody wrote to; of thousands of tables a producer uses few."""
        self.passing = TopicRun(0.0)
        """Of all topics that are not routed."""
        for topic in settings.topics:
            self._open_run(topic)

    def _open_run(self, topic: str) -> TopicRun:
        made = TopicRun(self.settings.phase, self.settings.message_bytes, topic=topic)
        run = self.runs.setdefault(topic, made)
        self.lanes[topic] = run
        return run

    def open_lane(self, topic: str) -> TopicRun:
        """The run of a topic that was not written to before; called by producing threads.

        A topic without a table is counted all the same, so that the keeper learns that its records can be
        steered before it makes one.
        """
        if self.wants(topic) and len(self.runs) < COUNTED_TOPICS:
            return self._open_run(topic)
        if len(self.lanes) < LANES:
            # A table may have come in between: what is there stays.
            return self.lanes.setdefault(topic, self.passing)
        return self.passing

    def wants(self, topic: str) -> bool:
        """Whether tables of this topic matter to us."""
        return not self.settings.topics or topic in self.settings.topics

    def routed_topics(self) -> tuple[str, ...]:
        """Topics that have a table."""
        return tuple(self.store.tables())

    def topics_in_use(self) -> list[str]:
        """Topics with a table that records go to, or will: those written to, named or waited for."""
        expected = self.store.awaited.union(self.settings.topics)
        return [
            topic
            for topic in self.store.tables()
            if topic in expected or ((run := self.runs.get(topic)) and run.bytes)
        ]

    def refresh(self, now_ms: int, leaders: Mapping[str, tuple[bool, ...]]) -> None:
        """Bring every topic's schedule up to its newest table, its age, bytes and leaders."""
        tables = self.store.tables()
        for topic in [topic for topic in self._followed if topic not in tables]:
            self.runs[topic].follow(None)
            del self._followed[topic]
        for topic, table in tables.items():
            self._refresh_topic(topic, table, now_ms, leaders.get(topic, ()))

    def _refresh_topic(self, topic: str, table: RouteTable, now_ms: int, led: tuple[bool, ...]) -> None:
        if topic not in self.runs:
            self._unused.add(topic)
        run = self.runs.get(topic) or self._open_run(topic)
        followed = self._followed.get(topic)
        if followed is None or followed.table is not table:
            followed = _Followed(table, run.bytes, self._now)
        now_ms = max(now_ms, table.taken_at_ms + self._age_ms(followed))
        written, share = run.bytes - followed.since, self._share(topic, followed)
        due = mixture(table, now_ms=now_ms, written_bytes=written, share=share)
        # The last step to 1 is smaller than MIX_STEP where it is taken second by second.
        ended = (due >= 1) != (followed.due >= 1)
        if ended or abs(due - followed.due) >= MIX_STEP or led != followed.led:
            effective = effective_weights(table, now_ms=now_ms, written_bytes=written, share=share, led=led)
            followed.due, followed.mix, followed.led = due, effective.mix, led
            run.follow(effective.weights)
            if effective.weights is not None:
                self.store.announce(topic, table.plan_offset)
        self._followed[topic] = followed  # last: a table that statistics tell is in force

    def _age_ms(self, followed: _Followed) -> int:
        """Time since the table came here: a wall clock that was set back must not make it last for ever."""
        if self._now is None:
            return 0
        if followed.came is None:
            followed.came = self._now
        return int(1000 * (self._now - followed.came))

    def _share(self, topic: str, followed: _Followed) -> float:
        """Of the table's budget: the largest since it came, since who falls silent has not spent more."""
        rate = self._rates[topic].mean if topic in self._rates else None
        share = budget_share(followed.table, rate)
        if rate is not None:
            share = followed.share = max(share, followed.share or 0.0)
        return share

    def adapt_runs(self, now: float, linger: float, batch: int = 1_000_000) -> None:
        """Measure rates and fit the length of the runs to them; `now` in monotonic seconds."""
        self._now = now
        seconds = run_seconds(linger, self._round_trip(now))
        for topic, run in list(self.runs.items()):
            if topic in self._unused and not run.bytes:
                continue
            meter = self._rates.setdefault(topic, RateMeter())
            meter.add(now, run.bytes)
            if meter.mean is not None:
                run.adapt(meter.burst, seconds, batch)

    def _round_trip(self, now: float) -> float | None:
        """Mean of the brokers' answers, seconds."""
        brokers = self.statistics.brokers(now).values()
        requests = sum(one.requests for one in brokers)
        if not requests:
            return None
        return sum(one.round_trip_ms * one.requests for one in brokers) / requests / 1000

    def take_statistics(self, now: float) -> None:
        """Learn from the client's own statistics; `now` in monotonic seconds."""
        try:
            self.statistics.sample(now, list(self.runs))
        except ValueError as error:
            self.last_problem = f"statistics of the client: {error}"

    def mode(self, topic: str) -> RouteMode:
        """How partitions of the topic are chosen."""
        followed = self._followed.get(topic)
        if followed is None or not self.runs[topic].routed:
            return RouteMode.DEFAULT
        return RouteMode.MIXED if followed.mix > 0 else RouteMode.TABLE

    def heartbeat(self, now: float) -> RouterHeartbeat:
        """Counters for the keeper; `now` in monotonic seconds."""
        topics = {}
        for topic, run in list(self.runs.items()):
            followed = self._followed.get(topic)
            owner_epoch, epoch = (followed.table.owner_epoch, followed.table.epoch) if followed else (0, 0)
            total = run.bytes
            if topic in self._unused:
                if not total:
                    continue
                self._unused.discard(topic)
            wire = self._wire_bytes(topic, total)
            topics[topic] = TopicHeartbeat(total, self.mode(topic), owner_epoch, epoch, wire)
        return RouterHeartbeat(self.router, topics, self.statistics.brokers(now), int(1000 * now))

    def _wire_bytes(self, topic: str, total: int) -> int | None:
        """What the routed bytes took on the wire; new ones by the newest ratio, so that it only grows."""
        ratio = self.statistics.ratio(topic)
        if ratio is None:
            return None
        counted, wire = self._wire.get(topic, (0, 0.0))
        wire += max(0, total - counted) * ratio
        self._wire[topic] = (max(total, counted), wire)
        return int(wire)

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
                wire_ratio=self.statistics.ratio(topic),
                budget_share=followed.share if followed else None,
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
