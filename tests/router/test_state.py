from __future__ import annotations

import json

from evenkeel.domain import codec
from evenkeel.domain.heartbeat import RouteMode, RouterHeartbeat
from evenkeel.domain.table import RouteTable
from evenkeel.router.runs import RUN_BYTES
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


def test_runs_grow_with_the_rate() -> None:
    one = state()
    write(one, "t", 100_000_000)
    one.adapt_runs(1.0, linger=0.005, batch=1_000_000)
    assert one.runs["t"].run_bytes == 2_000_000
    one.adapt_runs(1.0, linger=0.005, batch=1_000_000)
    assert one.runs["t"].run_bytes == RUN_BYTES


def test_heartbeats_hold_bytes_by_topic() -> None:
    one = state()
    offer(one)
    one.refresh(0, {})
    write(one, "t", 10)
    text = codec.dumps(one.heartbeat())
    assert json.loads(text)["topics"]["t"] == {"bytes": 10, "mode": "Table", "ownerEpoch": 1, "epoch": 1}
    assert codec.loads(RouterHeartbeat, text) == one.heartbeat()
