"""Does what `decide` says, one turn at a time: look, decide, journal, call."""

from __future__ import annotations

import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol, TypeGuard

from evenkeel.domain.moves import Move
from evenkeel.errors import EvenkeelError, InputError, RetryableError
from evenkeel.kafka.answers import TopicPartition
from evenkeel.keeper.moving.decide import Decision, decide
from evenkeel.keeper.moving.journal import Journal
from evenkeel.keeper.moving.observation import Observation, Wanted
from evenkeel.keeper.moving.plan import ApprovedPlan
from evenkeel.keeper.moving.progress import (
    MoveEvent,
    MoveProgress,
    describe_end,
    find_events,
    measure_progress,
    measure_speed,
)
from evenkeel.keeper.moving.run import Run, RunState
from evenkeel.keeper.moving.settings import MoveSettings
from evenkeel.keeper.moving.steps import AddEntries, Place, Reassign, SetRate, Step
from evenkeel.keeper.moving.watch import Watch
from evenkeel.reasons import Reason

log = logging.getLogger(__name__)
SURE_SECONDS = 5.0
"""A process that stood still for longer between look, commit and call must not call: it may have a successor."""
SPEED_POINTS = 60
RENEW_SECONDS = 3600.0
"""The journal's topic forgets after a day: a run that is not over is written again so often."""

Failures = Sequence[tuple[Step, EvenkeelError]]


class Hand(Protocol):
    """Kafka, for one turn."""

    def look(self, wanted: Wanted) -> Observation:
        """What it shows now.

        Raises:
            EvenkeelError: not even metadata and reassignments could be learned.
        """

    def apply(self, steps: Sequence[Step]) -> Failures:
        """Do steps of one kind, all at once; returns what was refused or not answered."""


class Executor:
    """One run of moves at a time, on one Kafka cluster. Used by one thread.

    Args:
        open_hand: opens Kafka for one turn: clients go stale when their broker dies.
        journal: where intents are committed.
        monotonic: the clock, seconds.
        again: a plan that has ended runs once more (command line); else an ended plan is over for good.
    """

    def __init__(
        self,
        open_hand: Callable[[], AbstractContextManager[Hand]],
        journal: Journal,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        again: bool = False,
    ) -> None:
        self._open_hand, self._journal, self._monotonic = open_hand, journal, monotonic
        self._again = again
        self._run: Run | None = None
        self._known = False
        self._watch = Watch()
        self._written_at: float | None = None
        self._points: deque[tuple[float, int]] = deque(maxlen=SPEED_POINTS)
        self.progress: MoveProgress | None = None
        self.events: tuple[MoveEvent, ...] = ()
        """Of the newest turn."""

    def turn(self, plan: ApprovedPlan | None, settings: MoveSettings) -> MoveProgress:
        """One look, one decision, its calls.

        Args:
            plan: what is approved now; None: nothing.
            settings: wishes and limits of now.

        Raises:
            FencedError: another keeper is the owner; nothing was called.
            InputError: the plan is for another cluster.
            EvenkeelError: Kafka does not answer; call again.
        """
        self._recover(plan)
        self.events = ()
        if self._is_idle(plan) and (self.progress is not None or plan is None):
            return self.progress or describe_end(self._run)
        with self._open_hand() as hand:
            seen = hand.look(find_needed(plan, self._run))
            if plan is not None and plan.cluster_id not in (None, seen.cluster_id):
                message = f"clusterId: the plan is for cluster {plan.cluster_id}, this is {seen.cluster_id}"
                raise InputError(message, reason=Reason.INVALID_SPEC)
            decision = decide(plan, self._run, self._watch, seen, settings)
            self._check_sure(seen.at)
            self._commit(decision)
            self._watch = replace(decision.watch, doubt_at=seen.at)  # unless all calls are answered
            failures = self._apply(hand, decision.steps)
        doubtful = any(isinstance(step, SetRate | AddEntries) for step, _ in failures)
        self._watch = replace(
            decision.watch,
            refused={**decision.watch.refused, **_find_refused(failures)},
            doubt_at=seen.at if doubtful else decision.watch.doubt_at,
        )
        return self._tell(decision, plan, seen, failures)

    def recall(self) -> Run | None:
        """The newest run, from the journal where this process does not know it yet; errors as `Journal.read`."""
        self._recover(None)
        return self._run

    def forget(self) -> None:
        """The claim was lost, or another cluster is meant: read the journal before anything else."""
        self._known, self._run, self._watch, self.progress = False, None, Watch(), None
        self._points.clear()

    def _is_idle(self, plan: ApprovedPlan | None) -> bool:
        """Nothing to do and nothing left to clean up: Kafka is not asked."""
        run = self._run
        if run is None:
            return plan is None
        over = run.state is not RunState.RUNNING and run.clean
        return over and (plan is None or plan.id == run.plan)

    def _recover(self, plan: ApprovedPlan | None) -> None:
        """What a predecessor has left; after an error also what we may have left ourselves."""
        if self._known:
            return
        self._run, self._known = self._journal.read(), True
        run = self._run
        if run is None:
            return
        same = plan is not None and run.plan == plan.id
        if self._again and same and run.state is not RunState.RUNNING:
            self._run = Run(run.plan, run.name, rates=run.rates, entries=run.entries)
        if not run.clean:
            log.info("moves resumed plan=%s batch=%d under_way=%d", run.name, run.batch, len(run.flights))

    def _commit(self, decision: Decision) -> None:
        """The intent, before the calls."""
        run, now = decision.run, self._monotonic()
        stale = self._written_at is None or now - self._written_at > RENEW_SECONDS
        due = stale and run is not None and (run.state is RunState.RUNNING or not run.clean)
        try:
            if run is not None and (due or run != self._run):
                self._journal.write(run)
                self._written_at = self._monotonic()
            elif decision.steps:
                self._journal.confirm()
        except EvenkeelError:
            self._known = False  # it may be in the log all the same
            raise
        _log_ended(self._run, run)
        self._run = run

    def _check_sure(self, since: float) -> None:
        """What was known a while ago must not be acted upon now."""
        if self._monotonic() - since > SURE_SECONDS:
            message = f"more than {SURE_SECONDS:g} s between look, commit and call; looking again"
            raise RetryableError(message, reason=Reason.BROKERS_UNREACHABLE)

    def _apply(self, hand: Hand, steps: Sequence[Step]) -> Failures:
        committed_at = self._monotonic()
        failures: list[tuple[Step, EvenkeelError]] = []
        for _, group in itertools.groupby(steps, key=type):
            todo = list(group)
            self._check_sure(committed_at)
            todo = [step for step in todo if not _is_moot(step, failures)]
            failed = hand.apply(todo) if todo else ()
            failures += failed
            for step, error in failed:
                log.warning("moves refused step=%s why=%s", step, error.message)
            log.info("moves applied kind=%s steps=%d", type(todo[0]).__name__ if todo else "none", len(todo))
        return failures

    def _tell(
        self, decision: Decision, plan: ApprovedPlan | None, seen: Observation, failures: Failures
    ) -> MoveProgress:
        found = measure_progress(decision, plan, seen)
        if self.progress is None or self.progress.plan != found.plan:
            self._points.clear()
        self._points.append((seen.at, found.bytes_done))
        speed = measure_speed(dict(self._points))
        if speed:
            found = replace(found, eta_seconds=round((found.bytes - found.bytes_done) / speed))
        if failures and found.reason in (Reason.MOVING, Reason.MOVED):
            error = failures[0][1]
            found = replace(found, reason=error.reason, message=error.message)
        self.events = find_events(self.progress, found)
        self.progress = found
        return found


