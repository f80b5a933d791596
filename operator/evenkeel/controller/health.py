"""/healthz, /readyz and /metrics of the operator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest


class Metrics:
    """Metrics of this process in a registry of their own; labels never hold object names."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.writes = Counter(
            "evenkeel_writes", "Writes to the API server", ["verb", "kind"], registry=self.registry
        )
        self.reconciles = Counter(
            "evenkeel_reconciles", "Reconciled objects", ["kind", "outcome"], registry=self.registry
        )
        self.reconcile_seconds = Histogram(
            "evenkeel_reconcile_seconds",
            "Time to plan and write one object",
            ["kind"],
            registry=self.registry,
        )
        self.restarts = Counter(
            "evenkeel_watch_restarts",
            "Times the watch of our kinds was started again",
            registry=self.registry,
        )
        self.repairs = Counter(
            "evenkeel_relist_repairs", "Changes that only a relist found", registry=self.registry
        )
        self.leader = Gauge("evenkeel_leader", "1 while this process leads", registry=self.registry)
        self.dirty = Gauge(
            "evenkeel_dirty_objects", "Objects that wait to be reconciled", registry=self.registry
        )
        self.objects = Gauge("evenkeel_objects", "Objects in the store", ["kind"], registry=self.registry)


class HealthServer:
    """Answers probes and scrapes on one port."""

    def __init__(self, metrics: Metrics, healthy: Callable[[], bool], ready: Callable[[], bool]) -> None:
        self._metrics = metrics
        self._healthy = healthy
        self._ready = ready
        self._runner: web.AppRunner | None = None
        self.port = 0
        """The port in use after `start`."""

    async def start(self, port: int) -> None:
        """Listen on all addresses; port 0 takes a free one of the loopback.

        Raises:
            OSError: the port is taken.
        """
        app = web.Application()
        app.router.add_get("/healthz", self._answer(self._healthy))
        app.router.add_get("/readyz", self._answer(self._ready))
        app.router.add_get("/metrics", self._scrape)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        # With port 0 each family would get a port of its own.
        site = web.TCPSite(self._runner, None if port else "127.0.0.1", port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    @staticmethod
    def _answer(question: Callable[[], bool]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(_: web.Request) -> web.StreamResponse:
            good = question()
            return web.Response(text="ok\n" if good else "not ok\n", status=200 if good else 503)

        return answer

    async def _scrape(self, _: web.Request) -> web.StreamResponse:
        body = generate_latest(self._metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
