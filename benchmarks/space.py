"""Experiment 1: space under uneven partitions. `python -m benchmarks.space --help`.

On each layout the same bytes are written by each way to choose a partition; then the disks are measured.
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

from benchmarks.harness import progress, results
from benchmarks.harness.arms import (
    ARMS,
    Arm,
    choose_arms,
    gather_written,
    plan_runs,
    prepare_arms,
    split_job,
    writing,
)
from benchmarks.harness.job import WriteJob
from benchmarks.harness.layouts import SPACE, Layout
from benchmarks.harness.optimum import build_problem, least_fill, uniform_fill
from benchmarks.harness.options import choose
from benchmarks.harness.stage import Stage
from benchmarks.harness.statistics import recovered, spread
from benchmarks.harness.steering import INTERVAL_SECONDS, Steering, steering
from benchmarks.overflow import run_overflow
from benchmarks.space_report import build_bars, draw, print_tables
from evenkeel.domain.exchange import TopicRouting

START_SECONDS, RESET_SECONDS = 15.0, 12.0
"""Of a cluster, and of the time between two arms: only for the estimate."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    arms: tuple[Arm, ...]
    layouts: tuple[Layout, ...]
    repeats: int
    baseline_repeats: int
    seconds: float
    writers: int
    lanes: int
    seed: int
    stream: bool
    """True: routers' topics are known by their rate, not by a plan as of an ingest."""
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
            "writeSeconds": self.seconds,
            "writers": self.writers,
            "layoutsAtOnce": self.lanes,
            "seed": self.seed,
            "inflow": "stream" if self.stream else "planned",
            "recordBytes": self.record_bytes,
            "keeperIntervalSeconds": INTERVAL_SECONDS,
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
            teller.tell(
                f"{layout.name:18} {arm.name:14} fullest {row['fullest']:.1%} optimum {row['optimum']:.1%} "
                f"uniform {row['uniform']:.1%}"
            )
            ledger.add(row)


def run_arm(stage: Stage, arm: Arm, repeat: int, options: Options, folder: Path) -> dict[str, Any]:
    """Write the layout's bytes by one arm, measure, and give the disk back."""
    topic = f"data-{repeat}-{arm.name}-{secrets.token_hex(2)}"
    before, there = stage.disks(), stage.topics()
    try:
        stage.create_topic(topic)
        row = _steer_and_write(stage, arm, topic, options, folder)
    finally:
        stage.drop_topics(_made_since(stage, there), before)
    return {"layout": stage.layout.name, "arm": arm.name, "repeat": repeat, **row}


def _steer_and_write(stage: Stage, arm: Arm, topic: str, options: Options, folder: Path) -> dict[str, Any]:
    if not arm.routed:
        return _write(stage, arm, topic, options, folder, -1)
    with steering(stage, folder / f"keeper-{topic}") as steer:
        offset = _steer(steer, topic, stage.layout.write_bytes, options)
        row = _write(stage, arm, topic, options, folder, offset)
        row["tables"] = len(steer.tables(topic))
        steer.release()
    return row


def _write(stage: Stage, arm: Arm, topic: str, options: Options, folder: Path, offset: int) -> dict[str, Any]:
    """The layout's bytes by one arm -> what the disks show."""
    before, size = stage.disks(), stage.layout.write_bytes
    problem = build_problem(stage.snapshot(topic), topic)
    job = WriteJob(
        stage.cluster.bootstrap,
        topic,
        arm.rule,
        size,
        options.seconds,
        options.record_bytes,
        plan_offset=offset,
    )
    with writing(arm, split_job(job, options.writers), folder) as processes:
        written = gather_written(processes, 3 * options.seconds + 120)
    fills = [disk.fill for disk in stage.disks()]
    row: dict[str, Any] = {
        "bytesAcked": written.bytes_acked,
        "bytesFailed": written.bytes_failed,
        "seconds": written.seconds,
        "partitionBytes": [
            written.partition_bytes.get(str(number), 0) for number in range(problem.partitions)
        ],
        "fillsBefore": [round(disk.fill, 5) for disk in before],
        "fills": [round(fill, 5) for fill in fills],
        "fullest": max(fills),
        "spread": spread(fills),
        "uniform": uniform_fill(problem, written.bytes_acked),
        "optimum": least_fill(problem, written.bytes_acked),
    }
    row["regret"] = row["fullest"] - row["optimum"]
    row["recovered"] = recovered(row["uniform"], row["optimum"], row["fullest"])
    return row | ({"tablesSeen": written.tables_seen, "mix": written.mix} if arm.routed else {})


