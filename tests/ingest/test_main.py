from __future__ import annotations

import json
from pathlib import Path

import pytest

from evenkeel.domain import codec
from evenkeel.domain.connection import Connection, Protocol
from evenkeel.domain.job import JobSpec, Role
from evenkeel.ingest.main import producer_main, sealer_main
from evenkeel.names import JOB_VARIABLE
from tests.support.ingest import DATASET, build_settings

NOWHERE = Connection(("127.0.0.1:1",), Protocol.SASL_PLAINTEXT, credentials_path="/nonexistent")


@pytest.mark.parametrize("main", [producer_main, sealer_main])
@pytest.mark.parametrize(
    ("job", "reason", "said"),
    [
        ("", "InvalidSpec", "not valid JSON"),
        ("{}", "InvalidSpec", "JobSpec.role"),
        (codec.dumps(JobSpec(Role.LOADER, DATASET, NOWHERE)), "InvalidSpec", "role: Loader, must be "),
    ],
)
def test_a_job_that_cannot_start_says_why(
    main: object, job: str, reason: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(main)
    monkeypatch.setenv(JOB_VARIABLE, job)
    assert main(["--termination-log", str(tmp_path / "log")]) == 1
    termination = json.loads((tmp_path / "log").read_text())
    assert termination["reason"] == reason
    assert said in termination["message"]


def test_a_missing_secret_is_named_without_a_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = JobSpec(Role.PRODUCER, DATASET, NOWHERE, producer=build_settings(tmp_path))
    monkeypatch.setenv(JOB_VARIABLE, codec.dumps(spec))
    assert producer_main(["--termination-log", str(tmp_path / "log")]) == 1
    assert json.loads((tmp_path / "log").read_text())["reason"] == "SecretMissing"
