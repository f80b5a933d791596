from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.api.kinds import KINDS
from evenkeel.cli import crds


def test_written_files_are_fresh(tmp_path: Path) -> None:
    assert crds.main(["--directory", str(tmp_path)]) == 0
    assert crds.main(["--directory", str(tmp_path), "--check"]) == 0
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {f"{kind.definition.plural}.yaml" for kind in KINDS}


def test_check_names_each_file_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crds.main(["--directory", str(tmp_path)])
    (tmp_path / "nodecaches.yaml").unlink()
    (tmp_path / "balancedtopics.yaml").write_text("{}")
    (tmp_path / "others.yaml").write_text("{}")
    assert crds.main(["--directory", str(tmp_path), "--check"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{tmp_path}/nodecaches.yaml: missing; run `evenkeel crds`",
        f"{tmp_path}/balancedtopics.yaml: stale; run `evenkeel crds`",
        f"{tmp_path}/others.yaml: belongs to no kind; remove it",
    ]


def test_missing_folder_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert crds.main(["--directory", str(tmp_path / "absent")]) == 2
    assert "no such folder" in capsys.readouterr().err
