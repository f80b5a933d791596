from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks import moves_faults
from benchmarks.harness.fault_kinds import FAULTS
from benchmarks.harness.fault_run import (
    choose_end,
    compare_places,
    compare_throttles,
    find_resumed,
    find_share,
    plan_cases,
)
from benchmarks.harness.fault_scene import PLAN_SECONDS, SHAPES, build_settings, busiest_bytes, draw_rows
from benchmarks.harness.isr_watch import find_shortage
from benchmarks.harness.mover import Told, read_told
from benchmarks.harness.results import build_result, check_result
from benchmarks.harness.trail import Position, count_records, make_value, read_value
from evenkeel.domain.moves import Move
from evenkeel.keeper.moving.settings import MoveSettings
from evenkeel.planning.moves_plan import MovesPlan
from evenkeel.reasons import Reason
from integration.kafka.network import find_owned
from integration.moving import Place

FILLER = random.Random(1).randbytes(4096)


def move(partition: int, source: tuple[int, ...], target: tuple[int, ...], size: int = 10) -> Move:
    (added,) = set(target) - set(source)
    return Move("t", partition, source, target, size, copied_to=added, copied_from=source[0])


def place(*replicas: int) -> Place:
    return Place(replicas[0], replicas, replicas)


def turn(at: float, done: int = 0, *, what: str = "turn", state: str = "Running") -> Told:
    return Told(at, what, state=state, bytes_done=done)


@pytest.mark.parametrize("size", [0, 16, 17, 500, 5000])
def test_a_value_tells_its_number_until_it_is_damaged(size: int) -> None:
    value = make_value(7, size, FILLER)
    assert read_value(value) == 7
    assert read_value(value[:-1] + bytes([value[-1] ^ 1])) is None
    assert read_value(value[1:]) is None
    assert read_value(None) is None


def test_values_differ_by_number() -> None:
    assert len({make_value(number, 64, FILLER) for number in range(100)}) == 100


def test_each_record_is_asked_for_one_by_one() -> None:
    acked: dict[int, Position] = {n: ("t", 0, n) for n in range(6)}
    values = {n: make_value(n, 64, FILLER) for n in range(8)}
    found = [(("t", 0, n), values[n]) for n in range(3)]  # 0, 1, 2 as acknowledged; 5 is missing
    found += [(("t", 0, 9), values[2])]  # a copy
    found += [(("t", 0, 3), values[3][:-1])]  # damaged, and so lost
    found += [(("t", 1, 4), values[4])]  # elsewhere
    found += [(("t", 0, 6), values[6])]  # not acknowledged, there all the same
    found += [(("t", 0, 7), values[7])]  # nobody wrote it
    tally = count_records(acked, {6}, found)
    assert (tally.acked, tally.failed, tally.lost, tally.repeated, tally.damaged) == (6, 1, 3, 1, 2)
    assert not tally.intact
    whole = count_records(acked, {6}, [(where, values[n]) for n, where in acked.items()])
    assert whole.intact


@pytest.mark.parametrize(
    ("replicas", "isr", "hit", "least", "short"),
    [
        ((1, 2), (1, 2), set(), 2, False),
        ((1, 2), (1,), set(), 2, True),
        ((1, 2), (1,), {2}, 2, False),  # the fault took it
        ((1, 2), (1,), {3}, 2, True),
        ((1, 2), (), {2}, 1, False),
        ((1,), (), set(), 1, True),
        ((1, 3), (1,), set(), 1, False),
        ((1,), (1,), set(), 2, True),
    ],
)
def test_a_shortage_is_told_from_what_the_fault_took(
    replicas: tuple[int, ...], isr: tuple[int, ...], hit: set[int], least: int, *, short: bool
) -> None:
    assert find_shortage(replicas, isr, frozenset(hit), least, 2) is short


def test_min_isr_above_the_replication_factor_asks_for_all_replicas() -> None:
    assert not find_shortage((1,), (1,), frozenset(), 2, 1)


