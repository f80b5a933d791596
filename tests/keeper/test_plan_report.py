from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Desired, Owner
from evenkeel.domain.moves import Approval, Batch, DesiredPlan, Move, PlanReport, PlanState
from evenkeel.keeper.moving.progress import MoveProgress
from evenkeel.keeper.moving.run import RunState
from evenkeel.keeper.moving.settings import Control
from evenkeel.keeper.plan_report import build_running, choose_control, differs_visibly
from evenkeel.reasons import Reason

DESIRED = Desired(owner=Owner("i", "u", "ns/c"), connection=Connection(("k:1",)))
MOVE = Move("t", 0, (1,), (2,), 100)
PLAN = DesiredPlan("uid", "name", "hash", Approval.APPROVED, (Batch(0, (MOVE,), 1.0, 100),))


def progress(done: int = 0, reason: Reason = Reason.MOVING, **more: object) -> MoveProgress:
    found = MoveProgress(
        "id", "hash", reason, "said", batch=1, batches=1, moves=1, bytes=100, bytes_done=done, clean=False
    )
    return replace(found, **more)  # type: ignore[arg-type]


def tell(*steps: MoveProgress, plan: DesiredPlan = PLAN, desired: Desired = DESIRED) -> PlanReport:
    report = None
    for step in steps:
        report = build_running(plan, desired, step, report)
    assert report is not None
    return report


def reasons(report: PlanReport) -> list[Reason]:
    return [event.reason for event in report.events]


def test_a_change_of_reason_is_told_once() -> None:
    held = progress(10, Reason.THROTTLE_OVERRIDDEN)
    told = tell(progress(), held, held, progress(11), held)
    assert reasons(told) == [Reason.MOVING, Reason.THROTTLE_OVERRIDDEN, Reason.THROTTLE_OVERRIDDEN]


def test_only_the_newest_events_are_kept_and_numbers_go_on() -> None:
    told = tell(*(progress(10, Reason.MOVING if i % 2 else Reason.PAUSED) for i in range(60)))
    assert len(told.events) == 20
    assert told.events[-1].number == 31


def test_throttles_that_wait_for_a_broker_keep_the_plan_open() -> None:
    ended = progress(100, Reason.MOVED, state=RunState.FINISHED)
    told = tell(progress(), ended, ended)
    assert (told.state, told.reason) == (PlanState.RUNNING, Reason.MOVING)
    over = replace(ended, clean=True)
    told = tell(progress(), ended, over)
    assert (told.state, told.reason) == (PlanState.FINISHED, Reason.MOVED)
    assert reasons(told).count(Reason.MOVED) == 1


def test_a_broker_that_stays_away_does_not_keep_the_plan_open() -> None:
    ended = progress(100, Reason.MOVED, state=RunState.FINISHED)
    told = tell(progress(), ended, replace(ended, away=True))
    assert (told.state, told.reason) == (PlanState.FINISHED, Reason.MOVED)


@pytest.mark.parametrize(
    ("approval", "state", "reason"),
    [
        (Approval.REJECTED, RunState.CANCELLED, Reason.PLAN_REJECTED),
        (Approval.REJECTED, RunState.FINISHED, Reason.MOVED),
        (Approval.APPROVED, RunState.CANCELLED, Reason.MOVES_CANCELLED),
    ],
)
def test_a_rejection_that_came_in_time_is_the_reason(
    approval: Approval, state: RunState, reason: Reason
) -> None:
    found = Reason.MOVED if state is RunState.FINISHED else Reason.MOVES_CANCELLED
    end = progress(100, found, state=state, clean=True)
    assert tell(progress(), end, plan=replace(PLAN, approval=approval)).reason is reason


def test_what_holds_up_a_paused_plan_is_told() -> None:
    paused = replace(DESIRED, paused=True)
    assert tell(progress(), desired=paused).reason is Reason.PAUSED
    told = tell(progress(reason=Reason.MOVE_HELD), desired=paused)
    assert (told.state, told.reason) == (PlanState.PAUSED, Reason.MOVE_HELD)


@pytest.mark.parametrize(
    ("approval", "paused", "control"),
    [
        (Approval.APPROVED, False, Control.RUN),
        (Approval.APPROVED, True, Control.PAUSE),
        (Approval.PENDING, False, Control.PAUSE),
        (Approval.REJECTED, True, Control.CANCEL),
    ],
)
def test_wishes_become_controls(approval: Approval, *, paused: bool, control: Control) -> None:
    assert choose_control(replace(PLAN, approval=approval), replace(DESIRED, paused=paused)) is control


def test_the_time_that_is_left_is_told_in_steps() -> None:
    steps = [progress(i, eta_seconds=100 - i) for i in range(0, 30, 5)]
    assert tell(steps[0], steps[1]).eta_seconds == 100
    assert tell(*steps[:4]).eta_seconds == 85


def test_progress_alone_is_nothing_to_hurry_with() -> None:
    before = tell(progress(10))
    assert not differs_visibly(before, tell(progress(10), progress(20, message="other")))
    assert differs_visibly(before, tell(progress(10), progress(26)))
    assert differs_visibly(None, before)


STEPS = st.tuples(st.integers(0, 100), st.sampled_from([Reason.MOVING, Reason.MOVE_HELD, Reason.PAUSED]))


@given(st.lists(STEPS, min_size=1, max_size=30))
def test_numbers_count_up_and_no_quarter_is_told_twice(steps: list[tuple[int, Reason]]) -> None:
    report, told = None, {}
    for done, reason in steps:
        report = build_running(PLAN, DESIRED, progress(done, reason), report)
        told |= {event.number: event for event in report.events}
    assert sorted(told) == list(range(1, len(told) + 1))
    if len(told) <= 20:  # beyond, what was told first is forgotten
        quarters = [event.message for event in told.values() if event.reason is Reason.MOVING]
        assert len(quarters) == len(set(quarters))
