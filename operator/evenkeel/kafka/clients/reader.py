"""Reading one partition by offsets: no group, no commits, nothing skipped silently."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition

from evenkeel.domain.connection import Connection
from evenkeel.errors import EvenkeelError, RetryableError
from evenkeel.kafka.clients.config import client_config
from evenkeel.kafka.clients.failures import ErrorWatch, build_error, open_client, unwrap
from evenkeel.reasons import Reason

POLL_SECONDS = 0.2
TRY_SECONDS = 4.0
"""One question to a broker: the client does not serve callbacks while it waits for the answer."""
FRESH_TOPIC_SECONDS = 10.0
"""How long "no such topic" is taken for "not everywhere yet": brokers that are busy took more than 5 s."""
NO_HEADERS: Mapping[str, bytes] = MappingProxyType({})
_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's own code


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of a partition."""

    offset: int
    key: bytes | None
    value: bytes
    headers: Mapping[str, bytes]
    timestamp_ms: int


class PartitionReader:
    """Reads a partition from a chosen offset. A context manager; not for use by two threads at once.

    Args:
        connection: how to reach the cluster.
        topic: its name.
        partition: its number.
        committed: leave out what open or aborted transactions wrote.
        monotonic: the clock for time limits, seconds.
        overrides: further settings of librdkafka.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        partition: int = 0,
        *,
        committed: bool = True,
        monotonic: Callable[[], float] = time.monotonic,
        **overrides: Any,
    ) -> None:
        self._assigned = False
        self._place = TopicPartition(topic, partition)
        self._name = f"{topic}/{partition}"
        self._monotonic = monotonic
        self._watch = ErrorWatch()
        settings = _reader_config(connection, committed=committed) | overrides
        self._problem: EvenkeelError | None = None
        self._consumer = open_client(Consumer, {**settings, "error_cb": self._watch})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back; a second call does nothing."""
        self._consumer.close()

    def bounds(self, timeout: float = 10.0) -> tuple[int, int]:
        """First offset still there, and the offset after the last (committed) record.

        Raises:
            RetryableError: no answer within `timeout` seconds, or no such topic.
            ConfigurationError: a right or the credentials are missing.
        """
        began = self._monotonic()
        while True:
            try:
                return self._ask_bounds(min(timeout, TRY_SECONDS))
            except RetryableError as error:
                fresh = error.reason is Reason.TOPIC_MISSING
                patience = min(timeout, FRESH_TOPIC_SECONDS) if fresh else timeout
                if self._monotonic() - began >= patience:
                    raise
                self._serve(POLL_SECONDS)  # brokers learn of a new topic one after the other

    def _ask_bounds(self, timeout: float) -> tuple[int, int]:
        doing = f"asking for the bounds of {self._name}"
        try:
            bounds: Any = self._consumer.get_watermark_offsets(self._place, timeout=timeout, cached=False)
        except KafkaException as error:
            self._serve(0)
            raise self._watch.explain(self._find_cause(unwrap(error)), doing) from error
        if not bounds:  # what the client answers when the time is over
            message = f"{doing}: no answer within {timeout} s"
            raise RetryableError(message, reason=Reason.BROKERS_UNREACHABLE)
        return int(bounds[0]), int(bounds[1])

    def offset_at(self, time_ms: int, timeout: float = 10.0) -> int:
        """Offset of the first record that was written at `time_ms` or later; the log's end if there is none.

        Raises:
            RetryableError, ConfigurationError: as `bounds`.
        """
        end = self.bounds(timeout)[1]  # before the question: what is written meanwhile comes after it
        place = TopicPartition(self._place.topic, self._place.partition, max(0, time_ms))
        doing = f"asking for the offset of a time in {self._name}"
        try:
            (found,) = self._consumer.offsets_for_times([place], timeout=timeout)
        except KafkaException as error:
            raise self._watch.explain(unwrap(error), doing) from error
        if found.error is not None:
            raise self._watch.explain(found.error, doing)
        return found.offset if found.offset >= 0 else end

    def _serve(self, seconds: float) -> None:
        """Let the error callback tell of a refused login; once records flow, polling would take one."""
        if not self._assigned:
            self._consumer.poll(seconds)
        elif seconds:
            threading.Event().wait(seconds)

    def _find_cause(self, error: KafkaError) -> KafkaError:
        """What metadata says of the topic: a missing right on it looks like a missing partition."""
        if error.code() != KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001
            return error
        try:
            described = self._consumer.list_topics(self._place.topic, timeout=5.0).topics
        except KafkaException as failed:
            return unwrap(failed)
        topic = described[self._place.topic]
        place = topic.partitions.get(self._place.partition)
        if topic.error is None and place is not None:  # there after all, without a leader or newly with one
            return place.error or KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
        return topic.error or error

    def read(self, first: int, end: int | None = None, timeout: float = 30.0) -> Iterator[LogRecord]:
        """Records with first <= offset < end, ascending.

        Args:
            first: offset to begin at.
            end: offset to stop before; None: the end as of this call.
            timeout: longest pause between two records, seconds.

        Raises:
            DataError: DATA_LOST: `first` is before the log's start or after its end.
            RetryableError: a longer pause.
        """
        last = self.bounds(timeout)[1] if end is None else end
        if first >= last:
            return
        self._assign(first)
        deadline = self._monotonic() + timeout
        while True:
            message = self._consumer.poll(POLL_SECONDS)
            if message is None:
                self._check(deadline, timeout)
                continue
            offset = message.offset() or 0
            if not self._is_record(message):
                if offset >= last:
                    return
                self._check(deadline, timeout)
                continue
            if offset < last:
                yield _build_record(message)
                deadline = self._monotonic() + timeout
            if offset >= last - 1:
                return

    def tail(self, first: int) -> Tail:
        """Follow the log from `first` on, without end. Do not call `read` on the same reader any more."""
        self._assign(first)
        return Tail(self)

    def poll_records(self, timeout: float, most: int) -> list[LogRecord]:
        """What has come within `timeout` seconds, at most `most` records; see `Tail.poll`.

        Records that came before an error are given first: the client does not give them again.
        """
        self._raise_problem()
        try:
            messages = self._consumer.consume(most, timeout=timeout)
        except KafkaException as error:
            raise self._watch.explain(unwrap(error), f"reading {self._name}") from error
        records: list[LogRecord] = []
        for message in messages:
            try:
                if self._is_record(message):
                    records.append(_build_record(message))
            except EvenkeelError as error:
                self._problem = error
        if not records:
            self._raise_problem()
        return records

    def _raise_problem(self) -> None:
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def _assign(self, first: int) -> None:
        self._assigned = True
        self._consumer.assign([TopicPartition(self._place.topic, self._place.partition, first)])

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.code() in (_EOF, KafkaError.GROUP_AUTHORIZATION_FAILED):
            # librdkafka asks for the coordinator of a group that is never used; no right on it is needed.
            return False
        problem = build_error(error, f"reading {self._name}")
        if type(problem) is RetryableError and problem.reason is Reason.BROKERS_UNREACHABLE:
            return False  # librdkafka goes on by itself; the caller's time limit decides
        raise problem

    def _check(self, deadline: float, timeout: float) -> None:
        if self._monotonic() > deadline:
            stalled = KafkaError(KafkaError._TIMED_OUT, f"nothing for {timeout:g} s")  # noqa: SLF001
            raise self._watch.explain(stalled, f"reading {self._name}")


