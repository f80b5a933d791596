from __future__ import annotations

import pytest

from evenkeel.domain.exchange import RoutesReport
from evenkeel.keeper.inflow import SteeredTopic
from evenkeel.keeper.outlook import settle_days, tell_steering
from evenkeel.reasons import Reason

ACTIVE = RoutesReport(True, Reason.ROUTED, "routed", 1, 7, predicted_max_fill_permille=500)
REFUSED = RoutesReport(False, Reason.COMPACTED, "compacted")


def test_the_share_is_told_in_steps_beside_the_routes() -> None:
    found = tell_steering(ACTIVE, "t", SteeredTopic(43, settled=True), None)
    assert found is not None
    assert (found.active, found.steered_percent, found.predicted_max_fill_permille) == (True, 45, 500)


def test_few_routed_producers_make_routes_inactive_while_the_table_stays() -> None:
    found = tell_steering(ACTIVE, "t", SteeredTopic(9, few=True, settled=True), None)
    assert found is not None
    assert (found.active, found.reason, found.epoch) == (False, Reason.FEW_ROUTED_PRODUCERS, 7)
    assert found.steered_percent == 10
    assert "about 10 % of the bytes written to topic t" in found.message
    assert "evenkeel.router.Producer" in found.message


def test_other_reasons_win() -> None:
    found = tell_steering(REFUSED, "t", SteeredTopic(9, few=True, settled=True), None)
    assert found is not None
    assert (found.reason, found.steered_percent) == (Reason.COMPACTED, 10)


def test_equal_facts_give_equal_reports() -> None:
    few = SteeredTopic(9, few=True, settled=True)
    first = tell_steering(ACTIVE, "t", few, None)
    assert tell_steering(ACTIVE, "t", SteeredTopic(12, few=True, settled=True), first) == first


def test_a_new_keeper_goes_on_with_what_its_predecessor_found() -> None:
    before = tell_steering(ACTIVE, "t", SteeredTopic(9, few=True, settled=True), None)
    assert tell_steering(ACTIVE, "t", SteeredTopic(), before) == before
    assert tell_steering(ACTIVE, "t", SteeredTopic(60), before) != before
    still = tell_steering(ACTIVE, "t", SteeredTopic(60), before)
    assert still is not None
    assert not still.active
    healed = tell_steering(ACTIVE, "t", SteeredTopic(60, settled=True), before)
    assert healed is not None
    assert healed.active


def test_without_routes_or_facts_nothing_is_added() -> None:
    assert tell_steering(None, "t", SteeredTopic(50), None) is None
    assert tell_steering(ACTIVE, "t", None, None) is ACTIVE


@pytest.mark.parametrize(
    ("days", "before", "told"),
    [
        (40, None, 40),
        (44, 40, 40),
        (50, 40, 50),
        (3, 2, 2),
        (0, 1, 0),
        (None, None, None),
        (340, None, None),
        (None, 300, 300),
        (None, 20, None),
        (280, None, 280),
    ],
)
def test_forecasts_do_not_flicker(days: int | None, before: int | None, told: int | None) -> None:
    assert settle_days(days, before) == told
