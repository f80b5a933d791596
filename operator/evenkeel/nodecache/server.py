"""What loaders talk to: manifests and shards by HTTP, as `evenkeel.domain.upload` describes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

from evenkeel.domain import codec
from evenkeel.domain.upload import MANIFEST_LIMIT, Refusal
from evenkeel.errors import DataError, EvenkeelError, InputError, RetryableError
from evenkeel.nodecache.access import ForbiddenError, Gatekeeper, UnauthenticatedError
from evenkeel.nodecache.layout import RevisionKey
from evenkeel.nodecache.metrics import REFUSED, UPLOADED
from evenkeel.nodecache.store import Store
from evenkeel.nodecache.upload import ShardUpload
from evenkeel.reasons import Reason

WRITE_BYTES = 1024 * 1024
"""Bytes that are gathered before a thread writes them."""
IDLE_SECONDS = 60.0
"""A sender that is silent for longer is gone: its connection would hold space for ever."""
UPLOADS = 16
"""Uploads at the same time; each has a buffer of WRITE_BYTES."""
UPLOADS_PER_DATASET = 4
"""So that no dataset's loader can keep all others waiting; ours sends one at a time."""
MANIFESTS = 2
"""Manifests in memory at the same time; of them one is parsed, which takes three times its size."""
STORE: web.AppKey[Store] = web.AppKey("store", Store)
GATEKEEPER: web.AppKey[Gatekeeper] = web.AppKey("gatekeeper", Gatekeeper)
SLOTS: web.AppKey[asyncio.Semaphore] = web.AppKey("slots", asyncio.Semaphore)
UPLOADING: web.AppKey[Counter[str]] = web.AppKey("uploading", Counter)
MANIFEST_SLOTS: web.AppKey[asyncio.Semaphore] = web.AppKey("manifest slots", asyncio.Semaphore)
PARSING: web.AppKey[asyncio.Lock] = web.AppKey("parsing", asyncio.Lock)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = logging.getLogger(__name__)


def build_server(store: Store, gatekeeper: Gatekeeper) -> web.Application:
    """The application that loaders reach."""
    application = web.Application(middlewares=[answer_refusals], client_max_size=MANIFEST_LIMIT)
    application[STORE] = store
    application[GATEKEEPER] = gatekeeper
    application[SLOTS] = asyncio.Semaphore(UPLOADS)
    application[UPLOADING] = Counter()
    application[MANIFEST_SLOTS] = asyncio.Semaphore(MANIFESTS)
    application[PARSING] = asyncio.Lock()
    revision = "/v1/revisions/{uid}/{digest}"
    application.router.add_get(revision, get_state)
    application.router.add_put(f"{revision}/manifest", put_manifest)
    application.router.add_put(f"{revision}/shards/{{index:[0-9]{{1,7}}}}", put_shard)
    return application


