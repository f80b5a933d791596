from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.provision import apt, docker, steps

ALL = "CapBnd:\tffffffffffffffff\n"


def test_a_full_bounding_set_misses_nothing() -> None:
    assert docker.missing_capabilities(ALL) == 0


@pytest.mark.parametrize("bit", [0, 24])
def test_each_cleared_bit_is_one_missing_capability(bit: int) -> None:
    assert docker.missing_capabilities(f"Name: x\nCapBnd:\t{(1 << 64) - 1 - (1 << bit):016x}\n") == 1


@pytest.mark.parametrize("text", ["", "{}"])
def test_the_runtime_becomes_the_default_one(text: str) -> None:
    settings = json.loads(docker.merge_settings(text))
    assert settings["default-runtime"] == docker.RUNTIME
    assert settings["runtimes"] == {docker.RUNTIME: {"path": str(docker.RUNTIME_PATH)}}


def test_other_settings_stay() -> None:
    before = {"log-level": "warn", "runtimes": {"gpu": {"path": "/usr/bin/gpu"}}, "default-runtime": "runc"}
    after = json.loads(docker.merge_settings(json.dumps(before)))
    assert after["log-level"] == "warn"
    assert set(after["runtimes"]) == {"gpu", docker.RUNTIME}


def test_merging_twice_changes_nothing_more() -> None:
    once = docker.merge_settings("")
    assert docker.merge_settings(once) == once


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("{", "not JSON"), ("[]", "an object"), ('{"default-runtime": "gpu"}', "default-runtime is 'gpu'")],
)
def test_settings_that_cannot_be_merged_are_refused_by_name(text: str, complaint: str) -> None:
    with pytest.raises(steps.StepFailed, match=complaint) as caught:
        docker.merge_settings(text)
    assert str(docker.SETTINGS) in str(caught.value)


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inotify = tmp_path / "inotify"
    inotify.write_text("128\n")
    monkeypatch.setattr(docker, "INOTIFY", inotify)
    monkeypatch.setattr(docker, "SETTINGS", tmp_path / "daemon.json")
    monkeypatch.setattr(docker, "answers", lambda: False)
    monkeypatch.setattr(apt, "missing", lambda tools: sorted(set(tools.values())))


def test_the_plan_names_every_change_before_it_is_made(absent: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "missing_capabilities", lambda status: 1)
    plan = "\n".join(docker.plan_changes())
    for fact in (
        "docker.io",
        str(docker.RUNTIME_PATH),
        str(docker.SETTINGS),
        "start the docker daemon",
        "inotify",
    ):
        assert fact in plan


def test_no_runtime_is_planned_where_all_capabilities_are_there(
    absent: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "missing_capabilities", lambda status: 0)
    assert str(docker.SETTINGS) not in "\n".join(docker.plan_changes())


def test_nothing_is_planned_where_docker_answers_and_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "answers", lambda: True)
    monkeypatch.setattr(docker, "missing_capabilities", lambda status: 0)
    monkeypatch.setattr(docker, "_needs_inotify", lambda: False)
    assert docker.plan_changes() == []
