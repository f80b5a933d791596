"""Asking many brokers at once, each with a deadline: one that hangs costs its own answer and nothing else."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from evenkeel.errors import EvenkeelError, RetryableError
from evenkeel.kafka.failures import translated
from evenkeel.reasons import Reason

T = TypeVar("T")
HEDGE_SECONDS = 1.0
"""A broker that any other can stand in for has so long before the next one is asked beside it."""
GRACE_SECONDS = 1.0
"""The client's own thread says when time is over; a process short of CPU may be late with that, as with answers."""
_Outcome = tuple[Any, Exception | None]


class Pending(Generic[T]):
    """An answer under way. Made by `Asker.ask`."""

    def __init__(self, what: str, right: str, parse: Callable[[Any], T], deadline: float) -> None:
        self._what, self._right, self._parse, self._deadline = what, right, parse, deadline
        self._outcome: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()

    def note(self, value: Any, error: Exception | None) -> None:
        """Called once by the client's thread."""
        self._outcome.put((value, error))

    def result(self) -> T:
        """The answer, waiting until its deadline; to be called once.

        Raises:
            EvenkeelError: none came, or it is a refusal.
        """
        try:
            found = self._outcome.get(timeout=max(0.0, self._deadline + GRACE_SECONDS - time.monotonic()))
        except queue.Empty:
            message = f"{self._what}: no answer in time"
            raise RetryableError(message, reason=Reason.BROKERS_UNREACHABLE) from None
        return read(found, self._what, self._right, self._parse)

    def outcome(self) -> T | EvenkeelError:
        """The answer, or why there is none."""
        try:
            return self.result()
        except EvenkeelError as error:
            return error


class Asker:
    """Sends requests through one kafka-python client. Thread-safe.

    Args:
        client: a KafkaAdminClient; its connections are used below its public methods, which ask one broker
            after another.
        seconds: deadline of an answer, from the moment it is asked for.
    """

    def __init__(self, client: Any, seconds: float) -> None:
        self._manager = client._manager  # noqa: SLF001 - there is no public way to send one request
        self._seconds = seconds
        self._lively: list[int] = []

    def ask(self, broker: int, request: Any, what: str, right: str, parse: Callable[[Any], T]) -> Pending[T]:
        """Send a request to one broker and return at once."""
        pending = Pending(what, right, parse, time.monotonic() + self._seconds)
        self._send(broker, request, pending.note)
        return pending

    def ask_any(self, build: Callable[[], Any], what: str, right: str, parse: Callable[[Any], T]) -> T:
        """Ask one broker; the next one too where it does not answer soon; the first answer counts.

        Raises:
            EvenkeelError: nobody answers, or the answer is a refusal.
        """
        deadline = time.monotonic() + self._seconds
        outcomes: queue.SimpleQueue[tuple[int, _Outcome]] = queue.SimpleQueue()
        brokers = self._candidates()
        under_way, failure = 0, None
        while brokers or under_way:
            if brokers:
                self._send(brokers[0], build(), _keep(outcomes, brokers.pop(0)))
                under_way += 1
            left = deadline - time.monotonic()
            try:
                broker, (value, failure) = outcomes.get(timeout=max(0.0, min(left, HEDGE_SECONDS)))
            except queue.Empty:
                if left <= 0:
                    break
                continue
            under_way -= 1
            if failure is None:
                self._note_lively(broker)
                return read((value, None), what, right, parse)
        if failure is not None:
            return read((None, failure), what, right, parse)
        raise RetryableError(f"{what}: no broker answers in time", reason=Reason.BROKERS_UNREACHABLE)

    def _candidates(self) -> list[int]:
        """Brokers in the order to be tried: who has answered lately comes first."""
        known = [broker.node_id for broker in self._manager.cluster.brokers()]
        lively = [broker for broker in self._lively if broker in known]
        return [*lively, *(broker for broker in known if broker not in lively)]

    def _note_lively(self, broker: int) -> None:
        self._lively = [broker, *(one for one in self._lively if one != broker)]

    def _send(self, broker: int, request: Any, note: Callable[[Any, Exception | None], None]) -> None:
        limit_ms = int(self._seconds * 1000)

        async def send() -> Any:
            # Connecting has a longer limit of its own, which is cut off here.
            return await self._manager.wait_for(self._manager.send(request, broker, limit_ms), limit_ms)

        try:
            future = self._manager.call_soon(send)
        except RuntimeError as error:  # its loop has ended
            note(None, error)
            return
        future.add_callback(lambda value: note(value, None))
        # A client that is closed ends what is under way by what is no Exception.
        future.add_errback(lambda error: note(None, error if isinstance(error, Exception) else _closed()))


def read(outcome: _Outcome, what: str, right: str, parse: Callable[[Any], T]) -> T:
    """The parsed answer.

    Raises:
        EvenkeelError: it is an error of ours or theirs; named by `what` was asked and the `right` it needs.
    """
    value, error = outcome
    with translated(what, right):
        if error is not None:
            raise error
        return parse(value)


class Asked(Generic[T]):
    """Questions to several brokers, all under way at once."""

    def __init__(self, pending: Mapping[int, Pending[T]]) -> None:
        self._pending = pending

    def answers(self) -> dict[int, T | EvenkeelError]:
        """Answer by broker, an error where none came; waits until the deadline. To be called once."""
        return {broker: one.outcome() for broker, one in self._pending.items()}


def _keep(
    outcomes: queue.SimpleQueue[tuple[int, _Outcome]], broker: int
) -> Callable[[Any, Exception | None], None]:
    return lambda value, error: outcomes.put((broker, (value, error)))


def _closed() -> RuntimeError:
    return RuntimeError("the client was closed")
