"""Bars, tables and plots of timed moves on real brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.figure import Figure
from rich.table import Table

from benchmarks.harness.plots import OTHERS, save_plot
from benchmarks.harness.progress import build_console
from benchmarks.harness.results import bar

TIME_LIMIT = 1.25
LATENCY_LIMIT = 2.0
EDGE_SECONDS = 2.0
"""At the begin and end of a phase that belong to neither."""
KINDS = ("produce", "consume")
Row = Mapping[str, Any]


def find_phases(row: Row) -> list[tuple[str, float, float]]:
    """(idle or moving, from, to) in the order in which they were, on the machine's monotonic clock."""
    phases = []
    for one in row["rounds"]:
        phases.append(("idle", one["idle"]["from"], one["idle"]["to"]))
        phases.append(("moving", one["movingFrom"], one["to"]))
    phases.append(("idle", row["lastIdle"]["from"], row["lastIdle"]["to"]))
    return phases


def choose_seconds(row: Row, begin: float, end: float, name: str) -> list[float]:
    """A latency of each second of a phase, milliseconds."""
    return [
        one[name]
        for one in row["client"]["seconds"]
        if begin + EDGE_SECONDS <= one["at"] < end - EDGE_SECONDS and one[name] is not None
    ]


def find_ratios(row: Row, kind: str, percent: int) -> list[float]:
    """Of each moving phase: the median of its seconds over that of the idle seconds before and after it."""
    name, phases = f"{kind}P{percent}Ms", find_phases(row)
    ratios = []
    for number in range(1, len(phases), 2):
        idle = [
            value
            for _, begin, end in (phases[number - 1], phases[number + 1])
            for value in choose_seconds(row, begin, end, name)
        ]
        moving = choose_seconds(row, *phases[number][1:], name)
        if not idle or not moving:
            raise ValueError(f"{row['scene']}: no seconds to compare in phase {number}")
        ratios.append(median(moving) / median(idle))
    return ratios


def build_bars(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Time, latency, records: of each scene."""
    bars = []
    for row in rows:
        scene = row["scene"]
        if row["throttle"] is not None:
            bars.append(_judge_time(row))
        for kind in KINDS:
            found = median(find_ratios(row, kind, 99))
            name = f"{scene}: {kind} p99 by second, moving / idle"
            bars.append(bar(name, f"<= {LATENCY_LIMIT:g}", round(found, 4), holds=found <= LATENCY_LIMIT))
        wrong = count_wrong(row)
        bars.append(bar(f"{scene}: records lost, repeated or damaged", "= 0", wrong, holds=wrong == 0))
    return bars


def _judge_time(row: Row) -> dict[str, Any]:
    slowest = [one["ratio"] for one in row["rounds"]]
    worst = None if None in slowest else max(slowest)
    name = f"{row['scene']}: trigger to deviation < 3 % over busiest broker's bytes / throttle, worst round"
    return bar(name, f"<= {TIME_LIMIT}", worst, holds=worst is not None and worst <= TIME_LIMIT)


def count_wrong(row: Row) -> int:
    """Of the client's records and of those that lay there, and refused ones."""
    tallies = (row["client"]["records"], row["data"])
    wrong = sum(found[name] for found in tallies for name in ("lost", "repeated", "damaged", "failed"))
    return int(wrong)


def print_tables(result: Mapping[str, Any]) -> None:
    """A line per round, a line per phase, then the bars."""
    console = build_console()
    rounds = Table(
        "scene", "moves", "moved MB", "batches", "ideal s", "level after s", "ratio", "MB/s", "deviation"
    )
    phases = Table("scene", "phase", "seconds", *(f"{kind} p{p} ms" for kind in KINDS for p in (50, 99)))
    for row in result["rows"]:
        for one in row["rounds"]:
            rounds.add_row(
                row["scene"],
                str(len(one["moves"])),
                f"{one['planBytes'] / 1e6:.0f}",
                str(one["batches"]),
                "-" if one["idealSeconds"] is None else f"{one['idealSeconds']:.1f}",
                f"{one['levelSeconds']}",
                "-" if one["ratio"] is None else f"{one['ratio']}",
                ", ".join(f"{rate / 1e6:g}" for _, rate in one.get("throttles", ())),
                f"{one['deviationBefore']:.1%} -> {one['deviationAfter']:.1%}",
            )
        for what, begin, end in find_phases(row):
            values = [choose_seconds(row, begin, end, f"{kind}P{p}Ms") for kind in KINDS for p in (50, 99)]
            told = [f"{median(found):.1f}" if found else "-" for found in values]
            phases.add_row(row["scene"], what, f"{end - begin:.0f}", *told)
    console.print(rounds)
    console.print(phases)
    for one in result["bars"]:
        console.print(
            f"{'holds' if one['holds'] else 'FAILS'}  {one['name']}: {one['value']}, {one['limit']}"
        )


def draw(result: Mapping[str, Any], folder: Path) -> None:
    """Fills of the disks and the client's p99 over time, a column per scene."""
    rows = result["rows"]
    figure = Figure(figsize=(6.5 * len(rows), 6))
    grid = figure.subplots(2, len(rows), squeeze=False, sharex="col")
    for (fills, latency), row in zip(grid.T, rows, strict=True):
        zero = row["rounds"][0]["idle"]["from"]
        for one in row["rounds"]:
            for number, colour in zip(range(len(one["samples"][0][1])), OTHERS, strict=False):
                points = [(one["from"] - zero + at, found[number]) for at, found in one["samples"] if at >= 0]
                label = f"broker {number + 1}" if one is row["rounds"][0] else None
                fills.plot(*zip(*points, strict=True), color=colour, label=label)
        for kind, colour in zip(KINDS, OTHERS[1:], strict=False):
            told = [(one["at"] - zero, one[f"{kind}P99Ms"]) for one in row["client"]["seconds"]]
            points = [(at, value) for at, value in told if value is not None]
            latency.plot(*zip(*points, strict=True), ".", markersize=3, color=colour, label=f"{kind} p99")
        for what, begin, end in find_phases(row):
            if what == "moving":
                for axes in (fills, latency):
                    axes.axvspan(begin - zero, end - zero, color="0.9")
        fills.set_title(f"{row['scene']}: {row['partitions']} partitions, grey: moving", fontsize=9)
        fills.set_ylabel("fill of the disk")
        latency.set_ylabel("p99 of the second, ms")
        latency.set_yscale("log")
        latency.set_xlabel("second")
        fills.legend(fontsize=7)
        latency.legend(fontsize=7)
    figure.tight_layout()
    save_plot(figure, folder, str(result["benchmark"]))
