"""The two containers of the node cache: `evenkeel node-cache` and `evenkeel node-mounter`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from aiohttp import web

from evenkeel import names
from evenkeel.errors import EvenkeelError
from evenkeel.kube.client import Kube
from evenkeel.nodecache import local
from evenkeel.nodecache.access import Gatekeeper
from evenkeel.nodecache.agent import Agent
from evenkeel.nodecache.health import build_health
from evenkeel.nodecache.mounts import leave_network
from evenkeel.nodecache.plugin import PluginPaths, run_plugin
from evenkeel.nodecache.server import build_server
from evenkeel.nodecache.store import Store

FIELD_MANAGER = "evenkeel-cache"
STORE = Path("/var/lib/evenkeel/cache")
SOCKET = Path("/run/evenkeel/cache.sock")
SCRUB_SECONDS = 3600.0
STOP_SECONDS = 5.0

log = logging.getLogger(__name__)


def cache_main(arguments: list[str]) -> int:
    """The unprivileged container: store, loaders' endpoint, NodeCache status. Exit 1 on failure."""
    parser = argparse.ArgumentParser(prog="evenkeel node-cache", description=cache_main.__doc__)
    _add_common(parser)
    parser.add_argument("--address", default=os.environ.get("POD_IP", ""), help="the pod's IP [POD_IP]")
    parser.add_argument("--port", type=int, default=names.CACHE_PORT, help="for loaders")
    parser.add_argument("--health-port", type=int, default=names.METRICS_PORT, help="probes and metrics")
    parser.add_argument("--scrub-seconds", type=float, default=SCRUB_SECONDS, help="pause between two scrubs")
    options = parser.parse_args(arguments)
    _configure_log()
    for name in ("node", "address"):
        if not getattr(options, name):
            parser.error(f"--{name} is required")
    return _run(_run_cache(options))


def mounter_main(arguments: list[str]) -> int:
    """The privileged container: CSI and mounts, without network. Exit 1 on failure."""
    parser = argparse.ArgumentParser(prog="evenkeel node-mounter", description=mounter_main.__doc__)
    _add_common(parser)
    kubelet = Path("/var/lib/kubelet")
    parser.add_argument(
        "--pods", type=Path, default=kubelet / "pods", help="where kubelet has volumes mounted"
    )
    parser.add_argument("--csi", type=Path, default=Path("/csi/csi.sock"), help="the CSI socket, here")
    plugin = f"{kubelet}/plugins/{names.CSI_DRIVER}/csi.sock"
    parser.add_argument("--csi-on-host", default=plugin, help="the CSI socket, on the host")
    registry = Path(f"/registration/{names.CSI_DRIVER}-reg.sock")
    parser.add_argument("--registration", type=Path, default=registry, help="the registration socket, here")
    options = parser.parse_args(arguments)
    _configure_log()
    if not options.node:
        parser.error("--node is required")
    try:
        leave_network()
    except OSError as error:
        log.error("the network cannot be left why=%s", error.strerror)
        return 1
    paths = PluginPaths(
        store=options.store,
        cache_socket=options.socket,
        pods=options.pods,
        csi=options.csi,
        csi_on_host=options.csi_on_host,
        registration=options.registration,
    )
    return _run(run_plugin(paths, options.node, _stop_event))


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--node", default=os.environ.get("NODE_NAME", ""), help="the node's name [NODE_NAME]")
    parser.add_argument("--store", type=Path, default=STORE, help="folder of the revisions")
    parser.add_argument("--socket", type=Path, default=SOCKET, help="between cache and mounter")


def _configure_log() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")


def _run(work: Coroutine[Any, Any, int]) -> int:
    try:
        return asyncio.run(work)
    except EvenkeelError as error:
        log.error("stopped reason=%s why=%s", error.reason.value, error)
        return 1


async def _run_cache(options: argparse.Namespace) -> int:
    stop = _stop_event()
    loop = asyncio.get_running_loop()
    store = Store(options.store)
    await asyncio.to_thread(store.recover)
    kube = await Kube.connect(manager=FIELD_MANAGER)
    endpoint = f"http://{_bracket(options.address)}:{options.port}"
    agent = Agent(kube, store, node=options.node, endpoint=endpoint)

    def notice() -> None:
        loop.call_soon_threadsafe(agent.notice)

    store.on_change = notice
    runners = [
        await _start(build_server(store, Gatekeeper(kube.review_token)), options.port),
        await _start(build_health(lambda: agent.listed), options.health_port),
        await _start(local.build_local_server(store), options.socket),
    ]
    log.info("cache listens endpoint=%s store=%s", endpoint, options.store)
    loops = (agent.follow(), agent.write(), agent.keep(), agent.scrub(options.scrub_seconds))
    try:
        return await _run_until(stop, *loops)
    finally:
        for runner in reversed(runners):
            await runner.cleanup()
        await kube.close()


async def _run_until(stop: asyncio.Event, *loops: Coroutine[Any, Any, None]) -> int:
    """Run loops that never end until told to stop -> 0, or until one of them fails -> its exception."""
    tasks = [asyncio.create_task(item) for item in loops]
    waiting = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    for task in (waiting, *tasks):
        task.cancel()
    await asyncio.gather(waiting, *tasks, return_exceptions=True)
    for task in done - {waiting}:
        task.result()
    return 0


async def _start(application: web.Application, place: int | Path) -> web.AppRunner:
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    if isinstance(place, Path):
        await local.listen(runner, place)
    else:
        await web.TCPSite(runner, None, place).start()
    return runner


def _stop_event() -> asyncio.Event:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def _bracket(address: str) -> str:
    return f"[{address}]" if ":" in address else address
