from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.provision import steps


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(steps, "_stopped", threading.Event())
    monkeypatch.setattr(steps, "finished", [])
    # A shell's background job ignores Ctrl-C, and so would every command that it starts.
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_listens_is_interrupted_also_where_the_shell_set_it_to_be_ignored(number: int) -> None:
    signal.signal(number, signal.SIG_IGN)
    steps.listen()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_a_command_gives_its_output_and_takes_input() -> None:
    assert steps.run(["cat"], stdin=b"here") == "here"


def test_a_failed_command_is_told_with_what_it_said() -> None:
    with pytest.raises(steps.StepFailed, match=r"exit 3\nout of luck"):
        steps.run(["sh", "-c", "echo out of luck; exit 3"])


def test_a_command_that_hangs_ends_at_its_limit_even_when_its_children_keep_its_pipes() -> None:
    began = time.monotonic()
    with pytest.raises(steps.StepFailed, match="timed out"):
        steps.run(["sh", "-c", "sleep 3 & sleep 3"], timeout=0.2)
    assert time.monotonic() - began < 2


def test_stop_ends_what_runs_in_other_threads_and_starts_nothing_more() -> None:
    failures: list[steps.StepFailed] = []

    def sleep() -> None:
        try:
            steps.run(["sleep", "60"])
        except steps.StepFailed as error:
            failures.append(error)

    thread = threading.Thread(target=sleep)
    thread.start()
    wait_for(lambda: bool(steps._running))
    steps.stop()
    thread.join(10)
    assert len(failures) == 1
    with pytest.raises(steps.StepFailed, match="we are stopping"):
        steps.run(["true"])


def test_only_steps_that_ended_well_are_remembered() -> None:
    with steps.step("good"):
        pass
    with pytest.raises(steps.StepFailed), steps.step("bad"):
        raise steps.StepFailed("no")
    assert [step.title for step in steps.finished] == ["good"]


def test_stop_reaches_the_children_of_a_command(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    thread = threading.Thread(target=run_quietly, args=(f"sleep 60 & echo $! > {noted}; wait",))
    thread.start()
    wait_for(lambda: noted.is_file() and noted.read_text().strip().isdigit())
    steps.stop(signal.SIGTERM)
    thread.join(10)
    wait_for(lambda: not Path(f"/proc/{noted.read_text().strip()}").exists())


def test_a_command_that_must_not_be_left_half_done_ends_by_itself(tmp_path: Path) -> None:
    begun, done = tmp_path / "begun", tmp_path / "done"
    script = f"touch {begun}; sleep 0.5; touch {done}"
    thread = threading.Thread(target=lambda: steps.run(["sh", "-c", script], whole=True))
    thread.start()
    wait_for(begun.exists)
    steps.stop()
    thread.join(10)
    assert done.exists()


def run_quietly(script: str) -> None:
    with contextlib.suppress(steps.StepFailed):
        steps.run(["sh", "-c", script])


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
