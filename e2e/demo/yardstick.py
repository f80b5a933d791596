"""The best that routing could reach: the keeper's own program on the snapshot before the ingest. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evenkeel.domain.exchange import Policy, TopicRouting
from evenkeel.domain.snapshot import ClusterSnapshot, Incoming, Partition
from evenkeel.planning.routing import plan_routes

TOPIC = "evenkeel-yardstick"


@dataclass(frozen=True)
class Yardstick:
    """Fill of the fullest disk after the ingest, as shares of its capacity."""

    optimum: float
    """Under the caps: what all regret is measured against."""
    uncapped: float
    uniform: float
    """With equal bytes for every partition."""


def build_yardstick(
    snapshot: ClusterSnapshot, assignments: Sequence[Sequence[int]], planned_bytes: int, policy: Policy
) -> Yardstick:
    """Add the topic that is not there yet, and its bytes, to the snapshot and plan.

    Raises:
        ValueError: the plan does not route it; says why.
    """
    partitions = tuple(
        Partition(topic=TOPIC, partition=i, leader=replicas[0], replicas=tuple(replicas), isr=tuple(replicas))
        for i, replicas in enumerate(assignments)
    )
    # Nothing else flows while the demo ingests.
    expected = replace(
        snapshot,
        partitions=(*snapshot.partitions, *partitions),
        incoming=(Incoming(TOPIC, planned_bytes=planned_bytes),),
    )
    routes = plan_routes(expected, {TOPIC: TopicRouting()}, policy).topics[TOPIC]
    if routes.optimal_max_fill is None or routes.uncapped_max_fill is None or routes.uniform_max_fill is None:
        raise ValueError(f"the yardstick cannot be planned: {routes.message}")
    return Yardstick(routes.optimal_max_fill, routes.uncapped_max_fill, routes.uniform_max_fill)
