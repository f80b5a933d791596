"""What the report says of steered shares and forecasts, settled so that it changes only with the facts."""

from __future__ import annotations

from dataclasses import replace

from evenkeel.domain.exchange import RoutesReport
from evenkeel.keeper.inflow import SteeredTopic
from evenkeel.keeper.settling import settle
from evenkeel.planning.forecast import FARTHEST_DAYS
from evenkeel.planning.inflow import FEW_PERCENT
from evenkeel.reasons import Reason

PERCENT_STEP = 5
DAYS_SHARE = 0.2
"""A forecast is told anew when it moved by more than this share of itself, and more than a day."""


def tell_steering(
    routes: RoutesReport | None, topic: str, steered: SteeredTopic | None, before: RoutesReport | None
) -> RoutesReport | None:
    """The routes of a topic with the share that is steered; not active where that is little.

    The table stays published all the same: it costs nothing, serves those who follow it, and routers that start
    are only counted once they have one.
    """
    if routes is None or steered is None:
        return routes
    last = before.steered_percent if before is not None else None
    percent = last if steered.percent is None else settle(steered.percent, PERCENT_STEP, last)
    was_few = before is not None and before.reason is Reason.FEW_ROUTED_PRODUCERS
    if routes.active and (steered.few or (was_few and not steered.settled)):
        return RoutesReport(
            active=False,
            reason=Reason.FEW_ROUTED_PRODUCERS,
            message=_few(topic, percent),
            owner_epoch=routes.owner_epoch,
            epoch=routes.epoch,
            steered_percent=percent,
        )
    return replace(routes, steered_percent=percent)


def settle_days(days: int | None, before: int | None) -> int | None:
    """Days until a volume is full; those of before while the forecast only wavers."""
    if before is None:
        return days if days is None or days <= FARTHEST_DAYS * (1 - DAYS_SHARE) else None
    if days is None:
        return before if before > FARTHEST_DAYS * (1 - DAYS_SHARE) else None
    return before if days and abs(days - before) <= max(1.0, DAYS_SHARE * before) else days


def _few(topic: str, percent: int | None) -> str:
    share = "few" if percent is None else f"about {percent} %"
    return (
        f"{share} of the bytes written to topic {topic} come through routers, below {FEW_PERCENT} % weights hardly "
        "decide where bytes lie; use evenkeel.router.Producer or the Java partitioner for records without keys "
        "(those who do follow the table as before)"
    )
