"""Runs the scores of all topics for one cycle: built-in ones here, those of packages in their own processes."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint

from evenkeel.domain import codec
from evenkeel.domain.exchange import Score, ScoreReport, TopicRouting
from evenkeel.domain.snapshot import ClusterSnapshot, Partition
from evenkeel.errors import EvenkeelError
from evenkeel.keeper.score_messages import ScoreCall, shorten
from evenkeel.keeper.score_packages import find_packaged
from evenkeel.keeper.score_process import Limits
from evenkeel.keeper.score_runner import Outcome, Request, ScoreRunner
from evenkeel.planning.scores import storage
from evenkeel.planning.scores.combine import check_costs, combine_costs
from evenkeel.planning.scores.protocol import Costs
from evenkeel.planning.scores.registry import BUILT_IN
from evenkeel.reasons import Reason

log = logging.getLogger(__name__)
MOST_PROCESSES = 8
"""Scores of packages that run at once: each may take memory of its own beside the keeper."""
CLOSE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the scores say in one cycle."""

    costs: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Topic -> partition -> k, as `plan_routes` takes it; a topic of which no score but Storage counts is absent."""
    reports: Mapping[str, tuple[ScoreReport, ...]] = field(default_factory=dict)
    """Topic -> its scores with a weight above 0, and which of them were dropped."""


class Scores:
    """All scores of one keeper. Used by one thread.

    A cycle waits for scores of packages together, and at most `limits.call_seconds`; for one that was late
    the last time not at all: it is asked in the background, and counts again once it answers in time.

    Args:
        limits: of each score of a package.
        monotonic: clock of deadlines, seconds.
    """

    def __init__(
        self, limits: Limits | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits or Limits()
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._runners: dict[str, ScoreRunner] = {}
        self._sequence = 0
        self._packages: Mapping[str, tuple[EntryPoint, ...]] | None = None
        self._drops: Counter[tuple[str, Reason]] = Counter()
        self._told: dict[tuple[str, str], Reason] = {}

    def evaluate(self, snapshot: ClusterSnapshot, routed: Mapping[str, TopicRouting]) -> Evaluation:
        """Costs and reports of all routed topics."""
        asked = {
            topic: tuple(score for score in routing.scores if score.weight > 0)
            for topic, routing in routed.items()
        }
        partitions = snapshot.group_partitions(asked)
        calls = _own_calls(asked)
        packaged = self._submit(snapshot, calls)
        deadline = self._monotonic() + self._limits.call_seconds
        mine = {
            (topic, score.name): _run_built_in(snapshot, topic, score)
            for topic, scores in asked.items()
            for score in scores
            if score.name in BUILT_IN
        }
        found = mine | self._collect(calls, packaged, deadline)
        return self._add_up(snapshot, asked, partitions, found)

    def take_drops(self) -> Mapping[tuple[str, Reason], int]:
        """(score, reason) -> how often it was dropped since this was last asked, counted by topic."""
        taken, self._drops = self._drops, Counter()
        return taken

    def pids(self) -> Mapping[str, int]:
        """Processes that run now, by score."""
        return {name: pid for name, runner in self._runners.items() if (pid := runner.pid) is not None}

    def close(self) -> None:
        """End all processes; waits for all together, since a keeper that is to stop has no time for each."""
        deadline = time.monotonic() + CLOSE_SECONDS
        for runner in self._runners.values():
            runner.close(0.0)
        for runner in self._runners.values():
            runner.close(max(0.0, deadline - time.monotonic()))
        self._runners = {}

    def _submit(
        self, snapshot: ClusterSnapshot, calls: Mapping[str, tuple[ScoreCall, ...]]
    ) -> Mapping[str, str]:
        """Ask every score of a package that there is; returns why the others cannot be asked."""
        for name in self._runners.keys() - calls.keys():
            self._runners.pop(name).close(CLOSE_SECONDS)
        if not calls:
            return {}
        self._sequence += 1
        refused: dict[str, str] = {}
        if self._packages is None:
            self._packages = find_packaged()
        found = self._packages
        encode = functools.cache(lambda: codec.dumps(snapshot))
        for name, wanted in sorted(calls.items()):
            if name not in found:
                refused[name] = f"score {name}: no built-in score and no installed package has this name"
            elif len(found[name]) > 1:
                refused[name] = f"score {name}: {len(found[name])} installed packages have this name"
            elif name not in self._runners and len(self._runners) >= MOST_PROCESSES:
                refused[name] = f"score {name}: {MOST_PROCESSES} scores of packages run already"
            else:
                runner = self._runners.get(name) or ScoreRunner(name, self._limits, self._changed)
                self._runners[name] = runner
                runner.submit(
                    Request(self._sequence, functools.partial(_encode, self._sequence, wanted, encode))
                )
        return refused

    def _collect(
        self, calls: Mapping[str, tuple[ScoreCall, ...]], refused: Mapping[str, str], deadline: float
    ) -> dict[tuple[str, str], Costs | ScoreReport]:
        """Wait for those that were prompt, take what there is of the others."""
        running = {name: self._runners[name] for name in calls if name not in refused}
        with self._changed:
            waited = [runner for runner in running.values() if runner.prompt]
            while any(self._outcome(runner) is None for runner in waited):
                if (left := deadline - self._monotonic()) <= 0:
                    break
                self._changed.wait(left)
            outcomes = {name: self._outcome(runner) for name, runner in running.items()}
            for name, outcome in outcomes.items():
                running[name].prompt = running[name].prompt and outcome is not None
        found: dict[tuple[str, str], Costs | ScoreReport] = {}
        for name, wanted in calls.items():
            for call in wanted:
                if name in refused:
                    result: Costs | ScoreReport = ScoreReport(name, Reason.SCORE_UNKNOWN, refused[name])
                else:
                    result = _read_outcome(name, call.topic, outcomes[name], self._limits)
                found[call.topic, name] = result
        return found

    def _outcome(self, runner: ScoreRunner) -> Outcome | None:
        """Of the newest request, if there is one."""
        outcome = runner.outcome
        return outcome if outcome is not None and outcome.sequence == self._sequence else None

    def _add_up(
        self,
        snapshot: ClusterSnapshot,
        asked: Mapping[str, tuple[Score, ...]],
        partitions: Mapping[str, list[Partition]],
        found: Mapping[tuple[str, str], Costs | ScoreReport],
    ) -> Evaluation:
        costs: dict[str, Mapping[int, float]] = {}
        reports: dict[str, tuple[ScoreReport, ...]] = {}
        dropped: dict[tuple[str, str], Reason] = {}
        for topic, scores in asked.items():
            checked = [
                (score, _check(score.name, found[topic, score.name], snapshot, partitions[topic]))
                for score in scores
            ]
            counted = [
                (score.weight / 100, result)
                for score, result in checked
                if isinstance(result, Costs) and score.name != storage.NAME
            ]
            if counted:
                costs[topic] = combine_costs(counted, partitions[topic])
            reports[topic] = tuple(
                result if isinstance(result, ScoreReport) else ScoreReport(score.name, Reason.ROUTED)
                for score, result in checked
            )
            for report in reports[topic]:
                if report.reason is not Reason.ROUTED:
                    self._note_drop(topic, report)
                    dropped[topic, report.name] = report.reason
        self._told = dropped
        return Evaluation(costs, reports)

    def _note_drop(self, topic: str, report: ScoreReport) -> None:
        self._drops[report.name, report.reason] += 1
        if self._told.get((topic, report.name)) is not report.reason:
            log.warning(
                "score dropped score=%s topic=%s reason=%s why=%s",
                report.name,
                topic,
                report.reason,
                report.message,
            )


def _own_calls(asked: Mapping[str, tuple[Score, ...]]) -> dict[str, tuple[ScoreCall, ...]]:
    """Score of a package -> the topics that use it."""
    calls: dict[str, tuple[ScoreCall, ...]] = {}
    for topic, scores in asked.items():
        for score in scores:
            if score.name not in BUILT_IN:
                calls[score.name] = (*calls.get(score.name, ()), ScoreCall(topic, score.parameters))
    return calls


def _encode(sequence: int, calls: tuple[ScoreCall, ...], snapshot: Callable[[], str]) -> bytes:
    """A ScoreRequest as JSON; the snapshot's text is made once for all scores of a cycle."""
    head = f'{{"sequence":{sequence},"calls":{codec.dumps(calls)},"snapshot":'
    return (head + snapshot() + "}").encode()


