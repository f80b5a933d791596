"""Runs one score of a package beside the cycle: a thread, its process, and the newest outcome."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from evenkeel.errors import EvenkeelError
from evenkeel.keeper.score_messages import ScoreAnswer, shorten
from evenkeel.keeper.score_process import Limits, ScoreProcess
from evenkeel.reasons import Reason

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request."""

    sequence: int
    answers: Mapping[str, ScoreAnswer] = field(default_factory=dict)
    """By topic."""
    reason: Reason = Reason.ROUTED
    """Other than ROUTED: there are no answers, for this reason."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; its text is made in the runner's thread, since a large snapshot takes its time."""

    sequence: int
    text: Callable[[], bytes]


class ScoreRunner:
    """Answers the newest request only; an older one that waits is forgotten.

    Args:
        name: the score.
        limits: of its process.
        changed: notified with every outcome; shared by all runners of a keeper.
    """

    def __init__(self, name: str, limits: Limits, changed: threading.Condition) -> None:
        self.prompt = True
        """Whether the last outcome came in time, so that waiting for the next is worth it."""
        self.outcome: Outcome | None = None
        self._name = name
        self._process = ScoreProcess(name, limits)
        self._changed = changed
        self._pending: Request | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=f"score-{name}", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """Of its process; None: none runs now."""
        return self._process.pid

    def submit(self, request: Request) -> None:
        """Leave a request; returns at once."""
        with self._changed:
            self._pending = request
            self._changed.notify_all()

    def close(self, seconds: float) -> None:
        """End thread and process; waits so long for a call that runs."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(seconds)

    def _work(self) -> None:
        while (request := self._take()) is not None:
            outcome = self._answer(request)
            with self._changed:
                self.outcome = outcome
                self.prompt = outcome.reason is not Reason.SCORE_TIMED_OUT
                self._changed.notify_all()
        self._process.end()

    def _take(self) -> Request | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._pending is not None)
            request, self._pending = self._pending, None
            return None if self._closed else request

    def _answer(self, request: Request) -> Outcome:
        try:
            reply = self._process.ask(request.text())
        except EvenkeelError as error:
            return Outcome(request.sequence, reason=error.reason, message=shorten(error.message))
        except Exception as error:
            # The thread must live on, and whatever this is must be seen.
            log.exception("score runner failed score=%s", self._name)
            what = shorten(f"score {self._name}: {type(error).__name__}: {error}")
            return Outcome(request.sequence, reason=Reason.SCORE_FAILED, message=what)
        return Outcome(request.sequence, {answer.topic: answer for answer in reply.answers})
