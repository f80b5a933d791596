from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import healing_report, space_report
from benchmarks.harness.arms import ARMS, choose_arms, plan_runs, split_job
from benchmarks.harness.job import WriteJob
from benchmarks.harness.plots import COLOURS
from benchmarks.harness.results import build_result
from benchmarks.harness.stage import DiskFill, Sample
from benchmarks.healing import summarise_series
from integration.kafka.disks import MIB


def space_row(arm: str, reached: float, repeat: int = 0) -> dict[str, Any]:
    return {
        "layout": "l",
        "arm": arm,
        "repeat": repeat,
        "fullest": reached,
        "spread": 0.1,
        "uniform": 0.8,
        "optimum": 0.6,
        "regret": reached - 0.6,
        "recovered": (0.8 - reached) / 0.2,
    }


def sample(second: float, *used_mib: float) -> Sample:
    return Sample(
        second,
        [
            DiskFill(broker, "/", 100 * MIB, int((100 - used) * MIB))
            for broker, used in enumerate(used_mib, 1)
        ],
    )


def test_bars_are_of_medians_of_our_arms_only() -> None:
    rows = [space_row("evenkeel", fill, n) for n, fill in enumerate([0.61, 0.60, 0.75])]
    bars = space_report.build_bars([*rows, space_row("librdkafka", 0.8)])
    assert [(one["name"], one["holds"]) for one in bars] == [
        ("l evenkeel regret", True),
        ("l evenkeel recovered", True),
    ]
    worse = space_report.build_bars([space_row("evenkeel", 0.63)])
    assert [one["holds"] for one in worse] == [False, False]


def test_space_is_drawn_and_told(tmp_path: Path) -> None:
    rows = [space_row(arm.name, 0.7, n) for arm in ARMS for n in range(2)]
    overflow = [
        {"arm": "librdkafka", "brokersDead": [1], "samples": [{"second": 0.0, "fills": {"1": 0.5}}]},
        {"arm": "evenkeel", "brokersDead": [], "samples": [{"second": 0.0, "fills": {"1": 0.4}}]},
    ]
    result = build_result("space", {}, rows, space_report.build_bars(rows), overflow=overflow)
    space_report.print_tables(result)
    space_report.draw(result, tmp_path, "space")
    assert {path.name for path in tmp_path.iterdir()} == {
        "space.svg",
        "space.png",
        "space-overflow.svg",
        "space-overflow.png",
    }


def test_a_series_tells_when_the_target_was_met() -> None:
    samples = [
        sample(0, 30, 20),
        sample(5, 30, 20.1),  # the router waits for its table
        sample(6, 30, 22),
        sample(9, 30.2, 29.8),
        sample(10, 30.5, 30.5),
    ]
    found = summarise_series(samples, replication=1)
    assert found["healedBytes"] == pytest.approx(10 * MIB, rel=1e-6)
    assert found["healedSeconds"] == 3.0
    assert [point["second"] for point in found["series"]] == [-6.0, -1.0, 0.0, 3.0, 4.0]
    assert found["series"][0]["deviation"] == pytest.approx(0.2)


def test_a_series_that_never_levels_says_so() -> None:
    found = summarise_series([sample(0, 30, 20), sample(1, 40, 30)], replication=2)
    assert found["healedBytes"] is None
    assert found["healedSeconds"] is None
    assert found["series"][-1]["writtenBytes"] == 10 * MIB


def test_healing_is_drawn_and_held_to_bars(tmp_path: Path) -> None:
    rows = []
    for arm, healed in (("evenkeel", 10.0 * MIB), ("librdkafka", None), ("most-free", 8.0 * MIB)):
        series = summarise_series([sample(0, 30, 20), sample(1, 30, 30)], 1)
        rows.append(
            {
                "layout": "h",
                "arm": arm,
                "optimalBytes": 7.0 * MIB,
                "deviationAfter": 0.02,
                **series,
                "healedBytes": healed,
            }
        )
    bars = healing_report.build_bars(rows)
    assert [(one["name"], one["holds"]) for one in bars] == [
        ("h evenkeel healed runs", True),
        ("h evenkeel bytes / most-free bytes", False),
    ]
    result = build_result("healing", {"targetDeviation": 0.03}, rows, bars)
    healing_report.print_tables(result)
    healing_report.draw(result, tmp_path)
    assert (tmp_path / "h.svg").stat().st_size > 0


def test_every_arm_has_a_colour_and_jobs_share_the_bytes() -> None:
    assert set(COLOURS) == {arm.name for arm in ARMS}
    jobs = split_job(WriteJob("h:1", "t", "evenkeel", 100, 1.0), 4)
    assert [(job.bytes_total, job.writer, job.writers) for job in jobs] == [(25, n, 4) for n in range(4)]


def test_baselines_may_run_less_often() -> None:
    runs = plan_runs(ARMS, 3, 1, seed=1)
    counts = {arm.name: sum(found is arm for _, found in runs) for arm in ARMS}
    assert {counts.pop(name) for name in ("evenkeel", "evenkeel-java")} == {3}
    assert set(counts.values()) == {1}
    assert [repeat for repeat, _ in runs] == sorted(repeat for repeat, _ in runs)


def test_an_unknown_arm_is_refused() -> None:
    with pytest.raises(SystemExit, match="unknown"):
        choose_arms(["fastest"])
