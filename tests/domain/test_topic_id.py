from __future__ import annotations

from uuid import UUID

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.domain.topic_id import plain_topic_id, topic_id_text

HALF = 2**63


@given(st.integers(-HALF, HALF - 1), st.integers(-HALF, HALF - 1))
def test_both_clients_tell_the_same_text(high: int, low: int) -> None:
    same = UUID(bytes=high.to_bytes(8, "big", signed=True) + low.to_bytes(8, "big", signed=True))
    if same.int:
        assert plain_topic_id(str(confluent_kafka.Uuid(high, low))) == topic_id_text(same)


@pytest.mark.parametrize("value", [None, UUID(int=0)])
def test_a_broker_that_tells_none_has_none(value: UUID | None) -> None:
    assert topic_id_text(value) == ""


def test_kafkas_own_way_stays() -> None:
    text = topic_id_text(UUID(int=2**128 - 5))
    assert text == "____________________-w"
    assert plain_topic_id(text) == text
