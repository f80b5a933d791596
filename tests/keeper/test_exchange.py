from __future__ import annotations

import asyncio
import base64
import dataclasses
import gzip
import os
import random
import string
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Desired, Fault, Owner, Report, TopicReport
from evenkeel.errors import EvenkeelError
from evenkeel.keeper import exchange as module
from evenkeel.keeper.exchange import ConfigMapExchange, FileExchange, pack_report, parse_desired
from evenkeel.kube.client import Kube
from evenkeel.reasons import Reason

DESIRED = Desired(owner=Owner("i", "u", "ns/c"), connection=Connection(("k:1",)))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileExchange:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    return FileExchange(tmp_path / "desired.json", tmp_path / "report.json")


async def test_desired_comes_when_the_file_does_and_whenever_it_changes(
    files: FileExchange, tmp_path: Path
) -> None:
    changes = files.watch()
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    (tmp_path / "desired.json").write_text("{ half")
    (tmp_path / "desired.json").write_text(codec.dumps(DESIRED))
    first = await asyncio.wait_for(waiting, 5)
    assert first == DESIRED.sealed()
    following = asyncio.ensure_future(anext(changes))
    (tmp_path / "new").write_text(codec.dumps(dataclasses.replace(DESIRED, paused=True)))
    (tmp_path / "new").replace(tmp_path / "desired.json")
    assert (await asyncio.wait_for(following, 5)).paused


@pytest.mark.parametrize(("text", "told"), [('{"owner": 5}', "Desired.owner"), ("{ half", "not valid JSON")])
def test_what_cannot_be_read_is_passed_over(text: str, told: str, caplog: pytest.LogCaptureFixture) -> None:
    assert parse_desired(text, "desired.json") is None
    assert told in caplog.text


async def test_a_report_is_replaced_whole_and_read_back(files: FileExchange, tmp_path: Path) -> None:
    assert await files.read_report() is None
    for version in ("one", "two"):
        await files.write(Report(desired_version=version))
    assert await files.read_report() == Report(desired_version="two")
    assert os.listdir(tmp_path) == ["report.json"]  # noqa: PTH208 - one name in a test's own folder


async def test_a_report_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    files = FileExchange(tmp_path / "desired.json", tmp_path / "missing" / "report.json")
    with pytest.raises(EvenkeelError, match=r"report\.json"):
        await files.write(Report(desired_version="v"))


async def test_a_deleted_config_map_asks_to_release_the_claim() -> None:
    item = {"metadata": {"name": "c-desired"}, "data": {"desired": codec.dumps(DESIRED.sealed())}}

    class OneDeletion:
        async def watch(self, *_: object, **__: object) -> AsyncIterator[tuple[str, dict[str, Any]]]:
            yield "ADDED", item
            yield "DELETED", item

    exchange = ConfigMapExchange(cast("Kube", OneDeletion()), "ns", "c-desired", "c-report")
    assert [desired.release async for desired in exchange.watch()] == [False, True]


def stored(patch: dict[str, Any]) -> Report:
    if patch["data"]["report"] is not None:
        return codec.loads(Report, patch["data"]["report"])
    return codec.loads(Report, gzip.decompress(base64.b64decode(patch["binaryData"]["report.gz"])))


def test_a_small_report_is_stored_as_it_is() -> None:
    report = Report(desired_version="v", faults=(Fault(Reason.PAUSED, "x"),))
    assert stored(pack_report(report)) == report


def test_a_report_that_cannot_fit_is_cut_until_it_does() -> None:
    noise = random.Random(1)
    topics = tuple(
        TopicReport("".join(noise.choices(string.ascii_letters, k=2000)), exists=True) for _ in range(900)
    )
    found = stored(pack_report(Report(desired_version="v", topics=topics)))
    assert found.topics == topics[:300]
    assert "cut to 300" in found.faults[0].message


async def test_files_that_are_no_text_are_passed_over(files: FileExchange, tmp_path: Path) -> None:
    for name in ("desired.json", "report.json"):
        (tmp_path / name).write_bytes(b"\xff\xfe")
    assert await files.read_report() is None
    changes = files.watch()
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    (tmp_path / "new").write_text(codec.dumps(DESIRED))
    (tmp_path / "new").replace(tmp_path / "desired.json")
    assert await asyncio.wait_for(waiting, 5) == DESIRED.sealed()
