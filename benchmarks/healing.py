"""Experiment 3: an existing imbalance healed by routing alone. `python -m benchmarks.healing --help`.

Disks are filled unevenly; then a topic is written at a steady rate until no disk deviates from the mean fill
by 3 % or more. The optimum is the fewest bytes with which any routing within the caps could get there.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import progress, results
from benchmarks.harness.arms import (
    ARMS,
    Arm,
    choose_arms,
    plan_runs,
    prepare_arms,
    split_job,
    stop_writers,
    writing,
)
from benchmarks.harness.job import WriteJob
from benchmarks.harness.layouts import HEALING, Layout
from benchmarks.harness.optimum import build_problem, deviation, least_bytes
from benchmarks.harness.options import choose
from benchmarks.harness.stage import DiskFill, Sample, Stage, sampled
from benchmarks.harness.steering import INTERVAL_SECONDS, steering
from benchmarks.healing_report import build_bars, draw, print_tables
from evenkeel.domain.exchange import TopicRouting
from integration.kafka.disks import MIB
from integration.processes import wait_until

TARGET = 0.03
DEFAULT_ARMS = ("evenkeel", "librdkafka", "most-free")
SAMPLE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    arms: tuple[Arm, ...]
    layouts: tuple[Layout, ...]
    repeats: int
    baseline_repeats: int
    mib_per_second: float
    writers: int
    lanes: int
    seed: int
    horizon_seconds: int
    record_bytes: int

    def runs(self) -> list[tuple[int, Arm]]:
        """Of one layout, in order."""
        return plan_runs(self.arms, self.repeats, self.baseline_repeats, self.seed)

    def parameters(self) -> dict[str, Any]:
        """For the result."""
        return {
            "arms": [arm.name for arm in self.arms],
            "repeats": self.repeats,
            "baselineRepeats": self.baseline_repeats,
            "mibPerSecond": self.mib_per_second,
            "writers": self.writers,
            "layoutsAtOnce": self.lanes,
            "seed": self.seed,
            "horizonSeconds": self.horizon_seconds,
            "recordBytes": self.record_bytes,
            "keeperIntervalSeconds": INTERVAL_SECONDS,
            "targetDeviation": TARGET,
        }


def run_layout(layout: Layout, options: Options, teller: progress.Teller, ledger: results.Ledger) -> None:
    """All arms on one cluster, interleaved; a row per run goes into the ledger."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evenkeel-bench-")))
        stage = stack.enter_context(Stage.open(layout))
        with steering(stage, folder / "first"):
            pass  # makes Evenkeel's own topics, which all runs find then
        for repeat, arm in options.runs():
            progress.check_stop()
            run = partial(run_arm, stage, arm, repeat, options, folder)
            row = progress.try_again(run, teller, f"{layout.name} {arm.name}")
            end = f"{row['healedBytes'] / MIB:.0f} MiB" if row["healedBytes"] is not None else "not healed"
            teller.tell(
                f"{layout.name:14} {arm.name:14} {end}, optimum {row['optimalBytes'] / MIB:.0f} MiB, "
                f"deviation {row['deviationBefore']:.1%} -> {row['deviationAfter']:.1%}"
            )
            ledger.add(row)


def run_arm(stage: Stage, arm: Arm, repeat: int, options: Options, folder: Path) -> dict[str, Any]:
    """Write by one arm until the disks are level or the layout's bytes are written; give the disk back."""
    topic, before = f"data-{repeat}-{arm.name}-{secrets.token_hex(2)}", stage.disks()
    stage.create_topic(topic)
    try:
        with ExitStack() as stack:
            if arm.routed:
                steer = stack.enter_context(steering(stage, folder / f"keeper-{topic}"))
                steer.follow_stream(topic, TopicRouting(horizon_seconds=options.horizon_seconds))
            row = _write(stage, arm, topic, options, folder)
    finally:
        stage.drop_topics([topic], before)
    return {"layout": stage.layout.name, "arm": arm.name, "repeat": repeat, **row}


def _write(stage: Stage, arm: Arm, topic: str, options: Options, folder: Path) -> dict[str, Any]:
    size = stage.layout.write_bytes
    problem = build_problem(stage.snapshot(topic), topic)
    seconds = size / MIB / options.mib_per_second
    job = WriteJob(stage.cluster.bootstrap, topic, arm.rule, size, seconds, options.record_bytes)
    with (
        writing(arm, split_job(job, options.writers), folder) as processes,
        sampled(stage, SAMPLE_SECONDS) as samples,
    ):

        def over() -> bool:
            progress.check_stop()
            level = bool(samples) and measure_deviation(samples[-1].disks) < TARGET
            return level or not any(process.running for process in processes)

        wait_until("level disks", over, seconds=3 * seconds + 120, every=0.1)
        written = stop_writers(processes)
    after = stage.disks()
    row = {
        "bytesAcked": written.bytes_acked,
        "bytesFailed": written.bytes_failed,
        "optimalBytes": least_bytes(problem, TARGET),
        "deviationBefore": deviation(problem.used, problem.capacity),
        "deviationAfter": measure_deviation(after),
        "rate": options.mib_per_second * MIB,
    }
    return row | summarise_series(samples, stage.layout.replication)


