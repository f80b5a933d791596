"""Where new bytes should go: all topics of a snapshot together, as one plan (design section 5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from evenkeel.domain.exchange import Policy, TopicRouting
from evenkeel.domain.snapshot import ClusterSnapshot, Partition
from evenkeel.planning.advice import CAP_COST, Fills, describe, find_binding
from evenkeel.planning.eligible import BETA, Refusal, build_columns, has_leader, refuse_topic, stopped
from evenkeel.planning.inflow import apply_floor, base_bytes, expect_inflow, expected_bytes
from evenkeel.planning.program import Columns, Program, solve_optimum
from evenkeel.planning.space import Floats, Space, build_space
from evenkeel.planning.weights import blend, solve_weights
from evenkeel.reasons import Reason

BUDGET_FILL = 0.01
"""A table's budget ends where a volume would pass its predicted level by this share of its capacity."""
SLACK_SHARE = 0.05
"""Of what routing can win, given up for smoother weights: 0.5 % of capacity can be more than all there is."""
LEAST_SLACK = 1e-3
"""As a share of what is written."""


@dataclass(frozen=True, slots=True)
class TopicRoutes:
    """What the plan says of one topic. Fills are fractions of the fullest volume of the whole cluster."""

    topic: str
    active: bool
    """False: not routed, for the reason given; the fields below are empty."""
    reason: Reason
    message: str
    weights: tuple[float, ...] = ()
    """Share of each partition 0..P-1, sum 1."""
    stop: tuple[int, ...] = ()
    budget_bytes: int | None = None
    steerable_bytes: int | None = None
    """W: what the weights are meant for, before replication."""
    raised: bool = False
    """W is more than what is expected, so that little inflow does not all go to one broker; the fills below
    are those after W bytes, not a forecast."""
    predicted_max_fill: float | None = None
    optimal_max_fill: float | None = None
    """With caps and bounds: the yardstick."""
    uncapped_max_fill: float | None = None
    uniform_max_fill: float | None = None
    """With equal shares for all partitions that have a leader: what default partitioning does."""
    binding_caps: tuple[str, ...] = ()
    """Caps of this topic that its weights stand at, where caps cost more than CAP_COST."""
    valid_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class RoutesPlan:
    """Routes of all topics that were asked for."""

    topics: Mapping[str, TopicRoutes] = field(default_factory=dict)
    taken_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class _Request:
    """What is asked for: the arguments of `plan_routes` that all topics share."""

    snapshot: ClusterSnapshot
    space: Space
    partitions: Mapping[str, list[Partition]]
    policy: Policy
    costs: Mapping[str, Mapping[int, float]]
    betas: Mapping[str, float]


def plan_routes(
    snapshot: ClusterSnapshot,
    topics: Mapping[str, TopicRouting],
    policy: Policy,
    costs: Mapping[str, Mapping[int, float]] | None = None,
    *,
    betas: Mapping[str, float] | None = None,
) -> RoutesPlan:
    """Weights for all `topics` together, from one snapshot.

    Args:
        snapshot: what was measured.
        topics: topics to route, with their scores.
        policy: slack and limits.
        costs: topic -> partition -> k, the weighted sum of its scores other than Storage. A topic is in it
            when at least one such score counted; an empty mapping says nothing of any partition.
        betas: topic -> sharpness towards fills, before the Storage score's weight; absent: 500.

    Raises:
        InputError: the snapshot, a cost or a beta holds an impossible value.
    """
    space, costs = build_space(snapshot), costs or {}
    partitions = snapshot.group_partitions(topics)
    refusals = {
        topic: refusal
        for topic, routing in topics.items()
        if (
            refusal := refuse_topic(topic, snapshot, space, routing, partitions[topic], costed=topic in costs)
        )
    }
    routed = {topic: routing for topic, routing in topics.items() if topic not in refusals}
    result = {topic: _refused(topic, refusal) for topic, refusal in refusals.items()}
    if routed:
        result |= _plan(_Request(snapshot, space, partitions, policy, costs, betas or {}), routed)
    return RoutesPlan(topics={topic: result[topic] for topic in topics}, taken_at_ms=snapshot.taken_at_ms)


def _refused(topic: str, refusal: Refusal) -> TopicRoutes:
    return TopicRoutes(topic=topic, active=False, reason=refusal[0], message=refusal[1])


def _plan(request: _Request, routed: Mapping[str, TopicRouting]) -> dict[str, TopicRoutes]:
    """Topics whose bytes are expected first; those that the floor raises come after, upon them.

    The floor is what weights of little or no inflow are made for, not bytes that will come: taken for real,
    an idle topic would seem to level the disks by itself and keep a running ingest from doing it.
    """
    space = request.space
    inflow = expect_inflow(request.snapshot, routed, space, request.policy.max_fill_percent / 100)
    base, names = base_bytes(request.snapshot, space, inflow), tuple(routed)
    expected = expected_bytes(inflow, names, space.capacity)
    raised = apply_floor(inflow, names, base, space.capacity)
    late = [topic for topic in names if raised[topic] > expected[topic]]
    if not late or len(late) == len(names):
        sure = sum(expected.values()) / sum(raised.values())
        return _plan_together(request, routed, base, raised, late, sure)[0]
    first, load = _plan_together(request, routed, base, expected, late, 1.0)
    first = {topic: routes for topic, routes in first.items() if topic not in late}
    rest = {topic: routed[topic] for topic in late}
    sure = sum(expected[topic] for topic in late) / sum(raised[topic] for topic in late)
    return first | _plan_together(request, rest, load, raised, late, sure)[0]