@web.middleware
async def answer_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Our errors as HTTP: the status says whose turn it is, the body carries reason and sentence."""
    try:
        return await handler(request)
    except EvenkeelError as error:
        status = _status(error)
        REFUSED.labels(reason=error.reason.value).inc()
        # As it was sent: decoded it may hold line ends and write lines of its own into the log.
        path = request.raw_path[:200]
        log.info("refused method=%s path=%s status=%d why=%s", request.method, path, status, error)
        body = codec.dumps(Refusal(error.reason, error.message))
        response = web.Response(status=status, text=body, content_type="application/json")
        response.force_close()  # the rest of a refused body is not worth reading
        return response


async def get_state(request: web.Request) -> web.Response:
    """How far the revision is."""
    return await _state(request, await _admit(request))


async def put_manifest(request: web.Request) -> web.Response:
    """Take the manifest."""
    key = await _admit(request)
    _length(request, MANIFEST_LIMIT)
    async with request.app[MANIFEST_SLOTS]:
        manifest = await _read_manifest(request)
        async with request.app[PARSING]:
            await asyncio.to_thread(request.app[STORE].put_manifest, key, manifest)
    return await _state(request, key)


async def _read_manifest(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        message = f"manifest: at most {MANIFEST_LIMIT} bytes"
        raise InputError(message, reason=Reason.INVALID_SPEC) from error
    except TimeoutError as error:
        message = f"manifest: not here after {IDLE_SECONDS:.0f} s"
        raise RetryableError(message, reason=Reason.CACHE_UNAVAILABLE) from error


async def put_shard(request: web.Request) -> web.Response:
    """Take a shard."""
    key = await _admit(request)
    length, store = _length(request), request.app[STORE]
    index = int(request.match_info["index"])
    with _count_upload(request.app[UPLOADING], key.dataset_uid):
        async with request.app[SLOTS]:
            upload = await asyncio.to_thread(store.open_shard, key, index, length)
            if upload is None:
                response = await _state(request, key)
                response.force_close()
                return response
            try:
                await _receive(request, upload)
                await asyncio.to_thread(upload.finish)
            finally:
                await asyncio.shield(asyncio.to_thread(store.close_shard, key, upload))
    UPLOADED.inc(length)
    return await _state(request, key)


@contextmanager
def _count_upload(uploading: Counter[str], dataset_uid: str) -> Iterator[None]:
    if uploading[dataset_uid] >= UPLOADS_PER_DATASET:
        message = f"{UPLOADS_PER_DATASET} shards of the dataset are on their way here already, the limit"
        raise RetryableError(message, reason=Reason.CONFLICT)
    uploading[dataset_uid] += 1
    try:
        yield
    finally:
        uploading[dataset_uid] -= 1
        uploading += Counter()  # drops the zeros


async def _receive(request: web.Request, upload: ShardUpload) -> None:
    pending = bytearray()
    while True:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                block = await request.content.readany()
        except TimeoutError as error:
            message = f"shard {upload.shard.index}: the sender was silent for {IDLE_SECONDS:.0f} s"
            raise RetryableError(message, reason=Reason.CACHE_UNAVAILABLE) from error
        except (ConnectionError, web.RequestPayloadError) as error:
            message = f"shard {upload.shard.index}: the sender went away"
            raise RetryableError(message, reason=Reason.CACHE_UNAVAILABLE) from error
        pending += block
        if pending and (not block or len(pending) >= WRITE_BYTES):
            await asyncio.to_thread(upload.write, bytes(pending))
            pending.clear()
        if not block:
            return


async def _admit(request: web.Request) -> RevisionKey:
    key = RevisionKey(request.match_info["uid"], request.match_info["digest"])
    store = request.app[STORE]
    permitted = store.find_loaders(key.dataset_uid)
    await request.app[GATEKEEPER].admit(request.headers.get("Authorization"), permitted)
    if store.find_wanted(key) is None:
        message = f"revision {key} is not wanted on this node"
        raise InputError(message, reason=Reason.DATASET_NOT_FOUND)
    return key


async def _state(request: web.Request, key: RevisionKey) -> web.Response:
    state = await asyncio.to_thread(request.app[STORE].describe, key)
    return web.Response(text=codec.dumps(state), content_type="application/json")


def _length(request: web.Request, limit: int | None = None) -> int:
    length = request.content_length
    if length is None:
        message = "Content-Length is required"
        raise InputError(message, reason=Reason.INVALID_SPEC)
    if limit is not None and length > limit:
        message = f"Content-Length {length}: at most {limit}"
        raise InputError(message, reason=Reason.INVALID_SPEC)
    return length


def _status(error: EvenkeelError) -> int:
    if isinstance(error, UnauthenticatedError):
        return 401
    if isinstance(error, ForbiddenError):
        return 403
    by_reason = {Reason.DATASET_NOT_FOUND: 404, Reason.CONFLICT: 409, Reason.DOES_NOT_FIT: 507}
    if error.reason in by_reason:
        return by_reason[error.reason]
    if isinstance(error, DataError):
        return 422
    return 503 if error.retry else 400
