"""`kubectl evenkeel plan`: the open plan of a cluster, or why there is none."""

from __future__ import annotations

import json
from typing import Any

from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.api.rebalance_plan import RebalancePlan
from evenkeel.cli.kubectl.convert import build_proposal
from evenkeel.cli.kubectl.screen import Screen
from evenkeel.cli.kubectl.session import Session
from evenkeel.cli.main import OK, REFUSED
from evenkeel.cli.plots import write_plot
from evenkeel.cli.tables import print_plan
from evenkeel.cli.words import tell_seconds
from evenkeel.controller.plans import tell_expiration
from evenkeel.domain.moves import Approval
from evenkeel.reasons import ConditionType, Reason

DECLARED = ("apiVersion", "kind", "metadata", "spec")
NAMED_BY = ("name", "namespace")
FINE = {
    Reason.NOTHING_TO_DO,
    Reason.BELOW_THRESHOLD,
    Reason.BALANCED,
    Reason.ROUTING_HEALS,
    Reason.DISABLED,
    Reason.PAUSED,
    Reason.MOVES_PLANNED,
}
"""Reasons for which the absence of a plan is as it should be; moves that are planned become one soon."""


async def show_plan(session: Session, screen: Screen, name: str | None, output: str, plot: str | None) -> int:
    """Show it; returns the exit code: 0 a plan or nothing to do, 3 none for another reason.

    Raises:
        InputError: there is no such cluster, or the picture cannot be written.
    """
    cluster = await session.find_cluster(name)
    plan = await session.find_open(cluster.metadata.name)
    if plan is None:
        return _explain_absence(cluster, screen, output, plot)
    if output == "table":
        _print(plan, cluster, screen)
    else:
        item = await session.read_object(plan.metadata.name)
        screen.out.file.write(dump(item or {}, output))
    if plot is not None:
        title = f"{plan.metadata.name}: fill of the volumes before and after {len(plan.spec.moves)} moves"
        write_plot(plot, build_proposal(plan).fills, title, cluster.spec.balance.max_fill_percent)
        screen.note(f"picture: {plot}")
    return OK


def dump(item: dict[str, Any], output: str) -> str:
    """What somebody would declare: it can be committed and applied, and is theirs then, in any cluster.

    With our owner and labels it would count as made by the operator: approved by it, removed with its cluster.
    """
    body = {key: item[key] for key in DECLARED if key in item}
    body["metadata"] = {key: value for key, value in body.get("metadata", {}).items() if key in NAMED_BY}
    if output == "json":
        return json.dumps(body, indent=2) + "\n"
    import yaml

    return str(yaml.safe_dump(body, sort_keys=False, allow_unicode=True))


def tell_approval(plan: RebalancePlan) -> str:
    """What was decided, and what to type."""
    name = plan.metadata.name
    if plan.spec.approval is Approval.PENDING:
        until = tell_expiration(plan)
        return f"waits for a decision until {until}: kubectl evenkeel approve {name} (or reject)"
    if plan.spec.approval is Approval.REJECTED:
        return "rejected: what is under way is cancelled where that is safe"
    return f"approved: kubectl evenkeel status {plan.spec.cluster_ref.name} --watch (or cancel)"


def _print(plan: RebalancePlan, cluster: BalancedCluster, screen: Screen) -> None:
    proposal = build_proposal(plan)
    screen.say(f"RebalancePlan {plan.metadata.name} of BalancedCluster {cluster.metadata.name}")
    print_plan(proposal, screen.out, cluster.spec.balance.max_fill_percent)
    if proposal.message:
        screen.say(f"{proposal.reason}: {proposal.message}")
    for line in tell_cure(cluster):
        screen.say(line)
    screen.say(tell_approval(plan))


def tell_cure(cluster: BalancedCluster) -> list[str]:
    """Route or move, with both times; empty where nothing is routed."""
    moves = cluster.status.moves
    if moves is None or moves.cure is None:
        return []
    routing = (
        "never levels the disks"
        if moves.routing_seconds is None
        else f"needs {tell_seconds(moves.routing_seconds)}"
    )
    limit = (
        "no disk reaches the limit"
        if moves.limit_seconds is None
        else f"the first disk reaches the limit in {tell_seconds(moves.limit_seconds)}"
    )
    return [f"route or move: {moves.cure} (routing alone {routing}; {limit})"]


def _explain_absence(cluster: BalancedCluster, screen: Screen, output: str, plot: str | None) -> int:
    reason, message = find_absence(cluster)
    tell = screen.say if output == "table" else screen.note
    tell(f"{cluster.metadata.name} has no open plan: {reason}: {message}")
    for line in tell_cure(cluster):
        tell(line)
    if plot is not None:
        screen.note("no picture: there is no plan to draw")
    return OK if reason in FINE else REFUSED


def find_absence(cluster: BalancedCluster) -> tuple[str, str]:
    """Why there is no plan, by the operator's condition, else by the newest measurement."""
    pending, moves = cluster.status.condition(ConditionType.PLAN_PENDING), cluster.status.moves
    if pending is not None:
        return pending.reason, pending.message
    if moves is not None:
        return moves.reason, moves.message
    return Reason.STARTING.value, "the cluster was not measured yet"
