"""Moves under faults on real brokers, one at a random moment of each run: `python -m benchmarks.moves_faults --help`.

A small cluster is used again by many runs. Each makes skewed topics with numbered records, plans, executes, and lets
something happen: then nothing of ours may be left, nothing of others be touched, no record be lost.
"""

from __future__ import annotations

import argparse
import json
import queue
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import KafkaException
from kafka.errors import KafkaError
from matplotlib.figure import Figure
from rich.table import Table

from benchmarks.harness import progress, results
from benchmarks.harness.fault_kinds import FAULTS
from benchmarks.harness.fault_run import RESUME_SECONDS, Case, plan_cases, play
from benchmarks.harness.fault_scene import BROKERS, FAULT_PROPERTIES, SHAPES, SPECS, start_cluster
from benchmarks.harness.options import choose
from benchmarks.harness.plots import OTHERS, save_plot
from benchmarks.harness.trail import Tally
from integration.kafka.cluster import KafkaCluster
from integration.kafka.disks import may_mount
from integration.kafka.network import Network, explain_missing
from integration.kafka.settings import CONTROLLER_ID
from integration.processes import ServerError

RUN_SECONDS = 60.0
TRIES = 3
Row = Mapping[str, Any]


class Lane:
    """One cluster for many runs; a fresh one after a run that went wrong."""

    def __init__(self, folder: Path, kept: Path | None) -> None:
        """`kept`: where the logs of runs that went wrong stay; None: nowhere."""
        self._folder, self._kept = folder, kept
        self._open = ExitStack()
        self._cluster: KafkaCluster | None = None
        self._network: Network | None = None

    def run(self, case: Case, scale: float) -> dict[str, Any]:
        """One row; a run that the harness itself could not make is made again, and the row says why."""
        again: list[str] = []
        while len(again) < TRIES:
            try:
                return {**self._try(case, scale), "again": again}
            except (ServerError, KafkaError, KafkaException, ValueError) as error:
                again.append(f"{type(error).__name__}: {error}"[:600])
        return {**build_unmade(case), "again": again}

    def _try(self, case: Case, scale: float) -> dict[str, Any]:
        """What a fault has broken does not reach the next run."""
        if self._cluster is None:
            self._start()
        assert self._cluster is not None
        clean = False
        try:
            row = play(case, self._cluster, self._network, self._folder / f"run-{case.number}", scale)
            clean = row["cleared"] and not row["problems"]
        finally:
            if not clean:
                self._keep(case)
                self.close()
        return row

    def _start(self) -> None:
        if not explain_missing():
            self._network = self._open.enter_context(Network(secrets.token_hex(3)))
        self._cluster = self._open.enter_context(start_cluster(self._network))

    def _keep(self, case: Case) -> None:
        """Of a run that went wrong: the plan, what the executor said, what the brokers logged."""
        if self._kept is None or self._cluster is None:
            return
        name = f"run-{case.number}"
        folder = shutil.copytree(self._folder / name, self._kept / name, dirs_exist_ok=True)
        for node in (*BROKERS, CONTROLLER_ID):
            (folder / f"node-{node}.log").write_text(self._cluster.logs(node), encoding="utf-8")

    def close(self) -> None:
        """Stop the cluster."""
        self._cluster = self._network = None
        self._open.close()
        self._open = ExitStack()


def build_unmade(case: Case) -> dict[str, Any]:
    """The row of a run that could not be made."""
    return {
        **asdict(case),
        "told": [],
        "seconds": 0.0,
        "reason": "",
        "moves": 0,
        "movesDone": 0,
        "resumedSeconds": None,
        "isrShortages": 0,
        "records": asdict(Tally(0, 0, 0, 0, 0)),
        "problems": [f"could not be made in {TRIES} tries"],
    }


def run_cases(
    parsed: argparse.Namespace, cases: Sequence[Case], folder: Path, ledger: results.Ledger
) -> None:
    """All runs, some clusters side by side."""
    lanes: int = parsed.lanes
    teller = progress.Teller(len(cases), RUN_SECONDS, lanes)
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in cases:
        waiting.put(case)

    def work(number: int) -> None:
        lane = Lane(folder / f"lane-{number}", parsed.keep)
        try:
            while not progress.stop.is_set():
                case = waiting.get_nowait()
                row = lane.run(case, parsed.scale)
                ledger.add(row)
                teller.tell(describe(row))
        except queue.Empty:
            return
        finally:
            lane.close()

    progress.run_side_by_side(work, range(min(lanes, len(cases))), lanes)


