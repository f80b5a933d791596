"""`kubectl evenkeel status`: a cluster at a glance, and its plan until it is finished."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from evenkeel.api.balanced_cluster import BalancedCluster, VolumeStatus
from evenkeel.api.rebalance_plan import RebalancePlan
from evenkeel.cli.kubectl.plan import tell_approval, tell_cure
from evenkeel.cli.kubectl.progress import Bar, draw_progress, tell_end, tell_progress
from evenkeel.cli.kubectl.screen import Screen
from evenkeel.cli.kubectl.session import RefusedError, Session, pick_open
from evenkeel.cli.main import OK, REFUSED
from evenkeel.cli.words import BAR_WIDTH, count, draw_fill, tell_permille
from evenkeel.reasons import ConditionType, Reason

MOST_VOLUMES = 40


async def show_status(session: Session, screen: Screen, name: str | None, *, watch: bool) -> int:
    """Show one cluster, or all of the namespace; returns the exit code.

    With `watch`: 0 when the plan has moved everything or there is none, 3 when it ended otherwise.

    Raises:
        InputError: there is no such cluster, or several and none is named while one is to be followed.
        RefusedError: the plan that was followed was deleted.
    """
    clusters = [await session.find_cluster(name)] if watch or name else await session.list_clusters()
    if not clusters:
        clusters = [await session.find_cluster(None)]
    plans = await session.list_plans()
    for cluster in clusters:
        plan = pick_open(plans, cluster.metadata.name)
        print_cluster(screen, cluster, plan, find_last(plans, cluster.metadata.name))
        if watch:
            return await follow(session, screen, plan)
    return OK


async def follow(session: Session, screen: Screen, plan: RebalancePlan | None) -> int:
    """Progress until the plan is finished; returns the exit code.

    Raises:
        RefusedError: it was deleted.
    """
    if plan is None:
        screen.note("there is no open plan to follow")
        return OK
    with Bar.open(screen.err) as bar:
        bar.show(plan)
        async with aclosing(session.follow_plan(plan)) as changes:  # type: ignore[type-var]
            async for newest in changes:
                if newest is None:
                    raise RefusedError(f"{plan.metadata.name} was deleted", reason=Reason.PLAN_OUTDATED)
                bar.show(newest)
                if newest.is_finished:
                    plan = newest
                    break
    screen.say(f"{plan.metadata.name}: {tell_end(plan)}")
    ready = plan.status.condition(ConditionType.READY)
    return OK if ready is not None and ready.reason == Reason.MOVED else REFUSED


def find_last(plans: Sequence[RebalancePlan], cluster: str) -> RebalancePlan | None:
    """The plan of a cluster that finished last."""

    def ended(plan: RebalancePlan) -> float:
        ready = plan.status.condition(ConditionType.READY)
        return 0.0 if ready is None else ready.last_transition_time.timestamp()

    finished = [one for one in plans if one.spec.cluster_ref.name == cluster and one.is_finished]
    return max(finished, key=ended, default=None)


def print_cluster(
    screen: Screen, cluster: BalancedCluster, plan: RebalancePlan | None, last: RebalancePlan | None = None
) -> None:
    """Volumes, conditions, and the open plan or else the last one."""
    status = cluster.status
    brokers = "" if status.brokers is None else f", {count(status.brokers, 'broker')}"
    screen.say(f"BalancedCluster {cluster.metadata.name} ({cluster.spec.state}{brokers})")
    if status.volumes:
        screen.out.print(build_volumes(status.volumes, cluster.spec.balance.max_fill_percent))
    if len(status.volumes) > MOST_VOLUMES:
        screen.say(f"... and {len(status.volumes) - MOST_VOLUMES} less full volumes")
    screen.say(
        f"fullest volume {tell_permille(status.max_fill_permille)},"
        f" farthest from the mean {tell_permille(status.deviation_permille)} of it"
    )
    for one in status.conditions:
        screen.say(f"  {one.type}={one.status} {one.reason}: {one.message}")
    for line in tell_cure(cluster):
        screen.say(line)
    if plan is None:
        before = "" if last is None else f"; the last one was {last.metadata.name}: {tell_end(last)}"
        screen.say(f"no open plan{before}")
    else:
        print_open_plan(screen, plan)


def print_open_plan(screen: Screen, plan: RebalancePlan) -> None:
    """Bar and sentence."""
    screen.say(f"RebalancePlan {plan.metadata.name}: {tell_approval(plan)}")
    if plan.has_begun:
        screen.say(f"  {draw_progress(plan.status.percent)} {plan.status.percent} %")
        screen.say(f"  {tell_progress(plan)}")


def build_volumes(volumes: Sequence[VolumeStatus], max_fill_percent: int) -> Table:
    """One bar per volume; of many the fullest."""
    table = Table(caption=f"┊ limit {max_fill_percent} %", caption_justify="left")
    for name in ("broker", "directory", "fill", "", "used", "of", "full in", "node"):
        right = name in ("broker", "fill", "used", "of", "full in")
        table.add_column(name, justify="right" if right else "left", no_wrap=name == "", overflow="fold")
    table.columns[3].min_width = BAR_WIDTH
    for one in _shorten(volumes):
        permille = _permille(one)
        days = "" if one.full_in_days is None else count(one.full_in_days, "day")
        table.add_row(
            str(one.broker),
            Text(one.path),
            tell_permille(permille),
            draw_fill(permille, max_fill_percent * 10),
            _size(one.used_bytes),
            _size(one.total_bytes),
            days,
            one.node or "",
        )
    return table


def _shorten(volumes: Sequence[VolumeStatus]) -> Sequence[VolumeStatus]:
    if len(volumes) <= MOST_VOLUMES:
        return volumes
    return sorted(volumes, key=lambda one: -(_permille(one) or 0))[:MOST_VOLUMES]


def _permille(volume: VolumeStatus) -> int | None:
    if not volume.total_bytes or volume.used_bytes is None:
        return None
    return round(1000 * volume.used_bytes / volume.total_bytes)


def _size(size: int | None) -> str:
    return "?" if size is None else decimal(size)
