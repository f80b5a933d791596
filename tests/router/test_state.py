from __future__ import annotations

import json
from collections import Counter

import pytest

from evenkeel.domain import codec
from evenkeel.domain.heartbeat import RouteMode, RouterHeartbeat
from evenkeel.domain.table import RouteTable
from evenkeel.router import state as state_module
from evenkeel.router.runs import RUN_BYTES, SHORTEST_RUN
from evenkeel.router.settings import Settings
from evenkeel.router.state import RouterState


def state(topics: tuple[str, ...] = ("t",)) -> RouterState:
    return RouterState("r", Settings(topics=topics, phase=0.5))


def offer(one: RouterState, epoch: int = 1, **changes: object) -> None:
    fields: dict[str, object] = {"topic": "t", "weights": (600_000, 400_000), "taken_at_ms": 0}
    table = RouteTable(owner_epoch=1, epoch=epoch, **(fields | changes))  # type: ignore[arg-type]
    one.store.accept(table.topic, codec.dumps(table).encode(), 2)


def write(one: RouterState, topic: str, size: int) -> int:
    run = one.runs[topic]
    run.sent += size
    return run.turn(size) if run.sent > run.limit else run.partition


def test_a_table_is_followed_and_those_who_wait_are_told() -> None:
    one = state()
    offer(one, plan_offset=3)
    assert not one.store.wait_for("t", 3, 0.0)
    one.refresh(0, {})
    assert one.store.wait_for("t", 3, 0.0)
    assert one.mode("t") is RouteMode.TABLE


def test_without_a_list_every_topic_with_a_table_is_routed() -> None:
    one = state(topics=())
    assert one.wants("anything")
    offer(one)
    one.refresh(0, {})
    assert one.routed_topics() == ("t",)
    assert write(one, "t", 10) in (0, 1)


def test_a_stale_table_is_mixed_and_then_left_to_the_client() -> None:
    one = state()
    offer(one, valid_ms=1000)
    one.refresh(5500, {})
    assert one.mode("t") is RouteMode.MIXED
    assert one.stats().topics["t"].mix == 0.5
    one.refresh(10_000, {})
    assert one.mode("t") is RouteMode.DEFAULT
    offer(one, epoch=2, taken_at_ms=10_000)
    one.refresh(10_000, {})
    assert one.mode("t") is RouteMode.TABLE


def test_a_table_that_ages_second_by_second_ends_at_the_default() -> None:
    one = state()
    offer(one, valid_ms=600_000)
    for second in range(6_000):
        one.refresh(1000 * second, {})
        assert one.runs["t"].routed
    one.refresh(6_000_000, {})
    assert one.mode("t") is RouteMode.DEFAULT


def test_the_budget_counts_from_each_table() -> None:
    one = state()
    offer(one, budget_bytes=1000)
    one.refresh(0, {})
    write(one, "t", 5500)
    one.refresh(0, {})
    assert one.mode("t") is RouteMode.MIXED
    offer(one, epoch=2, budget_bytes=1000)
    one.refresh(0, {})
    assert one.mode("t") is RouteMode.TABLE


def test_partitions_that_lose_their_leader_are_left_at_once() -> None:
    one = state()
    offer(one)
    one.refresh(0, {"t": (False, True)})
    assert {write(one, "t", RUN_BYTES) for _ in range(10)} == {1}
    one.refresh(0, {"t": (True, True)})
    assert {write(one, "t", RUN_BYTES) for _ in range(10)} == {0, 1}


def test_a_withdrawn_table_hands_back_to_the_client() -> None:
    one = state()
    offer(one)
    one.refresh(0, {})
    one.store.withdraw("t")
    one.refresh(0, {})
    assert write(one, "t", 10) == -1


def test_runs_fit_the_rate() -> None:
    one = state()
    one.adapt_runs(0.0, linger=0.005)
    assert one.runs["t"].run_bytes == RUN_BYTES
    write(one, "t", 100_000_000)
    one.adapt_runs(1.0, linger=0.005)
    assert one.runs["t"].run_bytes == 5_000_000
    one.adapt_runs(2.0, linger=0.005)
    assert one.runs["t"].run_bytes == 4_500_000  # falls slowly: the next burst finds it
    for second in range(3, 90):
        one.adapt_runs(second, linger=0.005)
    assert one.runs["t"].run_bytes == SHORTEST_RUN


def test_a_full_queue_makes_long_runs() -> None:
    one = state()
    one.adapt_runs(0.0, linger=0.005)
    one.runs["t"].full = True
    one.adapt_runs(1.0, linger=0.005, batch=500_000)
    assert one.runs["t"].run_bytes == 2_000_000
    one.adapt_runs(2.0, linger=0.005, batch=500_000)
    assert one.runs["t"].run_bytes == SHORTEST_RUN


def test_heartbeats_hold_bytes_by_topic() -> None:
    one = state()
    offer(one)
    one.refresh(0, {})
    write(one, "t", 10)
    text = codec.dumps(one.heartbeat(0.0))
    assert json.loads(text)["topics"]["t"] == {"bytes": 10, "mode": "Table", "ownerEpoch": 1, "epoch": 1}
    assert codec.loads(RouterHeartbeat, text) == one.heartbeat(0.0)


def test_heartbeats_tell_when_they_were_counted() -> None:
    assert state().heartbeat(12.3456).clock_ms == 12_345


