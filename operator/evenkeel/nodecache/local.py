"""Between the two containers of a node: the mounter asks and tells the cache over a Unix socket.

    GET /v1/lookup/REFERENCE   -> Lookup
    PUT /v1/mounts             Mounted: all that pods have mounted now

The socket lies in a folder that only the two containers see; its mode lets in its owner and root.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web

from evenkeel.domain import codec
from evenkeel.errors import EvenkeelError, InputError, RetryableError
from evenkeel.nodecache.layout import RevisionKey
from evenkeel.nodecache.store import Lookup, Store
from evenkeel.reasons import Reason

CALL_SECONDS = 5.0
SOCKET_MODE = 0o600
STORE: web.AppKey[Store] = web.AppKey("store", Store)


@dataclass(frozen=True, slots=True)
class Mounted:
    """Revisions that pods of this node have mounted."""

    revisions: tuple[RevisionKey, ...]


def build_local_server(store: Store) -> web.Application:
    """The application that the mounter reaches."""
    application = web.Application()
    application[STORE] = store
    application.router.add_get("/v1/lookup/{reference:[0-9a-f]{20}}", _lookup)
    application.router.add_put("/v1/mounts", _put_mounts)
    return application


async def listen(runner: web.AppRunner, path: Path) -> None:
    """Serve on a Unix socket at `path`; a stale socket of an earlier process goes."""
    path.unlink(missing_ok=True)  # noqa: ASYNC240 - once, at start
    await web.UnixSite(runner, path).start()
    path.chmod(SOCKET_MODE)  # noqa: ASYNC240 - as above


async def _lookup(request: web.Request) -> web.Response:
    found = await asyncio.to_thread(request.app[STORE].lookup, request.match_info["reference"])
    return web.Response(text=codec.dumps(found), content_type="application/json")


async def _put_mounts(request: web.Request) -> web.Response:
    try:
        mounted = codec.loads(Mounted, await request.read())
    except InputError as error:
        return web.Response(status=400, text=error.message)
    await asyncio.to_thread(request.app[STORE].set_mounted, mounted.revisions)
    return web.Response(status=204)


class CacheSocket:
    """The mounter's side. All calls raise RetryableError when the cache does not answer."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def lookup(self, reference: str) -> Lookup:
        """Whether a dataset is warm, and which revision of it."""
        return codec.loads(Lookup, await self._call("GET", f"/v1/lookup/{reference}"))

    async def put_mounts(self, mounted: Mounted) -> None:
        """Tell what pods have mounted; the cache may remove everything else that is unwanted."""
        await self._call("PUT", "/v1/mounts", codec.dumps(mounted))

    async def _call(self, method: str, path: str, body: str | None = None) -> bytes:
        timeout = aiohttp.ClientTimeout(total=CALL_SECONDS)
        connector = aiohttp.UnixConnector(path=str(self._path))
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.request(method, f"http://cache{path}", data=body) as response,
            ):
                response.raise_for_status()
                return await response.read()
        except EvenkeelError:
            raise
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            message = f"the node's cache does not answer: {type(error).__name__}"
            raise RetryableError(message, reason=Reason.CACHE_UNAVAILABLE) from error
