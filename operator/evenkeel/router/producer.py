"""A drop-in for confluent_kafka.Producer that puts unkeyed records where there is room."""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from evenkeel.router.follower import Follower
from evenkeel.router.runs import UNASSIGNED, TopicRun
from evenkeel.router.settings import collect_statistics, split_config
from evenkeel.router.state import RouterState
from evenkeel.router.stats import RouterStats

# Side by side in this module's dict: found with cold caches, a builtin costs a call of 1 KiB 0.5 % more.
_send, _len, _type, _bytes = confluent_kafka.Producer.produce, len, type, bytes
_Report = Callable[[KafkaError | None, confluent_kafka.Message], None]


def _lacks_partition(message: Mapping[str, Any]) -> bool:
    error = message.get("_error")
    unknown = error is not None and error.code() == KafkaError._UNKNOWN_PARTITION  # noqa: SLF001 - as below
    return unknown and "partition" not in message


def _is_unknown_partition(error: Exception) -> bool:
    code = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001 - its public name
    return isinstance(error, KafkaException) and error.args[0].code() == code


def _count_bytes(value: Any) -> int:
    """Bytes of a value as the client writes it: text in UTF-8."""
    return len(value.encode()) if isinstance(value, str) and not value.isascii() else len(value)


class Producer(confluent_kafka.Producer):
    """`confluent_kafka.Producer` with routing.

    Records with a key or an explicit partition go where they would go anyway. All others go to the
    partition whose turn it is by the newest table in `__evenkeel_routes`; without one, the client's own
    partitioner decides. Routing never blocks and never raises.

    Args:
        config: as of confluent_kafka.Producer, and `evenkeel.topics`, `evenkeel.phase`,
            `evenkeel.message.bytes`, `evenkeel.heartbeat.ms` (see router.settings.Settings).
        more: configuration as keyword arguments, and `logger`, as there.

    Raises:
        InputError: an `evenkeel.` key is unknown or its value out of bounds.
    """

    __slots__ = ("__weakref__", "_follower", "_last", "_state", "_stop")

    def __init__(self, config: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        if config is None and not more:
            super().__init__()  # which says what it wants
        logger = more.pop("logger", None)
        settings, rest = split_config({**(config or {}), **more})
        name = f"{rest.get('client.id', 'evenkeel')}-{secrets.token_hex(4)}"
        self._state = RouterState(name, settings)
        self._follower = Follower(self._state, rest)
        collect_statistics(rest, self._state.statistics.offer)
        super().__init__(rest, **({} if logger is None else {"logger": logger}))
        self._last = self._state.passing
        # Without waiting: whoever drops the last reference, or collects garbage, has no time to spare.
        self._stop = weakref.finalize(self, self._follower.release)
        self._stop.atexit = False  # the follower's module ends all threads then
        self._follower.begin()

    # The hot path: a name or an argument more shows in benchmarks/router_cost.py.
    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = UNASSIGNED,
        callback: _Report | None = None,
        on_delivery: _Report | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """As confluent_kafka.Producer.produce."""
        if key is not None or partition >= 0:
            report = on_delivery if callback is None else callback  # a callback of None would win there
            return _send(self, topic, value, key, partition, report, None, timestamp, headers)
        try:
            run = self._last
            if run.topic != topic:
                run = self._last = self._state.lanes[topic]
            size = _len(value) if _type(value) is _bytes else _count_bytes(value)  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError):  # the last: what is no str may compare as it likes
            report = on_delivery if callback is None else callback
            return self._produce_first(topic, value, report, None, timestamp, headers)
        sent = run.sent = run.sent + size
        if sent > run.limit:
            run.turn(size)
        try:
            if callback is None and on_delivery is None and headers is None and timestamp == 0:
                return _send(self, topic, value, None, run.partition)
            report = on_delivery if callback is None else callback
            return _send(self, topic, value, None, run.partition, report, None, timestamp, headers)
        except Exception as error:  # noqa: BLE001 - raised again, whatever it is
            report = on_delivery if callback is None else callback
            return self._refuse(error, run, size, topic, value, report, None, timestamp, headers)

    def _produce_first(self, topic: Any, value: Any, *rest: Any) -> None:
        """The first record of a topic, one without a value, or what is none: the client says so."""
        if isinstance(topic, str) and isinstance(value, str | bytes) and topic not in self._state.lanes:
            self._state.open_lane(topic)
            if topic in self._state.lanes:
                Producer.produce(self, topic, value, None, UNASSIGNED, *rest)
                return
        _send(self, topic, value, None, UNASSIGNED, *rest)

    def _refuse(self, error: Exception, run: TopicRun, size: int, topic: str, value: Any, *rest: Any) -> None:
        """What the client refused is not counted; a partition that it does not know is none of the caller's."""
        if _is_unknown_partition(error) and run.partition != UNASSIGNED:
            try:
                _send(self, topic, value, None, UNASSIGNED, *rest)
            except Exception as again:  # noqa: BLE001 - raised below
                error = again
            else:
                return
        run.sent -= size
        run.full |= isinstance(error, BufferError)
        raise error

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = UNASSIGNED,
        *rest: Any,
        **named: Any,
    ) -> int:
        """As confluent_kafka.Producer.produce_batch; a batch of unkeyed messages is split into runs."""
        try:
            keyed = any(message.get("key") is not None for message in messages)
            # One with a partition of its own goes there whatever the batch says.
            sizes = [
                0 if "partition" in message else _count_bytes(message.get("value") or b"")
                for message in messages
            ]
        except (AttributeError, TypeError, ValueError):
            keyed, sizes = True, []  # the client says what is wrong with it
        if partition >= 0 or keyed or not isinstance(topic, str):
            return int(super().produce_batch(topic, messages, partition, *rest, **named))
        run = self._state.lanes.get(topic) or self._state.open_lane(topic)
        total = start = 0
        current = run.partition
        for i, size in enumerate(sizes):
            run.sent += size
            chosen = run.turn(size) if run.sent > run.limit else run.partition
            if chosen != current and i > start:
                total += self._send_batch(topic, messages[start:i], current, *rest, **named)
                start = i
            current = chosen
        if start < len(messages):
            total += self._send_batch(topic, messages[start:], current, *rest, **named)
        if total < len(messages):
            run.sent -= sum(
                size for size, message in zip(sizes, messages, strict=True) if "_error" in message
            )
            run.full = True
        return total

    def _send_batch(
        self, topic: str, messages: list[dict[str, Any]], partition: int, *rest: Any, **named: Any
    ) -> int:
        """A run; what the client refuses for a partition that it does not know goes without one."""
        sent = int(super().produce_batch(topic, messages, partition, *rest, **named))
        if sent == len(messages):
            return sent
        refused = [message for message in messages if _lacks_partition(message)]
        if not refused:
            return sent
        for message in refused:
            del message["_error"]
        return sent + int(super().produce_batch(topic, refused, UNASSIGNED, *rest, **named))

    def wait_for_table(self, topic: str, plan_offset: int, timeout: float) -> bool:
        """Wait until a table made for this ingest plan (or a later one) is followed.

        Args:
            topic: one that is routed.
            plan_offset: offset of the plan record in the journal.
            timeout: seconds.

        Returns:
            False: none came in time; records go by what was in force before.
        """
        return self._state.store.wait_for(topic, plan_offset, timeout)

    def router_stats(self) -> RouterStats:
        """What was routed, by which tables, and what went wrong."""
        return self._state.stats()

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """As confluent_kafka.Producer.set_sasl_credentials, for the router's own clients too."""
        super().set_sasl_credentials(username, password)
        self._follower.set_credentials(username, password)

    def close(self, *rest: Any, **named: Any) -> Any:
        """End the routing thread, then as confluent_kafka.Producer.close."""
        self._follower.stop()
        return super().close(*rest, **named)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:
        self._follower.stop()
        return super().__exit__(kind, error, trace)
