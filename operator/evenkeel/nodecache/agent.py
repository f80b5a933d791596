"""The cache's loops: follow the NodeCache, write its status, keep the store in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from evenkeel.api.node_cache import NodeCache
from evenkeel.errors import EvenkeelError
from evenkeel.kube.client import Kube
from evenkeel.kube.resources import NODE_CACHE
from evenkeel.nodecache import metrics
from evenkeel.nodecache.status import CacheFacts, build_apply, build_status
from evenkeel.nodecache.store import Store

WRITE_SECONDS = 5.0
"""Least time between two writes of the status."""
LOOK_SECONDS = 15.0
"""How often the disk's space is looked at without any other cause."""

log = logging.getLogger(__name__)


class Agent:
    """One node's cache as the API server sees it.

    Args:
        kube: with the field manager of the cache.
        store: what is on disk.
        node: name of the node and of its NodeCache.
        endpoint: URL for loaders.
        write_seconds: least time between two writes.
    """

    def __init__(
        self, kube: Kube, store: Store, *, node: str, endpoint: str, write_seconds: float = WRITE_SECONDS
    ) -> None:
        self._kube = kube
        self._store = store
        self._node = node
        self._endpoint = endpoint
        self._write_seconds = write_seconds
        self._seen: NodeCache | None = None
        self._changed = asyncio.Event()
        self._work = asyncio.Event()
        self._ending = threading.Event()
        self.listed = False
        """Whether the API server was asked once: before, nothing is known to be unwanted."""

    def notice(self) -> None:
        """Something changed: look at the status and the store soon. Call it on the event loop."""
        self._changed.set()
        self._work.set()

    async def follow(self) -> None:
        """Take what the NodeCache wants, for ever."""
        events = self._kube.watch(
            NODE_CACHE, field_selector=f"metadata.name={self._node}", on_listed=self._note_listed
        )
        async for kind, item in events:
            self._take(kind, item)

    async def write(self) -> None:
        """Write the status when it differs, at most once per `write_seconds`, for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            try:
                wrote = await self._write_once()
            except EvenkeelError as error:
                log.warning("status not written, again soon node=%s why=%s", self._node, error)
                wrote = True
                self._changed.set()
            if wrote:
                await asyncio.sleep(self._write_seconds)

    async def keep(self) -> None:
        """Make complete revisions warm and remove unwanted ones, whenever something changed; for ever."""
        while self._keep_going():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._work.wait()
            self._work.clear()
            await self._guard(lambda: self._store.finish_complete(self._keep_going))
            await self._guard(self._store.remove_unwanted)

    async def scrub(self, seconds: float) -> None:
        """Hash everything that is warm, at once and then every `seconds`; for ever."""
        while self._keep_going():
            began = time.monotonic()
            await self._guard(lambda: self._store.scrub(self._keep_going))
            log.info("scrubbed seconds=%.1f", time.monotonic() - began)
            await asyncio.sleep(seconds)

    def _keep_going(self) -> bool:
        return not self._ending.is_set()

    async def _guard(self, work: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(work)
        except asyncio.CancelledError:
            self._ending.set()  # the thread goes on, and the process would wait for hours of hashing
            raise
        except EvenkeelError as error:
            log.warning("store in trouble, again soon why=%s", error)

    def _note_listed(self) -> None:
        self.listed = True

    def _take(self, kind: str, item: dict[str, Any]) -> None:
        if kind == "DELETED":
            log.info("NodeCache deleted node=%s", self._node)
            self._seen = None
            self._store.set_wanted(())
            return
        try:
            seen = NodeCache.model_validate(item)
            wanted = tuple(entry.domain() for entry in seen.spec.wanted)
            before, self._seen = self._seen, seen
            if before is None or before.spec != seen.spec:
                log.info("wanted revisions=%d generation=%d", len(wanted), seen.metadata.generation)
                self._store.set_wanted(wanted)
        except (ValidationError, EvenkeelError) as error:
            log.error("NodeCache not understood node=%s why=%s", self._node, error)
        self._changed.set()

    async def _write_once(self) -> bool:
        seen = self._seen
        if seen is None:
            return False
        facts = await asyncio.to_thread(gather_facts, self._store, self._endpoint)
        status = build_status(facts, seen, datetime.now(UTC).replace(microsecond=0))
        if status == seen.status:
            return False
        stored = await self._kube.apply(NODE_CACHE, build_apply(seen, status), subresource="status")
        if self._seen is seen:  # the watch will say the same, but perhaps after the next look
            self._seen = NodeCache.model_validate(stored)
        log.info("status written warm=%d of=%d", _count_warm(facts), len(facts.revisions))
        return True


def gather_facts(store: Store, endpoint: str) -> CacheFacts:
    """Look at the store and its disk; also sets the gauges. Blocks."""
    try:
        space, revisions = store.space(), store.report()
    except EvenkeelError as error:
        return CacheFacts(endpoint, None, (), error.message)
    metrics.DISK_TOTAL.set(space.total)
    metrics.DISK_USABLE.set(space.usable)
    metrics.REVISIONS.clear()
    for item in revisions:
        metrics.REVISIONS.labels(state=item.state.value).inc()
    if not os.access(store.root, os.W_OK):
        return CacheFacts(endpoint, None, revisions, f"the cache may not write to its folder {store.root}")
    return CacheFacts(endpoint, space, revisions)


def _count_warm(facts: CacheFacts) -> int:
    return sum(1 for item in facts.revisions if item.state.value == "Warm")
