"""The loaders' HTTP API on a real socket, with a token reviewer of our own."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from aiohttp.test_utils import TestServer
from yarl import URL

from evenkeel import names
from evenkeel.domain import codec
from evenkeel.domain.nodes import HoldState
from evenkeel.domain.upload import Refusal, UploadState, manifest_path, revision_path, shard_path
from evenkeel.errors import RetryableError
from evenkeel.kube.client import TokenIdentity
from evenkeel.nodecache import server
from evenkeel.nodecache.access import REMEMBER_SECONDS, Gatekeeper
from evenkeel.nodecache.files import DiskSpace
from evenkeel.nodecache.server import build_server
from evenkeel.nodecache.store import Store
from evenkeel.reasons import Reason
from tests.support.revisions import LOADER_UID, UID, BuiltRevision, build_revision
from tests.support.waiting import until

GOOD = {"Authorization": "Bearer good-token"}


@dataclass
class Reviewer:
    """Knows two tokens; counts how often it was asked."""

    asked: list[str] = field(default_factory=list)
    broken: bool = False

    async def review(self, token: str, audience: str) -> TokenIdentity | None:
        assert audience == names.TOKEN_AUDIENCE
        self.asked.append(token)
        if self.broken:
            raise RetryableError("connection refused", reason=Reason.INTERNAL_ERROR)
        if token == "good-token":
            return TokenIdentity("system:serviceaccount:team:loader", LOADER_UID)
        if token == "foreign-token":
            return TokenIdentity("system:serviceaccount:other:loader", "another-uid")
        return None


@dataclass
class Cache:
    """A served store and a client of it."""

    store: Store
    reviewer: Reviewer
    session: aiohttp.ClientSession
    built: BuiltRevision
    now: float = 0.0

    async def call(
        self, method: str, path: str, data: object = None, headers: dict[str, str] = GOOD
    ) -> tuple[int, bytes]:
        body = io.BytesIO(data) if isinstance(data, bytes) else data
        async with self.session.request(method, path, data=body, headers=headers) as response:
            return response.status, await response.read()

    async def put_manifest(self) -> tuple[int, bytes]:
        return await self.call("PUT", manifest_path(UID, self.built.digest), self.built.stored)

    async def put_shard(self, index: int, data: bytes | None = None) -> tuple[int, bytes]:
        content = self.built.files[index] if data is None else data
        return await self.call("PUT", shard_path(UID, self.built.digest, index), content)


@pytest_asyncio.fixture
async def cache(tmp_path: Path) -> AsyncIterator[Cache]:
    built = build_revision(message_bytes=700_000)
    store = Store(tmp_path, disk=lambda _: DiskSpace(1 << 30, 1 << 29))
    store.set_wanted([built.wanted()])
    reviewer = Reviewer()
    holder: list[Cache] = []
    gatekeeper = Gatekeeper(reviewer.review, clock=lambda: holder[0].now)
    async with TestServer(build_server(store, gatekeeper)) as served:
        base = f"http://{served.host}:{served.port}"
        async with aiohttp.ClientSession(base) as session:
            holder.append(Cache(store, reviewer, session, built))
            yield holder[0]


def refusal(answer: tuple[int, bytes]) -> tuple[int, Reason, str]:
    found = codec.loads(Refusal, answer[1])
    return answer[0], Reason(found.reason), found.message


async def test_a_revision_is_uploaded_and_becomes_warm(cache: Cache) -> None:
    status, body = await cache.put_manifest()
    assert (status, codec.loads(UploadState, body).total_shards) == (200, 3)
    for index in (2, 0):
        assert (await cache.put_shard(index))[0] == 200
    status, body = await cache.call("GET", revision_path(UID, cache.built.digest))
    assert codec.loads(UploadState, body).present == (0, 2)
    assert (await cache.put_shard(1))[0] == 200
    cache.store.finish_complete()
    status, body = await cache.call("GET", revision_path(UID, cache.built.digest))
    assert codec.loads(UploadState, body).state is HoldState.WARM


async def test_a_shard_that_is_here_is_not_read_again(cache: Cache) -> None:
    await cache.put_manifest()
    await cache.put_shard(0)
    status, body = await cache.put_shard(0)
    assert (status, codec.loads(UploadState, body).present) == (200, (0,))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Basic Zm9v"}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"Authorization": "Bearer unknown-token"}, 401),
        ({"Authorization": "Bearer foreign-token"}, 403),
    ],
)
async def test_only_the_datasets_loader_is_let_in(
    cache: Cache, headers: dict[str, str], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    answer = await cache.call("GET", revision_path(UID, cache.built.digest), headers=headers)
    assert refusal(answer)[:2] == (status, Reason.NOT_PERMITTED)
    assert "token" not in caplog.text.replace("the token is", "").replace("bearer token", "")


async def test_the_loader_of_one_dataset_may_not_write_another(cache: Cache) -> None:
    other = "11111111-2222-3333-4444-555555555555"
    answer = await cache.call("PUT", manifest_path(other, cache.built.digest), cache.built.stored)
    assert refusal(answer)[:2] == (403, Reason.NOT_PERMITTED)


async def test_a_stranger_cannot_make_us_ask_about_tokens(cache: Cache) -> None:
    for number in range(5):
        headers = {"Authorization": f"Bearer made-up-{number}"}
        path = revision_path("11111111-2222-3333-4444-555555555555", cache.built.digest)
        assert (await cache.call("GET", path, headers=headers))[0] == 403
    assert cache.reviewer.asked == []


async def test_a_path_cannot_write_a_line_into_the_log(
    cache: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    path = URL(f"/v1/revisions/x%0Awarm/{cache.built.digest}", encoded=True)
    async with cache.session.get(path, headers=GOOD) as response:
        assert response.status == 400
    assert "%0Awarm" in caplog.text
    assert "\nwarm" not in caplog.text


async def test_one_dataset_cannot_take_all_places(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "UPLOADS_PER_DATASET", 1)
    await cache.put_manifest()
    begun, go_on = asyncio.Event(), asyncio.Event()
    content = cache.built.files[0]

    async def slow() -> AsyncIterator[bytes]:
        yield content[:10]
        begun.set()
        await go_on.wait()
        yield content[10:]

    headers = {**GOOD, "Content-Length": str(len(content))}
    first = asyncio.create_task(cache.call("PUT", shard_path(UID, cache.built.digest, 0), slow(), headers))
    await begun.wait()
    await until(lambda: any((cache.store.root / UID).glob("*/*.tmp")))
    assert refusal(await cache.put_shard(1))[:2] == (409, Reason.CONFLICT)
    go_on.set()
    assert (await first)[0] == 200
    assert (await cache.put_shard(1))[0] == 200


async def test_an_api_server_that_cannot_be_asked_is_no_denial(cache: Cache) -> None:
    cache.reviewer.broken = True
    assert refusal(await cache.put_manifest())[0] == 503
    cache.reviewer.broken = False
    assert (await cache.put_manifest())[0] == 200


async def test_answers_of_the_api_server_are_remembered_shortly(cache: Cache) -> None:
    for _ in range(3):
        await cache.put_manifest()
    assert len(cache.reviewer.asked) == 1
    cache.now = REMEMBER_SECONDS + 1
    await cache.put_manifest()
    assert len(cache.reviewer.asked) == 2


async def test_an_unwanted_revision_of_a_wanted_dataset_is_not_found(cache: Cache) -> None:
    answer = await cache.call("GET", revision_path(UID, "0" * 64))
    assert refusal(answer)[:2] == (404, Reason.DATASET_NOT_FOUND)


async def test_tampered_bytes_are_refused(cache: Cache) -> None:
    await cache.put_manifest()
    wrong = cache.built.files[0][:-1] + b"?"
    assert refusal(await cache.put_shard(0, wrong))[:2] == (422, Reason.SHARD_CORRUPT)
    assert cache.store.report()[0].verified_shards == 0


async def test_a_shard_before_its_manifest_is_a_conflict(cache: Cache) -> None:
    assert refusal(await cache.put_shard(0))[0] == 409


async def test_a_wrong_length_is_refused_before_any_byte(cache: Cache) -> None:
    await cache.put_manifest()
    status, _, message = refusal(await cache.put_shard(0, b"short"))
    assert (status, "Content-Length 5" in message) == (400, True)


async def test_a_length_is_required(cache: Cache) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"x"

    answer = await cache.call("PUT", shard_path(UID, cache.built.digest, 0), chunks())
    assert refusal(answer)[2] == "Content-Length is required"


async def test_a_revision_that_does_not_fit(cache: Cache) -> None:
    cache.store._disk = lambda _: DiskSpace(1 << 30, 1000)
    assert refusal(await cache.put_manifest())[:2] == (507, Reason.DOES_NOT_FIT)


async def test_a_connection_that_breaks_leaves_nothing(cache: Cache) -> None:
    await cache.put_manifest()
    host, port = cache.session._base_url.host, cache.session._base_url.port  # type: ignore[union-attr]
    _, writer = await asyncio.open_connection(host, port)
    length = len(cache.built.files[0])
    head = f"PUT {shard_path(UID, cache.built.digest, 0)} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n"
    writer.write(f"{head}Authorization: Bearer good-token\r\n\r\n".encode() + cache.built.files[0][:500_000])
    await writer.drain()
    folder = cache.store.root / UID / f"{cache.built.digest}.partial"
    await until(lambda: any(folder.glob("*.tmp")))
    writer.close()
    await until(lambda: not any(folder.glob("*.tmp")))
    assert (await cache.put_shard(0))[0] == 200


async def test_a_silent_sender_is_cut_off(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.05)
    await cache.put_manifest()

    async def stall() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    headers = {**GOOD, "Content-Length": str(len(cache.built.files[0]))}
    path = shard_path(UID, cache.built.digest, 0)
    answer = await asyncio.wait_for(cache.call("PUT", path, stall(), headers), 20)
    assert refusal(answer)[0] == 503
