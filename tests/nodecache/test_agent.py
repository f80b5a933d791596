"""The loops of the cache against an API server that is a queue."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from evenkeel.domain.nodes import WantedRevision
from evenkeel.errors import RetryableError
from evenkeel.kube.client import Kube
from evenkeel.kube.resources import Resource
from evenkeel.nodecache.agent import Agent
from evenkeel.nodecache.layout import RevisionKey
from evenkeel.nodecache.store import Store
from tests.support.revisions import UID, BuiltRevision, build_revision
from tests.support.waiting import until

NODE_UID = "7c1d2f9e-0000-4000-8000-00000000000a"
LOADER = "7c1d2f9e-0000-4000-8000-00000000000b"


class FakeKube:
    """Yields what is put in; stores what is applied and yields it back, as the API server does."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self.applied: list[dict[str, Any]] = []
        self.broken = False
        self.stored: dict[str, Any] = {}

    def put(self, wanted: list[WantedRevision], generation: int = 1) -> None:
        entries = [
            {
                "datasetUID": item.dataset_uid,
                "digest": item.digest,
                "dataBytes": item.data_bytes,
                "loaderUID": LOADER,
                "reference": item.reference,
            }
            for item in wanted
        ]
        self.stored = {
            "metadata": {"name": "node-1", "uid": "object-uid", "generation": generation},
            "spec": {"nodeUID": NODE_UID, "wanted": entries},
            "status": self.stored.get("status", {}),
        }
        self.events.put_nowait(("MODIFIED", self.stored))

    async def watch(
        self, resource: Resource, *, field_selector: str, on_listed: Callable[[], None]
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        assert (resource.plural, field_selector) == ("nodecaches", "metadata.name=node-1")
        on_listed()
        while True:
            yield await self.events.get()

    async def apply(self, resource: Resource, body: Mapping[str, Any], *, subresource: str) -> dict[str, Any]:
        assert subresource == "status"
        if self.broken:
            raise RetryableError("the API server does not answer")
        self.applied.append(dict(body))
        self.stored = {**self.stored, "status": body["status"]}
        self.events.put_nowait(("MODIFIED", self.stored))
        return self.stored


class Running:
    """An agent with its loops."""

    def __init__(self, root: Path) -> None:
        self.kube = FakeKube()
        self.store = Store(root)
        self.agent = Agent(
            cast("Kube", self.kube),
            self.store,
            node="node-1",
            endpoint="http://10.0.0.1:7443",
            write_seconds=0.05,
        )
        loop = asyncio.get_running_loop()

        def notice() -> None:
            loop.call_soon_threadsafe(self.agent.notice)

        self.store.on_change = notice
        loops = (self.agent.follow(), self.agent.write(), self.agent.keep(), self.agent.scrub(1000))
        self.tasks = [asyncio.create_task(item) for item in loops]

    def states(self) -> list[str]:
        status = self.kube.applied[-1]["status"] if self.kube.applied else {}
        return [item["state"] for item in status.get("revisions", ())]

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    found = Running(tmp_path)
    yield found
    await found.stop()


def send(store: Store, built: BuiltRevision) -> None:
    key = RevisionKey(UID, built.digest)
    store.put_manifest(key, built.stored)
    for index, data in enumerate(built.files):
        upload = store.open_shard(key, index, len(data))
        assert upload is not None
        upload.write(data)
        upload.finish()
        store.close_shard(key, upload)


async def test_what_is_wanted_is_reported_until_it_is_warm(running: Running) -> None:
    built = build_revision()
    running.kube.put([built.wanted()])
    await until(lambda: running.states() == ["Wanted"])
    assert running.store.find_loaders(UID) == {LOADER}
    await asyncio.to_thread(send, running.store, built)
    await until(lambda: running.states() == ["Warm"])


async def test_an_idle_cache_writes_nothing(running: Running) -> None:
    running.kube.put([build_revision().wanted()])
    await until(lambda: running.states() == ["Wanted"])
    count = len(running.kube.applied)
    for _ in range(5):
        running.agent.notice()
        await asyncio.sleep(0.06)
    assert len(running.kube.applied) == count


async def test_a_status_that_could_not_be_written_is_written_later(running: Running) -> None:
    running.kube.broken = True
    running.kube.put([build_revision().wanted()])
    await asyncio.sleep(0.1)
    running.kube.broken = False
    await until(lambda: running.states() == ["Wanted"])


async def test_a_revision_that_is_wanted_no_more_goes(running: Running, tmp_path: Path) -> None:
    built = build_revision()
    running.store.set_mounted(())
    running.kube.put([built.wanted()])
    await until(lambda: running.states() == ["Wanted"])
    await asyncio.to_thread(send, running.store, built)
    await until(lambda: running.states() == ["Warm"])
    running.kube.put([], generation=2)
    await until(lambda: not any(tmp_path.iterdir()))
    await until(lambda: running.states() == [])
    assert running.kube.applied[-1]["status"]["observedGeneration"] == 2


async def test_a_deleted_node_cache_wants_nothing(running: Running) -> None:
    running.kube.put([build_revision().wanted()])
    await until(lambda: bool(running.store.report()))
    running.kube.events.put_nowait(("DELETED", running.kube.stored))
    await until(lambda: running.store.report() == ())


async def test_an_object_that_cannot_be_read_changes_nothing(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    running.kube.put([build_revision().wanted()])
    await until(lambda: bool(running.store.report()))
    broken = {**running.kube.stored, "spec": {"nodeUID": NODE_UID, "wanted": [{"digest": 1}]}}
    running.kube.events.put_nowait(("MODIFIED", broken))
    await until(lambda: "not understood" in caplog.text)
    assert len(running.store.report()) == 1


async def test_an_ending_cache_does_not_wait_for_a_scrub(running: Running) -> None:
    began, ended = threading.Event(), threading.Event()

    def scrub(keep_going: Callable[[], bool]) -> None:
        began.set()
        while keep_going():
            threading.Event().wait(0.01)
        ended.set()

    running.store.scrub = scrub  # type: ignore[method-assign,assignment]
    task = asyncio.create_task(running.agent.scrub(1000))
    await until(began.is_set)
    task.cancel()
    await until(ended.is_set)
