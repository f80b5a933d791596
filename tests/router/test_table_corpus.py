"""The tables on which the Python router and the Java partitioner must agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evenkeel.domain import codec
from evenkeel.domain.table import RouteTable
from evenkeel.router.fallback import budget_share, effective_weights
from evenkeel.router.store import TableStore

FOLDER = Path(__file__).resolve().parents[1] / "data" / "tables"


def cases(name: str) -> list[Any]:
    return [pytest.param(case, id=case["about"]) for case in json.loads((FOLDER / name).read_bytes())]


@pytest.mark.parametrize("case", cases("valid.json"))
def test_takes_a_right_table(case: dict[str, Any]) -> None:
    store = TableStore()
    assert store.accept(case["key"], case["text"].encode(), case["partitions"]) is not None, (
        store.last_problem
    )


@pytest.mark.parametrize("case", cases("invalid.json"))
def test_refuses_a_wrong_table(case: dict[str, Any]) -> None:
    store = TableStore()
    assert store.accept(case["key"], case["text"].encode(), case["partitions"]) is None
    assert store.counts.invalid == 1


@pytest.mark.parametrize("case", cases("ageing.json"))
def test_ages_a_table(case: dict[str, Any]) -> None:
    table = codec.loads(RouteTable, case["table"])
    effective = effective_weights(
        table,
        now_ms=case["nowMs"],
        written_bytes=case["writtenBytes"],
        share=budget_share(table, case["ownBytesPerSecond"]),
        led=case["led"] or (),
    )
    assert effective.mix == case["mix"]
    assert (None if effective.weights is None else list(effective.weights)) == case["weights"]
