"""Loads of brokers' nodes from Prometheus: asked in a thread of its own, so that it never delays a turn."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from evenkeel.domain.exchange import Fault, LoadSource
from evenkeel.domain.loads import DEFAULT_QUERIES, Sample
from evenkeel.domain.snapshot import Broker, ClusterSnapshot
from evenkeel.errors import EvenkeelError
from evenkeel.planning.loads import Judgement, Memory, Refused, judge_loads, with_loads
from evenkeel.prometheus.client import PrometheusClient
from evenkeel.reasons import Reason

log = logging.getLogger(__name__)
SUBJECT = "prometheus"
"""Of faults: routing goes on without loads, so they are none of the cluster's."""
KEEP_SECONDS = 60.0
"""Loads older than this, or than three intervals if those are longer, are unknown."""
NAMED = 3
NOT_ASKED = Fault(Reason.PENDING, "the first answer of Prometheus is awaited", SUBJECT)


@dataclass(frozen=True, slots=True)
class Answers:
    """What one round of queries brought."""

    samples: dict[str, tuple[Sample, ...]]
    errors: dict[str, EvenkeelError]
    at_seconds: float
    """When the last one came, seconds since the epoch by our clock."""


class Loads:
    """Asks in the background, judges in the turn. Used by the keeper's one thread.

    Args:
        wall_seconds: wall clock, seconds since the epoch: samples carry such times.
        monotonic: clock of ages, seconds.
    """

    def __init__(
        self,
        *,
        wall_seconds: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall_seconds = wall_seconds
        self._monotonic = monotonic
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="prometheus")
        self._asked: Future[Answers] | None = None
        self._source: LoadSource | None = None
        self._memory = Memory()
        self._found: Judgement | None = None
        self._found_at = self._asked_at = 0.0
        self._refused: frozenset[Refused] = frozenset()
        self._faults: tuple[Fault, ...] = ()

    def add_to(
        self, snapshot: ClusterSnapshot, source: LoadSource | None, interval: float
    ) -> ClusterSnapshot:
        """The snapshot with the newest loads; asks for the next ones. Never waits.

        Args:
            snapshot: whose brokers are asked about.
            source: where to ask; None: nowhere.
            interval: seconds between two turns.
        """
        if source != self._source:
            self.forget()
            self._source = source
        if source is None:
            return snapshot
        now, longest = self._monotonic(), max(KEEP_SECONDS, 3 * interval)
        self._collect(snapshot.brokers)
        if self._asked is None:
            self._asked, self._asked_at = self._threads.submit(ask, source, self._wall_seconds), now
        elif now - self._asked_at > longest:
            what = f"{source.url} does not end its answers within {longest:g} s: no load is known"
            self._faults = (Fault(Reason.PROMETHEUS_UNREACHABLE, what, SUBJECT),)
        if self._found is None or now - self._found_at > longest:
            return snapshot
        return with_loads(snapshot, self._found.loads)

    def forget(self) -> None:
        """What was learned of another cluster's brokers, or from another server."""
        self._asked, self._found, self._memory = None, None, Memory()
        self._refused, self._faults = frozenset(), (NOT_ASKED,)

    def faults(self) -> tuple[Fault, ...]:
        """What could not be learned or believed, one fault per load."""
        return self._faults if self._source is not None else ()

    def close(self) -> None:
        """Ask no more; a question under way is left to its time limit."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _collect(self, brokers: tuple[Broker, ...]) -> None:
        if self._asked is None or not self._asked.done():
            return
        asked, self._asked = self._asked, None
        error = asked.exception()
        if error is not None:
            # A bug here, or an answer that nobody thought of, must not stop the measurement.
            log.error("loads not learned", exc_info=error)
            what = f"loads: {type(error).__name__}; the keeper's log has the details"
            self._faults = (Fault(Reason.INTERNAL_ERROR, what, SUBJECT),)
            return
        answers = asked.result()
        judged = judge_loads(answers.samples, brokers, self._memory, answers.at_seconds)
        self._memory = judged.memory
        if answers.samples:
            self._found, self._found_at = judged, self._monotonic()
        self._log_refused(judged.refused)
        self._faults = (*_error_faults(answers), *_refused_faults(judged.refused))

    def _log_refused(self, refused: tuple[Refused, ...]) -> None:
        """With its numbers, once: what stays refused would fill the log with each measurement."""
        causes = frozenset(replace(one, why=_cause(one)) for one in refused)
        for one in refused:
            if replace(one, why=_cause(one)) not in self._refused:
                log.info("load refused load=%s broker=%d why=%s", one.name, one.broker, one.why)
        self._refused = causes


def ask(source: LoadSource, wall_seconds: Callable[[], float] = time.time) -> Answers:
    """Put every query to the server; what fails is in the answer."""
    samples: dict[str, tuple[Sample, ...]] = {}
    errors: dict[str, EvenkeelError] = {}
    queries = {**DEFAULT_QUERIES, **source.queries}
    with PrometheusClient(source.url, source.timeout_seconds) as client:
        for name, expression in queries.items():
            if not expression:
                continue
            try:
                samples[name] = client.query(expression)
            except EvenkeelError as error:
                errors[name] = error
                if error.reason is Reason.PROMETHEUS_UNREACHABLE:
                    break  # each further query would wait as long
    return Answers(samples, errors, wall_seconds())


def _error_faults(answers: Answers) -> Iterable[Fault]:
    for name, error in answers.errors.items():
        log.warning("load not learned load=%s why=%s", name, error.message)
        yield Fault(error.reason, f"{name}: {error.message}", SUBJECT)


def _refused_faults(refused: Iterable[Refused]) -> Iterable[Fault]:
    """One fault per load and cause; numbers are left out, or the report would change with each measurement."""
    causes: dict[tuple[str, str], list[int]] = {}
    for one in refused:
        causes.setdefault((one.name, _cause(one)), []).append(one.broker)
    for (name, cause), brokers in causes.items():
        named = ", ".join(map(str, brokers[:NAMED])) + (", ..." if len(brokers) > NAMED else "")
        what = f"{name} of {len(brokers)} brokers ({named}) is not used: {cause}"
        yield Fault(Reason.SERIES_REFUSED, what, SUBJECT)


def _cause(refused: Refused) -> str:
    """Without numbers, which differ each time."""
    return refused.why.split(":")[0]
