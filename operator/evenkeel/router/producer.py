"""A drop-in for confluent_kafka.Producer that puts unkeyed records where there is room."""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from evenkeel.router.follower import Follower
from evenkeel.router.runs import UNASSIGNED
from evenkeel.router.settings import split_config
from evenkeel.router.state import RouterState
from evenkeel.router.stats import RouterStats

_send = confluent_kafka.Producer.produce


def _lacks_partition(message: Mapping[str, Any]) -> bool:
    error = message.get("_error")
    unknown = error is not None and error.code() == KafkaError._UNKNOWN_PARTITION  # noqa: SLF001 - as below
    return unknown and "partition" not in message


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

    def __init__(self, config: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        logger = more.pop("logger", None)
        settings, rest = split_config({**(config or {}), **more})
        super().__init__(rest, **({} if logger is None else {"logger": logger}))
        name = f"{rest.get('client.id', 'evenkeel')}-{secrets.token_hex(4)}"
        self._state = RouterState(name, settings)
        self._runs = self._state.runs
        self._follower = Follower(self._state, rest)
        self._stop = weakref.finalize(self, self._follower.stop)
        self._follower.start()

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = UNASSIGNED,
        *rest: Any,
        **named: Any,
    ) -> None:
        """As confluent_kafka.Producer.produce; positional arguments are faster."""
        if key is not None or partition >= 0 or (run := self._runs.get(topic)) is None:
            _send(self, topic, value, key, partition, *rest, **named)
            return
        size = len(value) if value is not None else 0
        run.sent += size
        partition = run.turn(size) if run.sent > run.limit else run.partition
        try:
            if rest or named:
                _send(self, topic, value, None, partition, *rest, **named)
            else:
                _send(self, topic, value, None, partition)
        except BufferError:
            run.sent -= size  # the caller polls and tries again
            raise
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001 - its public name
                raise
            _send(self, topic, value, None, UNASSIGNED, *rest, **named)

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = UNASSIGNED,
        *rest: Any,
        **named: Any,
    ) -> int:
        """As confluent_kafka.Producer.produce_batch; a batch of unkeyed messages is split into runs."""
        run = self._runs.get(topic)
        keyed = any(message.get("key") is not None for message in messages)
        if partition >= 0 or run is None or keyed:
            return int(super().produce_batch(topic, messages, partition, *rest, **named))
        total = start = 0
        current = run.partition
        for i, message in enumerate(messages):
            size = len(message.get("value") or b"")
            run.sent += size
            chosen = run.turn(size) if run.sent > run.limit else run.partition
            if chosen != current and i > start:
                total += self._send_batch(topic, messages[start:i], current, *rest, **named)
                start = i
            current = chosen
        if start < len(messages):
            total += self._send_batch(topic, messages[start:], current, *rest, **named)
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

    def close(self, *rest: Any, **named: Any) -> Any:
        """End the routing thread, then as confluent_kafka.Producer.close."""
        self._stop()
        return super().close(*rest, **named)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:
        self._stop()
        return super().__exit__(kind, error, trace)
