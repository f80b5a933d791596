"""Tables, bars and plots of experiment 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.figure import Figure
from rich.table import Table

from benchmarks.harness.plots import COLOURS, OTHERS, save_plot
from benchmarks.harness.progress import build_console
from benchmarks.harness.results import bar
from benchmarks.space_report import group, median_of
from integration.kafka.disks import MIB

Row = Mapping[str, Any]


def build_bars(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Our router heals every layout, with fewer bytes than any other way that heals it at all."""
    bars = []
    for layout, arms in group(rows).items():
        if "evenkeel" not in arms:
            continue
        ours = [row["healedBytes"] for row in arms["evenkeel"]]
        share = sum(found is not None for found in ours) / len(ours)
        bars.append(bar(f"{layout} evenkeel healed runs", "= 1", share, holds=share == 1))
        for arm, runs in arms.items():
            other = [row["healedBytes"] for row in runs]
            if arm.startswith("evenkeel") or None in other or None in ours:
                continue
            ratio = median(ours) / median(other)
            bars.append(bar(f"{layout} evenkeel bytes / {arm} bytes", "<= 1.1", ratio, holds=ratio <= 1.1))
    return bars


def print_tables(result: Mapping[str, Any]) -> None:
    """A line per layout and arm."""
    console = build_console()
    table = Table(
        "layout", "arm", "runs", "healed", "MiB", "optimum", "ratio", "seconds", "deviation at the end"
    )
    for layout, arms in group(result["rows"]).items():
        for arm, runs in sorted(arms.items(), key=lambda item: list(COLOURS).index(item[0])):
            size, best = median_of(runs, "healedBytes"), median(row["optimalBytes"] for row in runs)
            seconds = median_of(runs, "healedSeconds")
            table.add_row(
                layout,
                arm,
                str(len(runs)),
                str(sum(row["healedBytes"] is not None for row in runs)),
                "-" if size is None else f"{size / MIB:.0f}",
                f"{best / MIB:.0f}",
                "-" if size is None else f"{size / best:.2f}",
                "-" if seconds is None else f"{seconds:.0f}",
                f"{median(row['deviationAfter'] for row in runs):.1%}",
            )
        table.add_section()
    console.print(table)
    held = sum(one["holds"] for one in result["bars"])
    console.print(f"{held} of {len(result['bars'])} bars hold")
    for one in result["bars"]:
        if not one["holds"]:
            console.print(f"  {one['name']}: {one['value']:.3f}, demanded {one['limit']}")


def draw(result: Mapping[str, Any], folder: Path) -> None:
    """Fills of the disks and deviation over written bytes, the first run of each arm: a plot per layout."""
    for layout, arms in group(result["rows"]).items():
        names = [arm for arm in COLOURS if arm in arms]
        figure = Figure(figsize=(4.2 * (len(names) + 1), 3.8))
        panes = figure.subplots(1, len(names) + 1, squeeze=False)[0]
        for arm, axes in zip(names, panes, strict=False):
            series = arms[arm][0]["series"]
            written = [point["writtenBytes"] / MIB for point in series]
            for disk in range(len(series[0]["fills"])):
                fills = [point["fills"][disk] for point in series]
                axes.plot(written, fills, color=OTHERS[disk % len(OTHERS)], label=f"disk {disk + 1}")
            axes.set_title(arm)
            axes.set_xlabel("MiB written")
            panes[-1].plot(
                written, [100 * point["deviation"] for point in series], color=COLOURS[arm], label=arm
            )
        best = median(row["optimalBytes"] for runs in arms.values() for row in runs) / MIB
        target = 100 * result["parameters"]["targetDeviation"]
        panes[-1].axvline(best, color="black", linewidth=0.8, linestyle="--", label="fewest bytes possible")
        panes[-1].axhline(target, color="grey", linewidth=0.8, linestyle=":")
        panes[-1].set_xlabel("MiB written")
        panes[-1].set_ylabel("deviation, %")
        panes[-1].legend(fontsize=7)
        panes[0].set_ylabel("fill")
        panes[0].legend(fontsize=7)
        figure.suptitle(layout)
        figure.tight_layout()
        save_plot(figure, folder, layout)
