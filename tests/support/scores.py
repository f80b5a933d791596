"""Packages with scores of their own, laid into a folder as pip would install them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(folder: Path, package: str, source: str, scores: Mapping[str, str]) -> None:
    """A module `package` and its dist-info; `scores`: score name -> name in the module."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / f"{package}.py").write_text(source)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {package}:{function}" for name, function in scores.items()]
    (info / "entry_points.txt").write_text("[evenkeel.scores]\n" + "\n".join(lines) + "\n")
