"""/healthz, /readyz and /metrics of a process."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest


class HealthServer:
    """Answers probes and scrapes on one port."""

    def __init__(
        self, registry: CollectorRegistry, healthy: Callable[[], bool], ready: Callable[[], bool]
    ) -> None:
        self._registry = registry
        self._healthy = healthy
        self._ready = ready
        self._runner: web.AppRunner | None = None
        self.port = 0
        """The port in use after `start`."""

    async def start(self, port: int) -> None:
        """Listen on all addresses; port 0 takes a free one, of the loopback address only.

        Raises:
            OSError: the port is taken.
        """
        app = web.Application()
        app.router.add_get("/healthz", self._show_health)
        app.router.add_get("/readyz", self._show_ready)
        app.router.add_get("/metrics", self._scrape)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        # With all addresses and port 0 each of them would get another port.
        await web.TCPSite(self._runner, None if port else "127.0.0.1", port).start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _show_health(self, _: web.Request) -> web.Response:
        return _answer(good=self._healthy())

    async def _show_ready(self, _: web.Request) -> web.Response:
        return _answer(good=self._ready())

    async def _scrape(self, _: web.Request) -> web.Response:
        body = generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _answer(*, good: bool) -> web.Response:
    return web.Response(text="ok\n" if good else "not ok\n", status=200 if good else 503)
