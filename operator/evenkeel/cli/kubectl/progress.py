"""How far a plan is, as one line and as a bar that moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from rich.filesize import decimal

from evenkeel.api.rebalance_plan import RebalancePlan
from evenkeel.cli.words import HELD, LEAVES, count, tell_seconds
from evenkeel.domain.moves import Approval, PlanState
from evenkeel.reasons import ConditionType, Reason

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

WIDTH = 30


def draw_progress(percent: int) -> str:
    """A bar of text."""
    done = max(0, min(WIDTH, percent * WIDTH // 100))
    return HELD * done + LEAVES * (WIDTH - done)


def tell_progress(plan: RebalancePlan) -> str:
    """State, batch, moves, bytes and time left."""
    status = plan.status
    if not plan.has_begun:
        return _tell_standing(plan)
    parts = [
        status.state.value if status.state else "",
        f"batch {status.batch} of {status.batches}",
        f"{status.moves_done} of {count(status.moves, 'move')}",
        f"{decimal(status.bytes_done)} of {decimal(status.bytes)}",
    ]
    if status.moves_failed:
        parts.append(f"{status.moves_failed} not moved")
    if status.bytes_per_second:
        parts.append(f"at most {decimal(status.bytes_per_second)}/s")
    if status.eta_seconds is not None:
        parts.append(f"about {tell_seconds(status.eta_seconds)} left")
    ready = status.condition(ConditionType.READY)
    odd = ready is not None and ready.reason not in (Reason.MOVING, status.state)
    return ", ".join(parts) + (f"; {ready.reason}: {ready.message}" if odd and ready is not None else "")


def tell_end(plan: RebalancePlan) -> str:
    """How it ended."""
    ready = plan.status.condition(ConditionType.READY)
    return "Finished" if ready is None else f"{ready.reason}: {ready.message}"


def _tell_standing(plan: RebalancePlan) -> str:
    ready = plan.status.condition(ConditionType.READY)
    if plan.is_finished:
        return tell_end(plan)
    if ready is not None:
        return ready.message
    if plan.spec.approval is Approval.REJECTED:
        return "rejected, being cancelled"
    if plan.spec.approval is Approval.APPROVED:
        return "approved, about to begin"
    checked = "" if plan.status.state is PlanState.PROPOSED else ", not checked by the keeper yet"
    return f"waits for a decision: kubectl evenkeel approve {plan.metadata.name}{checked}"


class Bar:
    """Progress for people: a bar on a terminal, a line per change elsewhere."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task
        self._told = ""

    @classmethod
    @contextmanager
    def open(cls, console: Console) -> Iterator[Self]:
        """Shown until the end of the block."""
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
        from rich.table import Column

        # Long sentences take a second line, not the bar's room.
        kept = Column(no_wrap=True, min_width=WIDTH)
        columns = (
            BarColumn(bar_width=WIDTH, table_column=kept),
            TaskProgressColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.description}", markup=False, table_column=Column()),
        )
        with Progress(*columns, console=console) as progress:
            yield cls(progress, progress.add_task("", total=100))

    def show(self, plan: RebalancePlan) -> None:
        """The newest."""
        text = tell_progress(plan)
        self._progress.update(self._task, completed=plan.status.percent, description=text)
        console = self._progress.console
        if text != self._told and not console.is_terminal:
            console.print(f"{plan.status.percent} % {text}", markup=False, highlight=False, soft_wrap=True)
        self._told = text
