"""The operator process: watches always, writes only while it holds the Lease."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Coroutine
from typing import Any

from evenkeel import names
from evenkeel.controller import triggers
from evenkeel.controller.act import Pace, Writer
from evenkeel.controller.broker_pods import BrokerPodsWatch
from evenkeel.controller.gather import Context, build_planners
from evenkeel.controller.health import Metrics
from evenkeel.controller.loop import Loop
from evenkeel.controller.optional import KafkaTopics
from evenkeel.controller.pods import Images
from evenkeel.controller.settings import Settings, level_number, read_settings
from evenkeel.controller.store import Store
from evenkeel.controller.views import Views
from evenkeel.controller.watch import FEEDS, NEEDED, Relist, Supervisor, follow
from evenkeel.errors import EvenkeelError
from evenkeel.kube.client import Credentials, Kube
from evenkeel.kube.lease import Lease
from evenkeel.kube.resources import NAMESPACE
from evenkeel.process import logs
from evenkeel.process.health import HealthServer

STALE_SECONDS = 300.0
"""Without a successful relist for so long, while the API server answers, this process is sick."""
RETRY_SECONDS = 5.0
LOGIN_SECONDS = 10.0
log = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """`evenkeel operator`: run until SIGTERM -> exit code."""
    if arguments:
        sys.stderr.write(
            f"evenkeel operator takes no arguments, got {' '.join(arguments)}; see its variables\n"
        )
        return 2
    try:
        settings = read_settings(os.environ)
    except EvenkeelError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    # kopf says `Handler ... succeeded` at INFO for every event.
    logs.configure(level_number(settings.log_level), {"kopf.objects": logging.WARNING})
    try:
        asyncio.run(_run(settings))
    except EvenkeelError as error:
        log.error("operator ends: %s", error)
        return 1
    return 0


async def _run(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    kube = await Kube.connect()
    try:
        operator = Operator(kube, settings)
        await operator.run(stop)
    finally:
        await kube.close()


class Operator:
    """All parts of the process, put together."""

    def __init__(self, kube: Kube, settings: Settings) -> None:
        self._kube = kube
        self._settings = settings
        self._metrics = Metrics()
        self._store = Store(triggers.affected)
        self._views = Views(self._store)
        self._lease = Lease(kube, settings.namespace, names.LEASE_NAME, settings.identity)
        self._answered_at = time.monotonic()
        self._relist: Relist | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Watch and reconcile until `stop` is set; the Lease is given back at the end."""
        loop = asyncio.get_running_loop()

        def feed(change: str, item: dict[str, Any]) -> None:
            item["metadata"].pop("managedFields", None)
            loop.call_soon_threadsafe(self._store.put, change, item)

        def login() -> Credentials:
            # In kopf's thread; a token may have been renewed since the start.
            return asyncio.run_coroutine_threadsafe(self._kube.credentials(), loop).result(LOGIN_SECONDS)

        supervisor = Supervisor(feed, login)
        self._relist = Relist(
            self._kube,
            self._store,
            supervisor.restart,
            self._metrics,
            self._settings.relist_seconds,
            self._settings.absent_seconds,
        )
        health = HealthServer(self._metrics.registry, self._is_healthy, self._is_ready)
        await health.start(self._settings.metrics_port)
        log.info("operator started identity=%s metrics_port=%d", self._settings.identity, health.port)
        supervisor.start()
        follows = [follow(self._kube, self._store, one) for one in FEEDS]
        beside = (
            KafkaTopics(self._kube, self._store, self._settings.absent_seconds).run(),
            BrokerPodsWatch(self._kube, self._views).run(),
        )
        try:
            await _race(stop, self._relist.run(), self._probe(), self._lead(stop), *follows, *beside)
        finally:
            await self._lease.release()
            await health.close()
            ended = await asyncio.to_thread(supervisor.close)
            log.info("operator ended watch_thread_ended=%s", ended)

    async def _lead(self, stop: asyncio.Event) -> None:
        installation = await self._find_installation()
        images = Images(self._settings.control_image, self._settings.data_image, self._settings.pull_policy)
        planners = build_planners(Context(self._views, images, installation))
        pace = Pace(self._settings.writes_per_second)
        writer = Writer(
            self._kube, self._store, self._lease.held, self._settings.identity, pace, self._metrics
        )
        while not stop.is_set():
            try:
                await self._lease.acquire()
                await self._term(Loop(self._store, planners, writer.carry_out, self._metrics, needed=NEEDED))
            except EvenkeelError as error:
                log.error("cannot lead: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
            finally:
                self._metrics.leader.set(0)

    async def _term(self, loop: Loop) -> None:
        """Reconcile as long as the Lease is held; a loop that fails ends the process, which starts again."""
        log.info("leading epoch=%d", self._lease.epoch)
        self._metrics.leader.set(1)
        self._store.mark(triggers.all_keys(self._store))
        work = asyncio.create_task(loop.run(self._lease.held))
        hold = asyncio.create_task(self._lease.hold())
        try:
            await asyncio.wait({work, hold}, return_when=asyncio.FIRST_COMPLETED)
            if hold.done():
                hold.result()
                log.warning("the lease is lost")
        finally:
            hold.cancel()
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work

    async def _find_installation(self) -> str:
        """UID of the operator's own namespace: what Kafka's claim records call this installation."""
        while True:
            try:
                found = await self._kube.get(NAMESPACE, self._settings.namespace)
                if found is not None:
                    return str(found["metadata"]["uid"])
                log.error("EVENKEEL_NAMESPACE: namespace %s does not exist", self._settings.namespace)
            except EvenkeelError as error:
                log.warning("own namespace not read yet: %s", error)
            await asyncio.sleep(RETRY_SECONDS / 5)

    async def _probe(self) -> None:
        """Know whether the API server answers: an outage is no reason to restart this process."""
        while True:
            if await self._kube.ready():
                self._answered_at = time.monotonic()
            for kind in sorted({name.split(":")[0] for name in NEEDED}):
                self._metrics.objects.labels(kind=kind).set(self._store.count(kind))
            self._metrics.show_topics(self._store.all(triggers.TOPIC))
            self._metrics.show_plans(self._store.all(triggers.PLAN))
            await asyncio.sleep(RETRY_SECONDS * 2)

    def _is_healthy(self) -> bool:
        if self._relist is None:
            return True
        return self._answered_at - self._relist.succeeded_at < STALE_SECONDS

    def _is_ready(self) -> bool:
        return self._store.is_listed(NEEDED)


async def _race(stop: asyncio.Event, *parts: Coroutine[Any, Any, None]) -> None:
    """Run all parts until `stop`; none of them ends by itself, so one that does is an error."""
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(part) for part in parts]
    waiting: asyncio.Task[Any] = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in [waiting, *tasks]:
            task.cancel()
        await asyncio.gather(waiting, *tasks, return_exceptions=True)
