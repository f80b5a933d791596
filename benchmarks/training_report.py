"""Bars, tables and plots of experiment 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.figure import Figure
from rich.table import Table

from benchmarks.harness.plots import COLOURS, save_plot
from benchmarks.harness.progress import build_console
from benchmarks.harness.results import bar
from integration.kafka.disks import MIB

OURS, OTHER = "evenkeel", "librdkafka"
Row = Mapping[str, Any]


def epochs(rows: Sequence[Row], arm: str, ranks: int) -> list[float]:
    """Seconds of each epoch of one case."""
    return [row["epochSeconds"] for row in rows if (row["arm"], row["ranks"]) == (arm, ranks)]


def build_bars(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """An epoch takes less time from level storage, and reads the same records."""
    bars = []
    for ranks in sorted({row["ranks"] for row in rows}):
        ours, other = (epochs(rows, arm, ranks) for arm in (OURS, OTHER))
        if ours and other:
            ratio = median(ours) / median(other)
            bars.append(bar(f"{ranks} ranks, epoch level / skewed", "< 1", ratio, holds=ratio < 1))
    records = {row["records"] for row in rows}
    bars.append(bar("different numbers of records read", "= 1", len(records), holds=len(records) == 1))
    return bars


def print_tables(result: Mapping[str, Any]) -> None:
    """A line per case."""
    rows = result["rows"]
    console = build_console()
    table = Table("ranks", "written by", "epochs", "median s", "range", "MiB on brokers", "level / skewed")
    for ranks in sorted({row["ranks"] for row in rows}):
        for arm in (OURS, OTHER):
            seconds = epochs(rows, arm, ranks)
            if not seconds:
                continue
            sizes = next(row["bytesByBroker"] for row in rows if row["arm"] == arm)
            ratio = median(epochs(rows, OURS, ranks)) / median(epochs(rows, OTHER, ranks))
            table.add_row(
                str(ranks),
                arm,
                str(len(seconds)),
                f"{median(seconds):.1f}",
                f"{min(seconds):.1f} - {max(seconds):.1f}",
                ", ".join(f"{size / MIB:.0f}" for size in sizes.values()),
                f"{ratio:.2f}" if arm == OURS else "",
            )
        table.add_section()
    console.print(table)
    for one in result["bars"]:
        console.print(
            f"{'holds' if one['holds'] else 'FAILS'}  {one['name']}: {one['value']:.3f}, {one['limit']}"
        )


def draw(result: Mapping[str, Any], folder: Path) -> None:
    """Time per epoch beside the bytes on each broker."""
    rows = result["rows"]
    figure = Figure(figsize=(8.4, 3.4))
    times, sizes = figure.subplots(1, 2)
    counts = sorted({row["ranks"] for row in rows})
    for offset, arm in ((-0.2, OTHER), (0.2, OURS)):
        for place, ranks in enumerate(counts):
            seconds = epochs(rows, arm, ranks)
            label = arm if place == 0 else None
            times.bar(place + offset, median(seconds), 0.38, color=COLOURS[arm], label=label)
            times.plot([place + offset] * len(seconds), seconds, "k.", markersize=3)
        found = next(row["bytesByBroker"] for row in rows if row["arm"] == arm)
        places = [index + offset for index in range(len(found))]
        sizes.bar(places, [size / MIB for size in found.values()], 0.38, color=COLOURS[arm], label=arm)
    times.set_xticks(range(len(counts)), [f"{ranks} ranks" for ranks in counts])
    times.set_ylabel("seconds per epoch")
    times.legend(fontsize=7)
    sizes.set_xticks(range(len(found)), [f"broker {name}" for name in found])
    sizes.set_ylabel("MiB of the topic")
    figure.tight_layout()
    save_plot(figure, folder, "training")
