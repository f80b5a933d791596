from __future__ import annotations

import json
from dataclasses import replace

import pytest

from e2e.demo.ledger import Coverage
from e2e.demo.results import (
    NOT_MEASURED,
    Dataset,
    Measured,
    Rank,
    Routing,
    build_page,
    build_report,
    holds,
    judge,
    share_recovered,
)

ROUTING = Routing(
    before={1: 0.60, 2: 0.15},
    twins=({1: 0.72, 2: 0.25}, {1: 0.74, 2: 0.25}, {1: 0.73, 2: 0.25}),
    after={1: 0.615, 2: 0.35},
    optimum=0.61,
    uncapped=0.60,
)
DIGITS = Dataset("digits", 1797, 1797, 0, "sha256:d", wanted_nodes=2, warm_nodes=2)
RANK = Rank(0, 900, 12, 0.95, 360, consistent=True, same_revision=True)
GOOD = Measured(
    routing=ROUTING,
    datasets=(Dataset("clipart", 6900, 6899, 1, "sha256:c"), DIGITS),
    ranks=(RANK, replace(RANK, rank=1)),
    coverage=Coverage(12, 0, 0, 0),
    steps=(("Kafka", 20.0),),
    seconds=300.0,
    peak_bytes=4 << 30,
)


def failed(measured: Measured) -> list[str]:
    return [row.title for row in judge(measured) if row.holds is False]


def test_a_good_run_holds() -> None:
    assert failed(GOOD) == []


@pytest.mark.parametrize(
    ("measured", "title"),
    [
        (replace(GOOD, routing=replace(ROUTING, after={1: 0.631, 2: 0.30})), "within 2 %"),
        (replace(GOOD, routing=replace(ROUTING, after={1: 0.625, 2: 0.30})), "recovered"),
        (replace(GOOD, routing=replace(ROUTING, after={1: 0.61, 2: 0.05})), "spread"),
        (replace(GOOD, datasets=(replace(DIGITS, revision_records=1796),)), "records ingested"),
        (
            replace(GOOD, datasets=(replace(DIGITS, source_records=0, revision_records=0),)),
            "records ingested",
        ),
        (replace(GOOD, datasets=(replace(DIGITS, warm_nodes=1),)), "warm nodes"),
        (replace(GOOD, ranks=(replace(RANK, consistent=False),)), "rank 0"),
        (replace(GOOD, ranks=(replace(RANK, same_revision=False),)), "rank 0"),
        (replace(GOOD, ranks=(RANK, replace(RANK, accuracy=0.89))), "held-out"),
        (replace(GOOD, ranks=()), "held-out"),
        (replace(GOOD, coverage=Coverage(12, 1, 0, 0, ("5.0",))), "once per epoch"),
        (replace(GOOD, coverage=Coverage(0, 0, 0, 0)), "once per epoch"),
    ],
)
def test_each_thing_that_does_not_hold_fails_the_run(measured: Measured, title: str) -> None:
    assert any(title in name for name in failed(measured))
    assert not holds(judge(measured))
    assert "FAILED" in build_page(measured, judge(measured), [])


def test_the_share_recovered_is_of_what_default_partitioning_lost() -> None:
    assert share_recovered(ROUTING) == pytest.approx((0.73 - 0.615) / (0.73 - 0.61))


def test_where_default_partitioning_loses_nothing_nothing_must_be_recovered() -> None:
    level = replace(ROUTING, twins=({1: 0.61, 2: 0.2},), after={1: 0.61, 2: 0.3})
    assert share_recovered(level) is None
    assert not [row for row in judge(replace(GOOD, routing=level)) if row.holds is False]


def test_routing_is_not_measured_where_no_file_system_can_be_mounted() -> None:
    rows = judge(replace(GOOD, routing=None))
    assert [row.value for row in rows[:4]] == [NOT_MEASURED] * 4
    assert holds(rows)


def test_the_page_shows_times_and_what_to_type_next() -> None:
    page = build_page(GOOD, judge(GOOD), ["scripts/demo --down"])
    for text in (
        "61.5%; best possible 61.0%",
        "default 73.0%",
        "96%",
        "6899 of 6900",
        "300.0 s",
        "4.0 GiB",
        "--down",
    ):
        assert text in page


def test_the_report_is_json() -> None:
    assert json.loads(json.dumps(build_report(GOOD, judge(GOOD))))["holds"] is True
