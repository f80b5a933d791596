"""The mounter as a process: its two sockets, the report of mounts, and when to give up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evenkeel.errors import RetryableError
from evenkeel.nodecache.csi import STOP_SECONDS, Identity, Node, Registration, serve
from evenkeel.nodecache.local import CacheSocket
from evenkeel.nodecache.mounter import Mounter
from evenkeel.nodecache.mounts import KernelMounts, Mounts
from evenkeel.reasons import Reason

REPORT_SECONDS = 10.0
"""How often the mounts are reported: a cache that starts removes nothing before it has heard of them."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PluginPaths:
    """Where things are, seen from the mounter's container."""

    store: Path
    cache_socket: Path
    pods: Path
    csi: Path
    csi_on_host: str
    """The CSI socket as kubelet sees it."""
    registration: Path


async def run_plugin(
    paths: PluginPaths, node: str, stop_event: Callable[[], asyncio.Event], mounts: Mounts | None = None
) -> int:
    """Serve until told to stop -> 0; until kubelet refuses us or a socket is gone -> 1."""
    stop, failed = stop_event(), asyncio.Event()
    mounter = Mounter(
        mounts or KernelMounts(), CacheSocket(paths.cache_socket), store=paths.store, pods=paths.pods
    )

    def refuse(why: str) -> None:
        log.error("kubelet refused the plug-in why=%s", why)
        failed.set()

    plugin = await serve(paths.csi, Identity(), Node(mounter, node))
    # kubelet calls the plug-in as soon as it sees the registration: so that comes second, and goes first.
    registration = await serve(paths.registration, Registration(paths.csi_on_host, refuse))
    log.info("mounter listens socket=%s node=%s", paths.csi, node)
    try:
        while not stop.is_set() and not failed.is_set():
            await _report(mounter)
            if lost := [path for path in (paths.csi, paths.registration) if not path.is_socket()]:
                log.error("socket gone, kubelet cannot reach us path=%s", lost[0])
                failed.set()
            await _wait_any(REPORT_SECONDS, stop, failed)
    finally:
        await registration.stop(STOP_SECONDS)
        await plugin.stop(STOP_SECONDS)
    return 1 if failed.is_set() else 0


async def _report(mounter: Mounter) -> None:
    try:
        await mounter.report()
    except RetryableError as error:
        level = logging.INFO if error.reason is Reason.CACHE_UNAVAILABLE else logging.WARNING
        log.log(level, "mounts not reported, again soon why=%s", error)


async def _wait_any(seconds: float, *events: asyncio.Event) -> None:
    tasks = [asyncio.create_task(event.wait()) for event in events]
    with contextlib.suppress(TimeoutError):
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