def describe(row: Row) -> str:
    """One line of a run."""
    fate = "; ".join([*row["problems"], *(f"made again: {why}" for why in row["again"])]) or "ok"
    return (
        f"{row['number']:>3} {row['fault']:20} seed {row['seed']} {row['seconds']:.0f} s {row['reason']} "
        f"{row['movesDone']}/{row['moves']} resumed {row['resumedSeconds']} ({'; '.join(row['told'])}) {fate}"
    )


def build_bars(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What every run must keep."""
    resumed = [row["resumedSeconds"] for row in rows]
    slowest = max((value for value in resumed if value is not None), default=None)
    counted = [
        ("runs with anything left, touched, lost or not ended", "= 0", sum(bool(row["problems"]) for row in rows)),
        ("records lost, repeated or damaged", "= 0", sum(_spoiled(row) for row in rows)),
        ("looks at partitions below min ISR by our moves", "= 0", sum(row["isrShortages"] for row in rows)),
    ]  # fmt: skip
    bars = [results.bar(name, limit, value, holds=value == 0) for name, limit, value in counted]
    holds = None not in resumed and slowest is not None and slowest <= RESUME_SECONDS
    bars.append(
        results.bar(
            "slowest to go on after the fault, seconds", f"<= {RESUME_SECONDS:g}", slowest, holds=holds
        )
    )
    return bars


def _spoiled(row: Row) -> int:
    records = row["records"]
    return int(records["lost"] + records["repeated"] + records["damaged"])


def summarise(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A line per fault."""
    lines = []
    for name, fault in FAULTS.items():
        mine = [row for row in rows if row["fault"] == name]
        if not mine:
            continue
        resumed = [row["resumedSeconds"] for row in mine if row["resumedSeconds"] is not None]
        reasons = sorted({row["reason"] for row in mine})
        lines.append(
            {
                "fault": name,
                "title": fault.title,
                "runs": len(mine),
                "wrong": sum(bool(row["problems"]) for row in mine),
                "ends": {reason: sum(row["reason"] == reason for row in mine) for reason in reasons},
                "moves": sum(row["moves"] for row in mine),
                "movesDone": sum(row["movesDone"] for row in mine),
                "resumedSecondsMedian": median(resumed) if resumed else None,
                "resumedSecondsWorst": max(resumed, default=None),
            }
        )
    return lines


def print_table(result: Mapping[str, Any]) -> None:
    """A line per fault, then the bars."""
    console = progress.build_console()
    table = Table("fault", "runs", "wrong", "ended as", "moves done", "on again, s (median, worst)")
    for line in summarise(result["rows"]):
        ends = ", ".join(f"{count} {reason}" for reason, count in line["ends"].items())
        done = f"{line['movesDone']}/{line['moves']}"
        times = f"{line['resumedSecondsMedian']}, {line['resumedSecondsWorst']}"
        table.add_row(line["title"], str(line["runs"]), str(line["wrong"]), ends, done, times)
    console.print(table)
    for row in result["rows"]:
        for problem in row["problems"]:
            console.print(f"run {row['number']}, {row['fault']}, seed {row['seed']}: {problem}", markup=False)
    for one in result["bars"]:
        console.print(
            f"{'holds' if one['holds'] else 'FAILS'}  {one['name']}: {one['value']}, {one['limit']}"
        )
    for name, why in result["parameters"]["skipped"].items():
        console.print(f"left out: {name}: {why}")


def draw(result: Mapping[str, Any], folder: Path) -> None:
    """How soon each run went on, by fault; crosses are runs with something wrong."""
    names = [name for name in FAULTS if any(row["fault"] == name for row in result["rows"])]
    figure = Figure(figsize=(7, 0.3 * len(names) + 1.2))
    axes = figure.subplots()
    for row in result["rows"]:
        if row["resumedSeconds"] is not None:
            mark, colour = ("x", OTHERS[2]) if row["problems"] else ("o", OTHERS[1])
            axes.plot(
                row["resumedSeconds"], names.index(row["fault"]), mark, color=colour, markersize=5, alpha=0.7
            )
    axes.axvline(RESUME_SECONDS, color="0.6", linestyle="--")
    axes.set_yticks(range(len(names)), [FAULTS[name].title for name in names], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("seconds from the fault's end until the moves went on")
    figure.tight_layout()
    save_plot(figure, folder, "moves_faults")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.moves_faults", description=__doc__)
    parser.add_argument("--runs", type=int, default=72, help="in all; each fault in turn (default 72)")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each next one has the next")
    parser.add_argument(
        "--faults", nargs="*", default=[], metavar="NAME", help=f"of {', '.join(FAULTS)}; all"
    )
    parser.add_argument("--lanes", type=int, default=3, help="clusters side by side, each of five processes")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of the executor's times; 1 is what it does in production"
    )
    parser.add_argument(
        "--only-wrong", action="store_true", help="runs of the last result that went wrong, once more"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="logs of runs that went wrong go there")
    parser.add_argument("--only-plot", action="store_true", help="table and plot of the last result again")
    parser.add_argument("--out", type=Path, default=results.FOLDER)
    return parser.parse_args(arguments)


def choose_faults(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Those named that can be had here, and why others cannot.

    Raises:
        SystemExit: an unknown name, or nothing can be had.
    """
    choose("--faults", FAULTS, names)
    wanted = [name for name in FAULTS if not names or name in names]
    skipped = {name: why for name in wanted if (why := FAULTS[name].missing())}
    left = [name for name in wanted if name not in skipped]
    if not may_mount():
        raise SystemExit("disks of chosen sizes need root and loop devices")
    if not left:
        raise SystemExit(f"nothing to run: {skipped}")
    return left, skipped


def choose_cases(
    parsed: argparse.Namespace, faults: Sequence[str], path: Path
) -> tuple[list[Row], list[Case], dict[str, Any]]:
    """Rows of before that stay, runs to be made, and the parameters of the result."""
    parameters: dict[str, Any] = {
        "seed": parsed.seed,
        "runs": parsed.runs,
        "scale": parsed.scale,
        "lanes": parsed.lanes,
        "brokers": len(SPECS),
        "topics": [f"{one.partitions} partitions, RF {one.copies}, min ISR {one.least}" for one in SHAPES],
        "properties": FAULT_PROPERTIES,
    }
    if not parsed.only_wrong:
        return [], plan_cases(faults, parsed.runs, parsed.seed), parameters
    before = json.loads(path.read_text(encoding="utf-8"))
    wrong = [row for row in before["rows"] if row["problems"]]
    cases = [Case(row["number"], row["fault"], row["seed"]) for row in wrong]
    mended = {
        **before["parameters"].get("wrongBefore", {}),
        **{str(r["number"]): r["problems"] for r in wrong},
    }
    kept = [row for row in before["rows"] if not row["problems"]]
    return kept, cases, {**before["parameters"], "wrongBefore": mended}


def main(arguments: Sequence[str]) -> int:
    """Run, print. Exit 1 where a bar does not hold."""
    parsed = parse(arguments)
    path = parsed.out / "moves_faults.json"
    if not parsed.only_plot:
        faults, skipped = choose_faults(parsed.faults)
        kept, cases, parameters = choose_cases(parsed, faults, path)

        def build(rows: list[Row]) -> dict[str, Any]:
            rows = sorted(rows, key=lambda row: int(row["number"]))
            told = {**parameters, "skipped": skipped}
            return results.build_result("moves_faults", told, rows, build_bars(rows), faults=summarise(rows))

        ledger = results.Ledger(kept, build, parsed.out, "moves_faults")
        with (
            progress.ended_by_signals(),
            tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder,
        ):
            run_cases(parsed, cases, Path(folder), ledger)
    result = json.loads(path.read_text(encoding="utf-8"))
    print_table(result)
    draw(result, parsed.out)
    return 0 if all(bar["holds"] for bar in result["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
