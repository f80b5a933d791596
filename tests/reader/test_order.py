from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.reader.order import EpochOrder, rank_positions


def places(order: EpochOrder) -> list[tuple[int, int]]:
    found = order.locate(np.arange(order.records, dtype=np.int64))
    return list(zip(found.shards.tolist(), found.rows.tolist(), strict=True))


@given(
    live=st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any),
    block=st.none() | st.integers(1, 50),
    epoch=st.integers(0, 3),
)
def test_every_live_record_has_one_position(live: list[int], block: int | None, epoch: int) -> None:
    order = EpochOrder(live, digest="d", seed=1, epoch=epoch, block=block)
    wanted = [(shard, row) for shard, count in enumerate(live) for row in range(count)]
    assert sorted(places(order)) == wanted


@pytest.mark.parametrize("change", [{"digest": "other"}, {"seed": 2}, {"epoch": 1}])
def test_digest_seed_and_epoch_each_change_the_order(change: dict[str, object]) -> None:
    base = {"digest": "d", "seed": 1, "epoch": 0}
    first = EpochOrder([50, 50], **base)  # type: ignore[arg-type]  # a table of keyword arguments
    second = EpochOrder([50, 50], **{**base, **change})  # type: ignore[arg-type]  # as above
    assert places(first) != places(second)


def test_a_block_keeps_its_records_together() -> None:
    order = EpochOrder([10] * 10, digest="d", seed=1, epoch=0, block=20)
    shards = order.locate(np.arange(100, dtype=np.int64)).shards.reshape(5, 20)
    assert all(len(set(block.tolist())) == 2 for block in shards)


@given(start=st.integers(0, 100), length=st.integers(0, 100), world=st.integers(1, 9))
def test_ranks_share_a_step_without_overlap(start: int, length: int, world: int) -> None:
    parts = [rank_positions(start, start + length, rank, world).tolist() for rank in range(world)]
    assert sorted(position for part in parts for position in part) == list(range(start, start + length))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
