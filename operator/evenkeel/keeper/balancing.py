"""What is done against an imbalance: planning, the proposal, and the open plan. Two steps of the keeper's turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from evenkeel.domain.exchange import BalanceMode, Desired, Fault, MovesReport, Report, TopicRouting
from evenkeel.domain.moves import PlanReport, ProposedPlan
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.keeper.claim import Claim
from evenkeel.keeper.inflow import PATIENCE_SECONDS
from evenkeel.keeper.moves import build_moves_report
from evenkeel.keeper.proposals import build_request, decide_proposal, is_welcome
from evenkeel.keeper.running import PASSING_SECONDS, PlanRunner
from evenkeel.keeper.steering import PATIENCE_INTERVALS
from evenkeel.planning.moves import plan_moves
from evenkeel.planning.routing import RoutesPlan
from evenkeel.reasons import Reason


class Balancing:
    """Plans in every cycle, and runs what is approved. Used by one thread.

    Args:
        claim: this keeper's hold on the cluster: without it nothing is proposed and nothing runs.
        monotonic: the clock, seconds.
        before: the report that a predecessor left; its proposal stands as if this process had made it.
        runner: of the open plan; None: on Kafka itself.
    """

    def __init__(
        self,
        claim: Claim,
        *,
        monotonic: Callable[[], float],
        before: Report | None = None,
        runner: PlanRunner | None = None,
    ) -> None:
        self._claim, self._monotonic = claim, monotonic
        self.runner = runner or PlanRunner(
            claim, monotonic=monotonic, before=before.plan if before is not None else None
        )
        self.moves: MovesReport | None = before.moves if before is not None else None
        self._away: dict[int, float] = {}
        """Broker -> since when it is away."""

    @property
    def progress(self) -> PlanReport | None:
        """Of the open plan."""
        return self.runner.report

    @property
    def settled(self) -> bool:
        """Whether nothing of any plan is under way."""
        return self.runner.settled

    def plan(
        self,
        desired: Desired,
        snapshot: ClusterSnapshot,
        routed: Mapping[str, TopicRouting],
        routes: RoutesPlan | None,
        observed_seconds: float,
    ) -> None:
        """Plan moves from a new snapshot, and judge the open plan by it.

        Args:
            desired: policy, wishes, the open plan.
            snapshot: what was measured.
            routed: topics that may be routed.
            routes: the newest weights.
            observed_seconds: for how long growth has been watched.

        Raises:
            InputError: the snapshot holds an impossible value.
        """
        self.runner.judge(desired, snapshot)
        if desired.policy.mode is BalanceMode.DISABLED:
            self.moves = MovesReport(Reason.DISABLED, "spec.balance.mode is Disabled")
            return
        standing = self.moves.proposal if self.moves is not None else None
        continuing = self.runner.unfinished
        request = build_request(
            desired, snapshot, routed, routes, continuing=continuing or standing is not None
        )
        plan = plan_moves(snapshot, desired.policy, request)
        self._note_away(snapshot)
        wait = self._find_wait(standing, desired, observed_seconds if routed else None)
        if wait is None:
            proposal = decide_proposal(standing, plan, snapshot, desired)
        else:
            proposal = standing if is_welcome(desired) else None
        if plan.moves:
            if wait is not None and proposal is None:
                plan = replace(plan, reason=Reason.PENDING, message=wait, moves=(), bytes=0)
        elif wait is None and plan.reason is not Reason.SNAPSHOT_INCOMPLETE:
            # Of a snapshot that does not count, or that lacks a broker, "nothing to do" is no finding.
            self.runner.unfinished = False
        self.moves = build_moves_report(plan, self.moves, proposal if self._claim.held else None)

    def turn(self, desired: Desired) -> list[Fault]:
        """One turn of the open plan; as `PlanRunner.turn`."""
        return self.runner.turn(desired)

    def forget(self) -> None:
        """Another connection or cluster."""
        self.runner.forget()
        self.moves, self._away = None, {}

    def _note_away(self, snapshot: ClusterSnapshot) -> None:
        now = self._monotonic()
        away = (broker.id for broker in snapshot.brokers if broker.fenced or not broker.online)
        self._away = {broker: self._away.get(broker, now) for broker in away}

    def _find_wait(
        self, standing: ProposedPlan | None, desired: Desired, observed_seconds: float | None
    ) -> str | None:
        """Why what was measured is not what will stay; `observed_seconds` None: nothing is to be routed."""
        settles_at = self.runner.settles_at
        if settles_at is not None and self._monotonic() < settles_at:
            return "what the last plan moved away still lies on the disks: planned again once it is deleted"
        fresh = [
            broker
            for broker, since in sorted(self._away.items())
            if broker not in desired.policy.drain and self._monotonic() - since < PASSING_SECONDS
        ]
        if fresh:
            return f"broker {fresh[0]} is away: planned again when it is back, or in {PASSING_SECONDS:.0f} s"
        patience = min(PATIENCE_SECONDS, PATIENCE_INTERVALS * float(desired.policy.interval_seconds))
        if standing is None and observed_seconds is not None and observed_seconds < patience:
            return f"inflow is watched for {patience:.0f} s before it is said whether routing heals"
        return None