def test_throttles_of_others_stay_and_no_other_is_left() -> None:
    foreign = {"broker 1 rate": "7", "topic t list": "99:1"}
    assert compare_throttles(foreign, foreign) == []
    wrong = compare_throttles({"broker 1 rate": "8", "broker 2 rate": "5"}, foreign)
    assert wrong == [
        "broker 1 rate of somebody else is 8, was 7",
        "topic t list of somebody else is None, was 99:1",
        "throttle left: broker 2 rate = 5",
    ]


def test_a_partition_lies_as_planned_or_as_before() -> None:
    moves = [move(0, (1,), (2,)), move(1, (1,), (3,)), move(2, (1, 2), (3, 2)), move(3, (1,), (2,))]
    places = {("t", 0): place(2), ("t", 1): place(1), ("t", 2): place(2, 3), ("t", 3): place(4)}
    done, wrong = compare_places(moves, places, {("t", 3): (4,)}, set(), moved=False)
    assert done == 1
    assert wrong == ["t-2 lies on (2, 3), planned from (1, 2) to (3, 2)"], "in that order"
    _, wrong = compare_places(moves, places, {("t", 3): (4,)}, set(), moved=True)
    assert len(wrong) == 2, "a run that says that all is moved has moved all"
    assert compare_places(moves, {}, {}, {"t"}, moved=False) == (0, []), "a topic that was deleted"


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ([turn(1, 5), turn(9, 5), turn(11, 5), turn(13, 6)], 3),
        ([turn(1, 5), turn(11, 5), turn(12, 5, state="Finished")], 2),
        ([turn(1, 5), turn(11, 5, what="trouble"), turn(14, 5, what="end")], 4),
        ([turn(1, 5), turn(8, 5, what="end")], 0),
        ([turn(1, 5), turn(11, 5, what="end", state="Failed"), turn(15, 6)], 5),
        ([turn(1, 5), turn(11, 5)], None),
    ],
)
def test_a_run_goes_on_when_something_grows_or_it_ends(told: list[Told], seconds: float | None) -> None:
    assert find_resumed(told, 10) == seconds


def test_of_two_executors_the_one_that_went_on_has_the_last_word() -> None:
    fine, fenced = turn(5, what="end"), turn(6, what="end", state="Failed")
    assert choose_end([turn(1), fine, fenced]) == fine
    assert choose_end([turn(1), fenced]) == fenced
    assert choose_end([turn(1)]) is None


def test_the_share_that_is_copied_is_the_newest_told() -> None:
    told = [turn(1, 5), Told(2, "turn", bytes=10, bytes_done=4), Told(3, "trouble")]
    assert (find_share(told), find_share(told[:1])) == (0.4, 0.0)


def test_lines_of_a_killed_process_are_read_as_far_as_they_go() -> None:
    line = json.dumps(asdict(turn(1.5, 3)))
    assert read_told(f"a log line\n{line}\n{line[:-4]}\n") == [turn(1.5, 3)]


def test_the_throttle_lets_the_busiest_broker_take_some_seconds() -> None:
    moves = (move(0, (1,), (2,), 6_000_000), move(1, (1,), (3,), 6_000_000), move(2, (3,), (2,), 1_000_000))
    assert busiest_bytes(moves) == 12_000_000
    settings = build_settings(MovesPlan(Reason.MOVES_PLANNED, "", moves=moves), 0.5)
    assert settings["bytes_per_second"] == 24_000_000 / PLAN_SECONDS
    assert settings["settle_seconds"] == MoveSettings().settle_seconds / 2
    MoveSettings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", SHAPES)
def test_skewed_rows_name_each_broker_once(shape: Any) -> None:
    rows = draw_rows(shape, {1: 10, 2: 5, 3: 2, 4: 1}, random.Random(3))
    assert len(rows) == shape.partitions
    assert all(len(set(row)) == shape.copies for row in rows)
    counts = Counter(row[0] for row in rows)
    assert counts[1] >= counts[4]