def _run_built_in(snapshot: ClusterSnapshot, topic: str, score: Score) -> Costs | ScoreReport:
    try:
        return BUILT_IN[score.name](snapshot, topic, score.parameters)
    except EvenkeelError as error:
        reason = Reason.SCORE_FAILED if error.reason is Reason.INTERNAL_ERROR else error.reason
        return ScoreReport(score.name, reason, shorten(error.message))
    except Exception as error:
        # A mistake of ours in one score must not end routing.
        log.exception("built-in score failed score=%s topic=%s", score.name, topic)
        return ScoreReport(
            score.name, Reason.SCORE_FAILED, shorten(f"raised {type(error).__name__}: {error}")
        )


def _read_outcome(name: str, topic: str, outcome: Outcome | None, limits: Limits) -> Costs | ScoreReport:
    if outcome is None or outcome.reason is Reason.SCORE_TIMED_OUT:
        # One sentence for all kinds of late, so that the report stays the same from cycle to cycle.
        what = f"no answer within {limits.call_seconds:g} s; it is asked again without waiting for it"
        return ScoreReport(name, Reason.SCORE_TIMED_OUT, what)
    if outcome.reason is not Reason.ROUTED:
        return ScoreReport(name, outcome.reason, outcome.message)
    answer = outcome.answers.get(topic)
    if answer is None:
        return ScoreReport(name, Reason.SCORE_INVALID, f"score {name}: its reply lacks topic {topic}")
    if answer.costs is None:
        reason = answer.reason if answer.reason is not Reason.ROUTED else Reason.SCORE_INVALID
        return ScoreReport(name, reason, shorten(f"score {name}: {answer.message}"))
    return answer.costs


def _check(
    name: str, result: Costs | ScoreReport, snapshot: ClusterSnapshot, partitions: list[Partition]
) -> Costs | ScoreReport:
    if isinstance(result, ScoreReport):
        return result
    try:
        check_costs(name, result, snapshot, partitions)
    except EvenkeelError as error:
        return ScoreReport(name, error.reason, shorten(error.message))
    return result
