"""The loader as a command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.job import DatasetRef, JobSpec, LoaderSettings, Role, Termination
from evenkeel.loader import main as loader
from evenkeel.names import JOB_VARIABLE

DATASET = DatasetRef("uid", "team", "digits", "data", "journal", "manifest", "rejected")
SETTINGS = LoaderSettings("0" * 64, "http://10.0.0.1:7443")
JOB = JobSpec(Role.LOADER, DATASET, Connection(("broker:9092",)), loader=SETTINGS)


def test_it_runs_with_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    def run(*arguments: object) -> int:
        given.extend(arguments[:2])
        return 0

    monkeypatch.setattr(loader, "run", run)
    monkeypatch.setenv(JOB_VARIABLE, codec.dumps(JOB))
    assert loader.main([]) == 0
    assert given == [JOB, SETTINGS]


def test_without_settings_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JOB_VARIABLE, codec.dumps(replace(JOB, loader=None)))
    assert loader.main(["--termination-log", str(tmp_path / "log")]) == 1
    left = codec.loads(Termination, (tmp_path / "log").read_bytes())
    assert left == Termination("InvalidSpec", f"{JOB_VARIABLE}.loader: required")
