"""What a plan's file may hold, and what of it is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli.plan import moves_json
from evenkeel.cli.plan_file import SharedDir, read_plan, read_plan_file
from evenkeel.domain.moves import Batch, Move, MoveKind
from evenkeel.errors import InputError
from evenkeel.keeper.moving.plan import approve
from evenkeel.planning.moves_plan import MovesPlan
from evenkeel.reasons import Reason

MOVES = (
    Move("t", 0, (1, 2), (3, 2), 10, copied_to=3, copied_from=1, freed_on=1, freed_bytes=10),
    Move("t", 1, (1,), (1,), 20, "/b", MoveKind.DIRECTORY, 1, 1, 1, "/a", 20, 1000),
    Move("t", 2, (1, 2), (1,), 0, kind=MoveKind.REMOVE, freed_on=2, freed_bytes=5),
)
PLAN = MovesPlan(
    Reason.MOVES_PLANNED,
    "",
    hash="abc",
    moves=MOVES,
    batches=(Batch(0, MOVES[:2], 1.0, 30), Batch(1, MOVES[2:], 0.0, 0)),
)


def write(folder: Path, raw: Any) -> str:
    path = folder / "plan.json"
    path.write_text(json.dumps(raw))
    return str(path)


def test_what_plan_moves_prints_can_be_executed(tmp_path: Path) -> None:
    found = read_plan(write(tmp_path, moves_json(PLAN, "c")))
    assert found == approve(PLAN, "c")
    assert found.batches == (MOVES[:2], MOVES[2:])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"batch": None}, r"moves\[0\]\.batch: must be a number from 0, not None"),
        ({"from": [1, 1]}, r"moves\[0\]\.from: names a broker twice: \[1, 1\]"),
        ({"copiedTo": 2}, r"moves\[0\]\.copiedTo: must be broker 3 by from and to, not 2"),
        ({"freedOn": 2}, r"moves\[0\]\.freedOn: must be broker 1 by from and to, not 2"),
        ({"kind": "Directory", "to": [2, 1]}, r"moves\[0\]\.to: must equal from, \[1, 2\], where only a dir"),
        ({"from": []}, r"moves\[0\]\.from: must name at least one broker"),
        ({"to": [-3, 2]}, r"moves\[0\]\.to: must be broker ids between 0 and 2147483647, not \[-3, 2\]"),
        ({"partition": -1}, r"moves\[0\]\.partition: must be between 0 and 2147483647, not -1"),
        ({"bytes": -1}, r"moves\[0\]\.bytes: must be at least 0, not -1"),
        ({"to": "3"}, r"moves\[0\]: Move\.target: must be a list"),
        ({"bytes": "many"}, r"moves\[0\]: Move\.bytes: must be int"),
        ({"partition": 1}, "t-1 is there twice"),
    ],
)
def test_a_plan_that_cannot_be_executed_is_refused_by_field(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    raw = moves_json(PLAN)
    raw["moves"][0] |= change
    with pytest.raises(InputError, match=told):
        read_plan(write(tmp_path, raw))


def test_a_plan_of_an_earlier_version_lacks_its_batches(tmp_path: Path) -> None:
    raw = moves_json(PLAN)
    del raw["moves"][2]["batch"]
    with pytest.raises(InputError, match=r"moves\[2\]\.batch: required; plan again"):
        read_plan(write(tmp_path, raw))
    with pytest.raises(InputError, match="moves: must be a list"):
        read_plan(write(tmp_path, {}))
    with pytest.raises(InputError, match="cannot be read"):
        read_plan(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("kind", "source", "target", "told"),
    [
        ("Broker", [1, 2, 3], [4], "adds 1 and takes away 1 replicas, not 1 and 3"),
        ("Broker", [1, 2], [1, 2, 3], "adds 1 and takes away 1 replicas, not 1 and 0"),
        ("Add", [1, 2], [3], "adds 1 and takes away 0 replicas, not 1 and 2"),
        ("Remove", [1, 2, 3], [1], "adds 0 and takes away 1 replicas, not 0 and 2"),
    ],
)
def test_a_file_changes_the_number_of_replicas_by_what_its_kind_says(
    tmp_path: Path, kind: str, source: list[int], target: list[int], told: str
) -> None:
    raw = moves_json(PLAN)
    copied_to = next(iter(set(target) - set(source)), None)
    raw["moves"][0] |= {"kind": kind, "from": source, "to": target, "copiedTo": copied_to, "freedOn": None}
    with pytest.raises(InputError, match=rf"moves\[0\]\.to: a move of kind {kind} {told}"):
        read_plan(write(tmp_path, raw))


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__evenkeel_control"])
def test_a_file_does_not_move_internal_topics(tmp_path: Path, topic: str) -> None:
    raw = moves_json(PLAN)
    raw["moves"][0]["topic"] = topic
    with pytest.raises(InputError, match=rf"moves\[0\]\.topic: {topic} is internal to Kafka or Evenkeel"):
        read_plan(write(tmp_path, raw))


def test_volumes_that_the_planner_knew_come_with_the_plan(tmp_path: Path) -> None:
    named = (SharedDir(1, "/a", "disk"), SharedDir(1, "/b", "disk"))
    found = read_plan_file(write(tmp_path, moves_json(PLAN, "c", named)))
    assert found.plan == approve(PLAN, "c")
    assert found.volumes == {(1, "/a"): "disk", (1, "/b"): "disk"}


def test_a_file_that_names_no_volumes_has_none(tmp_path: Path) -> None:
    raw = moves_json(PLAN)
    assert "volumes" not in raw
    assert read_plan_file(write(tmp_path, raw)).volumes == {}


@pytest.mark.parametrize(
    ("volumes", "told"),
    [
        ({}, "volumes: must be a list"),
        ([3], r"volumes\[0\]: SharedDir: must be an object"),
        ([{"broker": 1, "path": "/a"}], r"volumes\[0\]: SharedDir\.volume: required"),
        ([{"broker": "1", "path": "/a", "volume": "d"}], r"volumes\[0\]: SharedDir\.broker: must be int"),
        ([{"broker": 1, "path": "/a", "volume": ""}], r"volumes\[0\]\.volume: must not be empty"),
        (
            [{"broker": 1, "path": "/a", "volume": one} for one in "de"],
            r"volumes\[1\]\.path: /a of broker 1 is there already, on volume d",
        ),
    ],
)
def test_volumes_that_are_none_are_refused_by_field(tmp_path: Path, volumes: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_plan_file(write(tmp_path, {**moves_json(PLAN), "volumes": volumes}))
