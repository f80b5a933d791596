from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Self

import pytest

from evenkeel.errors import RetryableError
from evenkeel.kube import watch
from evenkeel.kube.client import Kube
from evenkeel.kube.failures import KindAbsentError
from evenkeel.kube.resources import POD


def pod(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


class Content:
    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    async def readany(self) -> bytes:
        if not self._chunks:
            raise OSError("connection lost")
        return self._chunks.pop(0)


class Response:
    def __init__(self, *changes: tuple[str, dict[str, Any]], cut: int = 0) -> None:
        lines = b"".join(
            json.dumps({"type": kind, "object": item}).encode() + b"\n" for kind, item in changes
        )
        parts = [lines[:cut], lines[cut:]] if cut else [lines]
        self.content = Content([part for part in parts if part])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class Script(Kube):
    """Lists and watch responses in order; an exception in a list is raised."""

    def __init__(self, lists: list[Any], responses: list[Any]) -> None:
        self.lists = lists
        self.responses = responses
        self.versions: list[str] = []

    async def list_with_version(self, *_: Any, **__: Any) -> Any:
        found = self.lists.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def open_watch(self, _path: str, query: Any, _seconds: float) -> Any:
        self.versions.append(query["resourceVersion"])
        return self.responses.pop(0)


async def take(script: Script, count: int, listed: list[int] | None = None) -> list[tuple[str, str]]:
    def on_listed() -> None:
        if listed is not None:
            listed.append(len(seen))

    seen: list[tuple[str, str]] = []
    stream: AsyncIterator[watch.Change] = watch.follow(script, watch.Selection(POD), on_listed)
    async for kind, item in stream:
        seen.append((kind, item["metadata"]["name"]))
        if len(seen) == count:
            break
    return seen


async def test_an_optional_kind_ends_when_it_is_absent() -> None:
    script = Script([([pod("a", 1)], "5"), KindAbsentError("404")], [Response()])
    stream = watch.follow(script, watch.Selection(POD), optional=True)
    assert (await anext(stream))[1]["metadata"]["name"] == "a"
    with pytest.raises(KindAbsentError):
        await anext(stream)


async def test_lists_then_follows() -> None:
    script = Script(
        [([pod("a", 1)], "5")], [Response(("ADDED", pod("b", 6)), ("DELETED", pod("a", 7)), cut=40)]
    )
    listed: list[int] = []
    assert await take(script, 3, listed) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert listed == [1]
    assert script.versions == ["5"]


async def test_bookmark_moves_the_version_only() -> None:
    first = Response(("BOOKMARK", pod("", 9)))
    first.content._chunks.append(b"")  # the server ends the watch
    script = Script([([], "5")], [first, Response(("ADDED", pod("b", 10)))])
    assert await take(script, 1) == [("ADDED", "b")]
    assert script.versions == ["5", "9"]


async def test_expired_version_lists_again_and_finds_what_was_missed() -> None:
    gone = {"code": 410, "message": "too old resource version"}
    script = Script(
        [([pod("a", 1), pod("b", 2)], "5"), ([pod("b", 2), pod("c", 8)], "9")],
        [Response(("ERROR", gone)), Response(("MODIFIED", pod("c", 10)))],
    )
    assert await take(script, 5) == [
        ("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("ADDED", "c"), ("MODIFIED", "c"),
    ]  # fmt: skip


async def test_trouble_is_waited_out(monkeypatch: Any) -> None:
    monkeypatch.setattr(watch, "FIRST_PAUSE", 0.001)
    script = Script(
        [RetryableError("away"), ([pod("a", 1)], "5"), ([pod("a", 3)], "6")],
        [Response(), Response(("DELETED", pod("a", 7)))],
    )
    assert await take(script, 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
