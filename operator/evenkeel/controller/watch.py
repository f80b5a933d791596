"""Keeps the store true: kopf for our kinds, a relist that corrects it, watches for what belongs to them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import kopf

from evenkeel import names
from evenkeel.controller import places, strimzi
from evenkeel.controller.handlers import build_registry, build_settings
from evenkeel.controller.health import Metrics
from evenkeel.controller.store import Store, is_newer, key_of
from evenkeel.errors import EvenkeelError
from evenkeel.kube import resources
from evenkeel.kube.client import Credentials, Kube
from evenkeel.kube.failures import KindAbsentError
from evenkeel.kube.resources import OWN_KINDS, Resource
from evenkeel.kube.watch import at_version

IDENTITY = "evenkeel"
"""kopf's name among its peers, of which we have none; it would look up the user, who has no name in a container."""
RESTART_SECONDS = 2.0
SETTLE_SECONDS = 1.0
"""What a watch may still have on its way when a relist has answered."""
CLOSE_SECONDS = 10.0
log = logging.getLogger(__name__)


class Supervisor:
    """kopf in its own thread and event loop, started again whenever it ends.

    It needs its own loop: when it ends it cancels every task of the loop that started after it.
    """

    def __init__(self, feed: Callable[[str, dict[str, Any]], None], login: Callable[[], Credentials]) -> None:
        self._feed = feed
        self._login = login
        self._stop = threading.Event()
        self._flag = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def restart(self) -> None:
        """End this incarnation; the next one lists everything again."""
        self._flag.set()

    def close(self) -> bool:
        """End for good -> whether the thread has ended."""
        self._stop.set()
        self._flag.set()
        self._thread.join(CLOSE_SECONDS)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._flag = flag = threading.Event()
            if self._stop.is_set():
                # `close` may have set the flag of the incarnation before.
                return
            try:
                asyncio.run(self._once(flag))
            except Exception as error:  # noqa: BLE001 - whatever ends kopf, it is started again
                log.warning("watch of our kinds ended: %s: %s", type(error).__name__, error)
            self._stop.wait(RESTART_SECONDS)

    async def _once(self, flag: threading.Event) -> None:
        await kopf.operator(
            registry=build_registry(OWN_KINDS, self._feed, self._login),
            settings=build_settings(),
            clusterwide=True,
            standalone=True,
            identity=IDENTITY,  # type: ignore[arg-type]  # a NewType of str that kopf does not export
            stop_flag=flag,
        )


class Relist:
    """The truth about our kinds: finds what a watch lost, and kinds that appear or vanish."""

    def __init__(
        self,
        kube: Kube,
        store: Store,
        restart: Callable[[], None],
        metrics: Metrics,
        seconds: float,
        absent: float,
    ) -> None:
        self._kube = kube
        self._store = store
        self._restart = restart
        self._metrics = metrics
        self._seconds = seconds
        self._absent_seconds = absent
        self._absent: set[str] = set()
        self.succeeded_at = time.monotonic()
        """When all kinds were last listed, or found absent by an API server that answers."""

    async def run(self) -> None:
        """List for ever; the first time at once."""
        while True:
            whole = all([await self._one(resource) for resource in OWN_KINDS])
            if whole:
                self.succeeded_at = time.monotonic()
            await asyncio.sleep(self._absent_seconds if self._absent or not whole else self._seconds)

    async def _one(self, resource: Resource) -> bool:
        before = {item["metadata"]["uid"]: item for item in self._store.all(resource.kind)}
        try:
            listed, version = await self._kube.list_with_version(resource)
            found = {item["metadata"]["uid"]: item for item in listed}
        except KindAbsentError:
            if resource.kind not in self._absent:
                log.warning("kind is not installed kind=%s", resource.kind)
            self._absent.add(resource.kind)
            self._correct(before, {}, "")
            return True
        except EvenkeelError as error:
            log.warning("relist failed kind=%s why=%s", resource.kind, error)
            return False
        appeared = resource.kind in self._absent
        self._absent.discard(resource.kind)
        if self._store.is_listed([resource.kind]) and not appeared:
            await asyncio.sleep(SETTLE_SECONDS)
        repaired = self._correct(before, found, version)
        missed = repaired and self._store.is_listed([resource.kind])
        self._store.listed(resource.kind)
        if appeared or missed:
            log.warning(
                "watch is restarted kind=%s appeared=%s repaired=%d", resource.kind, appeared, repaired
            )
            self._metrics.restarts.inc()
            self._metrics.repairs.inc(repaired)
            self._restart()
        return True

    def _correct(self, before: dict[str, Any], found: dict[str, Any], version: str) -> int:
        """Put what is missing or was newer, remove what is gone -> how many. New since `before` is never a ghost."""
        present = {
            item["metadata"]["uid"]: item for kind in _kinds(before, found) for item in self._store.all(kind)
        }
        missed = [item for uid, item in found.items() if uid not in present or is_newer(item, present[uid])]
        ghosts = [item for uid, item in before.items() if uid not in found and uid in present]
        for item in missed:
            self._store.put("MODIFIED", item)
        for item in ghosts:
            self._store.put("DELETED", at_version(item, version) if version else item)
        return len(missed) + len(ghosts)


def _kinds(*groups: dict[str, Any]) -> set[str]:
    return {key_of(item).kind for group in groups for item in group.values()}


@dataclass(frozen=True, slots=True)
class Feed:
    """Dependents that are followed."""

    resource: Resource
    label_selector: str = ""

    @property
    def tag(self) -> str:
        """What the store calls it when it is complete."""
        return f"{self.resource.kind}:{self.label_selector}"


_MANAGED = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
FEEDS: Sequence[Feed] = (
    Feed(resources.CONFIG_MAP, names.LABEL_CLUSTER),
    Feed(resources.SERVICE_ACCOUNT, _MANAGED),
    Feed(resources.ROLE, _MANAGED),
    Feed(resources.ROLE_BINDING, _MANAGED),
    Feed(resources.DEPLOYMENT, _MANAGED),
    Feed(resources.JOB, names.LABEL_DATASET_UID),
    Feed(resources.POD, names.LABEL_DATASET_UID),
    Feed(resources.POD, names.LABEL_DATASET),
    Feed(resources.NODE),
    Feed(resources.NAMESPACE),
)
NEEDED = (
    *(resource.kind for resource in OWN_KINDS),
    *(feed.tag for feed in FEEDS),
    strimzi.KIND,
    places.KIND,
)
"""What must be complete before anything is planned: absence must mean absence."""


async def follow(kube: Kube, store: Store, feed: Feed) -> None:
    """Put every change of one selection into the store, for ever."""
    changes: AsyncIterator[tuple[str, dict[str, Any]]] = kube.watch(
        feed.resource, label_selector=feed.label_selector, on_listed=lambda: store.listed(feed.tag)
    )
    async for change, item in changes:
        item["metadata"].pop("managedFields", None)
        store.put(change, item)
