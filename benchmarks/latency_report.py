"""Ratios, bars, tables and plots of experiment 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.figure import Figure
from rich.table import Table

from benchmarks.harness.plots import COLOURS, save_plot
from benchmarks.harness.progress import build_console
from benchmarks.harness.results import bar

OURS, OTHER = "evenkeel", "librdkafka"
LEVEL = "latency-level"
LEVEL_LIMIT = 1.05
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ours over the default's: below 1 ours is faster."""

    p50: float
    p99: float
    pairs: int
    """Seconds, or pairs of turns, that were compared."""


def find_ratios(row: Row) -> Ratios:
    """Median over pairs: of the same second where both wrote at once, of neighbouring turns else."""
    ours, other = (row["arms"][arm]["seconds"] for arm in (OURS, OTHER))
    turn = row["turnSeconds"]
    if turn:
        ours, other = _by_turn(ours, turn), _by_turn(other, turn)
    else:
        ours, other = ({one["second"]: one for one in found} for found in (ours, other))
    pairs = [(ours[key], other[key]) for key in sorted(ours.keys() & other.keys())]
    if not pairs:
        raise ValueError(f"{row['condition']}: no seconds to compare")
    p50, p99 = (median(a[name] / b[name] for a, b in pairs) for name in ("p50Ms", "p99Ms"))
    return Ratios(p50, p99, len(pairs))


def _by_turn(seconds: Sequence[Row], turn: float) -> dict[int, Row]:
    """Medians of each turn, keyed by the pair of turns (A B, B A, A B ...) that it belongs to."""
    found: dict[int, list[Row]] = {}
    for one in seconds:
        found.setdefault(int(one["second"] // turn) // 2, []).append(one)
    return {
        key: {name: median(one[name] for one in group) for name in ("p50Ms", "p99Ms")}
        for key, group in found.items()
    }


def build_bars(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """No slower on a level cluster, faster on the others, and nothing lost."""
    bars = []
    for row in rows:
        found = find_ratios(row)
        for name, value in (("p50", found.p50), ("p99 by second", found.p99)):
            limit, holds = (
                (f"<= {LEVEL_LIMIT}", value <= LEVEL_LIMIT)
                if row["condition"] == LEVEL
                else ("< 1", value < 1)
            )
            bars.append(bar(f"{row['condition']} {name}, evenkeel / librdkafka", limit, value, holds=holds))
        failed = row["arms"]["evenkeel"]["failed"]
        bars.append(bar(f"{row['condition']} records not acknowledged", "= 0", failed, holds=failed == 0))
    return bars


def print_tables(result: Mapping[str, Any]) -> None:
    """A line per condition and arm, then the ratios."""
    console = build_console()
    table = Table(
        "condition",
        "arm",
        "p50 ms",
        "p99 ms (median of seconds)",
        "worst second's p99",
        "p50 ratio",
        "p99 ratio",
    )
    for row in result["rows"]:
        ratios = find_ratios(row)
        for arm, found in row["arms"].items():
            p50, p99 = ([one[name] for one in found["seconds"]] for name in ("p50Ms", "p99Ms"))
            mine = arm == OURS
            table.add_row(
                row["condition"],
                arm,
                f"{median(p50):.1f}",
                f"{median(p99):.1f}",
                f"{max(p99):.0f}",
                f"{ratios.p50:.3f}" if mine else "",
                f"{ratios.p99:.3f} ({ratios.pairs} pairs)" if mine else "",
            )
        table.add_section()
    console.print(table)
    for one in result["bars"]:
        console.print(
            f"{'holds' if one['holds'] else 'FAILS'}  {one['name']}: {one['value']:.3f}, {one['limit']}"
        )


def draw(result: Mapping[str, Any], folder: Path) -> None:
    """99th percentile by second."""
    rows = result["rows"]
    figure = Figure(figsize=(5.2 * len(rows), 3.6))
    for axes, row in zip(figure.subplots(1, len(rows), squeeze=False)[0], rows, strict=True):
        for arm, found in row["arms"].items():
            seconds = [one["second"] - row["warmSeconds"] for one in found["seconds"]]
            values = [one["p99Ms"] for one in found["seconds"]]
            axes.plot(seconds, values, ".", markersize=3, color=COLOURS[arm], label=arm)
        axes.set_yscale("log")
        axes.set_title(row["title"], fontsize=8)
        axes.set_xlabel("second")
        axes.set_ylabel("p99 of the second, ms")
        axes.legend(fontsize=7)
    figure.tight_layout()
    save_plot(figure, folder, "latency")
