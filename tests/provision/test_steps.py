from __future__ import annotations

import threading
import time

import pytest

from scripts.provision import steps


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_stopped", threading.Event())
    monkeypatch.setattr(steps, "finished", [])


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
    while not steps._running:
        time.sleep(0.01)
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
