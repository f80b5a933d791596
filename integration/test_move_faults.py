"""Moves under four faults, each at a moment that a seed chooses: a short form of `benchmarks/moves_faults`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.harness.fault_kinds import FAULTS
from benchmarks.harness.fault_run import Case, play
from benchmarks.harness.fault_scene import start_cluster
from integration.kafka.cluster import KafkaCluster
from integration.kafka.disks import may_mount

SCALE = 0.4
"""Of the executor's times: a frozen executor stands still for 12 s."""
CASES = [
    Case(0, "receiver-restarted", 11),
    Case(1, "executor-frozen", 12),
    Case(2, "conflicting-edit", 13),
    Case(3, "throttle-changed", 14),
]


@pytest.fixture(scope="module")
def cluster(kafka_home: object) -> Iterator[KafkaCluster]:
    """Four brokers with a small disk each."""
    if not may_mount():
        pytest.skip("disks of chosen sizes need root and loop devices")
    with start_cluster(None) as started:
        yield started


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fault)
def test_a_fault_leaves_level_disks_or_none_of_ours(
    cluster: KafkaCluster, case: Case, tmp_path: Path
) -> None:
    assert not FAULTS[case.fault].missing()
    row = play(case, cluster, None, tmp_path, SCALE)
    assert row["problems"] == [], row
    assert row["isrSamples"] >= 2 * row["faultSeconds"]
