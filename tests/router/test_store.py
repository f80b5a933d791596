from __future__ import annotations

import threading

import pytest

from evenkeel.domain import codec
from evenkeel.domain.table import RouteTable
from evenkeel.router.store import TableStore


def table(epoch: int = 1, owner_epoch: int = 1, **changes: object) -> RouteTable:
    fields: dict[str, object] = {"topic": "t", "weights": (600_000, 400_000), "taken_at_ms": 0}
    return RouteTable(owner_epoch=owner_epoch, epoch=epoch, **(fields | changes))  # type: ignore[arg-type]


def offer(store: TableStore, one: RouteTable, partitions: int | None = 2) -> bool:
    return store.accept("t", codec.dumps(one).encode(), partitions) is not None


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [
        ((1, 1), (1, 2), True),
        ((1, 2), (1, 2), False),
        ((1, 2), (1, 1), False),
        ((1, 9), (2, 1), True),
        ((2, 1), (1, 9), False),
    ],
)
def test_only_a_higher_epoch_is_taken(
    first: tuple[int, int],
    second: tuple[int, int],
    *,
    taken: bool,
) -> None:
    store = TableStore()
    assert offer(store, table(owner_epoch=first[0], epoch=first[1]))
    assert offer(store, table(owner_epoch=second[0], epoch=second[1])) is taken
    assert store.counts.lower == (0 if taken else 1)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"not json",
        b"[]",
        b"\xff\xfe",
        b'{"topic": "t"}',
        codec.dumps(table(topic="other")).encode(),
        codec.dumps(table(weights=())).encode(),
        codec.dumps(table(weights=(1_000_000,))).encode(),
        codec.dumps(table(weights=(600_000, 500_000))).encode(),
        codec.dumps(table(weights=(1_200_000, -200_000))).encode(),
        codec.dumps(table(stop=(7,))).encode(),
        codec.dumps(table(taken_at_ms=-(10**400))).encode(),
        codec.dumps(table(valid_ms=10**30)).encode(),
        codec.dumps(table(budget_bytes=-1)).encode(),
        codec.dumps(table()).replace("600000", "NaN").encode(),
        codec.dumps(table()).replace("600000", "6e5").encode(),
    ],
)
def test_what_cannot_be_right_is_counted_and_ignored(value: bytes) -> None:
    store = TableStore()
    offer(store, table())
    assert store.accept("t", value, 2) is None
    assert store.counts.invalid == 1
    assert store.last_problem
    assert store.tables()["t"] == table()


def test_a_withdrawn_topic_has_no_table() -> None:
    store = TableStore()
    offer(store, table())
    store.withdraw("t")
    assert store.tables() == {}
    assert store.counts.withdrawn == 1


def test_waiting_ends_with_the_table_of_the_plan_or_a_later_one() -> None:
    store = TableStore()
    store.announce("t", 4)
    assert not store.wait_for("t", 5, 0.0)
    waker = threading.Timer(0.01, store.announce, ("t", 7))
    waker.start()
    assert store.wait_for("t", 5, 10.0)
    waker.join()
