"""Random interleavings of workers, crashes and lies: every record sealed exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from evenkeel.ingest.worker import STALE_SECONDS
from tests.support.chaos import DATA_FAULTS, INDEXES, JOURNAL_FAULTS, Chaos, write_source

PROCESSES = st.sampled_from(INDEXES)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source")
    write_source(root)
    return root


@pytest.mark.parametrize("seed", range(30))
def test_long_schedules_lose_and_repeat_nothing(source: Path, seed: int) -> None:
    chaos = Chaos(source)
    chaos.play(seed, actions=20 + 5 * seed)
    chaos.check_entries()
    chaos.finish()


def test_found_schedules_lose_and_repeat_nothing(source: Path) -> None:
    class Ingest(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.chaos = Chaos(source)

        @rule(turns=st.lists(PROCESSES, min_size=1, max_size=40))
        def work(self, turns: list[int]) -> None:
            for process in turns:
                self.chaos.step(process)

        @rule(process=PROCESSES, landed=st.integers(0, 3))
        def replace(self, process: int, landed: int) -> None:
            self.chaos.crash(process, landed)
            self.chaos.start(process)

        @rule(process=PROCESSES, fault=st.sampled_from(DATA_FAULTS))
        def data_fault(self, process: int, fault: str) -> None:
            self.chaos.data_fault(process, fault)

        @rule(process=PROCESSES, fault=st.sampled_from(JOURNAL_FAULTS))
        def journal_fault(self, process: int, fault: str) -> None:
            self.chaos.journal_fault(process, fault)

        @rule(process=PROCESSES, other=PROCESSES, steps=st.integers(1, 12))
        def interrupt(self, process: int, other: int, steps: int) -> None:
            self.chaos.interrupt(process, other, steps)

        @rule(process=PROCESSES)
        def release(self, process: int) -> None:
            self.chaos.release(process)

        @rule(seconds=st.sampled_from([1.0, STALE_SECONDS + 1]))
        def wait(self, seconds: float) -> None:
            self.chaos.wait(seconds)

        @rule(partition=st.integers(0, 2), place=st.integers(0, 12))
        def harm(self, partition: int, place: int) -> None:
            self.chaos.land()
            self.chaos.destroy(partition, place)

        @rule()
        def seal(self) -> None:
            self.chaos.seal()

        @invariant()
        def what_counts_is_in_the_log(self) -> None:
            self.chaos.check_entries()

        def teardown(self) -> None:
            self.chaos.finish()

    run = settings(
        max_examples=25,
        stateful_step_count=20,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    case = Ingest.TestCase
    case.settings = run
    case("runTest").debug()
