"""Plans for people, by rich."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from evenkeel.cli.words import BAR_WIDTH, count, draw_change, tell_permille, tell_seconds
from evenkeel.domain.exchange import Policy
from evenkeel.domain.moves import Batch, Move, MoveKind, ProposedPlan, VolumeFill

if TYPE_CHECKING:  # the planner is heavy, and a plan of a cluster is shown without it
    from evenkeel.domain.snapshot import ClusterSnapshot
    from evenkeel.planning.moves import MovesPlan
    from evenkeel.planning.routing import TopicRoutes

MOST_ROWS = 60
MOST_BATCHES = 20
MOST_FILLS = 40
"""Of more volumes the fullest and the emptiest are shown."""
AUTO_THROTTLE = "10 MB/s at first"


def print_routes(routes: TopicRoutes, snapshot: ClusterSnapshot) -> None:
    """Weights by partition, beside where the partition lies."""
    places = {p.partition: p for p in snapshot.partitions if p.topic == routes.topic}
    table = Table(
        "partition", "leader", "replicas", "weight", "of an even share", title=f"Routes of {routes.topic}"
    )
    even = 1 / len(routes.weights)
    for number, weight in enumerate(routes.weights[:MOST_ROWS]):
        place = places[number]
        leader = "none" if place.leader is None else str(place.leader)
        replicas = ", ".join(map(str, place.replicas))
        table.add_row(str(number), leader, replicas, f"{weight:.3%}", f"{weight / even:.2f}")
    console = Console()
    console.print(table)
    _say_rest(console, len(routes.weights))


def print_moves(plan: MovesPlan, policy: Policy, console: Console | None = None) -> None:
    """A plan of the planner: as `print_plan`, with the choice between routing and moving, and what is not in it."""
    from evenkeel.planning.proposal import build_proposal

    console = console or Console()
    proposal = build_proposal(plan, throttle_bytes_per_second=policy.throttle_bytes_per_second)
    print_plan(proposal, console, policy.max_fill_percent)
    if plan.choice is not None:
        _say(console, f"Route or move: {plan.choice.message} ({plan.choice.reason})")
    for refusal in plan.refusals[:MOST_ROWS]:
        _say(console, f"{refusal.reason}: {refusal.subject}: {refusal.message}")
    if len(plan.refusals) > MOST_ROWS:
        _say(console, f"... and {len(plan.refusals) - MOST_ROWS} more refusals; -o json has them all")


def print_plan(plan: ProposedPlan, console: Console, max_fill_percent: int | None = None) -> None:
    """Moves in their order, batches, volumes before and after, and what it costs."""
    console.print(build_moves(plan))
    _say_rest(console, sum(len(batch.moves) for batch in plan.batches))
    console.print(build_batches(plan.batches))
    if len(plan.batches) > MOST_BATCHES:
        _say(console, f"... and {len(plan.batches) - MOST_BATCHES} batches more")
    if plan.fills:
        console.print(build_fill_table(plan.fills, max_fill_percent))
        if len(plan.fills) > MOST_FILLS:
            _say(console, f"... and {len(plan.fills) - MOST_FILLS} volumes between these")
    for line in tell_costs(plan):
        _say(console, line)


def build_moves(plan: ProposedPlan) -> Table:
    """Which replica goes where."""
    table = Table(title=f"Moves {plan.hash[:12]}".strip())
    for name in ("batch", "topic", "partition", "from", "to", "size"):
        right = name in ("batch", "partition", "size")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    numbered = ((batch.number, move) for batch in plan.batches for move in batch.moves)
    for number, move in _first(numbered, MOST_ROWS):
        source = ", ".join(map(str, move.source))
        table.add_row(
            str(number + 1),
            Text(move.topic),
            str(move.partition),
            source,
            _tell_target(move),
            decimal(move.bytes),
        )
    return table


def build_batches(batches: Sequence[Batch]) -> Table:
    """What runs at the same time, for how long, and how high volumes rise meanwhile."""
    table = Table(title="Batches")
    for name in ("batch", "moves", "size", "time", "highest peak"):
        table.add_column(name, justify="left" if name == "highest peak" else "right", overflow="fold")
    for batch in batches[:MOST_BATCHES]:
        highest = max(batch.peaks, key=lambda peak: peak.fill, default=None)
        peak = "" if highest is None else f"{highest.fill:.1%} on {highest.volume}"
        table.add_row(
            str(batch.number + 1),
            str(len(batch.moves)),
            decimal(batch.bytes),
            tell_seconds(batch.seconds),
            Text(peak),
        )
    return table


def build_fill_table(fills: Sequence[VolumeFill], max_fill_percent: int | None = None) -> Table:
    """Volumes before, after and at their peak, each with a bar."""
    limit = None if max_fill_percent is None else max_fill_percent * 10
    caption = "█ stays  ░ leaves  ▓ comes" + ("" if limit is None else f"  ┊ limit {max_fill_percent} %")
    table = Table(title="Volumes", caption=caption, caption_justify="left")
    for name in ("volume", "before", "after", "peak"):
        table.add_column(name, justify="left" if name == "volume" else "right", overflow="fold")
    table.add_column("of the capacity", no_wrap=True, min_width=BAR_WIDTH)
    for fill in shorten(fills):
        told = (tell_permille(one) for one in (fill.before_permille, fill.after_permille, fill.peak_permille))
        bar = draw_change(fill.before_permille, fill.after_permille, limit)
        table.add_row(Text(fill.volume), *told, bar)
    return table


def shorten(fills: Sequence[VolumeFill]) -> Sequence[VolumeFill]:
    """All volumes, or the fullest and the emptiest of many; in their order."""
    if len(fills) <= MOST_FILLS:
        return fills
    ranked = sorted(range(len(fills)), key=lambda at: (-fills[at].before_permille, at))
    half = MOST_FILLS // 2
    return [fills[at] for at in sorted({*ranked[:half], *ranked[-half:]})]


def tell_costs(plan: ProposedPlan) -> Iterator[str]:
    """Bytes, lower bound, time and deviation, a sentence each."""
    moves = [move for batch in plan.batches for move in batch.moves]
    more = ""
    if plan.bytes >= plan.lower_bound_bytes > 0:  # less: replicas are too large to reach the band
        more = f"; no plan needs less than {decimal(plan.lower_bound_bytes)}"
    yield f"{decimal(plan.bytes)} to move in {count(len(moves), 'move')}{more}"
    throttle = plan.throttle_bytes_per_second
    pace = f"{decimal(throttle)}/s" if throttle else AUTO_THROTTLE
    yield f"{count(len(plan.batches), 'batch')}, about {tell_seconds(plan.seconds)} at {pace} per broker"
    if plan.deviation_before_permille is not None:
        before, after = (
            tell_permille(one) for one in (plan.deviation_before_permille, plan.deviation_after_permille)
        )
        yield f"farthest from the mean fill: {before} of it before, {after} after"


def _tell_target(move: Move) -> Text:
    target = ", ".join(map(str, move.target))
    if move.target_dir is not None:
        target += f" in {move.target_dir}"
    if move.kind in (MoveKind.ADD, MoveKind.REMOVE):
        target += " (one more)" if move.kind is MoveKind.ADD else " (one less)"
    return Text(target)


def _first(rows: Iterable[tuple[int, Move]], most: int) -> Iterator[tuple[int, Move]]:
    for _, row in zip(range(most), rows, strict=False):
        yield row


def _say_rest(console: Console, rows: int) -> None:
    if rows > MOST_ROWS:
        _say(console, f"... and {rows - MOST_ROWS} more; -o json has them all")


def _say(console: Console, text: str) -> None:
    """As it stands: names of topics are no markup."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
