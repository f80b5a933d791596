"""The background thread of a router: reads tables, keeps schedules fresh, sends heartbeats.

It has clients of its own, so that the user's transactions, callbacks and queue never see it, and it holds
no reference to the Producer: a forgotten Producer is collected and ends its thread.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka import Producer as PlainProducer

from evenkeel.domain import codec
from evenkeel.names import HEARTBEATS_TOPIC, ROUTES_TOPIC
from evenkeel.router.arrivals import Arrivals
from evenkeel.router.leaders import CALL_TIMEOUT, NONE_LED, Leaders
from evenkeel.router.settings import batch_bytes, heartbeat_config, linger_seconds, reader_config
from evenkeel.router.state import RouterState

LOOK_BACK_MS = 600_000
"""Every table is published again within this time: older records say nothing more."""
POLL_SECONDS = 0.1
REFRESH_SECONDS = 1.0
RETRY_SECONDS = 0.5
EXIT_SECONDS = 1.0
"""Longest wait for all threads together when the interpreter ends."""

logger = logging.getLogger(__name__)
client_logger = logging.getLogger("evenkeel.router.client")


class Follower(threading.Thread):
    """Follows the routes topic for one Producer."""

    def __init__(self, state: RouterState, config: Mapping[str, Any]) -> None:
        super().__init__(name=f"evenkeel-router-{state.router}", daemon=True)
        self._state = state
        self._config = dict(config)
        self._ended = threading.Event()
        self._leaders = Leaders(state.wants, self._note)
        self._arrivals = Arrivals()
        self._linger, self._batch = linger_seconds(config), batch_bytes(config)
        self._heartbeats: PlainProducer | None = None
        self._due: dict[str, float] = {}
        self._credentials: tuple[str, str] | None = None

    def begin(self) -> None:
        """Start the thread; a process that may have no more threads writes as the plain client does."""
        try:
            self.start()
        except RuntimeError as error:
            self._note(f"starting the routing thread: {error}")
        else:
            _running.add(self)

    def release(self) -> None:
        """Have the thread end soon; returns at once."""
        self._ended.set()

    def stop(self, timeout: float = 1.0) -> None:
        """End the thread; waits at most `timeout` seconds for it."""
        self._ended.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join(timeout)

    def set_credentials(self, username: str, password: str) -> None:
        """Have the router's own clients log in so from now on."""
        self._config |= {"sasl.username": username, "sasl.password": password}
        self._credentials = (username, password)

    def run(self) -> None:
        """Read until stopped. Whatever fails is counted and tried again: producing goes on without us."""
        while not self._ended.is_set():
            consumer = None
            try:
                consumer = Consumer(reader_config(self._config, self._state.router), logger=client_logger)
                self._follow(consumer)
            except Exception as error:  # noqa: BLE001 - a routing thread must not die of anything
                self._note(f"reading {ROUTES_TOPIC}: {error}")
                self._ended.wait(RETRY_SECONDS)
                self._age()
            finally:
                if consumer is not None:
                    with contextlib.suppress(KafkaException, RuntimeError):
                        consumer.close()
        self._heartbeats = None  # its connections end here, not with a Producer that is kept after `close`

    def _age(self) -> None:
        """Let tables age while there is no reader; were this thread to die, they would be followed for ever."""
        try:
            self._tick(None, fresh=False)
        except Exception as error:  # noqa: BLE001 - as in `run`
            self._note(f"keeping schedules: {error}")

    def _note(self, problem: str) -> None:
        """Count a failure, and tell it once."""
        self._state.read_errors += 1
        self._tell(problem, log=problem != self._state.last_problem)

    def _tell(self, problem: str, *, log: bool) -> None:
        self._state.last_problem = problem
        if log:
            logger.warning("router=%s problem=%s", self._state.router, problem)

    def _follow(self, consumer: Consumer) -> None:
        while (start := self._find_start(consumer)) is None:
            # The same client asks again: a new one each time would log in each time, in clusters without a keeper too.
            consumer.poll(0)
            self._tick(consumer, fresh=False)
            if self._ended.wait(RETRY_SECONDS):
                return
        consumer.assign([start])
        while not self._ended.is_set():
            message = consumer.poll(POLL_SECONDS)
            fresh = False
            while message is not None:
                fresh |= self._take(consumer, message)
                message = consumer.poll(0)
            self._tick(consumer, fresh=fresh)

    def _find_start(self, consumer: Consumer) -> TopicPartition | None:
        """First record of the last 10 minutes; the end as it was before we asked where there is none.

        None: there is no such topic, or no right to see it.
        """
        described = consumer.list_topics(ROUTES_TOPIC, timeout=CALL_TIMEOUT).topics[ROUTES_TOPIC]
        if described.error is not None:
            self._note(f"reading {ROUTES_TOPIC}: {described.error}")
            return None
        _, end = consumer.get_watermark_offsets(TopicPartition(ROUTES_TOPIC, 0), timeout=CALL_TIMEOUT)
        self._arrivals.live_from = end
        since = TopicPartition(ROUTES_TOPIC, 0, _now_ms() - LOOK_BACK_MS)
        (start,) = consumer.offsets_for_times([since], timeout=CALL_TIMEOUT)
        if start.error is not None:
            raise KafkaException(start.error)
        return start if start.offset >= 0 else TopicPartition(ROUTES_TOPIC, 0, end)

    def _take(self, consumer: Consumer, message: Message) -> bool:
        """Whether the record brought something new."""
        if (error := message.error()) is not None:
            # librdkafka looks for a group coordinator even where nobody joins; that right is not needed.
            if error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                self._note(f"reading {ROUTES_TOPIC}: {error.str()}")
            return False
        topic = (message.key() or b"").decode("utf-8", errors="replace")
        if not self._state.wants(topic):
            return False
        value = message.value()
        if value is None:
            self._state.store.withdraw(topic)
            self._arrivals.forget(topic)
            return True
        self._leaders.meet(consumer, topic)
        led = self._leaders.known.get(topic)
        table = self._state.store.accept(topic, value, len(led) if led else None)
        # A table that does not fit may be right, and we may be late.
        if table is None and self._leaders.grew(consumer, topic):
            table = self._state.store.accept(topic, value, len(self._leaders.known[topic]))
        if table is not None:
            self._arrivals.add(table, message.offset() or 0)
        return table is not None

    def _tick(self, consumer: Consumer | None, *, fresh: bool) -> None:
        """What has to be done every now and then, with or without a view of the routes topic."""
        now = time.monotonic()
        if self._credentials is not None and consumer is not None:
            self._log_in(consumer, *self._credentials)
        for run in list(self._state.runs.values()):
            run.expire(now)
        if consumer is not None:
            fresh |= self._leaders.ask(consumer, self._state.topics_in_use())
        if self._is_due("refresh", now, REFRESH_SECONDS):
            self._state.adapt_runs(now, self._linger, self._batch)
            self._state.take_statistics(now)
            fresh = True
        if fresh:
            known = self._leaders.known
            led = {topic: known.get(topic, NONE_LED) for topic in self._state.routed_topics()}
            self._state.refresh(_now_ms(), led)
            if (late := self._arrivals.judge(_now_ms())) is not None:
                self._tell(late[0], log=late[1])
        every = self._state.settings.heartbeat_ms / 1000
        if every > 0 and self._is_due("heartbeat", now, every):
            self._send_heartbeat(now)
        if self._heartbeats is not None:
            self._heartbeats.poll(0)

    def _log_in(self, consumer: Consumer, username: str, password: str) -> None:
        self._credentials = None
        consumer.set_sasl_credentials(username, password)
        if self._heartbeats is not None:
            self._heartbeats.set_sasl_credentials(username, password)

    def _is_due(self, what: str, now: float, every: float) -> bool:
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every
        return True

    def _send_heartbeat(self, now: float) -> None:
        beat = self._state.heartbeat(now)
        if not beat.topics:
            return
        try:
            if self._heartbeats is None:
                self._heartbeats = PlainProducer(
                    heartbeat_config(self._config, self._state.router), logger=client_logger
                )
            self._heartbeats.produce(
                HEARTBEATS_TOPIC, codec.dumps(beat), self._state.router, on_delivery=self._count_heartbeat
            )
        except (BufferError, KafkaException):
            self._state.heartbeats_failed += 1

    def _count_heartbeat(self, error: object, _message: Message) -> None:
        """A missing right is counted, nothing else: routing works without heartbeats."""
        if error is None:
            self._state.heartbeats_sent += 1
        else:
            self._state.heartbeats_failed += 1


def _now_ms() -> int:
    return int(time.time() * 1000)


_running: weakref.WeakSet[Follower] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """End all threads, before the interpreter takes their clients apart."""
    deadline = time.monotonic() + EXIT_SECONDS
    alive = [one for one in _running if one.is_alive()]
    for one in alive:
        one.release()
    for one in alive:
        one.join(max(0.0, deadline - time.monotonic()))
