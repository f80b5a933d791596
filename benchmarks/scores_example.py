"""The worked example of docs/scores.md: what each built-in score does to one small cluster, as table and plot.

`python -m benchmarks.scores_example` reads examples/snapshots/six-brokers.json, plans routes with each score
alone and with all together, prints the shares and draws docs/scores.svg. Nothing is measured: a plan is
arithmetic, and the same everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evenkeel.domain import codec
from evenkeel.domain.exchange import Policy, Score, TopicRouting
from evenkeel.domain.snapshot import ClusterSnapshot, Partition
from evenkeel.keeper.scores import Scores
from evenkeel.planning.routing import plan_routes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
SNAPSHOT = ROOT / "examples" / "snapshots" / "six-brokers.json"
PLOT = ROOT / "docs" / "scores.svg"
TOPIC = "orders"
ALL = (
    Score("Storage"),
    Score("DataDistribution"),
    Score("NodeLoad"),
    Score("WriteLatency"),
    Score("RackLocality", 100, {"rack": "c"}),
)
LED, STORED = "#0072B2", "#E69F00"
FIGURES = Mapping[str, Mapping[int, tuple[float, float]]]
"""Title -> broker -> its share of new bytes as leader, and of their copies."""


def read_example() -> ClusterSnapshot:
    """The snapshot: six brokers, each odd in one way."""
    return codec.loads(ClusterSnapshot, SNAPSHOT.read_text(encoding="utf-8"))


def plan_example(scores: tuple[Score, ...]) -> dict[int, tuple[float, float]]:
    """Broker -> share of new bytes that it leads, and of the copies that it stores."""
    snapshot, routing = read_example(), {TOPIC: TopicRouting(scores=scores)}
    runner = Scores()
    try:
        scored = runner.evaluate(snapshot, routing)
    finally:
        runner.close()
    routes = plan_routes(snapshot, routing, Policy(), scored.costs).topics[TOPIC]
    assert routes.active, routes.message
    return _add_up(snapshot.partitions, routes.weights)


def _add_up(partitions: tuple[Partition, ...], weights: tuple[float, ...]) -> dict[int, tuple[float, float]]:
    led: dict[int, float] = {}
    stored: dict[int, float] = {}
    for partition in partitions:
        weight = weights[partition.partition]
        assert partition.leader is not None
        led[partition.leader] = led.get(partition.leader, 0.0) + weight
        for broker in partition.replicas:
            stored[broker] = stored.get(broker, 0.0) + weight / len(partition.replicas)
    return {broker: (led[broker], stored[broker]) for broker in sorted(led)}


def plan_all() -> dict[str, dict[int, tuple[float, float]]]:
    """Each score alone, then all together."""
    alone = {score.name: plan_example((score,)) for score in ALL}
    return {**alone, "all five": plan_example(ALL)}


def draw(figures: FIGURES) -> Figure:
    """One panel a score: bars by broker, and a line where even shares would be."""
    from matplotlib import pyplot as plt

    import benchmarks.harness.plots  # noqa: F401 - sets the backend, and what makes equal figures equal files

    figure, grid = plt.subplots(2, 3, figsize=(10, 5), sharey=True, layout="constrained")
    for axes, (title, shares) in zip(grid.flat, figures.items(), strict=True):
        _draw_panel(axes, title, shares)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw_panel(axes: Axes, title: str, shares: Mapping[int, tuple[float, float]]) -> None:
    brokers = list(shares)
    axes.bar([b - 0.2 for b in brokers], [100 * shares[b][0] for b in brokers], 0.4, color=LED, label="led")
    stored = [100 * shares[b][1] for b in brokers]
    axes.bar([b + 0.2 for b in brokers], stored, 0.4, color=STORED, label="stored, of all copies")
    axes.axhline(100 / len(brokers), color="black", linewidth=0.8, linestyle=":", label="even")
    axes.set_title(title)
    axes.set_xticks(brokers, [f"{b}" for b in brokers])
    axes.set_xlabel("broker")
    axes.set_ylabel("% of new bytes")


def main() -> int:
    """Print the table in Markdown and write the plot."""
    figures = plan_all()
    brokers = list(next(iter(figures.values())))
    print("| score | " + " | ".join(f"broker {broker}" for broker in brokers) + " |")
    print("|---|" + "---|" * len(brokers))
    for title, shares in figures.items():
        print(f"| {title} | " + " | ".join(f"{100 * shares[broker][0]:.0f}" for broker in brokers) + " |")
    draw(figures).savefig(PLOT, bbox_inches="tight", metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
