from __future__ import annotations

from evenkeel.domain.table import RouteTable
from evenkeel.router.arrivals import Arrivals

LIMIT_MS = 600_000


def table(topic: str, taken_at_ms: int = 0) -> RouteTable:
    return RouteTable(topic, 1, 1, taken_at_ms, (1_000_000,), valid_ms=LIMIT_MS)


def test_a_table_is_late_beyond_its_limit_and_judged_once() -> None:
    arrivals = Arrivals()
    arrivals.add(table("t"), 0)
    assert arrivals.judge(LIMIT_MS) is None
    arrivals.add(table("t"), 1)
    assert arrivals.judge(LIMIT_MS + 1) is not None
    assert arrivals.judge(LIMIT_MS + 1) is None


def test_the_last_of_several_tables_counts() -> None:
    arrivals = Arrivals()
    arrivals.add(table("t", 0), 0)
    arrivals.add(table("t", 3 * LIMIT_MS), 1)
    assert arrivals.judge(3 * LIMIT_MS) is None


def test_the_first_late_table_after_all_were_in_time_is_told_from_the_others() -> None:
    arrivals = Arrivals()
    first = []
    for late in ({"a", "b"}, {"a", "b"}, {"a"}, {"b"}, set(), {"a"}):
        for topic in ("a", "b"):
            arrivals.add(table(topic, 0 if topic in late else 3 * LIMIT_MS), 0)
        found = arrivals.judge(3 * LIMIT_MS)
        first.append(found and found[1])
    assert first == [True, False, False, False, None, True]


def test_a_late_topic_that_is_forgotten_hides_no_later_trouble() -> None:
    arrivals = Arrivals()
    first = []
    for topic in ("a", "b", "c"):
        arrivals.add(table(topic), 0)
        found = arrivals.judge(LIMIT_MS + 1)
        first.append(found and found[1])
        if topic == "b":
            arrivals.forget("a")
            arrivals.forget("b")
    assert first == [True, False, True]


def test_a_table_that_was_withdrawn_is_not_judged() -> None:
    arrivals = Arrivals()
    arrivals.add(table("t"), 0)
    arrivals.forget("t")
    assert arrivals.judge(LIMIT_MS + 1) is None
