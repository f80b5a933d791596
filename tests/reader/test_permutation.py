from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.reader.permutation import Permutation


@given(size=st.integers(1, 3000), key=st.text(max_size=8))
def test_is_a_bijection(size: int, key: str) -> None:
    images = Permutation(size, key)(np.arange(size, dtype=np.int64))
    assert sorted(images.tolist()) == list(range(size))


def test_depends_on_the_key() -> None:
    positions = np.arange(1000, dtype=np.int64)
    assert (Permutation(1000, "a")(positions) != Permutation(1000, "b")(positions)).any()


def test_same_key_gives_the_same_order_everywhere() -> None:
    # Written down: a changed constant would silently change the order of every running training.
    images = Permutation(10, "digest:0:0")(np.arange(10, dtype=np.int64)).tolist()
    assert images == GOLDEN


def test_neighbours_do_not_stay_neighbours() -> None:
    images = Permutation(100_000, "key")(np.arange(100_000, dtype=np.int64))
    close = np.abs(np.diff(images)) <= 10
    # 2 * 10 / n of the pairs of a random order are that close.
    assert close.mean() < 0.001


def test_refuses_an_empty_domain() -> None:
    with pytest.raises(ValueError, match="size = 0, at least 1"):
        Permutation(0, "key")


GOLDEN = [8, 7, 9, 0, 3, 5, 6, 2, 4, 1]
