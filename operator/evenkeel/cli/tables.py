"""Plans for people, by rich."""

from __future__ import annotations

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.planning.moves import MovesPlan
from evenkeel.planning.routing import TopicRoutes

MOST_ROWS = 60


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


def print_moves(plan: MovesPlan) -> None:
    """Moves in their order."""
    table = Table("topic", "partition", "from", "to", "size", title=f"Moves {plan.hash[:12]}")
    for move in plan.moves[:MOST_ROWS]:
        source, target = (", ".join(map(str, one)) for one in (move.source, move.target))
        if move.target_dir is not None:
            target += f" in {move.target_dir}"
        table.add_row(move.topic, str(move.partition), source, target, decimal(move.bytes))
    console = Console()
    console.print(table)
    _say_rest(console, len(plan.moves))
    if plan.bytes >= plan.lower_bound_bytes > 0:  # less: replicas are too large to reach the band
        console.print(
            f"{decimal(plan.bytes)} to move; no plan needs less than {decimal(plan.lower_bound_bytes)}"
        )
    if plan.seconds is not None:
        count = len(plan.batches)
        console.print(
            f"{count} batch{'es' * (count > 1)}, about {plan.seconds / 60:.1f} min at 10 MB/s per broker"
        )
    for refusal in plan.refusals[:MOST_ROWS]:
        console.print(f"{refusal.reason}: {refusal.subject}: {refusal.message}")


def _say_rest(console: Console, rows: int) -> None:
    if rows > MOST_ROWS:
        console.print(f"... and {rows - MOST_ROWS} more; -o json has them all")