def measure_deviation(disks: Sequence[DiskFill]) -> float:
    """Of the disks as they are."""
    used = np.array([disk.used_bytes for disk in disks], dtype=np.float64)
    return deviation(used, np.array([disk.total_bytes for disk in disks], dtype=np.float64))


def summarise_series(samples: Sequence[Sample], replication: int, target: float = TARGET) -> dict[str, Any]:
    """When and after how many bytes (before replication) the target was met, and the series by second.

    Seconds count from the first sample in which bytes have come: a router first waits for its table.
    """
    start = sum(disk.used_bytes for disk in samples[0].disks)
    series = []
    for sample in samples:
        written = (sum(disk.used_bytes for disk in sample.disks) - start) / replication
        series.append((sample.second, written, measure_deviation(sample.disks), sample.disks))
    began = next((second for second, written, _, _ in series if written > MIB), series[-1][0])
    healed = next(((second, written) for second, written, found, _ in series if found < target), None)
    return {
        "healedBytes": None if healed is None else healed[1],
        "healedSeconds": None if healed is None else round(healed[0] - began, 1),
        "series": [
            {
                "second": round(second - began, 1),
                "writtenBytes": round(written),
                "deviation": round(found, 4),
                "fills": [round(disk.fill, 4) for disk in disks],
            }
            for second, written, found, disks in series
        ],
    }


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.healing", description=__doc__)
    names = ", ".join(layout.name for layout in HEALING)
    arms = ", ".join(arm.name for arm in ARMS)
    parser.add_argument("--layouts", nargs="*", default=[], help=f"of {names}; all")
    parser.add_argument("--arms", nargs="*", default=list(DEFAULT_ARMS), help=f"of {arms}")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--baseline-repeats", type=int, help="of the arms that are not ours; as --repeats")
    parser.add_argument("--rate", type=float, default=3.0, help="MiB/s of all producers together")
    parser.add_argument("--writers", type=int, default=2, help="producer processes of each run")
    parser.add_argument("--at-once", type=int, default=1, help="layouts side by side, each its own cluster")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--horizon", type=int, default=60, help="routing.horizonSeconds of the topic")
    parser.add_argument("--record-bytes", type=int, default=16_384)
    parser.add_argument("--only-plot", action="store_true", help="tables and plots of the last result again")
    parser.add_argument("--out", type=Path, default=results.FOLDER)
    return parser.parse_args(arguments)


def read_options(parsed: argparse.Namespace) -> Options:
    """Checked arguments.

    Raises:
        SystemExit: an unknown name.
    """
    return Options(
        arms=choose_arms(parsed.arms),
        layouts=choose("--layouts", {layout.name: layout for layout in HEALING}, parsed.layouts),
        repeats=parsed.repeats,
        baseline_repeats=parsed.repeats if parsed.baseline_repeats is None else parsed.baseline_repeats,
        mib_per_second=parsed.rate,
        writers=parsed.writers,
        lanes=parsed.at_once,
        seed=parsed.seed,
        horizon_seconds=parsed.horizon,
        record_bytes=parsed.record_bytes,
    )


def main(arguments: Sequence[str]) -> int:
    """Run, print, plot. Exit 1 where a bar does not hold."""
    parsed = parse(arguments)
    options = read_options(parsed)
    path = parsed.out / "healing.json"
    if not parsed.only_plot:
        prepare_arms(options.arms)
        total = len(options.layouts) * len(options.runs())
        longest = max(layout.write_bytes for layout in options.layouts) / MIB / options.mib_per_second
        teller = progress.Teller(total, longest, options.lanes)
        ledger = results.Ledger(
            (),
            lambda found: results.build_result("healing", options.parameters(), found, build_bars(found)),
            parsed.out,
            "healing",
        )
        with progress.ended_by_signals():
            progress.run_side_by_side(
                lambda layout: run_layout(layout, options, teller, ledger), options.layouts, options.lanes
            )
    result = json.loads(path.read_text(encoding="utf-8"))
    print_tables(result)
    draw(result, parsed.out)
    return 0 if all(bar["holds"] for bar in result["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
