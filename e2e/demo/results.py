"""The demo's page of results: what was measured, what must hold, and what to type next. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from e2e.demo.ledger import Coverage

NEAR_OPTIMUM = 0.02
"""How far above the capped optimum the fullest disk may end, as a share of its capacity."""
LEAST_RECOVERED = 0.90
"""Of what default partitioning loses against the optimum."""
LEAST_ACCURACY = 0.90
NOT_MEASURED = "not measured"
Fills = Mapping[int, float]
"""Broker -> used share of its disk."""


@dataclass(frozen=True)
class Routing:
    """Fills of the disks, each measured on them, and the yardstick."""

    before: Fills
    twins: tuple[Fills, ...]
    """After each write of the same messages by a plain producer."""
    after: Fills
    optimum: float
    """Lowest possible fill of the fullest disk under the caps, from the snapshot before the ingest."""
    uncapped: float


@dataclass(frozen=True)
class Dataset:
    """A dataset as the source has it and as its status says."""

    name: str
    source_records: int
    revision_records: int
    rejected_records: int
    digest: str
    wanted_nodes: int = 0
    warm_nodes: int = 0


@dataclass(frozen=True)
class Rank:
    """What one rank of the training did."""

    rank: int
    records: int
    epochs: int
    accuracy: float
    held_out: int
    consistent: bool
    same_revision: bool


@dataclass(frozen=True)
class Measured:
    """Everything that a run measured."""

    routing: Routing | None
    """None where no file system could be mounted."""
    datasets: tuple[Dataset, ...]
    ranks: tuple[Rank, ...]
    coverage: Coverage
    steps: tuple[tuple[str, float], ...]
    seconds: float
    peak_bytes: int
    """Memory taken from the machine at most, beyond what was taken at the start."""


@dataclass(frozen=True)
class Row:
    """A line of the page."""

    title: str
    value: str
    holds: bool | None = None
    """None: nothing is asked of it, or it was not measured."""


def spread(fills: Fills) -> float:
    """Fullest less emptiest disk."""
    return max(fills.values()) - min(fills.values())


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean."""
    return sum(values) / len(values)


def share_recovered(routing: Routing) -> float | None:
    """Part of what default partitioning loses against the optimum that routing won back; None: it loses nothing."""
    default = mean([max(fills.values()) for fills in routing.twins])
    lost = default - routing.optimum
    return (default - max(routing.after.values())) / lost if lost > 0 else None


def judge(measured: Measured) -> list[Row]:
    """Every line with whether it holds."""
    rows = judge_routing(measured.routing)
    for dataset in measured.datasets:
        rows.append(_records(dataset))
        if dataset.wanted_nodes:
            warm = f"{dataset.warm_nodes} of {dataset.wanted_nodes}"
            rows.append(Row(f"{dataset.name}: warm nodes", warm, dataset.warm_nodes == dataset.wanted_nodes))
    return [*rows, *_training(measured.ranks, measured.coverage)]


def judge_routing(routing: Routing | None) -> list[Row]:
    """Fullest disk and spread: best possible, default partitioning, Evenkeel."""
    titles = ("fullest disk: within 2 % of the best possible", "lost by default partitioning, recovered")
    if routing is None:
        return [Row(title, NOT_MEASURED) for title in ("fullest disk", "spread of fills", *titles)]
    after, default = max(routing.after.values()), mean([max(fills.values()) for fills in routing.twins])
    apart = mean([spread(fills) for fills in routing.twins])
    recovered = share_recovered(routing)
    fullest = f"{after:.1%}; best possible {routing.optimum:.1%} ({routing.uncapped:.1%} without caps), default {default:.1%}"
    level = f"{spread(routing.after):.1%}; before {spread(routing.before):.1%}, default {apart:.1%}"
    gain = "nothing was lost" if recovered is None else f"{recovered:.0%} (at least {LEAST_RECOVERED:.0%})"
    return [
        Row("fullest disk", fullest),
        Row("spread of fills (fullest less emptiest)", level, spread(routing.after) < apart),
        Row(
            titles[0], f"{after - routing.optimum:+.2%} of capacity", after - routing.optimum <= NEAR_OPTIMUM
        ),
        Row(titles[1], gain, recovered is None or recovered >= LEAST_RECOVERED),
    ]


def build_page(measured: Measured, rows: Sequence[Row], hints: Sequence[str]) -> str:
    """The page as text."""
    lines = ["", "Results, all measured in this run", ""]
    lines += [f"  {_mark(row)} {row.title:<46} {row.value}" for row in rows]
    if measured.routing is not None:
        lines += ["", *_disk_table(measured.routing)]
    lines += ["", "Times", ""]
    lines += [f"  {title:<64} {seconds:7.1f} s" for title, seconds in measured.steps]
    lines += [f"  {'in total':<64} {measured.seconds:7.1f} s"]
    lines += [f"  {'memory taken at most':<64} {measured.peak_bytes / 2**30:7.1f} GiB"]
    failed = [row.title for row in rows if row.holds is False]
    verdict = f"FAILED: {'; '.join(failed)}" if failed else "Everything holds."
    lines += ["", verdict, "", "What to type next", "", *(f"  {hint}" for hint in hints), ""]
    return "\n".join(lines)


def build_report(measured: Measured, rows: Sequence[Row]) -> dict[str, Any]:
    """The same as JSON."""
    return {"holds": holds(rows), "rows": [asdict(row) for row in rows], "measured": asdict(measured)}


def holds(rows: Sequence[Row]) -> bool:
    """Whether no row failed."""
    return all(row.holds is not False for row in rows)


def _records(dataset: Dataset) -> Row:
    value = f"{dataset.revision_records} of {dataset.source_records} in the source"
    if dataset.rejected_records:
        value += f", {dataset.rejected_records} refused and listed"
    whole = dataset.revision_records + dataset.rejected_records == dataset.source_records > 0
    return Row(f"{dataset.name}: records ingested", value, whole)


def _training(ranks: Sequence[Rank], coverage: Coverage) -> list[Row]:
    rows = [
        Row(
            f"training rank {rank.rank}: records seen",
            f"{rank.records} in {rank.epochs} epochs",
            rank.records > 0 and rank.consistent and rank.same_revision,
        )
        for rank in ranks
    ]
    value = f"{coverage.missing} missing, {coverage.repeated} repeated in {coverage.epochs} epochs"
    if coverage.foreign:
        value += f", {coverage.foreign} unknown"
    if coverage.examples:
        value += f" ({', '.join(coverage.examples)})"
    rows.append(Row("training: each record once per epoch", value, coverage.exact))
    accuracy = min((rank.accuracy for rank in ranks), default=0.0)
    held = min((rank.held_out for rank in ranks), default=0)
    text = f"{accuracy:.1%} of {held} records (at least {LEAST_ACCURACY:.0%})"
    return [*rows, Row("training: right on held-out digits", text, accuracy >= LEAST_ACCURACY)]


def _disk_table(routing: Routing) -> list[str]:
    head = f"  {'disk of broker':<16}{'before':>10}{'default':>10}{'Evenkeel':>10}"
    lines = [head]
    for broker in sorted(routing.after):
        default = mean([fills[broker] for fills in routing.twins])
        lines.append(
            f"  {broker:<16}{routing.before[broker]:>10.1%}{default:>10.1%}{routing.after[broker]:>10.1%}"
        )
    return lines


def _mark(row: Row) -> str:
    return {True: "ok    ", False: "FAILED", None: "      "}[row.holds]
