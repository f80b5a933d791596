"""Experiment 2: write latency at fixed rates. `python -m benchmarks.latency --help`.

Evenkeel beside librdkafka's default on three clusters: a level one; one whose partitions are uneven and whose
disks have a fixed throughput, as rented ones do; and one with a slowed disk. On the level one both
write at once, record by record, and what counts is the ratio second by second. On the others they take turns:
the point is what an arm's own load does to the brokers, and at once it would do it to both.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import disk_limit, progress, results
from benchmarks.harness.layouts import Layout, single, spread
from benchmarks.harness.options import PYTHON_PATH, choose
from benchmarks.harness.pacer import PaceJob
from benchmarks.harness.stage import Stage
from benchmarks.harness.steering import INTERVAL_SECONDS, steering
from benchmarks.latency_report import build_bars, draw, print_tables
from evenkeel.domain.exchange import Score, TopicRouting
from integration.kafka.disks import MIB
from integration.processes import Process, wait_until

ARMS = ("evenkeel", "librdkafka")
SCORES = (Score("Storage"), Score("WriteLatency"))
HORIZON_SECONDS = 600
WARM_SECONDS = 45.0
"""Rates and round trips are told over a minute, tables come each 5 s."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One cluster, its disks' limits and the rate.

    Disks are so large that none comes near its limit of fill meanwhile: what is stopped then is no longer written
    as latency would have it.
    """

    layout: Layout
    rate: int
    record_bytes: int
    turn_seconds: float = 0.0
    gap_seconds: float = 0.0
    limited: Mapping[int, int] | None = None
    """Broker -> bytes per second that its disk takes."""


CONDITIONS = (
    Condition(
        Layout(
            "latency-level",
            "5 equal disks, level, RF 2",
            single([512] * 5, [0.3] * 5),
            spread([4] * 5, 2, 21),
            0,
        ),
        rate=1000,
        record_bytes=1024,
    ),
    Condition(
        Layout(
            "latency-skewed",
            "partitions 10:6:4:2:2 on level disks, RF 2, each disk takes 2 MiB/s",
            single([2048] * 5, [0.3] * 5),
            spread([10, 6, 4, 2, 2], 2, 22),
            0,
        ),
        rate=800,
        record_bytes=4096,
        turn_seconds=12,
        gap_seconds=4,
        limited=dict.fromkeys(range(1, 6), 2 * MIB),
    ),
    Condition(
        Layout(
            "latency-slowed",
            "5 equal disks, level, RF 2, one takes 1.5 MiB/s",
            single([2048] * 5, [0.3] * 5),
            spread([4] * 5, 2, 23),
            0,
        ),
        rate=800,
        record_bytes=4096,
        turn_seconds=12,
        gap_seconds=4,
        limited={1: 3 * MIB // 2},
    ),
)


def run_condition(condition: Condition, repeats: int) -> dict[str, Any]:
    """Both arms on one cluster -> the row of the result."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evenkeel-bench-")))
        stage = stack.enter_context(Stage.open(condition.layout))
        steer = stack.enter_context(steering(stage, folder / "keeper"))
        topics = {arm: f"data-{arm}" for arm in ARMS}
        for topic in topics.values():
            stage.create_topic(topic)
        steer.follow_stream(topics["evenkeel"], TopicRouting(SCORES, HORIZON_SECONDS))
        for broker, size in (condition.limited or {}).items():
            stack.enter_context(disk_limit.limited(stage.cluster, [broker], write=size))
        found = _pace(_build_job(condition, stage.cluster.bootstrap, topics, repeats), folder)
        routes = steer.routes(topics["evenkeel"])
        tables = steer.tables(topics["evenkeel"])
    return {
        "condition": condition.layout.name,
        "title": condition.layout.title,
        "rate": condition.rate,
        "recordBytes": condition.record_bytes,
        "turnSeconds": condition.turn_seconds,
        "gapSeconds": condition.gap_seconds,
        "warmSeconds": WARM_SECONDS,
        "limits": {str(broker): size for broker, size in (condition.limited or {}).items()},
        "arms": found,
        "tables": len(tables),
        "leaderShares": _leader_shares(condition.layout, tables[-1].weights) if tables else {},
        "routes": None if routes is None else str(routes.reason),
    }


def _build_job(condition: Condition, bootstrap: str, topics: Mapping[str, str], repeats: int) -> PaceJob:
    # Whole rounds of A B B A, and the warm-up whole turns as well.
    each = 4 * condition.turn_seconds if condition.turn_seconds else 30.0
    warm = WARM_SECONDS
    if condition.turn_seconds:
        warm = 4 * condition.turn_seconds
    return PaceJob(
        bootstrap,
        topics,
        condition.rate,
        condition.record_bytes,
        seconds=warm + repeats * each,
        turn_seconds=condition.turn_seconds,
        gap_seconds=condition.gap_seconds,
        warm_seconds=warm,
    )


def _pace(job: PaceJob, folder: Path) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.harness.pacer", job.to_json()]
    process = Process(words, folder / "pacer.log", PYTHON_PATH)
    try:

        def ended() -> bool:
            progress.check_stop()
            return not process.running

        wait_until("the pacer", ended, seconds=job.seconds + 180, every=0.5)
    finally:
        process.stop(10)
    for line in reversed(process.output().splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    raise ValueError(f"the pacer told nothing:\n{process.output()[-2000:]}")


def _leader_shares(layout: Layout, weights: Sequence[int]) -> dict[str, float]:
    """Share of the newest weights by leader: where the records went at the end."""
    shares: dict[str, float] = {}
    for row, weight in zip(layout.assignments, weights, strict=True):
        shares[str(row[0])] = shares.get(str(row[0]), 0.0) + weight / sum(weights)
    return {broker: round(share, 4) for broker, share in sorted(shares.items())}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    names = ", ".join(one.layout.name for one in CONDITIONS)
    parser.add_argument("--conditions", nargs="*", default=[], help=f"of {names}; all")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of A B B A, or of 30 s at once")
    parser.add_argument("--only-plot", action="store_true", help="tables and plots of the last result again")
    parser.add_argument("--out", type=Path, default=results.FOLDER)
    return parser.parse_args(arguments)


def choose_conditions(names: Sequence[str]) -> tuple[Condition, ...]:
    """Those named, all where none is.

    Raises:
        SystemExit: an unknown name, or disks cannot be limited here.
    """
    chosen = choose("--conditions", {one.layout.name: one for one in CONDITIONS}, names)
    why = disk_limit.explain_missing()
    if why and any(one.limited for one in chosen):
        raise SystemExit(why)
    return chosen


def main(arguments: Sequence[str]) -> int:
    """Run, print, plot. Exit 1 where a bar does not hold."""
    parsed = parse(arguments)
    path = parsed.out / "latency.json"
    if not parsed.only_plot:
        chosen = choose_conditions(parsed.conditions)
        teller = progress.Teller(len(chosen), 300, 1)
        parameters = {
            "repeats": parsed.repeats,
            "keeperIntervalSeconds": INTERVAL_SECONDS,
            "horizonSeconds": HORIZON_SECONDS,
            "scores": [score.name for score in SCORES],
        }
        rows: list[dict[str, Any]] = []
        with progress.ended_by_signals():
            for condition in chosen:
                rows.append(run_condition(condition, parsed.repeats))
                teller.tell(f"{condition.layout.name} done")
                results.save_result(
                    results.build_result("latency", parameters, rows, build_bars(rows)), parsed.out
                )
    result = json.loads(path.read_text(encoding="utf-8"))
    print_tables(result)
    draw(result, parsed.out)
    return 0 if all(bar["holds"] for bar in result["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
