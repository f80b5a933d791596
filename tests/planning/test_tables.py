from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.domain.exchange import Policy, TopicRouting
from evenkeel.domain.table import WEIGHT_SCALE, RouteTable
from evenkeel.errors import InputError
from evenkeel.planning.routing import plan_routes
from evenkeel.planning.tables import TableRate, build_table, hold_weights, round_weights, should_publish
from tests.support.snapshots import demo_snapshot

PLAN = plan_routes(
    demo_snapshot(), {"clipart": TopicRouting(stale_after_seconds=60), "x": TopicRouting()}, Policy()
)


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=300))
def test_rounded_weights_sum_exactly_and_are_within_one(shares: list[float]) -> None:
    weights = round_weights(tuple(shares))
    assert sum(weights) == WEIGHT_SCALE
    for weight, share in zip(weights, shares, strict=True):
        assert abs(weight - share / sum(shares) * WEIGHT_SCALE) <= 1 + 1e-6


def test_a_table_carries_the_plan() -> None:
    table = build_table(PLAN, "clipart", owner_epoch=3, epoch=7, taken_at_ms=5, plan_offset=2)
    assert (table.owner_epoch, table.epoch, table.taken_at_ms, table.plan_offset) == (3, 7, 5, 2)
    assert table.valid_ms == 60_000
    assert sum(table.weights) == WEIGHT_SCALE
    assert table.budget_bytes == PLAN.topics["clipart"].budget_bytes


@pytest.mark.parametrize(
    ("rate", "factor", "told"),
    [
        (None, 1, None),
        (TableRate(3_456_789.0), 1, 3_500_000),
        (TableRate(3_456_789.0, 0.25), 4, 3_500_000),
        (TableRate(3_456_789.0, 2.0), 0.5, 3_500_000),
        (TableRate(100.0, 0.5), 2, None),
        (TableRate(0.0), 1, None),
    ],
)
def test_budget_and_rate_are_told_as_routers_count(
    rate: TableRate | None, factor: float, told: int | None
) -> None:
    table = build_table(PLAN, "clipart", 1, 1, 0, rate=rate)
    planned = PLAN.topics["clipart"].budget_bytes
    assert planned is not None
    assert table.budget_bytes == pytest.approx(planned * factor, abs=1)
    assert table.bytes_per_second == told


def test_a_budget_never_passes_what_a_table_may_hold() -> None:
    build_table(PLAN, "clipart", 1, 1, 0, rate=TableRate(1e300, 1e-300)).check(24)


@pytest.mark.parametrize("topic", ["x", "never-asked"])
def test_a_topic_that_is_not_routed_has_no_table(topic: str) -> None:
    with pytest.raises(InputError, match=topic):
        build_table(PLAN, topic, 1, 1, 0)


BASE = RouteTable("t", 1, 1, 0, (250_000,) * 4)


@pytest.mark.parametrize(
    ("changes", "remaining", "published"),
    [
        ({}, None, False),
        ({"weights": (260_000, 240_000, 250_000, 250_000)}, None, False),
        ({"weights": (263_000, 237_000, 250_000, 250_000)}, None, True),
        ({"weights": (500_000, 0, 250_000, 250_000)}, 0.04, False),
        ({"weights": (500_000, 0, 250_000, 250_000)}, 0.06, True),
        ({"stop": (1,)}, 0.04, True),
        ({"plan_offset": 9}, None, True),
        ({"owner_epoch": 2}, None, True),
        ({"taken_at_ms": 119_999}, None, False),
        ({"taken_at_ms": 120_000}, None, True),
        ({"weights": (500_000, 500_000)}, None, True),
        ({"bytes_per_second": 1_000_000}, None, True),
    ],
)
def test_only_news_and_heartbeats_are_published(
    changes: dict[str, object], remaining: float | None, *, published: bool
) -> None:
    table = replace(BASE, epoch=2, **changes)  # type: ignore[arg-type]
    assert should_publish(BASE, table, remaining_share=remaining) is published


def test_the_first_table_is_published() -> None:
    assert should_publish(None, BASE)


def test_a_clock_that_was_set_back_does_not_keep_heartbeats_away() -> None:
    before = build_table(PLAN, "clipart", 1, 1, taken_at_ms=3_600_000)
    assert should_publish(before, build_table(PLAN, "clipart", 1, 2, taken_at_ms=0))


@pytest.mark.parametrize(("old", "new", "published"), [(100, 200, False), (100, 210, True), (100, 1, False)])
def test_a_rate_that_doubled_is_published(old: int, new: int, *, published: bool) -> None:
    before, after = replace(BASE, bytes_per_second=old), replace(BASE, bytes_per_second=new)
    assert should_publish(before, after) is published


@pytest.mark.parametrize(
    ("weights", "held"),
    [
        ((260_000, 240_000, 250_000, 250_000), True),
        ((263_000, 237_000, 250_000, 250_000), False),
        ((500_000, 500_000), False),
    ],
)
def test_a_heartbeat_brings_no_small_changes(weights: tuple[int, ...], *, held: bool) -> None:
    table = replace(BASE, epoch=2, taken_at_ms=120_000, weights=weights)
    found = hold_weights(BASE, table)
    assert found == replace(table, weights=BASE.weights if held else weights)


def test_the_first_table_has_its_own_weights() -> None:
    assert hold_weights(None, BASE) is BASE
