"""Tables, bars and plots of experiment 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from benchmarks.harness.plots import COLOURS, save_plot
from benchmarks.harness.progress import build_console
from benchmarks.harness.results import bar
from benchmarks.harness.statistics import summarise

REGRET_LIMIT, RECOVERED_LIMIT = 0.02, 0.90
Row = Mapping[str, Any]


def group(rows: Sequence[Row]) -> dict[str, dict[str, list[Row]]]:
    """Layout -> arm -> its runs."""
    found: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        found.setdefault(row["layout"], {}).setdefault(row["arm"], []).append(row)
    return found


def median_of(rows: Sequence[Row], field: str) -> float | None:
    """Median of what is known; None where nothing is."""
    known = [row[field] for row in rows if row[field] is not None]
    return median(known) if known else None


def build_bars(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Regret and recovered share of both routers, on every layout and at their worst."""
    bars = []
    for layout, arms in group(rows).items():
        for arm, runs in arms.items():
            if not arm.startswith("evenkeel"):
                continue
            regret, share = median_of(runs, "regret"), median_of(runs, "recovered")
            assert regret is not None
            bars.append(bar(f"{layout} {arm} regret", "<= 0.02", regret, holds=regret <= REGRET_LIMIT))
            if share is not None:
                bars.append(
                    bar(f"{layout} {arm} recovered", ">= 0.90", share, holds=share >= RECOVERED_LIMIT)
                )
    return bars


def print_tables(result: Mapping[str, Any]) -> None:
    """A line per layout and arm, then the bars that do not hold."""
    console = build_console()
    table = Table(
        "layout", "arm", "runs", "fullest", "range", "spread", "optimum", "uniform", "regret", "recovered"
    )
    for layout, arms in group(result["rows"]).items():
        for arm, runs in sorted(arms.items(), key=lambda item: list(COLOURS).index(item[0])):
            fullest = summarise([row["fullest"] for row in runs])
            share = median_of(runs, "recovered")
            middle = {
                name: median(row[name] for row in runs) for name in ("spread", "optimum", "uniform", "regret")
            }
            table.add_row(
                layout,
                arm,
                str(fullest.runs),
                f"{fullest.median:.1%}",
                f"{fullest.lowest:.1%}..{fullest.highest:.1%}",
                *(f"{value:.1%}" for value in middle.values()),
                "-" if share is None else f"{share:.1%}",
            )
        table.add_section()
    console.print(table)
    failed = [one for one in result["bars"] if not one["holds"]]
    console.print(f"{len(result['bars']) - len(failed)} of {len(result['bars'])} bars hold")
    for one in failed:
        console.print(f"  {one['name']}: {one['value']:.3f}, demanded {one['limit']}")


def draw(result: Mapping[str, Any], folder: Path, name: str) -> None:
    """Fullest disk and recovered share by layout and arm; fills over time of the run that ends a broker."""
    grouped = group(result["rows"])
    if grouped:
        figure = Figure(figsize=(max(8.0, 1.9 * len(grouped)), 8))
        upper, lower = figure.subplots(2, 1, sharex=True)
        _draw_field(upper, grouped, "fullest")
        _draw_limits(upper, grouped)
        _draw_field(lower, grouped, "recovered")
        upper.set_ylabel("fullest disk, share of its size")
        lower.set_ylabel("recovered share of (uniform - optimum)")
        lower.set_ylim(-1.0, 1.15)
        lower.axhline(RECOVERED_LIMIT, color="grey", linewidth=0.8, linestyle=":")
        lower.axhline(0.0, color="black", linewidth=0.8)
        lower.set_xticks(range(len(grouped)), list(grouped), rotation=20, ha="right")
        upper.legend(ncols=4, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 1.22))
        save_plot(figure, folder, name)
    if result.get("overflow"):
        save_plot(_overflow_figure(result["overflow"]), folder, f"{name}-overflow")


def _draw_field(axes: Axes, grouped: Mapping[str, Mapping[str, Sequence[Row]]], field: str) -> None:
    arms = [arm for arm in COLOURS if any(arm in runs for runs in grouped.values())]
    width = 0.8 / len(arms)
    for number, arm in enumerate(arms):
        places, heights, errors = [], [], []
        for place, runs in enumerate(grouped.values()):
            known = [row[field] for row in runs.get(arm, ()) if row[field] is not None]
            if known:
                middle = median(known)
                places.append(place - 0.4 + width * (number + 0.5))
                heights.append(middle)
                errors.append((middle - min(known), max(known) - middle))
        whiskers = list(zip(*errors, strict=True)) if errors else None
        axes.bar(
            places, heights, width, color=COLOURS[arm], label=arm, yerr=whiskers, error_kw={"linewidth": 0.7}
        )


def _draw_limits(axes: Axes, grouped: Mapping[str, Mapping[str, Sequence[Row]]]) -> None:
    for place, runs in enumerate(grouped.values()):
        rows = [row for found in runs.values() for row in found]
        for field, style in (("optimum", "-"), ("uniform", "--")):
            label = {"optimum": "capped optimum", "uniform": "equal shares"}[field] if place == 0 else ""
            level = median(row[field] for row in rows)
            axes.hlines(
                level, place - 0.45, place + 0.45, color="black", linestyle=style, linewidth=1, label=label
            )


def _overflow_figure(rows: Sequence[Row]) -> Figure:
    figure = Figure(figsize=(5.5 * len(rows), 4))
    for row, axes in zip(rows, figure.subplots(1, len(rows), sharey=True, squeeze=False)[0], strict=True):
        brokers = sorted({broker for sample in row["samples"] for broker in sample["fills"]})
        for broker in brokers:
            points = [(s["second"], s["fills"][broker]) for s in row["samples"] if broker in s["fills"]]
            axes.plot(*zip(*points, strict=True), label=f"broker {broker}")
        end = f"broker {row['brokersDead']} dead" if row["brokersDead"] else "all brokers alive"
        axes.set_title(f"{row['arm']}: {end}")
        axes.set_xlabel("seconds")
        axes.axhline(1.0, color="grey", linewidth=0.8, linestyle=":")
        axes.legend(fontsize=8)
    figure.axes[0].set_ylabel("fill")
    return figure
