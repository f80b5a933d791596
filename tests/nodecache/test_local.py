"""What the mounter and the cache say to each other, over a real Unix socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web

from evenkeel.domain.nodes import HoldState
from evenkeel.errors import RetryableError
from evenkeel.nodecache import local
from evenkeel.nodecache.layout import RevisionKey
from evenkeel.nodecache.store import Store
from evenkeel.reasons import Reason
from tests.support.revisions import UID, build_revision


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    root = tmp_path / "store"
    root.mkdir()
    found = Store(root)
    runner = web.AppRunner(local.build_local_server(found))
    await runner.setup()
    await local.listen(runner, tmp_path / "cache.sock")
    yield found
    await runner.cleanup()


async def test_a_lookup_travels(store: Store, tmp_path: Path) -> None:
    built = build_revision()
    store.set_wanted([built.wanted()])
    answer = await local.CacheSocket(tmp_path / "cache.sock").lookup(built.wanted().reference)
    assert (answer.state, answer.percent, answer.key) == (HoldState.WANTED, 0, None)


async def test_mounts_travel(store: Store, tmp_path: Path) -> None:
    key = RevisionKey(UID, "0" * 64)
    await local.CacheSocket(tmp_path / "cache.sock").put_mounts(local.Mounted((key,)))
    assert store._mounted == frozenset({key})


async def test_only_the_owner_and_root_may_connect(store: Store, tmp_path: Path) -> None:
    assert (tmp_path / "cache.sock").stat().st_mode & 0o777 == 0o600


async def test_no_cache_is_worth_another_try(tmp_path: Path) -> None:
    with pytest.raises(RetryableError) as caught:
        await local.CacheSocket(tmp_path / "nothing.sock").lookup("0" * 20)
    assert caught.value.reason is Reason.CACHE_UNAVAILABLE
