from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.provision import docker, images


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(docker, "has_image", lambda tag: True)
    (tmp_path / "context").mkdir()
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")

    def build_with(**options: object) -> str:
        return images.build_image(
            "thing",
            dockerfile=tmp_path / "Dockerfile",
            context=tmp_path / "context",
            **options,  # type: ignore[arg-type]
        )

    return build_with


def test_the_same_content_has_the_same_tag(build: Callable[..., str]) -> None:
    assert build(args={"A": "1", "B": "2"}) == build(args={"B": "2", "A": "1"})


def test_everything_that_decides_the_image_decides_its_tag(build: Callable[..., str], tmp_path: Path) -> None:
    tags = {build(), build(target="data"), build(args={"BASE_IMAGE": "a"}), build(args={"BASE_IMAGE": "b"})}
    (tmp_path / "context" / "file").write_text("x")
    tags.add(build())
    (tmp_path / "Dockerfile").write_text("FROM scratch\nUSER 1\n")
    tags.add(build())
    assert len(tags) == 6
    assert all(tag.startswith("evenkeel/thing:") for tag in tags)
