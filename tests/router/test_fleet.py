"""Several routers together: what they do to partitions while tables come, and when no more come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from evenkeel.domain import codec
from evenkeel.domain.heartbeat import RouteMode
from evenkeel.domain.table import RouteTable
from evenkeel.router.settings import Settings
from evenkeel.router.state import RouterState
from tests.support.fleet import draw_tables, simulate_fleet

MB = 1_000_000
WEIGHTS = (500_000, 200_000, 100_000, 100_000, 100_000, 0)
STOPPED = 5


def test_fifty_producers_follow_a_table_that_changes_all_the_time() -> None:
    """The bar of the routing issue: within 5 % of the weights after 10 minutes, also where a weight is light."""
    tables = draw_tables(300, spread=1.0, drift=0.1, seed=7)
    outcome = simulate_fleet(lambda: next(tables), routers=50, rate=MB, seconds=600, seed=7)
    assert min(outcome.expected) / sum(outcome.expected) < 0.2 / 300
    assert max(outcome.errors()) <= 0.05


class Fleet:
    """Routers at given rates, one second at a time."""

    def __init__(self, rates: Sequence[float]) -> None:
        self.rates = rates
        self.states = [RouterState(f"r{i}", Settings(("t",), phase=i / 10)) for i in range(len(rates))]
        self.second = 0
        self.volume: Counter[int] = Counter()
        self.written = 0

    def publish(self, **changes: object) -> None:
        fields: dict[str, object] = {"taken_at_ms": self.second * 1000, "stop": (STOPPED,)} | changes
        table = RouteTable("t", 1, 1, weights=WEIGHTS, **fields)  # type: ignore[arg-type]
        for one in self.states:
            assert one.store.accept("t", codec.dumps(table).encode(), len(WEIGHTS))

    def live(self, seconds: int) -> None:
        for _ in range(seconds):
            self.second += 1
            for one, rate in zip(self.states, self.rates, strict=True):
                self._write(one, int(rate))
                one.adapt_runs(self.second, 0.005)
                one.refresh(self.second * 1000, {})

    def _write(self, one: RouterState, size: int) -> None:
        run = one.runs["t"]
        for part in (size // 4, size // 4, size // 4, size - 3 * (size // 4)):
            run.sent += part
            self.volume[run.turn(part) if run.sent > run.limit else run.partition] += part
        self.written += size

    def modes(self) -> set[RouteMode]:
        return {one.mode("t") for one in self.states}


def test_together_they_write_the_budget_once_when_the_keeper_has_died() -> None:
    fleet = Fleet([4 * MB, 2 * MB, MB, MB])
    fleet.live(90)
    fleet.publish(budget_bytes=400 * MB, bytes_per_second=8 * MB, valid_ms=3_600_000, stop=())
    before = fleet.written
    while RouteMode.MIXED not in fleet.modes():
        fleet.live(1)
    assert fleet.written - before == pytest.approx(400 * MB, rel=0.15)  # steps of 1 % of the mixture, and 1 s
    while RouteMode.DEFAULT not in fleet.modes():
        fleet.live(1)
    assert fleet.written - before == pytest.approx(4_000 * MB, rel=0.1)


def test_a_router_that_joins_after_the_keeper_died_takes_a_share_by_its_rate() -> None:
    fleet = Fleet([4 * MB, 4 * MB])
    fleet.live(90)
    fleet.publish(budget_bytes=400 * MB, bytes_per_second=8 * MB, valid_ms=3_600_000)
    late = Fleet([2 * MB])
    late.second = fleet.second
    late.publish(budget_bytes=400 * MB, bytes_per_second=8 * MB, valid_ms=3_600_000)
    while RouteMode.MIXED not in late.modes():
        late.live(1)
    assert late.written == pytest.approx(100 * MB, rel=0.15)


def test_an_hour_without_a_keeper_ends_in_uniform_writes_and_stop_holds() -> None:
    fleet = Fleet([MB, MB, MB])
    fleet.live(10)
    fleet.publish(valid_ms=300_000)
    fleet.live(1)
    shares = []
    for _ in range(12):
        fleet.volume.clear()
        fleet.live(300)
        assert STOPPED not in fleet.volume
        shares.append(fleet.volume[0] / sum(fleet.volume.values()))
    assert shares[0] == pytest.approx(0.5, abs=0.02)  # the table as it is, for five minutes
    assert shares[5] == pytest.approx(0.5 - 0.3 * 4.5 / 9, abs=0.02)
    assert shares[-1] == pytest.approx(0.2, abs=0.01)  # uniform over the five that are not stopped