class Tail:
    """The end of a partition, as it grows."""

    def __init__(self, reader: PartitionReader) -> None:
        self._reader = reader

    def poll(self, timeout: float = 0.0, most: int = 1000) -> list[LogRecord]:
        """Records that came since the last call, waiting up to `timeout` seconds for the first `most`.

        Raises:
            DataError: DATA_LOST: the log no longer holds the offset to read.
            ConfigurationError: a right is missing.
        """
        return self._reader.poll_records(timeout, most)


def _reader_config(connection: Connection, *, committed: bool) -> dict[str, Any]:
    return {
        **client_config(connection),
        "group.id": "evenkeel-unused",  # librdkafka wants one; assign with explicit offsets never uses it
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "queued.max.messages.kbytes": 16 * 1024,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 100,
    }


def _build_record(message: Message) -> LogRecord:
    offset, value = message.offset(), message.value()
    assert offset is not None
    assert offset != OFFSET_INVALID
    return LogRecord(
        offset=offset,
        key=_as_bytes(message.key()),
        value=b"" if value is None else _as_bytes(value) or b"",
        headers=_build_headers(message),
        timestamp_ms=message.timestamp()[1],
    )


def _as_bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _build_headers(message: Message) -> Mapping[str, bytes]:
    pairs: Any = message.headers()  # a list of pairs; the client's stubs also allow a dict
    if not pairs:
        return NO_HEADERS
    return {name: _as_bytes(value) or b"" for name, value in pairs}