def find_needed(plan: ApprovedPlan | None, run: Run | None) -> Wanted:
    """What a look has to cover: moves under way, the batch that may begin, and throttles of ours."""
    moves: list[Move] = [flight.move for flight in run.flights] if run is not None else []
    if plan is not None:
        number = run.batch if run is not None and run.plan == plan.id else 0
        # Batches may be over without a word: look as far as the decision may go.
        moves += [move for batch in plan.batches[number : number + 2] for move in batch]
    brokers = {broker for move in moves for broker in (*move.source, *move.target)}
    topics = {move.topic for move in moves}
    if run is not None:
        brokers |= {rate.broker for rate in run.rates}
        topics |= {entry.topic for entry in run.entries}
    return Wanted(frozenset(topics), frozenset(brokers))


def _log_ended(before: Run | None, run: Run | None) -> None:
    """The run's last sentence names the first few; here is each one."""
    if run is None:
        return
    known = len(before.ended) if before is not None and before.plan == run.plan else 0
    for one in run.ended[known:]:
        if one.reason is not Reason.MOVED:
            what = f"move not carried out topic={one.topic} partition={one.partition}"
            log.warning("%s reason=%s why=%s", what, one.reason, one.note)


def _is_moot(step: Step, failures: Failures) -> bool:
    """Nothing is copied where a throttle was refused, nor what its directory was refused to."""
    if not _is_start(step):
        return False
    return any(not isinstance(one, Place | Reassign) or one.key == step.key for one, _ in failures)


def _is_start(step: Step) -> TypeGuard[Reassign]:
    return isinstance(step, Reassign) and step.replicas is not None


def _find_refused(failures: Failures) -> dict[TopicPartition, EvenkeelError]:
    """The error of each partition that was not moved."""
    return {step.key: error for step, error in failures if isinstance(step, Place) or _is_start(step)}
