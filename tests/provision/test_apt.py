from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.provision import apt, steps

TARGETS = """\
bookworm-updates main http://mirror.test/debian/
bookworm main http://mirror.test/debian/
bookworm main http://second.test/debian/
"""


def test_the_mirror_is_the_first_one_of_the_suite_itself() -> None:
    assert apt.parse_mirror(TARGETS) == ["http://mirror.test/debian/"]


@pytest.mark.parametrize(
    "targets", ["", "jammy main http://mirror.test/ubuntu/\n", "bookworm contrib http://x.test/\n"]
)
def test_another_distribution_leaves_the_choice_to_the_tool(targets: str) -> None:
    assert apt.parse_mirror(targets) == []


def test_only_packages_whose_command_is_absent_are_missing() -> None:
    assert apt.missing({"sh": "dash", "no-such-command": "absent", "no-such-either": "absent"}) == ["absent"]


def test_a_user_without_root_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(
        apt, "find", lambda command: Path("/usr/bin/apt-get") if command == "apt-get" else None
    )
    with pytest.raises(steps.StepFailed, match="as root: apt-get install absent"):
        apt.ensure({"no-such-command": "absent"})


@pytest.mark.parametrize(
    ("said", "passing"),
    [
        ("E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)", True),
        ("E: Failed to fetch http://mirror.test/debian/a.deb  Connection reset", True),
        ("E: Unable to locate package a", False),
    ],
)
def test_another_apt_is_waited_for(said: str, passing: bool) -> None:  # noqa: FBT001 - of a table
    assert apt.is_passing(said) is passing
