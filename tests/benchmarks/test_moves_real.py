from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from benchmarks import moves_report
from benchmarks.harness.move_stage import RECORD, Sample, Skew, find_level, find_throttles
from benchmarks.harness.mover import Told
from benchmarks.harness.results import build_result, check_result, read_other_rows
from integration.kafka.disks import MIB


def sample(at: float, *percent: float) -> Sample:
    return Sample(at, tuple(value / 100 for value in percent))


def test_level_is_when_the_deviation_falls_below_the_band_to_stay_there() -> None:
    samples = [
        sample(0, 60, 40),
        sample(5, 50.5, 49.5),
        sample(6, 53, 47),  # deleted files come and go
        sample(8, 51, 49),
        sample(9, 51, 49),
    ]
    assert find_level(samples, 1) == 8
    assert find_level(samples[:3], 1) is None
    assert samples[0].deviation == pytest.approx(0.2)


def test_the_skew_has_as_many_bytes_and_partitions_as_it_says() -> None:
    skew, rng = Skew(), random.Random(1)
    count = skew.topics * skew.partitions
    assert count >= 200
    assert skew.mib >= 2048
    records = skew.draw_records(count, rng)
    assert sum(records) * RECORD == pytest.approx(skew.mib * MIB, rel=0.01)
    rows = skew.draw_rows(2000, rng)
    assert all(len(set(row)) == skew.copies for row in rows)
    held = [sum(broker in row for row in rows) for broker in skew.brokers]
    assert held == sorted(held, reverse=True)
    used = skew.mib * skew.copies / len(skew.shares) / skew.disk_mib
    assert used * len(skew.shares) * max(held) / sum(held) < 0.85, "the fullest disk has room"


def second(at: int, latency: float | None) -> dict[str, Any]:
    return {"at": at, **{f"{kind}P{p}Ms": latency for kind in moves_report.KINDS for p in (50, 99)}}


def build_row(moving_ms: float = 15.0, ratio: float | None = 1.1, lost: int = 0) -> dict[str, Any]:
    """Idle to 20, moving to 40, idle to 60."""
    seconds = [second(at, moving_ms if 20 <= at < 40 else 10.0) for at in range(60)]
    tally = {"acked": 9, "failed": 0, "lost": lost, "repeated": 0, "damaged": 0}
    return {
        "scene": "timed",
        "throttle": 5,
        "rounds": [
            {
                "idle": {"from": 0, "to": 20},
                "from": 19,
                "movingFrom": 20,
                "to": 40,
                "ratio": ratio,
                "idealSeconds": 10.0,
                "levelSeconds": 11.0,
                "batches": 1,
                "planBytes": 5,
                "moves": [1, 2],
                "deviationBefore": 0.3,
                "deviationAfter": 0.02,
                "samples": [[0.0, [0.6, 0.4]], [20.0, [0.5, 0.5]]],
            }
        ],
        "lastIdle": {"from": 40, "to": 60},
        "client": {"records": tally, "seconds": [*seconds, second(60, None)]},
        "data": {**tally, "lost": 0},
        "partitions": 240,
    }


def test_a_moving_phase_is_compared_with_the_idle_ones_around_it() -> None:
    assert moves_report.find_ratios(build_row(), "produce", 99) == [1.5]
    seconds = moves_report.choose_seconds(build_row(), 20, 40, "produceP99Ms")
    assert seconds == [15.0] * 16, "without the edges"


@pytest.mark.parametrize(
    ("row", "holds"),
    [
        (build_row(), [True, True, True, True]),
        (build_row(moving_ms=21), [True, False, False, True]),
        (build_row(ratio=1.3), [False, True, True, True]),
        (build_row(ratio=None), [False, True, True, True]),
        (build_row(lost=1), [True, True, True, False]),
    ],
)
def test_bars_are_of_time_latency_and_records(row: dict[str, Any], holds: list[bool]) -> None:
    assert [bar["holds"] for bar in moves_report.build_bars([row])] == holds


def test_without_a_throttle_of_the_users_there_is_no_ideal_time() -> None:
    bars = moves_report.build_bars([{**build_row(ratio=None), "scene": "auto", "throttle": None}])
    assert [bar["name"].split(" p99")[0] for bar in bars] == [
        "auto: produce",
        "auto: consume",
        "auto: records lost, repeated or damaged",
    ]


def test_a_throttle_is_told_when_it_changes() -> None:
    rates = ((1.0, 0), (2.0, 10), (3.0, 10), (4.5, 5), (6.0, 10))
    told = [Told(at, "turn", bytes_per_second=rate) for at, rate in rates]
    assert find_throttles(told, 1.0) == [(1.0, 10), (3.5, 5), (5.0, 10)]


def test_rounds_are_told_and_drawn(tmp_path: Path) -> None:
    auto = build_row(ratio=None)
    auto["rounds"][0] |= {"idealSeconds": None, "throttles": [[0.0, 10_000_000]]}
    rows = [build_row(), {**build_row(), "scene": "routed"}, {**auto, "scene": "auto", "throttle": None}]
    result = build_result("moves_real", {}, rows, moves_report.build_bars(rows))
    check_result(result)
    moves_report.print_tables(result)
    moves_report.draw(result, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"moves_real.svg", "moves_real.png"}


def test_scenes_that_are_not_made_again_keep_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "moves_real.json"
    assert read_other_rows(path, "scene", ["timed"]) == []
    path.write_text(json.dumps({"rows": [{"scene": "timed"}, {"scene": "routed"}]}))
    assert read_other_rows(path, "scene", ["timed"]) == [{"scene": "routed"}]
