"""The open plan: judged until it begins, run when it is approved, told of. One step of the keeper's turn."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Desired, Fault
from evenkeel.domain.moves import DesiredPlan, Move, PlanReport, PlanState
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.domain.waits import Waits
from evenkeel.errors import ConfigurationError, EvenkeelError, FencedError, InputError, RetryableError
from evenkeel.kafka.answers import TopicPartition
from evenkeel.keeper.claim import Claim
from evenkeel.keeper.judging import Contradiction, judge_plan
from evenkeel.keeper.moving.executor import Hand
from evenkeel.keeper.moving.hand import open_kafka
from evenkeel.keeper.moving.leaders import elect_leaders
from evenkeel.keeper.moving.mover import Mover
from evenkeel.keeper.moving.plan import ApprovedPlan, approve_batches
from evenkeel.keeper.moving.progress import MoveProgress
from evenkeel.keeper.moving.run import AWAY_SECONDS, Run, RunState
from evenkeel.keeper.moving.settings import Control, MoveSettings
from evenkeel.keeper.plan_report import (
    Standing,
    build_running,
    build_waiting,
    choose_control,
    decide_waiting,
    differs_visibly,
)
from evenkeel.reasons import Reason

log = logging.getLogger(__name__)
SUBJECT = "plan"
"""Of faults of moves: the cluster is measured and routed all the same."""
TURN_SECONDS = 1.0
RETRY_SECONDS = 5.0
"""Between turns that fail."""
TELL_SECONDS = 5.0
"""Mere progress is told this often."""
DOUBT_SECONDS = 10.0
"""A contradiction is believed when a later measurement finds it still, so long after the first: metadata may be late,
and the plan is at an end by it."""
PASSING_SECONDS = 300.0
"""One that may pass by itself, such as a broker that is away: it may restart."""
PATIENCE = 3
"""Turns in a row that may fail for want of an answer before it is told."""
CALM_MS = 10.0
"""Producers that wait no longer suffer nothing: twice a millisecond is noise."""
SETTLE_SECONDS = 15.0
"""Beyond file.delete.delay.ms until what was moved away is freed: Kafka deletes in rounds."""


class PlanRunner:
    """Runs what `Desired.plan` approves. Used by one thread.

    Args:
        claim: this keeper's hold on the cluster.
        monotonic: the clock, seconds.
        before: what the process before this one told last.
        mover: runs moves; None: on Kafka itself.
        elect: has preferred leaders elected after a plan.
    """

    def __init__(
        self,
        claim: Claim,
        *,
        monotonic: Callable[[], float],
        before: PlanReport | None = None,
        mover: Mover | None = None,
        elect: Callable[[Connection, Sequence[Move]], int] = elect_leaders,
    ) -> None:
        self._claim, self._monotonic, self._elect = claim, monotonic, elect
        self._mover = mover or Mover(claim, monotonic=monotonic, open_hand=self._open)
        self.report = before
        self.settles_at: float | None = None
        """When the disks show what the newest plan has moved, by the clock; None: no plan ran lately."""
        self.unfinished = False
        """A plan has had its turn whole, and nothing was found since that says it was enough."""
        self.settled = False
        """The newest turn found nothing of any plan under way in Kafka."""
        if before is not None and before.batch > 0:
            self.settles_at = monotonic() + 60.0 + SETTLE_SECONDS
            self.unfinished = before.reason in (Reason.MOVED, Reason.PLAN_OUTDATED)
        self._told_at = self._turned_at = float("-inf")
        self._failures = 0
        self._still_since: float | None = None
        """Since when nothing is under way, while the claim is to be given back."""
        self._approved: tuple[DesiredPlan, ApprovedPlan] | None = None
        self._doubt: tuple[str, Contradiction | None, float, float] | None = None
        """Plan, what speaks against it, seen first and last."""
        self._rates: dict[TopicPartition, float] = {}
        self._volumes: dict[tuple[int, str], str] = {}
        self._waits: Waits | None = None

    def judge(self, desired: Desired, snapshot: ClusterSnapshot) -> None:
        """Take in a new snapshot: whether the plan's facts still hold, and what producers write."""
        plan = desired.plan
        if plan is None:
            self._doubt, self._rates, self._volumes = None, {}, {}
            return
        found = judge_plan(plan, snapshot, desired.policy)
        now, before = self._monotonic(), self._doubt
        since = now
        if before is not None and before[0] == plan.uid and found is not None and _alike(before[1], found):
            since = before[2]
        self._doubt = (plan.uid, found, since, now)
        keys = {(move.topic, move.partition) for batch in plan.batches for move in batch.moves}
        self._rates = {
            (one.topic, one.partition): one.bytes_per_second
            for one in snapshot.partitions
            if (one.topic, one.partition) in keys and one.bytes_per_second
        }
        self._volumes = {
            (broker.id, entry.path): entry.volume
            for broker in snapshot.brokers
            for entry in broker.log_dirs
            if entry.volume is not None
        }

    def note_waits(self, waits: Waits) -> None:
        """How long producers wait: the throttle compares it with what it was before the moves, not with a limit."""
        if waits.mean_ms is None:
            self._waits = None
            return
        p99_ms = None if waits.p99_ms is None else max(waits.p99_ms, CALM_MS)
        self._waits = Waits(max(waits.mean_ms, CALM_MS), p99_ms)

    def is_due(self) -> bool:
        """Whether a turn should be made now."""
        pause = RETRY_SECONDS if self._failures else TURN_SECONDS
        return self._monotonic() - self._turned_at >= pause

    def turn(self, desired: Desired) -> list[Fault]:
        """One turn. Returns what is wrong with it.

        Raises:
            FencedError: the claim was lost just now.
        """
        self._turned_at = self._monotonic()
        if not self._claim.held:
            self._mover.forget()
            self._keep(desired)
            self.settled = False
            return []
        try:
            self._turn(desired)
        except FencedError:
            raise
        except EvenkeelError as error:
            return self._fail(desired, error)
        self._failures = 0
        return []

    def clean_up(self, desired: Desired, cluster_id: str) -> bool:
        """Cancel what runs, because the claim is given back; whether nothing of ours is left.

        Throttles of brokers that are away are waited for, but not for ever: nobody could take them back before.

        Raises:
            EvenkeelError: Kafka does not answer; call again.
        """
        self._turned_at = self._monotonic()
        if not self._claim.regain(desired.connection, desired.owner, cluster_id):
            return True
        run = self._mover.recall(desired.connection)
        if _is_over(run):
            return True
        self._mover.turn(desired.connection, None, self._settings(desired, None))
        run = self._mover.recall(desired.connection)
        if run is None or run.flights or run.state is RunState.RUNNING:
            self._still_since = None
            return run is None
        now = self._monotonic()
        self._still_since = now if self._still_since is None else self._still_since
        return run.clean or now - self._still_since >= AWAY_SECONDS

    def forget(self) -> None:
        """Another connection or cluster: nothing known holds there."""
        self._mover.forget()
        self.report = self.settles_at = self._doubt = None
        self.unfinished = self.settled = False
        self._rates, self._volumes, self._waits = {}, {}, None

    def _open(self, connection: Connection) -> AbstractContextManager[Hand]:
        return open_kafka(connection, monotonic=self._monotonic, waits=lambda: self._waits)

    def _keep(self, desired: Desired) -> PlanReport | None:
        """What was told of this very plan."""
        if self.report is not None and (desired.plan is None or self.report.uid != desired.plan.uid):
            self.report = None
        return self.report

    def _turn(self, desired: Desired) -> None:
        plan, last = desired.plan, self._keep(desired)
        if plan is None or desired.release or (last is not None and last.state is PlanState.FINISHED):
            self._stop(desired)
            return
        approved = self._approve(plan)
        run = self._mover.recall(desired.connection)
        if run is not None and run.plan == approved.id:
            self._go_on(desired, plan, approved)
        else:
            self._wait(desired, plan, approved)

    def _approve(self, plan: DesiredPlan) -> ApprovedPlan:
        """Made anew only when Desired is: a plan has hundreds of moves, and a turn comes each second."""
        if self._approved is None or self._approved[0] is not plan:
            batches = [batch.moves for batch in plan.batches]
            self._approved = plan, approve_batches(plan.hash, batches, plan.cluster_id, uid=plan.uid)
        return self._approved[1]

    def _wait(self, desired: Desired, plan: DesiredPlan, approved: ApprovedPlan) -> None:
        """Nothing of the plan has run."""
        found = self._find_doubt(plan)
        doubt = found[0] if found is not None else None
        believed = doubt is not None and found is not None and found[1]
        standing = decide_waiting(plan, desired, doubt, believed=believed, judged=found is not None)
        if standing is None:
            self._go_on(desired, plan, approved)
            return
        self._stop(desired)
        self._tell(build_waiting(plan, standing, self.report))

    def _stop(self, desired: Desired) -> None:
        """Have nothing run: what is under way is cancelled."""
        progress = self._mover.turn(desired.connection, None, self._settings(desired, None))
        self.settled = progress is not None and progress.over

    def _find_doubt(self, plan: DesiredPlan) -> tuple[Contradiction | None, bool] | None:
        """What speaks against the plan, and whether it is believed; None: it was not judged yet."""
        if self._doubt is None or self._doubt[0] != plan.uid:
            return None
        _, found, since, last = self._doubt
        if found is None:
            return None, False
        patience = PASSING_SECONDS if found.passing else DOUBT_SECONDS
        return found, last - since >= patience

    def _go_on(self, desired: Desired, plan: DesiredPlan, approved: ApprovedPlan) -> None:
        settings = self._settings(desired, plan)
        self.settled = False  # whatever becomes of this turn
        progress = self._mover.turn(desired.connection, approved, settings)
        if progress is None:
            return
        self.settled = progress.over
        if progress.plan != approved.id:
            message = "approved; what ran before it is being cancelled"
            standing = Standing(PlanState.PROPOSED, Reason.PENDING, message)
            self._tell(build_waiting(plan, standing, self.report))
            return
        report = build_running(plan, desired, progress, self.report)
        if report.state is PlanState.FINISHED:
            self._finish(desired.connection, approved, progress)
        self._tell(report)

    def _finish(self, connection: Connection, approved: ApprovedPlan, progress: MoveProgress) -> None:
        delays = [move.freed_after_ms for move in approved.moves]
        self.settles_at = self._monotonic() + max(delays, default=0) / 1000 + SETTLE_SECONDS
        self.unfinished = progress.state is RunState.FINISHED
        log.info("plan finished name=%s reason=%s why=%s", approved.name, progress.reason, progress.message)
        try:
            self._elect(connection, approved.moves)
        except EvenkeelError as error:
            log.warning("leaders not elected plan=%s why=%s", approved.name, error.message)

    def _settings(self, desired: Desired, plan: DesiredPlan | None) -> MoveSettings:
        return MoveSettings(
            control=Control.RUN if plan is None else choose_control(plan, desired),
            bytes_per_second=None if plan is None else plan.throttle_bytes_per_second,
            max_fill_percent=desired.policy.max_fill_percent,
            write_rates=self._rates,
            volumes=self._volumes,
        )

    def _tell(self, report: PlanReport) -> None:
        now = self._monotonic()
        if differs_visibly(self.report, report) or (
            report != self.report and now - self._told_at >= TELL_SECONDS
        ):
            self.report, self._told_at = report, now

    def _fail(self, desired: Desired, error: EvenkeelError) -> list[Fault]:
        self._failures += 1
        log.warning("moves turn failed reason=%s why=%s", error.reason, error.message)
        plan, last = desired.plan, self.report
        if isinstance(error, RetryableError) and self._failures < PATIENCE:
            return []
        if plan is not None and (last is None or last.state is not PlanState.FINISHED):
            wrong = isinstance(error, InputError) and not isinstance(error, ConfigurationError)
            self._tell(self._build_failed(plan, error, wrong=wrong))
        return [Fault(error.reason, error.message, SUBJECT)]

    def _build_failed(self, plan: DesiredPlan, error: EvenkeelError, *, wrong: bool) -> PlanReport:
        """The report with why the turn failed; a plan that is wrong itself is over where it has not begun."""
        last = self.report
        if wrong and (last is None or last.batch == 0):
            standing = Standing(PlanState.FINISHED, Reason.PLAN_OUTDATED, error.message)
            return build_waiting(plan, standing, last)
        if last is None:
            return build_waiting(plan, Standing(PlanState.PROPOSED, error.reason, error.message), None)
        return replace(last, reason=error.reason, message=error.message)


def _is_over(run: Run | None) -> bool:
    return run is None or (run.state is not RunState.RUNNING and run.clean)


def _alike(before: Contradiction | None, now: Contradiction) -> bool:
    """Whether it goes on; sentences may differ in their numbers."""
    return before is not None and before.passing is now.passing