def test_a_router_has_the_share_of_the_budget_that_it_writes() -> None:
    one = state()
    one.adapt_runs(0.0, 0.005)
    write(one, "t", 10_000)
    one.adapt_runs(10.0, 0.005)  # 1,000 of 4,000 bytes per second: a quarter of the budget
    offer(one, budget_bytes=4_000, bytes_per_second=4_000)
    one.refresh(0, {})
    assert one.stats().topics["t"].budget_share == 0.25
    write(one, "t", 1_000)
    one.refresh(0, {})
    assert one.mode("t") is RouteMode.TABLE
    write(one, "t", 4_500)
    one.refresh(0, {})
    assert one.stats().topics["t"].mix == pytest.approx(0.5)


def test_who_falls_silent_has_not_spent_more() -> None:
    one = state()
    one.adapt_runs(0.0, 0.005)
    write(one, "t", 10_000)
    one.adapt_runs(10.0, 0.005)
    offer(one, budget_bytes=4_000, bytes_per_second=4_000)
    one.refresh(0, {})
    write(one, "t", 1_000)
    for second in range(11, 200):
        one.adapt_runs(second, 0.005)
        one.refresh(0, {})
    assert one.mode("t") is RouteMode.TABLE


@pytest.mark.parametrize("rate", [None, 0])
def test_without_a_common_rate_a_router_has_the_whole_budget(rate: int | None) -> None:
    one = state()
    one.adapt_runs(0.0, 0.005)
    write(one, "t", 10_000)
    one.adapt_runs(10.0, 0.005)
    offer(one, budget_bytes=4_000, bytes_per_second=rate)
    one.refresh(0, {})
    write(one, "t", 4_000)
    one.refresh(0, {})
    assert one.mode("t") is RouteMode.TABLE


def test_topics_without_a_table_are_counted_from_their_first_record() -> None:
    one = state(topics=())
    one.open_lane("new")
    write(one, "new", 10)
    beat = one.heartbeat(0.0).topics["new"]
    assert (beat.bytes, beat.mode, beat.epoch) == (10, RouteMode.DEFAULT, 0)


def test_topics_that_are_not_wanted_pass_uncounted() -> None:
    one = state()
    assert one.open_lane("other") is one.open_lane("another")
    assert write(one, "t", 10) == -1
    assert set(one.heartbeat(0.0).topics) == {"t"}


def test_many_topics_neither_swell_heartbeats_nor_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "COUNTED_TOPICS", 3)
    monkeypatch.setattr(state_module, "LANES", 5)
    one = state(topics=())
    for number in range(10):
        one.open_lane(f"t{number}")
    assert set(one.heartbeat(0.0).topics) == {"t0", "t1", "t2"}
    assert len(one.lanes) == 5
    offer(one, topic="t")
    one.refresh(0, {})
    assert one.lanes["t"] is one.runs["t"]


def test_wire_bytes_grow_by_the_newest_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    one = state()
    write(one, "t", 1_000)
    assert one.heartbeat(0.0).topics["t"].wire_bytes is None
    ratio = 0.5
    monkeypatch.setattr(one.statistics, "ratio", lambda _: ratio)
    assert one.heartbeat(0.0).topics["t"].wire_bytes == 500
    write(one, "t", 1_000)
    ratio = 0.1
    assert one.heartbeat(0.0).topics["t"].wire_bytes == 600
    assert one.heartbeat(0.0).topics["t"].wire_bytes == 600


def test_statistics_that_cannot_be_read_are_a_problem_and_nothing_else() -> None:
    one = state()
    one.statistics.offer('{"topics":{ "t": { "topic":"t", "age":5, "partitions":{}')
    one.take_statistics(0.0)
    assert "batchsize" in one.stats().last_problem


def test_partitions_that_came_after_the_table_take_part_in_what_is_mixed_in() -> None:
    one = state()
    offer(one, valid_ms=1000)
    one.refresh(5_500, {"t": (True, True, True)})
    written = Counter(write(one, "t", RUN_BYTES) for _ in range(600))
    assert {p: count / 600 for p, count in written.items()} == pytest.approx(
        {0: 0.3 + 1 / 6, 1: 0.2 + 1 / 6, 2: 1 / 6}, abs=0.01
    )


def test_a_clock_that_was_set_back_does_not_keep_a_table_for_ever() -> None:
    one = state()
    one.adapt_runs(5_000.0, 0.005)
    offer(one, taken_at_ms=10_000_000, valid_ms=60_000)
    one.refresh(10_000_000, {})
    one.adapt_runs(5_060.0, 0.005)
    one.refresh(0, {})
    assert one.mode("t") is RouteMode.TABLE
    one.adapt_runs(5_300.0, 0.005)
    one.refresh(0, {})
    assert one.mode("t") is RouteMode.MIXED
    one.adapt_runs(5_600.0, 0.005)
    one.refresh(0, {})
    assert one.mode("t") is RouteMode.DEFAULT


def test_of_many_tables_those_are_in_use_that_records_go_to() -> None:
    one = state(topics=())
    for topic in ("written", "awaited", "idle"):
        offer(one, topic=topic)
    one.refresh(0, {})
    write(one, "written", 10)
    assert not one.store.wait_for("awaited", 7, 0.0)
    assert one.topics_in_use() == ["written", "awaited"]
    named = state()
    offer(named)
    assert named.topics_in_use() == ["t"]


def test_heartbeats_leave_out_topics_that_nobody_writes_to() -> None:
    one = state(topics=())
    offer(one, topic="used")
    offer(one, topic="idle")
    one.refresh(0, {})
    write(one, "used", 10)
    assert set(one.heartbeat(0.0).topics) == {"used"}
    write(one, "idle", 10)
    assert set(one.heartbeat(0.0).topics) == {"used", "idle"}