def test_runs_take_the_faults_in_turn_with_seeds_of_their_own() -> None:
    cases = plan_cases(["a", "b"], 5, 10)
    assert [(case.fault, case.seed) for case in cases] == [
        ("a", 10),
        ("b", 11),
        ("a", 12),
        ("b", 13),
        ("a", 14),
    ]


def row(fault: str, **more: Any) -> dict[str, Any]:
    return {
        "number": 0,
        "fault": fault,
        "seed": 1,
        "seconds": 20.0,
        "reason": "Moved",
        "moves": 3,
        "movesDone": 3,
        "resumedSeconds": 1.0,
        "isrShortages": 0,
        "told": [],
        "again": [],
        "records": {"lost": 0, "repeated": 0, "damaged": 0},
        "problems": [],
        **more,
    }


def test_bars_count_what_went_wrong() -> None:
    good = [row(name) for name in FAULTS]
    assert all(bar["holds"] for bar in moves_faults.build_bars(good))
    bad = row(
        "disk-full",
        problems=["x"],
        resumedSeconds=None,
        isrShortages=2,
        records={"lost": 1, "repeated": 0, "damaged": 0},
    )
    assert [bar["holds"] for bar in moves_faults.build_bars([*good, bad])] == [False] * 4


def test_a_table_has_a_line_per_fault(tmp_path: Path) -> None:
    rows = [row("disk-full"), row("disk-full", reason="PlanOutdated", movesDone=1), row("leader-lost")]
    lines = moves_faults.summarise(rows)
    assert [(line["fault"], line["runs"], line["movesDone"]) for line in lines] == [
        ("disk-full", 2, 4),
        ("leader-lost", 1, 3),
    ]
    assert lines[0]["ends"] == {"Moved": 1, "PlanOutdated": 1}
    result = build_result("moves_faults", {"skipped": {"x": "why"}}, rows, moves_faults.build_bars(rows))
    check_result(result)
    moves_faults.print_table(result)
    moves_faults.draw(result, tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".svg", ".png"}


def test_a_run_that_could_not_be_made_is_wrong() -> None:
    unmade = {**moves_faults.build_unmade(plan_cases(["disk-full"], 1, 1)[0]), "again": ["why"]}
    assert not moves_faults.build_bars([unmade])[0]["holds"]
    assert "why" in moves_faults.describe(unmade)


def test_runs_that_went_wrong_are_made_again_and_what_was_wrong_is_kept(tmp_path: Path) -> None:
    rows = [row("disk-full"), row("leader-lost", number=1, seed=7, problems=["x"])]
    path = tmp_path / "moves_faults.json"
    path.write_text(json.dumps({"rows": rows, "parameters": {"seed": 6}}))
    kept, cases, parameters = moves_faults.choose_cases(moves_faults.parse(["--only-wrong"]), [], path)
    assert [one["fault"] for one in kept] == ["disk-full"]
    assert [(case.number, case.fault, case.seed) for case in cases] == [(1, "leader-lost", 7)]
    assert parameters == {"seed": 6, "wrongBefore": {"1": ["x"]}}


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(SystemExit, match="unknown"):
        moves_faults.choose_faults(["no-such-fault"])


def test_rules_of_cut_off_brokers_are_told_from_those_of_others() -> None:
    rules = """-P OUTPUT ACCEPT
-A OUTPUT -m cgroup --path system.slice -j DROP
-A OUTPUT -m cgroup --path evenkeel-cut-4711-a1b2c3-2 -j DROP
-A OUTPUT -m cgroup --path "evenkeel-cut-12-test-100" -j DROP
"""
    assert find_owned(rules) == [("evenkeel-cut-4711-a1b2c3-2", 4711), ("evenkeel-cut-12-test-100", 12)]
