from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from evenkeel.cli import execute
from evenkeel.cli.execute import Session, describe, run_plan
from evenkeel.cli.main import main
from evenkeel.cli.stop import Stop
from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Owner
from evenkeel.errors import ConfigurationError, EvenkeelError, FencedError, InputError, RetryableError
from evenkeel.keeper import claim as claim_module
from evenkeel.keeper.claim import ClaimRecord, ClaimState, FoundClaim
from evenkeel.keeper.moving.executor import Executor
from evenkeel.keeper.moving.plan import ApprovedPlan, approve_batches
from evenkeel.keeper.moving.progress import MoveProgress
from evenkeel.keeper.moving.run import AWAY_SECONDS, Run, RunState
from evenkeel.keeper.moving.settings import Control, MoveSettings
from evenkeel.keeper.moving.steps import DropRate, Step
from evenkeel.reasons import Reason
from tests.support.moving_kafka import MB
from tests.support.moving_world import T0, T1, Life, World, assert_clean, two_batches, until_copying

PLAN = approve_batches("abc", [])
"""For what does not look into it."""


def test_a_plan_without_moves_needs_no_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"hash": "", "moves": []}')
    assert main(["execute", "--plan", str(path), "--bootstrap", "nowhere:1"]) == 0
    assert "NothingToDo" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "value"), [("--throttle", "10"), ("--throttle", "fast"), ("--max-fill-percent", "100")]
)
def test_wrong_options_are_bad_input(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["execute", "--plan", "-", "--bootstrap", "nowhere:1", option, value]) == 2
    assert f"not {value}" in capsys.readouterr().err


class Simulated:
    """The executor on a simulated Kafka; time passes with each turn."""

    def __init__(self, world: World) -> None:
        self.world = world

    def turn(self, plan: ApprovedPlan, settings: MoveSettings) -> MoveProgress:
        try:
            return self.world.executor.turn(plan, settings)
        finally:
            self.world.kafka.tick(1)


class Quick(Stop):
    """Does not wait."""

    def wait(self, seconds: float) -> None:
        pass


class Shown:
    """What was shown; presses Ctrl-C when something is seen."""

    def __init__(self, stop: Stop, when: Callable[[MoveProgress], bool] = lambda _: False) -> None:
        self.lines: list[str] = []
        self._stop, self._when = stop, when

    def __call__(self, found: MoveProgress | EvenkeelError, control: Control) -> None:
        self.lines.append(describe(found, control))
        if isinstance(found, MoveProgress) and self._when(found):
            self._stop.press()


def run(world: World, stop: Stop, shown: Shown) -> MoveProgress:
    settings = world.settings
    return run_plan(Simulated(world), world.plan, settings, stop, shown, lambda: world.kafka.now)


def test_a_plan_runs_to_its_end() -> None:
    world, stop = two_batches(), Quick()
    shown = Shown(stop)
    assert run(world, stop, shown).reason is Reason.MOVED
    assert "batch 2 of 2, 1 of 2 moves" in shown.lines
    assert_clean(world.kafka)


def test_ctrl_c_once_finishes_the_batch() -> None:
    world, stop = two_batches(), Quick()
    shown = Shown(stop, lambda found: stop.presses == 0 and found.bytes_done > 0)
    assert run(world, stop, shown).reason is Reason.MOVES_CANCELLED
    assert [world.kafka.partition(key).replicas for key in (T0, T1)] == [[3], [1]]
    assert any(line.startswith("finishing the batch; ") for line in shown.lines)


def test_ctrl_c_twice_cancels() -> None:
    world, stop = two_batches(), Quick()
    shown = Shown(stop, lambda found: stop.presses < 2 and found.bytes_done > 0)
    assert run(world, stop, shown).reason is Reason.MOVES_CANCELLED
    assert [world.kafka.partition(key).replicas for key in (T0, T1)] == [[1], [1]]
    assert_clean(world.kafka)


def leave(world: World) -> None:
    """Ctrl-C three times, one in each turn in which something is copied."""
    stop = Quick()
    with pytest.raises(KeyboardInterrupt):
        run(world, stop, Shown(stop, lambda found: found.bytes_done > 0))
    assert world.journaled.state is RunState.RUNNING


def begin_again(world: World) -> None:
    """As the command does: its executor runs a plan that has ended once more."""
    world.executor = Executor(
        lambda: world.kafka, Life(world.journal), monotonic=lambda: world.kafka.now, again=True
    )


