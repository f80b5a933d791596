"""One decision: from a plan, what was journaled and one look at Kafka to the next calls, and why.

Level-triggered: what Kafka shows counts, not what was called. A call that failed or got lost is decided again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from evenkeel.domain.moves import Move
from evenkeel.keeper.moving.flights import Advance, advance, begin, check_starts, note_growth
from evenkeel.keeper.moving.guards import (
    Check,
    Fitness,
    find_foreign,
    find_lagging,
    name_balancer,
)
from evenkeel.keeper.moving.observation import Observation
from evenkeel.keeper.moving.pace import Harm, first_rate, next_rate, write_rate
from evenkeel.keeper.moving.plan import ApprovedPlan
from evenkeel.keeper.moving.run import AWAY_SECONDS, Flight, Run, RunState, end_run
from evenkeel.keeper.moving.settings import Control, MoveSettings
from evenkeel.keeper.moving.sifting import judge, sift
from evenkeel.keeper.moving.status import copied_bytes, expected_bytes
from evenkeel.keeper.moving.steps import Place, Reassign, Step
from evenkeel.keeper.moving.throttling import Throttling, find_wanted, plan_throttles
from evenkeel.keeper.moving.watch import Timers, Watch, estimate_writes, find_shown, note_shown
from evenkeel.reasons import Reason


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the run stands."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now."""

    run: Run | None
    """To be committed before the steps, where it differs from what is journaled; None: there is no run."""
    steps: tuple[Step, ...]
    watch: Watch
    verdict: Verdict
    away: bool = False
    """The run has ended, and the brokers whose throttles are left have been away for AWAY_SECONDS."""


def decide(
    plan: ApprovedPlan | None, run: Run | None, watch: Watch, seen: Observation, settings: MoveSettings
) -> Decision:
    """The next calls.

    Args:
        plan: what is approved; None: nothing, and what runs is cancelled.
        run: newest journaled run; None: there never was one.
        watch: what the decision before this one remembered; `Watch()` after a start.
        seen: a fresh look.
        settings: wishes and limits.
    """
    return _Turn(plan, run, watch, seen, settings).decide()


def _adopt(plan: ApprovedPlan | None, run: Run | None) -> Run | None:
    """The run to go on with: a new one begins when the one before has ended."""
    ended = run is None or (run.state is not RunState.RUNNING and not run.flights)
    if plan is None or not ended or (run is not None and run.plan == plan.id):
        return run
    kept = () if run is None else run.rates
    return Run(plan.id, plan.name, rates=kept, entries=() if run is None else run.entries)


