from __future__ import annotations

import pytest

from evenkeel.domain.table import RouteTable
from evenkeel.router.fallback import budget_share, effective_weights

MINUTE = 60_000


def table(**changes: object) -> RouteTable:
    fields: dict[str, object] = {
        "topic": "t",
        "owner_epoch": 1,
        "epoch": 1,
        "taken_at_ms": 0,
        "weights": (700_000, 200_000, 100_000, 0),
        "valid_ms": 10 * MINUTE,
    }
    return RouteTable(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("age", "written", "budget", "mix"),
    [
        (0, 0, None, 0.0),
        (10 * MINUTE, 0, None, 0.0),
        (55 * MINUTE, 0, None, 0.5),
        (100 * MINUTE, 0, None, 1.0),
        (0, 100, 100, 0.0),
        (0, 550, 100, 0.5),
        (55 * MINUTE, 200, 100, 0.5),
        (-5 * MINUTE, 0, None, 0.0),
        (0, 5, 0, 4 / 9),
    ],
)
def test_limits_mix_towards_uniform_linearly(age: int, written: int, budget: int | None, mix: float) -> None:
    effective = effective_weights(table(budget_bytes=budget), now_ms=age, written_bytes=written)
    assert effective.mix == pytest.approx(mix)
    if mix < 1:
        expected = [(1 - mix) * weight + mix / 4 for weight in (0.7, 0.2, 0.1, 0.0)]
        assert effective.weights == pytest.approx(expected)
    else:
        assert effective.weights is None


def test_stop_holds_beyond_all_limits() -> None:
    effective = effective_weights(table(stop=(3,)), now_ms=1000 * MINUTE, written_bytes=0)
    assert effective.weights == pytest.approx((1 / 3, 1 / 3, 1 / 3, 0.0))


def test_stop_gives_way_when_no_other_partition_has_a_leader() -> None:
    led = (False, False, False, True)
    effective = effective_weights(table(stop=(3,)), now_ms=0, written_bytes=0, led=led)
    assert effective.weights is None


def test_leaderless_partitions_are_skipped() -> None:
    effective = effective_weights(table(), now_ms=0, written_bytes=0, led=(False, True, True, True))
    assert effective.weights == pytest.approx((0.0, 2 / 3, 1 / 3, 0.0))


def test_weights_only_on_leaderless_partitions_become_uniform() -> None:
    effective = effective_weights(table(), now_ms=0, written_bytes=0, led=(False, False, False, True))
    assert effective.weights == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("together", "own", "share"),
    [
        (None, 5.0, 1.0),
        (0, 5.0, 1.0),
        (100, None, 1.0),
        (100, 0.0, 0.0),
        (100, 25.0, 0.25),
        (100, 300.0, 1.0),
    ],
)
def test_a_router_has_its_part_of_the_budget(together: int | None, own: float | None, share: float) -> None:
    assert budget_share(table(bytes_per_second=together), own) == share


def test_a_share_shortens_the_budget() -> None:
    half = effective_weights(table(budget_bytes=1000), now_ms=0, written_bytes=550, share=0.1)
    assert half.mix == pytest.approx(0.5)


def test_a_topic_that_grew_is_mixed_over_all_its_partitions() -> None:
    effective = effective_weights(table(), now_ms=55 * MINUTE, written_bytes=0, led=(True,) * 5)
    assert effective.weights == pytest.approx((0.45, 0.2, 0.15, 0.1, 0.1))


def test_new_partitions_get_nothing_while_the_table_holds() -> None:
    effective = effective_weights(table(), now_ms=0, written_bytes=0, led=(True,) * 6)
    assert effective.weights == pytest.approx((0.7, 0.2, 0.1, 0.0, 0.0, 0.0))


def test_partitions_that_are_gone_are_not_used() -> None:
    effective = effective_weights(table(), now_ms=0, written_bytes=0, led=(True, True))
    assert effective.weights == pytest.approx((7 / 9, 2 / 9, 0.0, 0.0))