def test_after_three_ctrl_c_the_next_run_of_the_plan_finishes_the_cancelling_and_says_so() -> None:
    world, stop = two_batches(), Quick()
    leave(world)
    begin_again(world)
    shown = Shown(stop)
    last = run(world, stop, shown)
    assert (last.reason, last.message) == (
        Reason.MOVES_CANCELLED,
        "stopped: 0 moves done, the rest did not run",
    )
    assert any("MovesCancelled: " in line for line in shown.lines)
    assert [world.kafka.partition(key).replicas for key in (T0, T1)] == [[1], [1]]
    assert_clean(world.kafka)


def test_after_three_ctrl_c_the_run_after_the_next_begins_anew() -> None:
    world = two_batches()
    leave(world)
    begin_again(world)
    run(world, Quick(), Shown(Quick()))
    begin_again(world)
    assert run(world, Quick(), Shown(Quick())).reason is Reason.MOVED
    assert [world.kafka.partition(key).replicas for key in (T0, T1)] == [[3], [3]]


def test_a_plan_runs_after_what_an_interrupted_one_has_left() -> None:
    world, stop = two_batches(), Quick()
    world.journal.text = codec.dumps(Run("another plan", "a"))  # between two batches: nothing under way
    world.restart()
    assert run(world, stop, Shown(stop)).reason is Reason.MOVED
    assert [world.kafka.partition(key).replicas for key in (T0, T1)] == [[3], [3]]


def test_what_an_interrupted_plan_does_yet_is_told_as_its() -> None:
    world, stop = two_batches(), Quick()
    until_copying(world)
    world.plan = approve_batches("b", world.plan.batches[1:])
    world.restart()
    shown = Shown(stop)
    run(world, stop, shown)
    assert any("PlanOutdated: an earlier plan: cancelling 1 moves" in line for line in shown.lines)


def take_over() -> World:
    """A process that has begun another plan died while it copied."""
    world = two_batches()
    until_copying(world)
    world.plan = approve_batches("b", world.plan.batches[1:])
    world.want(bytes_per_second=2 * MB)  # longer than the wait after an end
    world.restart()
    return world


def test_an_end_of_another_plan_does_not_shorten_the_wait_for_throttles() -> None:
    world, stop = take_over(), Quick()
    lost: list[Step] = []

    def lose(step: Step) -> None:
        moved = world.kafka.partition(T1).replicas == [3] and not world.kafka.partition(T1).adding
        if isinstance(step, DropRate) and moved and not lost:
            lost.append(step)
            world.kafka.delay = 3.0

    world.kafka.before_call = lose
    assert run(world, stop, Shown(stop)).clean
    assert lost
    assert_clean(world.kafka)


def test_time_without_an_answer_is_no_wait_for_throttles() -> None:
    world, stop = two_batches(), Quick()
    kafka = world.kafka
    ended: list[float] = []

    def fail(step: Step) -> None:
        if isinstance(step, DropRate) and not ended:
            kafka.blind = {1}

    def cut(found: MoveProgress | EvenkeelError, control: Control) -> None:
        if isinstance(found, MoveProgress) and found.state is not RunState.RUNNING and not ended:
            ended.append(kafka.now)
            kafka.cut = True
        elif ended and kafka.now - ended[0] > 2 * AWAY_SECONDS:
            kafka.cut, kafka.blind = False, set()

    kafka.before_call = fail
    assert run_plan(Simulated(world), world.plan, world.settings, stop, cut, lambda: kafka.now).clean
    assert ended
    assert_clean(kafka)


def test_a_run_that_goes_on_once_more_has_the_whole_wait_at_its_end() -> None:
    running = MoveProgress(PLAN.id, "abc", Reason.MOVING, "", clean=False)
    ended = replace(running, state=RunState.FINISHED)
    over = replace(ended, clean=True)
    told = [(0.0, ended), (2 * AWAY_SECONDS, running), (2 * AWAY_SECONDS, ended), (2 * AWAY_SECONDS, over)]
    now = [0.0]

    class Told:
        def turn(self, plan: ApprovedPlan, settings: MoveSettings) -> MoveProgress:
            now[0], found = told.pop(0)
            return found

    stop = Quick()
    assert run_plan(Told(), PLAN, MoveSettings(), stop, Shown(stop), lambda: now[0]).clean