class _Turn:
    """One decision; `_run` is what it becomes."""

    def __init__(
        self,
        plan: ApprovedPlan | None,
        run: Run | None,
        watch: Watch,
        seen: Observation,
        settings: MoveSettings,
    ) -> None:
        if watch.fresh:
            tried = {flight.key: seen.at for flight in run.flights} if run is not None else {}
            watch = replace(watch, fresh=False, tried=tried, doubt_at=seen.at)
        self._seen, self._watch = seen, watch
        self._settings = replace(settings, write_rates=estimate_writes(settings, watch, seen))
        self._timers = Timers(watch, seen.at)
        self._plan = plan
        self._found = _adopt(plan, run)
        self._verdicts: list[Verdict] = []
        self._tried = dict(watch.tried)

    def decide(self) -> Decision:
        if self._found is None:
            verdict = Verdict(Reason.NOTHING_TO_DO, "no plan is approved")
            return Decision(None, (), self._watch, verdict)
        self._run = self._hear(self._found)
        self._note_foreign()
        self._note_calm()
        moved = advance(self._run, self._watch, self._timers, self._seen, self._settings)
        self._note_corrections(moved)
        self._settle(moved)
        if not self._run.flights and self._run.state is RunState.RUNNING:
            self._open()
        self._pace()
        throttling = self._throttle()
        starts = self._start(moved, ready=throttling.ready)
        self._run = replace(self._run, rates=throttling.rates, entries=throttling.entries)
        steps = (*throttling.begin, *moved.steps, *starts, *throttling.end)
        away = self._run.waits_for_away(self._seen.online) and self._timers.mark("away") >= AWAY_SECONDS
        return Decision(self._run, steps, self._remember(throttling, starts), self._conclude(), away)

    def _hear(self, run: Run) -> Run:
        """Wishes are journaled once they are heard: a successor goes on with them."""
        if run.state is not RunState.RUNNING:
            return run
        if self._plan is None or self._plan.id != run.plan:
            return replace(run, cancelling=run.cancelling or Reason.PLAN_OUTDATED)
        match self._settings.control:
            case Control.CANCEL:
                return replace(run, cancelling=run.cancelling or Reason.MOVES_CANCELLED)
            case Control.FINISH:
                return replace(run, finishing=True)
            case _:
                return run

    def _note_corrections(self, moved: Advance) -> None:
        """Those asked for just now: without an answer they may begin yet, also after they were given up."""
        wanted = {flight.key for flight in moved.flights if flight.cancelled is None}
        asked = (step.key for step in moved.steps if isinstance(step, Place) and step.key in wanted)
        self._tried |= dict.fromkeys(asked, self._seen.at)

    def _note_foreign(self) -> None:
        foreign = find_foreign(self._run, self._seen)
        at = self._watch.foreign_at if foreign is None else self._seen.at
        self._watch = replace(self._watch, foreign_at=at)
        self._foreign = foreign

    def _note_calm(self) -> None:
        """How long producers wait while nothing moves: before the first batch, later ones still feel the last."""
        if not self._run.flights and not self._run.ended:
            calm = self._seen.waits or self._watch.calm
            self._watch = replace(self._watch, calm=calm)

    def _settle(self, moved: Advance) -> None:
        self._run = replace(self._run, flights=moved.flights, ended=(*self._run.ended, *moved.ended))
        if moved.held:
            self._verdicts.append(Verdict(Reason.MOVE_HELD, _join("cannot be cancelled yet: ", moved.held)))

    def _open(self) -> None:
        """Begin the next batch, or end the run."""
        run = self._run
        assert self._plan is not None or run.cancelling is not None
        batches = self._plan.batches if self._plan is not None and run.cancelling is None else ()
        over = {(one.topic, one.partition) for one in run.ended}
        number = run.batch
        while number < len(batches) and all((move.topic, move.partition) in over for move in batches[number]):
            number += 1
        self._run = run = replace(run, batch=number)
        if run.cancelling is not None or (run.finishing and number < len(batches)):
            self._run = end_run(run, RunState.CANCELLED)
        elif number >= len(batches):
            self._run = end_run(run, RunState.FINISHED)
        else:
            self._open_batch([move for move in batches[number] if (move.topic, move.partition) not in over])

    def _open_batch(self, moves: list[Move]) -> None:
        if self._is_blocked(moves):
            return
        ready = self._sift(moves)
        if ready:
            ids = self._seen.topics
            flights = tuple(Flight(move, ids[move.topic].topic_id) for move in ready)
            rate = first_rate(ready, self._settings, self._run.bytes_per_second)
            lagging = find_lagging(_brokers(ready), self._seen) is not None
            self._watch = replace(self._watch, lagged_before=lagging)
            calm = self._run.calm or self._watch.calm
            self._run = replace(self._run, flights=flights, bytes_per_second=rate, calm=calm)

    def _sift(self, moves: list[Move]) -> list[Move]:
        """Those that may begin; those that cannot run any more have ended."""
        found = sift(moves, self._seen, self._settings, self._timers)
        self._run = replace(self._run, ended=(*self._run.ended, *found.ended))
        if not found.ready:
            self._verdicts += [_wait(check) for check in found.waits[:1]]
        return list(found.ready)

    def _is_blocked(self, moves: list[Move]) -> bool:
        """Whether nothing at all may begin now, whatever the moves."""
        verdict = self._find_blocker(moves)
        if verdict is not None:
            self._verdicts.append(verdict)
        return verdict is not None

    def _find_blocker(self, moves: list[Move]) -> Verdict | None:
        settings, watch, now = self._settings, self._watch, self._seen.at
        if settings.control is Control.PAUSE:
            return Verdict(Reason.PAUSED, "paused: no batch begins")
        if self._foreign is not None:
            topic, partition = self._foreign
            who = name_balancer(self._seen) or "somebody else"
            message = f"{topic}-{partition} is being moved by {who}; no batch begins"
            return Verdict(Reason.FOREIGN_REASSIGNMENT, message)
        if watch.foreign_at is not None and now - watch.foreign_at < settings.quiet_seconds:
            message = (
                f"somebody else moved replicas; a batch begins after {settings.quiet_seconds:g} s of quiet"
            )
            return Verdict(Reason.FOREIGN_REASSIGNMENT, message)
        if watch.overridden_at is not None and now - watch.overridden_at < settings.quiet_seconds:
            return Verdict(
                Reason.THROTTLE_OVERRIDDEN, "somebody else changed our throttle; no batch begins yet"
            )
        rate = first_rate(moves, settings, self._run.bytes_per_second)
        return self._find_slow(moves, rate) or self._find_conflict(moves, rate)

    def _find_slow(self, moves: list[Move], rate: int) -> Verdict | None:
        """A throttle, ours or that of the whole cluster, at which what is copied would never arrive."""
        settings = self._settings
        limits = [(rate, write_rate(moves, settings))]
        for move in moves:
            capped = find_wanted([move], self._seen, rate).rates.values()
            limits.append((min(capped, default=rate), write_rate([move], settings)))
        for limit, written in limits:
            if limit <= written:
                message = f"producers write {written:.0f} B/s to what would be copied at {limit} B/s"
                return Verdict(Reason.THROTTLE_TOO_LOW, message)
        return None

    def _find_conflict(self, moves: list[Move], rate: int) -> Verdict | None:
        """A foreign throttle where ours would be needed, or replicas that are catching up."""
        planned = plan_throttles(self._run, find_wanted(moves, self._seen, rate), self._seen)
        if planned.overridden:
            return Verdict(Reason.THROTTLE_OVERRIDDEN, _join("no batch begins: ", planned.overridden))
        lagging = find_lagging(_brokers(moves), self._seen)
        if lagging is None or lagging == self._watch.accepted_lag:
            return None
        if self._timers.mark("lagging") >= self._settings.patience_seconds:
            self._watch = replace(self._watch, accepted_lag=lagging)
            return None
        message = f"replicas of {lagging[0]}-{lagging[1]} are catching up; no batch begins"
        return Verdict(Reason.REPLICAS_OUT_OF_SYNC, message)

    def _pace(self) -> None:
        """Adapt the throttle of a batch that runs."""
        if not self._run.flights:
            return
        moves = [flight.move for flight in self._run.flights]
        lagging = find_lagging(_brokers(moves), self._seen) is not None
        behind = lagging and not self._watch.lagged_before
        harm = Harm(behind, self._seen.waits, self._run.calm)
        before, at = self._run.bytes_per_second, self._watch.paced_at
        seconds = 0.0 if at is None else self._seen.at - at
        copied = self._count_copied(moves)
        grown = copied - self._watch.paced_bytes
        rate = next_rate(before, moves, self._settings, harm, seconds, grown)
        if rate != before or at is None:
            self._watch = replace(self._watch, paced_at=self._seen.at, paced_bytes=copied)
        self._run = replace(self._run, bytes_per_second=rate)

    def _count_copied(self, moves: list[Move]) -> int:
        """Bytes copied in this run so far."""
        under_way = sum(copied_bytes(move, self._seen) or 0 for move in moves)
        return under_way + sum(one.bytes for one in self._run.ended)

    def _throttle(self) -> Throttling:
        run, seen = self._run, self._seen
        wanted = find_wanted([flight.move for flight in run.flights], seen, run.bytes_per_second)
        gone = frozenset(topic for topic in {entry.topic for entry in run.entries} if self._is_gone(topic))
        doubt_at = self._watch.doubt_at
        doubtful = doubt_at is not None and seen.at - doubt_at < self._settings.settle_seconds
        shown = find_shown(self._watch, run, seen, self._settings.settle_seconds)
        found = plan_throttles(run, wanted, seen, shown, gone, doubtful=doubtful)
        if found.overridden and run.flights:
            self._watch = replace(self._watch, overridden_at=seen.at)
            self._verdicts.append(Verdict(Reason.THROTTLE_OVERRIDDEN, _join("", found.overridden)))
        return found

    def _is_gone(self, topic: str) -> bool:
        if topic in self._seen.topics:
            return False
        return self._timers.mark(f"gone {topic}") >= self._settings.settle_seconds

    def _start(self, moved: Advance, *, ready: bool) -> list[Step]:
        """Begin what has not begun: only behind throttles, and only while the guards still hold."""
        idle = {flight.key for flight in moved.waiting}
        waiting = [flight for flight in self._run.flights if flight.key in idle]
        if not waiting:
            return []
        moves = [flight.move for flight in self._run.flights]
        checks = check_starts(moves, self._seen, self._settings)
        fit = []
        for flight in waiting:
            check = checks[flight.key]
            over = judge(flight.move, check, self._settings, self._timers)
            if over is not None:
                rest = tuple(one for one in self._run.flights if one.key != flight.key)
                self._run = replace(self._run, flights=rest, ended=(*self._run.ended, over))
            elif check.fitness is Fitness.READY:
                fit.append(flight)
            else:
                self._verdicts.append(_wait(check))
        if not ready or not fit or self._is_held_back():
            return []
        self._tried |= {flight.key: self._seen.at for flight in fit}
        return begin(fit)

    def _is_held_back(self) -> bool:
        """Whether what was journaled and has not begun has to wait."""
        if self._foreign is not None:
            topic, partition = self._foreign
            message = f"waits: {topic}-{partition} is being moved by somebody else"
            self._verdicts.append(Verdict(Reason.FOREIGN_REASSIGNMENT, message))
        elif self._settings.control is Control.PAUSE:
            self._verdicts.append(Verdict(Reason.PAUSED, "paused: nothing begins"))
        else:
            return False
        return True

    def _remember(self, throttling: Throttling, starts: list[Step]) -> Watch:
        keys = {flight.key for flight in self._run.flights}
        started = {step.key for step in starts if isinstance(step, Reassign | Place)}
        return replace(
            note_shown(self._watch, throttling.in_force, throttling.entries, self._seen.at),
            since=self._timers.marked,
            grown=note_growth(self._watch, self._run.flights, self._seen),
            sizes={
                flight.key: self._watch.sizes.get(
                    flight.key, (expected_bytes(flight.move, self._seen), self._seen.at)
                )
                for flight in self._run.flights
            },
            tried={key: at for key, at in self._tried.items() if key in keys},
            refused={key: error for key, error in self._watch.refused.items() if key in keys - started},
        )

    def _conclude(self) -> Verdict:
        """The gravest of what was found."""
        run = self._run
        if self._verdicts:
            return min(self._verdicts, key=lambda one: _GRAVITY.get(one.reason, len(_GRAVITY)))
        if run.state is not RunState.RUNNING:
            away = sorted({rate.broker for rate in run.rates if rate.broker not in self._seen.rates})
            rest = f"; throttles of brokers {away} remain until they are back" if away else ""
            return Verdict(run.reason, run.message + rest)
        if run.cancelling is not None:
            return Verdict(run.cancelling, f"cancelling {len(run.flights)} moves")
        return Verdict(Reason.MOVING, f"batch {run.batch + 1}: {len(run.flights)} moves under way")


_GRAVITY = {
    Reason.MOVE_HELD: 0,
    Reason.THROTTLE_OVERRIDDEN: 1,
    Reason.FOREIGN_REASSIGNMENT: 2,
    Reason.PAUSED: 3,
}


def _wait(check: Check) -> Verdict:
    return Verdict(check.reason, f"waits: {check.message}")


def _brokers(moves: list[Move]) -> set[int]:
    """Those that copy."""
    return {one for move in moves for one in (move.copied_to, move.copied_from) if one is not None}


def _join(head: str, sentences: tuple[str, ...]) -> str:
    rest = len(sentences) - 3
    return head + "; ".join(sentences[:3]) + (f" and {rest} more" if rest > 0 else "")
