"""Moves under four faults, each at a moment that a seed chooses: a short form of `benchmarks/moves_faults`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.harness import isr_watch
from benchmarks.harness.fault_kinds import FAULTS
from benchmarks.harness.fault_run import Case, play
from benchmarks.harness.fault_scene import start_cluster
from integration.kafka.cluster import KafkaCluster
from integration.kafka.disks import may_mount
from integration.kafka.network import Network, explain_missing

SCALE = 0.4
"""Of the executor's times: a frozen executor stands still for 12 s."""
CASES = [
    Case(0, "source-cancelled", 11),
    Case(1, "executor-frozen", 12),
    Case(2, "network-cut", 13),
    Case(3, "throttle-changed", 14),
]
Place = tuple[KafkaCluster, Network | None]


@pytest.fixture(scope="module")
def place(kafka_home: object) -> Iterator[Place]:
    """Four brokers with a small disk each, which can be cut off where the machine lets us."""
    if not may_mount():
        pytest.skip("disks of chosen sizes need root and loop devices")
    with ExitStack() as stack:
        network = None if explain_missing() else stack.enter_context(Network("test"))
        yield stack.enter_context(start_cluster(network)), network


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fault)
def test_a_fault_leaves_level_disks_or_nothing_of_ours(
    place: Place, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Twice as often as in the benchmark: a busy machine must not let it look less than twice a second.
    monkeypatch.setattr(isr_watch, "EVERY_SECONDS", 0.15)
    missing = FAULTS[case.fault].missing()
    if missing:
        pytest.skip(missing)
    row = play(case, *place, tmp_path, SCALE)
    assert row["problems"] == [], row
    assert row["isrSamples"] >= 2 * row["endSeconds"], "twice a second at least"
