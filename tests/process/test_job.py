from __future__ import annotations

import json
from pathlib import Path

import pytest

from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.job import DatasetRef, JobSpec, Role, Termination
from evenkeel.errors import DataError, InputError
from evenkeel.names import JOB_VARIABLE
from evenkeel.process.job import TERMINATION_BYTES, read_job, require, run_job
from evenkeel.reasons import Reason

DATASET = DatasetRef("uid", "team", "digits", "data", "journal", "manifest", "rejected")
JOB = JobSpec(Role.SEALER, DATASET, Connection(("broker:9092",)))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "not valid JSON"),
        (codec.dumps(JobSpec(Role.LOADER, DATASET, JOB.connection)), "role: Loader, must be Sealer"),
        ('{"role": "Sealer"}', "dataset: required"),
    ],
)
def test_a_job_that_is_not_one_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_job(text, Role.SEALER)


def test_settings_that_are_missing_are_named() -> None:
    with pytest.raises(InputError, match=f"{JOB_VARIABLE}.sealer: required"):
        require(JOB.sealer, "sealer")


def fail_with(error: Exception, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    def fail(_: JobSpec) -> int:
        raise error

    monkeypatch.setenv(JOB_VARIABLE, codec.dumps(JOB))
    assert run_job(["--termination-log", str(folder / "log")], Role.SEALER, fail) == 1
    return (folder / "log").read_bytes()


def test_a_failure_leaves_reason_and_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = fail_with(DataError("offset 4 is gone", reason=Reason.DATA_LOST), tmp_path, monkeypatch)
    assert codec.loads(Termination, left) == Termination("DataLost", "offset 4 is gone")


def test_a_long_sentence_is_cut_and_stays_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = fail_with(DataError("\u00e4" * 20_000, reason=Reason.DATA_LOST), tmp_path, monkeypatch)
    assert len(left) <= TERMINATION_BYTES
    assert json.loads(left)["reason"] == "DataLost"


def test_of_a_mistake_of_ours_only_the_kind_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = fail_with(KeyError("a password"), tmp_path, monkeypatch)
    assert codec.loads(Termination, left) == Termination("InternalError", "KeyError")


def test_success_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JOB_VARIABLE, codec.dumps(JOB))
    assert run_job(["--termination-log", str(tmp_path / "log")], Role.SEALER, lambda _: 0) == 0
    assert not (tmp_path / "log").exists()


def test_a_place_that_cannot_be_written_changes_no_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(JOB_VARIABLE, "")
    assert run_job(["--termination-log", str(tmp_path / "no" / "log")], Role.SEALER, lambda _: 0) == 1
    assert "termination message not written" in caplog.text