def _steer(steer: Steering, topic: str, size: int, options: Options) -> int:
    if not options.stream:
        return steer.announce_plan(topic, size)
    steer.follow_stream(topic, TopicRouting(horizon_seconds=max(60, round(options.seconds))))
    return -1


def _made_since(stage: Stage, there: set[str]) -> list[str]:
    return sorted(name for name in stage.topics() - there if not name.startswith("__"))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.space", description=__doc__)
    names = ", ".join(layout.name for layout in SPACE)
    arms = ", ".join(arm.name for arm in ARMS)
    parser.add_argument("--layouts", nargs="*", default=[], help=f"of {names}; all")
    parser.add_argument("--arms", nargs="*", default=[], help=f"of {arms}; all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--baseline-repeats", type=int, help="of the arms that are not ours; as --repeats")
    parser.add_argument("--seconds", type=float, default=20.0, help="of writing in each run")
    parser.add_argument("--writers", type=int, default=2, help="producer processes of each run")
    parser.add_argument("--at-once", type=int, default=1, help="layouts side by side, each its own cluster")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record-bytes", type=int, default=16_384)
    parser.add_argument("--stream", action="store_true", help="route by the rate instead of by a plan")
    parser.add_argument("--no-overflow", action="store_true", help="leave out the run that ends a broker")
    parser.add_argument("--only-plot", action="store_true", help="tables and plots of the last result again")
    parser.add_argument("--append", action="store_true", help="keep the last result's rows of other layouts")
    parser.add_argument("--out", type=Path, default=results.FOLDER)
    return parser.parse_args(arguments)


def read_options(parsed: argparse.Namespace) -> Options:
    """Checked arguments.

    Raises:
        SystemExit: an unknown name.
    """
    return Options(
        arms=choose_arms(parsed.arms),
        layouts=choose("--layouts", {layout.name: layout for layout in SPACE}, parsed.layouts),
        repeats=parsed.repeats,
        baseline_repeats=parsed.repeats if parsed.baseline_repeats is None else parsed.baseline_repeats,
        seconds=parsed.seconds,
        writers=parsed.writers,
        lanes=parsed.at_once,
        seed=parsed.seed,
        stream=parsed.stream,
        record_bytes=parsed.record_bytes,
    )


def main(arguments: Sequence[str]) -> int:
    """Run, print, plot. Exit 1 where a bar does not hold."""
    parsed = parse(arguments)
    options = read_options(parsed)
    name = "space-stream" if options.stream else "space"
    last = _last(parsed.out / f"{name}.json")
    if parsed.only_plot:
        return _show(last, parsed.out, name)
    again = {layout.name for layout in options.layouts}
    rows = [row for row in last.get("rows", ()) if parsed.append and row["layout"] not in again]
    prepare_arms(options.arms)
    total = len(options.layouts) * len(options.runs())
    teller = progress.Teller(total, options.seconds + RESET_SECONDS, options.lanes)
    with progress.ended_by_signals():
        overflow = last.get("overflow") if parsed.append else None
        if not parsed.no_overflow:
            overflow = run_overflow(options.arms, options.writers, options.record_bytes, teller.console)
        ledger = results.Ledger(
            rows,
            lambda found: results.build_result(
                "space", options.parameters(), found, build_bars(found), overflow=overflow
            ),
            parsed.out,
            name,
        )
        progress.run_side_by_side(
            lambda layout: run_layout(layout, options, teller, ledger), options.layouts, options.lanes
        )
    return _show(_last(parsed.out / f"{name}.json"), parsed.out, name)


def _last(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _show(result: dict[str, Any], folder: Path, name: str) -> int:
    print_tables(result)
    draw(result, folder, name)
    return 0 if all(bar["holds"] for bar in result["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