def _plan_together(
    request: _Request,
    routed: Mapping[str, TopicRouting],
    base: Floats,
    steerable: Mapping[str, float],
    late: Collection[str],
    sure: float,
) -> tuple[dict[str, TopicRoutes], Floats]:
    """One program for all of `routed` -> their routes, and the volumes' bytes with those not in `late`.

    `sure`: part of the steerable bytes that is expected; the rest is the floor's.
    """
    stops = {topic: stopped(request.space, request.partitions[topic], request.policy) for topic in routed}
    columns = tuple(
        build_columns(
            topic,
            request.snapshot,
            request.space,
            request.partitions[topic],
            stops[topic],
            routing,
            steerable[topic],
            request.costs.get(topic),
            request.betas.get(topic, BETA),
        )
        for topic, routing in routed.items()
    )
    program = Program(capacity=request.space.capacity, base=base, columns=columns)
    uniform = _uniform_fill(program, request.space, request.partitions)
    shares, found = _solve(program, request.policy.slack_percent / 100, uniform, sure)
    routes, load = {}, base.copy()
    for topic, share in zip(columns, shares, strict=True):
        made = _routes(topic, share, found, stops[topic.topic], program, routed[topic.topic])
        routes[topic.topic] = replace(made, raised=topic.topic in late)
        if topic.topic not in late:
            load += topic.steerable * (topic.on_volume @ share)
    return routes, load


def _solve(program: Program, slack: float, uniform: float, sure: float) -> tuple[list[Floats], Fills]:
    """Shares of each topic, and what they lead to."""
    optimal, vertex = solve_optimum(program)
    uncapped, _ = solve_optimum(program, capped=False)
    ceiling = optimal + _slack(program, slack, sure * (uniform - optimal))
    shares = blend(program, solve_weights(program, ceiling), vertex, ceiling)
    filled = program.fills(shares)
    mean = float(filled @ program.capacity / program.capacity.sum())
    return shares, Fills(float(filled.max()), optimal, uncapped, uniform, mean)


def _slack(program: Program, slack: float, gap: float) -> float:
    """How far above the optimum the fullest volume may end for smoother weights.

    A little of what there is to win (`gap`: by the bytes that are expected), and never more than the policy
    allows. Not 0: prices have no bound where T is the optimum itself. Where a score gives costs it has all that
    the policy allows: else fill alone would decide.
    """
    if any(topic.costs.any() for topic in program.columns):
        return max(slack, LEAST_SLACK * program.written())
    return max(min(slack, SLACK_SHARE * gap), LEAST_SLACK * program.written())


def _uniform_fill(program: Program, space: Space, partitions: Mapping[str, list[Partition]]) -> float:
    load = program.base.copy()
    for topic in program.columns:
        led = [partition for partition in partitions[topic.topic] if has_leader(partition)]
        for partition in led:
            for broker in partition.replicas:
                if (volume := space.locate(partition, broker)) is not None:
                    load[volume] += topic.steerable / len(led)
    return float((load / program.capacity).max())


def _routes(
    columns: Columns,
    share: Floats,
    fills: Fills,
    stop: tuple[int, ...],
    program: Program,
    routing: TopicRouting,
) -> TopicRoutes:
    weights = np.zeros(columns.partitions)
    weights[columns.open] = share / share.sum()
    binding = tuple(find_binding(columns, share)) if fills.caps_cost > CAP_COST else ()
    reason, message = describe(columns, binding, fills, program)
    return TopicRoutes(
        topic=columns.topic,
        active=True,
        reason=reason,
        message=message,
        weights=tuple(weights.tolist()),
        stop=stop,
        budget_bytes=_budget(columns, share, program),
        steerable_bytes=round(columns.steerable),
        predicted_max_fill=fills.predicted,
        optimal_max_fill=fills.optimal,
        uncapped_max_fill=fills.uncapped,
        uniform_max_fill=fills.uniform,
        binding_caps=binding,
        valid_ms=routing.stale_after_seconds * 1000,
    )


def _budget(columns: Columns, share: Floats, program: Program) -> int:
    """Bytes until some volume passes its predicted level by 1 % of capacity; topics share that percent."""
    pull = columns.on_volume @ share
    room = program.capacity * BUDGET_FILL * columns.steerable / sum(t.steerable for t in program.columns)
    beyond = float(np.min(room[pull > 0] / pull[pull > 0])) if bool(np.any(pull > 0)) else 0.0
    return int(columns.steerable + beyond)
