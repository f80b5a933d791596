"""The generated protobuf modules are those of the .proto files."""

from __future__ import annotations

import importlib.resources
from pathlib import Path

import pytest
from grpc_tools import protoc

SOURCE = Path(__file__).resolve().parents[2] / "operator"
FOLDER = "evenkeel/nodecache/proto"


@pytest.mark.parametrize("name", ["csi", "pluginregistration"])
def test_generated_modules_are_fresh(name: str, tmp_path: Path) -> None:
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    outputs = [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    assert protoc.main(["", f"-I{SOURCE}", f"-I{well_known}", *outputs, f"{FOLDER}/{name}.proto"]) == 0
    for suffix in ("_pb2.py", "_pb2.pyi"):
        made = (tmp_path / FOLDER / f"{name}{suffix}").read_text()
        assert made == (SOURCE / FOLDER / f"{name}{suffix}").read_text(), "run scripts/protos"
