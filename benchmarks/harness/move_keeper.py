"""A real keeper that routes and moves at once: routes of the client's topic, and an approved plan for the whole cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.harness.move_stage import LEAVE_PERCENT, LEVEL, LIVE, MoveStage
from benchmarks.harness.mover import Told
from evenkeel.cli.snapshot import build_connection, measure
from evenkeel.domain.exchange import DesiredTopic, Policy, Report, TopicRouting
from evenkeel.domain.moves import Approval, DesiredPlan, PlanReport, PlanState
from evenkeel.keeper.moving.settings import START_BYTES_PER_SECOND
from evenkeel.planning.moves import MovesRequest, plan_moves
from integration.keeper import Keeper, build_desired, plain, read_tables
from integration.processes import wait_until

INTERVAL_SECONDS = 5
HORIZON_SECONDS = 600
UID = "uid-of-the-plan"
MOVE_SECONDS = 600.0


@contextmanager
def steered(stage: MoveStage, folder: Path) -> Iterator[Keeper]:
    """A keeper that holds the claim and publishes routes for the client's topic; ended with the block."""
    desired = build_desired(plain(stage.cluster), "bench/one")
    policy = Policy(interval_seconds=INTERVAL_SECONDS, enter_percent=99, leave_percent=98)
    routed = DesiredTopic(
        owner_uid="owner-of-live", name=LIVE, routing=TopicRouting(horizon_seconds=HORIZON_SECONDS)
    )
    with Keeper(folder, desired) as keeper:
        keeper.want(policy=policy, topics=(routed,), propose=False)
        keeper.wait_claim(120)
        keeper.wait("routes", _routes_active, 120)
        yield keeper


def _routes_active(report: Report) -> bool:
    return any(one.name == LIVE and one.routes is not None and one.routes.active for one in report.topics)


def execute_by_keeper(stage: MoveStage, keeper: Keeper, throttle: int | None) -> dict[str, Any]:
    """Measure and plan, have the keeper run the plan as one that was approved -> how it went.

    Args:
        stage: filled.
        keeper: that of `steered`.
        throttle: bytes per second and broker; None: Auto.
    """
    credentials = keeper.folder / "none"
    credentials.mkdir(exist_ok=True)
    with stage.sampled() as samples:
        begun = time.monotonic()
        snapshot = measure(build_connection(stage.cluster.bootstrap, {}, credentials), 0)
        policy = Policy(enter_percent=3, leave_percent=LEAVE_PERCENT)
        plan = plan_moves(
            snapshot, policy, MovesRequest(throttle_bytes_per_second=throttle or START_BYTES_PER_SECOND)
        )
        tables = len(read_tables(stage.cluster.client_config()))
        keeper.want(
            plan=DesiredPlan(
                UID, "bench", plan.hash, Approval.APPROVED, plan.batches, snapshot.cluster_id, throttle
            )
        )
        told = _follow(keeper, begun)
        wait_until("level disks", lambda: samples[-1].deviation < LEVEL, seconds=30, every=0.5)
    written = len(read_tables(stage.cluster.client_config())) - tables
    return {**stage.summarise(plan.moves, samples, told, begun, throttle), "tablesWhileMoving": written}


def _follow(keeper: Keeper, begun: float) -> list[Told]:
    """The plan's reports as lines of a run, until it has ended."""
    told: list[Told] = [Told(begun, "begin")]

    def ended() -> PlanReport | None:
        report = keeper.report()
        plan = report.plan if report is not None else None
        if plan is None or plan.uid != UID:
            return None
        line = _line(plan)
        if (line.reason, line.batch, line.bytes_done) != (
            told[-1].reason,
            told[-1].batch,
            told[-1].bytes_done,
        ):
            told.append(line)
        return plan if plan.state is PlanState.FINISHED else None

    found = wait_until(
        "the end of the plan", ended, seconds=MOVE_SECONDS, every=0.5, processes=[keeper.process]
    )
    if found.moves_failed or found.moves_done < found.moves:
        raise AssertionError(f"the keeper did not move all: {found}")
    return told


def _line(plan: PlanReport) -> Told:
    return Told(
        time.monotonic(),
        "end" if plan.state is PlanState.FINISHED else "turn",
        reason=str(plan.reason),
        message=plan.message,
        state=str(plan.state),
        batch=plan.batch,
        batches=plan.batches,
        moves=plan.moves,
        moves_done=plan.moves_done,
        moves_failed=plan.moves_failed,
        bytes=plan.bytes,
        bytes_done=plan.bytes_done,
        bytes_per_second=plan.bytes_per_second,
    )
