"""Moves on real brokers, timed: `python -m benchmarks.moves_real --help`.

Five brokers with small disks hold two and more GiB in 240 partitions, unevenly. The executor of `evenkeel execute`
measures, plans and levels them while a client writes and reads numbered records. Then all is put back and done again.
In the scene `routed` the keeper itself runs the plan while routed records are written to what moves; in `auto` it also
finds the throttle, by how long the routed client waits.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import progress, results
from benchmarks.harness.move_stage import MoveStage, Skew
from benchmarks.harness.options import choose
from benchmarks.moves_report import build_bars, draw, print_tables
from integration.kafka.disks import may_mount

NAME = "moves_real"


def run_timed(stage: MoveStage, parsed: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Idle, moving, idle, moving, ... under one client -> the row of the result."""
    stage.fill()
    with stage.traced(folder, routed=False) as trace:
        rounds: list[dict[str, Any]] = []
        for number in range(parsed.rounds):
            if number:
                stage.put_back(rounds[-1]["moves"])
            idle = stage.idle(parsed.idle_seconds)
            moving = stage.execute(parsed.throttle, folder / f"round-{number}")
            rounds.append({**moving, "idle": idle})
        last = stage.idle(parsed.idle_seconds)
    return {
        "scene": "timed",
        "throttle": parsed.throttle,
        "rounds": rounds,
        "lastIdle": last,
        "client": trace.found,
        "data": stage.check(),
        **stage.describe(),
    }


def run_routed(stage: MoveStage, parsed: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """A real keeper publishes routes and runs an approved plan; a routed client writes to what moves."""
    return _run_by_keeper(stage, parsed, folder, parsed.throttle)


def run_auto(stage: MoveStage, parsed: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The same with the throttle left to the keeper."""
    return _run_by_keeper(stage, parsed, folder, None)


def _run_by_keeper(
    stage: MoveStage, parsed: argparse.Namespace, folder: Path, throttle: int | None
) -> dict[str, Any]:
    from benchmarks.harness.move_keeper import execute_by_keeper, steered

    stage.fill()
    with steered(stage, folder / "keeper") as keeper, stage.traced(folder, routed=True) as trace:
        idle = stage.idle(parsed.idle_seconds)
        moving = execute_by_keeper(stage, keeper, throttle)
        last = stage.idle(parsed.idle_seconds)
    return {
        "scene": "auto" if throttle is None else "routed",
        "throttle": throttle,
        "rounds": [{**moving, "idle": idle}],
        "lastIdle": last,
        "client": trace.found,
        "data": stage.check(),
        **stage.describe(),
    }


SCENES = {"timed": run_timed, "routed": run_routed, "auto": run_auto}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.moves_real", description=__doc__)
    parser.add_argument("--scenes", nargs="*", default=[], help=f"of {', '.join(SCENES)}; all")
    parser.add_argument("--rounds", type=int, default=2, help="times that the timed scene levels the disks")
    parser.add_argument("--mib", type=int, default=2200, help="of records, before replication")
    parser.add_argument("--throttle", type=int, default=5_000_000, help="bytes per second and broker")
    parser.add_argument("--idle-seconds", type=float, default=40.0)
    parser.add_argument("--rate", type=float, default=400.0, help="records per second of the client")
    parser.add_argument("--only-plot", action="store_true", help="tables and plots of the last result again")
    parser.add_argument("--out", type=Path, default=results.FOLDER)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run, print, plot. Exit 1 where a bar does not hold."""
    parsed = parse(arguments)
    path = parsed.out / f"{NAME}.json"
    if not parsed.only_plot:
        choose("--scenes", SCENES, parsed.scenes)
        if not may_mount():
            raise SystemExit("disks of chosen sizes need root and loop devices")
        _run(parsed, [name for name in SCENES if not parsed.scenes or name in parsed.scenes])
    result = json.loads(path.read_text(encoding="utf-8"))
    print_tables(result)
    draw(result, parsed.out)
    return 0 if all(bar["holds"] for bar in result["bars"]) else 1


def _run(parsed: argparse.Namespace, scenes: Sequence[str]) -> None:
    skew = Skew(mib=parsed.mib)
    parameters = {
        "rounds": parsed.rounds,
        "idleSeconds": parsed.idle_seconds,
        "clientRate": parsed.rate,
        **skew.describe(),
    }
    teller = progress.Teller(len(scenes), 420)
    rows = results.read_other_rows(parsed.out / f"{NAME}.json", "scene", scenes)
    with progress.ended_by_signals():
        for scene in scenes:
            with (
                tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder,
                MoveStage.open(skew, parsed.rate) as stage,
            ):
                rows.append(SCENES[scene](stage, parsed, Path(folder)))
            teller.tell(f"{scene} done")
            rows.sort(key=lambda row: list(SCENES).index(row["scene"]))
            results.save_result(results.build_result(NAME, parameters, rows, build_bars(rows)), parsed.out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
