from __future__ import annotations

from pathlib import Path

import pytest

from scripts.provision import cache


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_an_entry_is_built_once() -> None:
    calls: list[Path] = []
    first = cache.entry("thing", "key", calls.append)
    assert cache.entry("thing", "key", calls.append) == first
    assert len(calls) == 1


def test_an_interrupted_build_leaves_nothing_that_is_taken_for_finished() -> None:
    def interrupted(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.entry("thing", "key", interrupted)
    whole = cache.entry("thing", "key", lambda folder: (folder / "whole").touch())
    assert [path.name for path in whole.iterdir()] == ["whole"]


def test_the_digest_follows_names_and_contents(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    seen = {cache.digest([folder])}
    for name, text in (("a", "1"), ("a", "2"), ("b", "2")):
        (folder / name).write_text(text)
        seen.add(cache.digest([folder]))
    assert len(seen) == 4


def test_the_digest_keeps_parts_apart() -> None:
    assert cache.digest(["ab", "c"]) != cache.digest(["a", "bc"])
