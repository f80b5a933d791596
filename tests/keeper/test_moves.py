from __future__ import annotations

import pytest

from evenkeel.keeper.moves import build_moves_report
from evenkeel.keeper.settling import settle_seconds
from evenkeel.planning.moves import MovesPlan
from evenkeel.planning.moves_plan import Choice, Cure
from evenkeel.reasons import Reason


@pytest.mark.parametrize(
    ("value", "before", "told"),
    [
        (None, 50, None),
        (0.4, None, 0),
        (7.0, None, 7),
        (123.0, None, 120),
        (86_399.0, None, 86_000),
        (109.0, 100, 100),
        (91.0, 100, 100),
        (112.0, 100, 110),
        (5.0, 0, 5),
    ],
)
def test_lengths_of_time_are_told_anew_when_they_differ_by_a_tenth(
    value: float | None, before: int | None, told: int | None
) -> None:
    assert settle_seconds(value, before) == told


def plan(routing: int | None, limit: int | None) -> MovesPlan:
    choice = Choice(Cure.ROUTE, Reason.ROUTING_HEALS, f"{routing} {limit}", routing, limit)
    return MovesPlan(Reason.ROUTING_HEALS, choice.message, deviation_before=0.2, choice=choice)


def test_both_times_of_route_or_move_are_told_and_do_not_flicker() -> None:
    first = build_moves_report(plan(7200, 86_400))
    assert (first.cure, first.routing_seconds, first.limit_seconds) == ("Route", 7200, 86_000)
    assert build_moves_report(plan(7000, 90_000), first) is first
    assert build_moves_report(plan(4000, 90_000), first).routing_seconds == 4000
    assert build_moves_report(plan(None, None), first).routing_seconds is None


def test_without_routed_topics_nothing_is_said_of_routing() -> None:
    found = build_moves_report(MovesPlan(Reason.BELOW_THRESHOLD, "even"))
    assert (found.cure, found.routing_seconds, found.limit_seconds) == (None, None, None)
