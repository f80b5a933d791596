"""`evenkeel execute` as a whole, without Kafka: what it makes of a file, and what it says at the end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from evenkeel.cli import execute
from evenkeel.cli.main import main
from evenkeel.errors import ConfigurationError
from evenkeel.keeper.moving.progress import MoveProgress
from evenkeel.keeper.moving.run import RunState
from evenkeel.reasons import Reason

MOVE = {"topic": "t", "partition": 0, "from": [1], "to": [3], "bytes": 1, "batch": 0, "copiedTo": 3}


@dataclass
class Scene:
    """The command as a whole, without Kafka."""

    folder: Path
    session: MagicMock
    elect: MagicMock

    def run(self, **more: Any) -> int:
        path = self.folder / "plan.json"
        path.write_text(json.dumps({"hash": "", "moves": [MOVE], **more}))
        return main(["execute", "--plan", str(path), "--bootstrap", "nowhere:1"])


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    found = Scene(tmp_path, MagicMock(), MagicMock())
    found.session.turn.side_effect = lambda plan, _settings: MoveProgress(
        plan.id, plan.name, Reason.MOVED, "all 1 moves done", RunState.FINISHED
    )
    monkeypatch.setattr(execute.Session, "open", lambda *_: found.session)
    monkeypatch.setattr(execute, "elect_leaders", found.elect)
    return found


def test_preferred_leaders_are_elected_after_the_moves_of_the_plan(scene: Scene) -> None:
    scene.elect.side_effect = lambda *_: scene.session.close.assert_not_called()
    assert scene.run() == 0
    ((connection, moves),) = (call.args for call in scene.elect.call_args_list)
    assert connection.bootstrap_servers == ("nowhere:1",)
    assert [move.target for move in moves] == [(3,)]


def test_leaders_that_are_not_elected_are_told_and_cost_nothing_else(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.elect.side_effect = ConfigurationError("Alter on the Cluster is missing")
    assert scene.run() == 0
    told = capsys.readouterr()
    assert "leaders were not elected: Alter on the Cluster is missing" in told.err
    assert "all 1 moves done" in told.out


def test_directories_that_share_a_volume_are_guarded_as_one(scene: Scene) -> None:
    scene.run(volumes=[{"broker": 3, "path": path, "volume": "disk"} for path in ("/a", "/b")])
    (settings,) = (call.args[1] for call in scene.session.turn.call_args_list)
    assert settings.volumes == {(3, "/a"): "disk", (3, "/b"): "disk"}


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        (Reason.MOVES_CANCELLED, "an earlier run was told to stop, and this one has finished that"),
        (
            Reason.PLAN_OUTDATED,
            "another plan was begun after an earlier run of this one, which has been stopped now",
        ),
    ],
)
def test_a_run_that_only_finishes_what_an_earlier_one_was_told_says_how_to_begin_anew(
    scene: Scene, capsys: pytest.CaptureFixture[str], reason: Reason, why: str
) -> None:
    scene.session.turn.side_effect = lambda plan, _settings: MoveProgress(
        plan.id, plan.name, reason, "stopped: 0 moves done", RunState.CANCELLED
    )
    assert scene.run() == 3
    told = f"{reason}: stopped: 0 moves done; {why}: the same command begins anew"
    assert told in capsys.readouterr().err
