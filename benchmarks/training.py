"""Experiment 4: space use and training time. `python -m benchmarks.training --help`.

The same records are written to a topic with uneven partition counts by default partitioning (every partition
alike, so brokers with more partitions hold more) and by Evenkeel (every disk alike). Then data-parallel ranks
read the topic with a barrier at each step, from disks of limited throughput and with nothing in the page cache:
time per epoch, skewed against level.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks.harness import disk_limit, progress, results
from benchmarks.harness.arms import EVENKEEL, LIBRDKAFKA, Arm, gather_written, split_job, writing
from benchmarks.harness.job import WriteJob
from benchmarks.harness.layouts import Layout, single, spread
from benchmarks.harness.options import PYTHON_PATH
from benchmarks.harness.order import interleave
from benchmarks.harness.rank import RankJob
from benchmarks.harness.stage import Stage
from benchmarks.harness.steering import INTERVAL_SECONDS, Steering, steering
from benchmarks.training_report import build_bars, draw, print_tables
from integration.kafka.disks import MIB

ARMS: tuple[Arm, ...] = (EVENKEEL, LIBRDKAFKA)
RECORD_BYTES = 16_384
LAYOUT = Layout(
    "training",
    "4 equal disks, partitions 10:6:4:4, RF 1",
    single([320] * 4, [0.05] * 4),
    spread([10, 6, 4, 4], 1, 31),
    12,
)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    ranks: tuple[int, ...]
    repeats: int
    read_mib: float
    batch: int
    step_ms: float
    seed: int

    def parameters(self) -> dict[str, Any]:
        """For the result."""
        return {
            "layout": LAYOUT.title,
            "ranks": list(self.ranks),
            "repeats": self.repeats,
            "diskReadMibPerSecond": self.read_mib,
            "batch": self.batch,
            "stepMs": self.step_ms,
            "recordBytes": RECORD_BYTES,
            "bytes": LAYOUT.write_bytes,
            "seed": self.seed,
            "keeperIntervalSeconds": INTERVAL_SECONDS,
        }


def run(options: Options, teller: progress.Teller) -> list[dict[str, Any]]:
    """Write the topic once per arm, then epochs of all numbers of ranks, interleaved -> a row per epoch."""
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evenkeel-bench-")))
        stage = stack.enter_context(Stage.open(LAYOUT))
        steer = stack.enter_context(steering(stage, folder / "keeper"))
        fills = {arm.name: _write_topic(stage, steer, arm, folder) for arm in ARMS}
        brokers = [spec.id for spec in LAYOUT.broker_specs()]
        stack.enter_context(disk_limit.limited(stage.cluster, brokers, read=int(options.read_mib * MIB)))
        cases = [(arm, ranks) for arm in ARMS for ranks in options.ranks]
        for repeat, (arm, ranks) in interleave(cases, options.repeats, options.seed):
            progress.check_stop()
            for broker in brokers:
                disk_limit.forget_pages(stage.cluster.log_dir(broker))
            row = _run_epoch(stage, f"data-{arm.name}", ranks, options)
            row |= {"arm": arm.name, "repeat": repeat, "bytesByBroker": fills[arm.name]}
            teller.tell(f"{arm.name:12} {ranks} ranks: {row['epochSeconds']:.1f} s")
            rows.append(row)
    return rows


def _write_topic(stage: Stage, steer: Steering, arm: Arm, folder: Path) -> dict[str, int]:
    """The topic of one arm, which stays -> bytes that it brought to each broker."""
    topic, size = f"data-{arm.name}", LAYOUT.write_bytes
    before = {disk.broker: disk.used_bytes for disk in stage.disks()}
    stage.create_topic(topic)
    offset = steer.announce_plan(topic, size) if arm.routed else -1
    job = WriteJob(stage.cluster.bootstrap, topic, arm.rule, size, 20.0, RECORD_BYTES, plan_offset=offset)
    with writing(arm, split_job(job, 2), folder) as processes:
        written = gather_written(processes, 180)
    if written.bytes_failed:
        raise ValueError(f"{arm.name}: {written.bytes_failed} bytes were not acknowledged")
    if arm.routed:
        steer.release()
    return {str(disk.broker): disk.used_bytes - before[disk.broker] for disk in stage.disks()}


def _run_epoch(stage: Stage, topic: str, ranks: int, options: Options) -> dict[str, Any]:
    """All ranks read the whole topic once, step by step together."""
    count = len(LAYOUT.assignments)
    jobs = [
        RankJob(
            stage.cluster.bootstrap,
            topic,
            tuple(range(rank, count, ranks)),
            options.batch,
            options.step_ms / 1000,
        )
        for rank in range(ranks)
    ]
    env = {**PYTHON_PATH, "PATH": "/usr/bin:/bin"}
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.harness.rank", job.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        for job in jobs
    ]
    try:
        return {"ranks": ranks, **_pace_ranks(children)}
    finally:
        for child in children:
            child.kill()
            child.wait()


def _pace_ranks(children: Sequence[subprocess.Popen[str]]) -> dict[str, Any]:
    """The barrier: a step begins for all that still read when all of them have their batch."""
    answers: dict[int, Mapping[str, Any]] = {}
    steps, began = -1, 0.0
    while len(answers) < len(children):
        progress.check_stop()
        for rank, child in enumerate(children):
            if rank in answers:
                continue
            line = _pipe(child.stdout).readline()
            if not line:
                raise ValueError(f"rank {rank} ended with {child.wait()}")
            if line.startswith("{"):
                answers[rank] = json.loads(line)
        steps += 1
        if steps == 0:
            began = time.monotonic()
        for rank, child in enumerate(children):
            if rank not in answers:
                _pipe(child.stdin).write("go\n")
                _pipe(child.stdin).flush()
    return {
        "epochSeconds": round(time.monotonic() - began, 3),
        "steps": steps,
        "records": sum(int(answer["records"]) for answer in answers.values()),
        "readSeconds": [answers[rank]["readSeconds"] for rank in sorted(answers)],
    }


def _pipe(found: IO[str] | None) -> IO[str]:
    assert found is not None
    return found


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4], help="data-parallel processes")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--read", type=float, default=6.0, help="MiB/s that each disk gives")
    parser.add_argument("--batch", type=int, default=32, help="records per rank and step")
    parser.add_argument("--step-ms", type=float, default=20.0, help="arithmetic of a step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only-plot", action="store_true", help="tables and plots of the last result again")
    parser.add_argument("--out", type=Path, default=results.FOLDER)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run, print, plot. Exit 1 where a bar does not hold."""
    parsed = parse(arguments)
    options = Options(
        tuple(parsed.ranks), parsed.repeats, parsed.read, parsed.batch, parsed.step_ms, parsed.seed
    )
    path = parsed.out / "training.json"
    if not parsed.only_plot:
        if why := disk_limit.explain_missing():
            raise SystemExit(why)
        total = len(ARMS) * len(options.ranks) * options.repeats
        with progress.ended_by_signals():
            rows = run(options, progress.Teller(total, 20, 1))
        result = results.build_result("training", options.parameters(), rows, build_bars(rows))
        results.save_result(result, parsed.out)
    result = json.loads(path.read_text(encoding="utf-8"))
    print_tables(result)
    draw(result, parsed.out)
    return 0 if all(bar["holds"] for bar in result["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
