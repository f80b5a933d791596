"""The loader against a real cache server over HTTP; Kafka is a list of bytes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from evenkeel.domain.nodes import HoldState
from evenkeel.domain.revision import Shard
from evenkeel.domain.upload import UploadState
from evenkeel.errors import ConfigurationError, DataError, InputError, RetryableError
from evenkeel.format.shards import shard_file
from evenkeel.kube.client import TokenIdentity
from evenkeel.loader.client import CacheClient
from evenkeel.loader.load import PATIENCE_SECONDS, Clock, load
from evenkeel.nodecache.access import Gatekeeper
from evenkeel.nodecache.files import DiskSpace
from evenkeel.nodecache.layout import RevisionKey
from evenkeel.nodecache.server import build_server
from evenkeel.nodecache.store import Store
from evenkeel.reasons import Reason
from tests.support.revisions import LOADER_UID, SCHEMA, UID, BuiltRevision, build_revision


@dataclass
class FakeSource:
    """A revision in memory; counts what was read and may fail once per shard."""

    built: BuiltRevision
    read: list[int] = field(default_factory=list)
    fail_once: dict[int, Exception] = field(default_factory=dict)

    @property
    def stored(self) -> bytes:
        return self.built.stored

    def order(self, missing: set[int]) -> list[Shard]:
        return [shard for shard in self.built.manifest.shards if shard.index in missing]

    def read_file(self, shard: Shard) -> Iterator[bytes]:
        self.read.append(shard.index)
        pieces = shard_file(SCHEMA, self.built.messages[shard.index])
        yield next(pieces)
        if shard.index in self.fail_once:
            raise self.fail_once.pop(shard.index)
        yield from pieces


class ServedCache:
    """A cache server in a thread of its own, since the loader blocks."""

    def __init__(self, root: Path, built: BuiltRevision) -> None:
        self.store = Store(root, disk=lambda _: self.space)
        self.space = DiskSpace(1 << 40, 1 << 40)
        self.store.set_wanted([built.wanted()])
        self.denied: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._runner = web.AppRunner(build_server(self.store, Gatekeeper(self._review)))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        assert self._started.wait(10)

    @property
    def url(self) -> str:
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _review(self, token: str, _: str) -> TokenIdentity | None:
        return TokenIdentity("loader", LOADER_UID) if token == "secret" else None

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._runner.setup())
        self._loop.run_until_complete(web.TCPSite(self._runner, "127.0.0.1", 0).start())
        self._started.set()
        self._loop.run_forever()


@dataclass
class FakeClock:
    """Sleeping moves the time and lets the cache keep its house."""

    store: Store | None = None
    now: float = 0.0
    pauses: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)
        if self.store is not None:
            self.store.finish_complete()

    def clock(self) -> Clock:
        return Clock(lambda: self.now, self.sleep)


@pytest.fixture
def built() -> BuiltRevision:
    return build_revision(message_bytes=50_000)


@pytest.fixture
def cache(tmp_path: Path, built: BuiltRevision) -> Iterator[ServedCache]:
    (tmp_path / "store").mkdir()
    served = ServedCache(tmp_path / "store", built)
    yield served
    served.stop()


@pytest.fixture
def client(tmp_path: Path, cache: ServedCache, built: BuiltRevision) -> CacheClient:
    (tmp_path / "token").write_text("secret\n")
    return CacheClient(cache.url, UID, built.digest, tmp_path / "token", seconds=10)


def test_a_revision_is_loaded_until_it_is_warm(
    cache: ServedCache, client: CacheClient, built: BuiltRevision
) -> None:
    source = FakeSource(built)
    load(source, client, FakeClock(cache.store).clock())
    assert cache.store.report()[0].state is HoldState.WARM
    assert source.read == [0, 1, 2]


def test_a_second_loader_sends_only_what_is_missing(
    cache: ServedCache, client: CacheClient, built: BuiltRevision
) -> None:
    first = FakeSource(built, fail_once={1: DataError("gone", reason=Reason.DATA_LOST)})
    with pytest.raises(DataError, match="gone"):
        load(first, client, FakeClock().clock())
    second = FakeSource(built)
    load(second, client, FakeClock(cache.store).clock())
    assert (first.read, second.read) == ([0, 1], [1, 2])
    load(FakeSource(built), client, FakeClock().clock())


def test_trouble_of_kafka_is_tried_again(
    cache: ServedCache, client: CacheClient, built: BuiltRevision
) -> None:
    source = FakeSource(built, fail_once={2: RetryableError("no answer", reason=Reason.BROKERS_UNREACHABLE)})
    load(source, client, FakeClock(cache.store).clock())
    assert source.read == [0, 1, 2, 2]


def test_a_cache_that_has_not_heard_yet_is_asked_again(
    cache: ServedCache, client: CacheClient, built: BuiltRevision
) -> None:
    cache.store.set_wanted([])
    clock = FakeClock(cache.store)

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        cache.store.set_wanted([built.wanted()])

    load(FakeSource(built), client, Clock(lambda: clock.now, sleep))
    assert cache.store.report()[0].state is HoldState.WARM


def test_a_loader_without_right_gives_up_after_a_while(tmp_path: Path, client: CacheClient) -> None:
    (tmp_path / "token").write_text("wrong")
    clock = FakeClock()
    with pytest.raises(ConfigurationError) as caught:
        load(FakeSource(build_revision()), client, clock.clock())
    assert caught.value.reason is Reason.NOT_PERMITTED
    assert clock.now > PATIENCE_SECONDS
    assert "wrong" not in caught.value.message


def test_what_does_not_fit_ends_the_job_at_once(
    cache: ServedCache, client: CacheClient, built: BuiltRevision
) -> None:
    cache.space = DiskSpace(1000, 1000)
    with pytest.raises(InputError) as caught:
        load(FakeSource(built), client, FakeClock().clock())
    assert caught.value.reason is Reason.DOES_NOT_FIT


def test_bytes_that_are_not_the_manifests_end_the_job(client: CacheClient, built: BuiltRevision) -> None:
    messages = (built.messages[0], (b"?" * 50_000, built.messages[1][1]), built.messages[2])
    with pytest.raises(DataError) as caught:
        load(FakeSource(BuiltRevision(built.manifest, built.stored, messages)), client, FakeClock().clock())
    assert caught.value.reason is Reason.SHARD_CORRUPT


def test_a_cache_that_is_away_is_worth_another_try(tmp_path: Path, built: BuiltRevision) -> None:
    (tmp_path / "token").write_text("secret")
    client = CacheClient("http://127.0.0.1:9", UID, built.digest, tmp_path / "token")
    with pytest.raises(RetryableError) as caught:
        client.read_state()
    assert caught.value.reason is Reason.CACHE_UNAVAILABLE


def test_a_missing_token_is_named(tmp_path: Path, built: BuiltRevision) -> None:
    client = CacheClient("http://127.0.0.1:9", UID, built.digest, tmp_path / "token")
    with pytest.raises(ConfigurationError, match="token") as caught:
        client.read_state()
    assert caught.value.reason is Reason.SECRET_MISSING


@pytest.mark.parametrize("endpoint", ["", "ftp://x:1", "http://x", "10.0.0.1:7443"])
def test_an_endpoint_must_be_one(endpoint: str) -> None:
    with pytest.raises(InputError, match=r"loader\.endpoint"):
        CacheClient(endpoint, UID, "0" * 64, Path("token"))


def test_a_cache_that_verifies_for_long_is_waited_for(built: BuiltRevision) -> None:
    states = [UploadState(HoldState.LOADING, 3, (0, 1, 2))] * 4 + [UploadState(HoldState.WARM, 3, (0, 1, 2))]

    class Slow:
        def read_state(self) -> UploadState:
            return states.pop(0)

        def put_manifest(self, manifest: bytes) -> UploadState:
            raise AssertionError

        def put_shard(self, index: int, length: int, pieces: Iterator[bytes]) -> UploadState:
            raise AssertionError

    clock = FakeClock()
    load(FakeSource(built), Slow(), clock.clock())
    assert clock.pauses == [0.5, 1.0, 2.0, 4.0]


def test_a_cache_that_never_becomes_warm_is_not_waited_for_for_ever(built: BuiltRevision) -> None:
    class Stuck:
        def read_state(self) -> UploadState:
            return UploadState(HoldState.LOADING, 3, (0, 1, 2), "99 percent is here")

        def put_manifest(self, manifest: bytes) -> UploadState:
            raise AssertionError

        def put_shard(self, index: int, length: int, pieces: Iterator[bytes]) -> UploadState:
            raise AssertionError

    with pytest.raises(RetryableError, match="99 percent") as caught:
        load(FakeSource(built), Stuck(), FakeClock().clock())
    assert caught.value.reason is Reason.NOT_WARM


def test_the_key_of_a_revision_is_what_the_store_knows(built: BuiltRevision) -> None:
    assert str(RevisionKey(UID, built.digest)) == f"{UID}/{built.digest[:12]}"
