"""Probes and metrics of the cache, on a port of their own."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from evenkeel.nodecache.metrics import REGISTRY


def build_health(ready: Callable[[], bool]) -> web.Application:
    """`/healthz` (the event loop turns), `/readyz` and `/metrics`."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        good = ready()
        return web.Response(text="ok\n" if good else "not ok\n", status=200 if good else 503)

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.router.add_get("/healthz", healthz)
    application.router.add_get("/readyz", readyz)
    application.router.add_get("/metrics", scrape)
    return application
