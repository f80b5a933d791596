"""The loader as a command: its JobSpec, and what it leaves when it fails."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.job import DatasetRef, JobSpec, LoaderSettings, Role, Termination
from evenkeel.errors import DataError, InputError
from evenkeel.loader import main as loader
from evenkeel.reasons import Reason

DATASET = DatasetRef("uid", "team", "digits", "data", "journal", "manifest", "rejected")
SETTINGS = LoaderSettings("0" * 64, "http://10.0.0.1:7443")
JOB = JobSpec(Role.LOADER, DATASET, Connection(("broker:9092",)), loader=SETTINGS)


def test_a_job_is_read() -> None:
    assert loader.read_job(codec.dumps(JOB)) == (JOB, SETTINGS)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "not valid JSON"),
        (codec.dumps(replace(JOB, role=Role.SEALER)), "role must be Loader"),
        (codec.dumps(replace(JOB, loader=None)), "with `loader` set"),
        ('{"role": "Loader"}', "dataset: required"),
    ],
)
def test_a_job_that_is_not_one_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        loader.read_job(text)


def test_a_failure_leaves_reason_and_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "termination-log"
    log.touch()
    monkeypatch.setattr(loader, "TERMINATION_LOG", log)
    monkeypatch.setenv("EVENKEEL_JOB", codec.dumps(JOB))

    def fail(*_: object) -> None:
        raise DataError("offset 4 is gone" + "x" * 9000, reason=Reason.DATA_LOST)

    monkeypatch.setattr(loader, "run", fail)
    assert loader.main([]) == 1
    left = codec.loads(Termination, log.read_bytes())
    assert (left.reason, left.message[:16]) == ("DataLost", "offset 4 is gone")
    assert len(log.read_bytes()) <= 4096


def test_success_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "termination-log"
    log.touch()
    monkeypatch.setattr(loader, "TERMINATION_LOG", log)
    monkeypatch.setattr(loader, "run", lambda *_: None)
    monkeypatch.setenv("EVENKEEL_JOB", json.dumps(codec.to_json(JOB)))
    assert (loader.main([]), log.read_text()) == (0, "")


def test_arguments_are_refused() -> None:
    assert loader.main(["--help"]) == 2
