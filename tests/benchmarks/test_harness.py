from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.job import WriteJob, Written
from benchmarks.harness.order import Estimate, interleave
from benchmarks.harness.results import Ledger, bar, build_result, check_result, save_result
from benchmarks.harness.statistics import percentile, recovered, spread, summarise


def test_summary_is_median_and_range() -> None:
    found = summarise([3.0, 1.0, 2.0])
    assert (found.median, found.lowest, found.highest, found.runs) == (2.0, 1.0, 3.0, 3)
    with pytest.raises(ValueError, match="no runs"):
        summarise([])


@pytest.mark.parametrize(
    ("uniform", "optimal", "reached", "share"),
    [
        (0.8, 0.6, 0.6, 1.0),
        (0.8, 0.6, 0.62, 0.9),
        (0.8, 0.6, 0.8, 0.0),
        (0.8, 0.6, 0.9, -0.5),
        (0.601, 0.6, 0.6, None),
    ],
)
def test_recovered_share(uniform: float, optimal: float, reached: float, share: float | None) -> None:
    found = recovered(uniform, optimal, reached)
    assert found == (None if share is None else pytest.approx(share))


def test_spread_and_percentile() -> None:
    assert spread([0.2, 0.7, 0.5]) == pytest.approx(0.5)
    assert percentile([4, 1, 3, 2], 50) == 2.5
    assert percentile([1, 2, 3], 100) == 3
    with pytest.raises(ValueError, match="percentile 101"):
        percentile([1.0], 101)


def test_order_has_all_arms_in_each_round_and_follows_the_seed() -> None:
    order = interleave("abc", 4, 3)
    assert [repeat for repeat, _ in order] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert all(sorted(arm for repeat, arm in order if repeat == n) == ["a", "b", "c"] for n in range(4))
    assert order == interleave("abc", 4, 3)
    assert len({tuple(arm for repeat, arm in order if repeat == n) for n in range(4)}) > 1


def test_estimate_learns_from_runs() -> None:
    now = 0.0
    estimate = Estimate(10, 5.0, lambda: now)
    assert estimate.seconds_left == 50
    now = 8.0
    estimate.finish()
    assert estimate.seconds_left == 72
    estimate.finish()
    assert estimate.seconds_left == 32


def test_a_job_travels_as_json() -> None:
    job = WriteJob("h:1", "t", "evenkeel", 10, 2.5, config={"linger.ms": "5"})
    assert WriteJob.from_json(job.to_json()) == job


def test_the_answer_is_the_last_line_of_json() -> None:
    said = Written(5, 0, 1.0)
    output = 'noise\n{"bytes_acked": 1, "bytes_failed": 0, "seconds": 0.1}\n'
    output += '{"bytes_acked": 5, "bytes_failed": 0, "seconds": 1.0}\nmore noise\n'
    assert Written.from_output(output) == said
    with pytest.raises(ValueError, match="told nothing"):
        Written.from_output("a traceback")


def test_results_hold_the_machine_and_are_written_whole(tmp_path: Path) -> None:
    result = build_result("x", {"repeats": 1}, [{"arm": "a"}], [bar("b", "<= 1", 0.5, holds=True)], extra=1)
    path = save_result(result, tmp_path)
    found = json.loads(path.read_text())
    assert path.name == "x.json"
    assert found["machine"]["cores"] > 0
    assert found["rows"] == [{"arm": "a"}]
    assert found["extra"] == 1
    assert not list(tmp_path.glob("*.tmp"))


def test_every_row_is_on_disk_at_once(tmp_path: Path) -> None:
    ledger = Ledger([{"arm": "old"}], lambda rows: build_result("x", {}, rows), tmp_path, "y")
    for arm in ("a", "b"):
        ledger.add({"arm": arm})
        assert json.loads((tmp_path / "y.json").read_text())["rows"][-1] == {"arm": arm}
    assert len(json.loads((tmp_path / "y.json").read_text())["rows"]) == 3


@pytest.mark.parametrize(
    ("field", "value"),
    [("rows", None), ("machine", []), ("schemaVersion", "1"), ("bars", [{"name": "b"}])],
)
def test_incomplete_results_are_refused(field: str, value: Any) -> None:
    result = build_result("x", {}, [])
    check_result(result)
    with pytest.raises(ValueError, match=field):
        check_result({**result, field: value})