def test_a_network_that_is_cut_is_waited_for() -> None:
    world, stop = two_batches(), Quick()
    world.kafka.cut = True
    shown = Shown(stop)

    def heal(found: MoveProgress | EvenkeelError, control: Control) -> None:
        shown(found, control)
        world.kafka.cut = len(shown.lines) < 3

    settings = world.settings
    last = run_plan(Simulated(world), world.plan, settings, stop, heal, lambda: world.kafka.now)
    assert last.reason is Reason.MOVED
    assert shown.lines[0] == "BrokersUnreachable: no broker answers"


def test_throttles_of_a_broker_that_stays_away_are_told_after_a_minute() -> None:
    world, stop = two_batches(), Quick()
    shown = Shown(stop)

    def lose(found: MoveProgress | EvenkeelError, control: Control) -> None:
        shown(found, control)
        own = world.kafka.brokers[3]
        if isinstance(found, MoveProgress) and found.bytes_done > 0 and own.online:
            stop.presses = 2
            world.kafka.kill(3)

    settings = world.settings
    last = run_plan(Simulated(world), world.plan, settings, stop, lose, lambda: world.kafka.now)
    assert not last.clean
    assert "throttles of brokers [3] remain" in last.message


@pytest.mark.parametrize(
    "error", [ConfigurationError("no right"), InputError("other cluster"), EvenkeelError("odd")]
)
def test_what_time_does_not_heal_ends_it(error: EvenkeelError) -> None:
    class Failing:
        def turn(self, plan: ApprovedPlan, settings: MoveSettings) -> MoveProgress:
            raise error

    stop = Quick()
    with pytest.raises(type(error), match=error.message):
        run_plan(Failing(), PLAN, MoveSettings(), stop, Shown(stop))


def test_a_bar_without_a_terminal_prints_changes(capsys: pytest.CaptureFixture[str]) -> None:
    found = MoveProgress("p", "n", Reason.MOVING, "", batch=1, batches=2, moves=4, bytes=100, bytes_done=50)
    with execute.Bar.open() as bar:
        bar.show(RetryableError("no answer", reason=Reason.BROKERS_UNREACHABLE), Control.RUN)
        bar.show(found, Control.RUN)
        bar.show(found, Control.RUN)
    told = capsys.readouterr().err
    assert told.count("batch 1 of 2, 0 of 4 moves\n") >= 1
    assert "BrokersUnreachable: no answer" in told


def test_a_command_that_was_fenced_gives_nothing_back_that_is_its_successors() -> None:
    claim, mover = MagicMock(), MagicMock()
    session = Session(Connection(("b:1",)), Owner("i", "n", "n"), "c", claim, mover)
    mover.turn.side_effect = FencedError("taken")
    with pytest.raises(FencedError):
        session.turn(PLAN, MoveSettings())
    session.close()
    claim.release.assert_not_called()
    claim.drop.assert_called_once_with()


def test_a_command_that_finds_its_claim_taken_moves_nothing_and_gives_nothing_back() -> None:
    claim, mover = MagicMock(), MagicMock()
    session = Session(Connection(("b:1",)), Owner("i", "n", "n"), "c", claim, mover)
    claim.keep.side_effect = FencedError("taken")
    with pytest.raises(FencedError):
        session.turn(PLAN, MoveSettings())
    session.close()
    mover.turn.assert_not_called()
    claim.release.assert_not_called()


def test_a_command_that_was_replaced_under_its_name_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[FoundClaim | None] = [None]
    monkeypatch.setattr(execute, "probe", MagicMock())
    monkeypatch.setattr(execute, "_prepare", lambda _connection: "c")
    monkeypatch.setattr(claim_module, "FencedAppender", MagicMock())
    monkeypatch.setattr(claim_module, "_read", lambda _connection: found[0])
    session = Session.open(Connection(("b:1",)), "n")
    session.claim.drop()  # as after a write in doubt
    found[0] = FoundClaim(ClaimRecord(execute.INSTALLATION, "n", "n", 2, ClaimState.RELEASED), 5, 0)
    with pytest.raises(FencedError):
        session.turn(PLAN, MoveSettings())


def test_a_command_that_ends_while_a_successor_runs_says_nothing_of_a_claim_that_stays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    claim = MagicMock()
    claim.release.side_effect = FencedError("taken")
    Session(Connection(("b:1",)), Owner("i", "n", "n"), "c", claim, MagicMock()).close()
    claim.drop.assert_called_once_with()
    assert not capsys.readouterr().err


def test_a_command_that_ends_gives_the_cluster_free() -> None:
    claim = MagicMock()
    Session(Connection(("b:1",)), Owner("i", "n", "n"), "c", claim, MagicMock()).close()
    claim.release.assert_called_once()
