"""List, then watch, for ever: what one selection of objects is, and every change of it."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp

from evenkeel.errors import ConfigurationError, EvenkeelError, RetryableError
from evenkeel.kube.failures import ExpiredError, failure
from evenkeel.kube.resources import Resource

if TYPE_CHECKING:
    from evenkeel.kube.client import Kube

WATCH_SECONDS = 240.0
"""The server ends a watch after this time; it is opened again from the last version."""
SILENCE_SECONDS = 90.0
"""Bookmarks come about once a minute; a connection that is silent for longer is taken for dead."""
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0

Change = tuple[str, dict[str, Any]]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects are followed."""

    resource: Resource
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""


async def follow(
    kube: Kube,
    selection: Selection,
    on_listed: Callable[[], None] | None = None,
    *,
    optional: bool = False,
) -> AsyncIterator[Change]:
    """Yield `(ADDED | MODIFIED | DELETED, object)`; never ends, goes on after any trouble.

    After each list, objects that vanished meanwhile are yielded as DELETED with their last known
    content; an object whose version is known already is not yielded again. `on_listed` is called when
    the consumer has seen a whole list.

    Raises:
        ConfigurationError: only where the selection is `optional`: its kind is not installed, or the right
            to read it is missing.
    """
    known: dict[str, dict[str, Any]] = {}
    pause = FIRST_PAUSE
    while True:
        try:
            changes, version = await _relist(kube, selection, known)
            for change in changes:
                yield change
            if on_listed is not None:
                on_listed()
            pause = FIRST_PAUSE
            while True:
                async for kind, item in _stream(kube, selection, version):
                    version = item["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        _remember(known, kind, item)
                        yield kind, item
        except ExpiredError:
            continue
        except EvenkeelError as error:
            if optional and isinstance(error, ConfigurationError):
                raise
            log.info("watch interrupted kind=%s retry_s=%.1f why=%s", selection.resource.kind, pause, error)
        await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - spreads reconnects
        pause = min(LONGEST_PAUSE, pause * 2)


async def _relist(
    kube: Kube, selection: Selection, known: dict[str, dict[str, Any]]
) -> tuple[list[Change], str]:
    found, version = await kube.list_with_version(
        selection.resource,
        namespace=selection.namespace,
        label_selector=selection.label_selector,
        field_selector=selection.field_selector,
    )
    fresh = {item["metadata"]["uid"]: item for item in found}
    changes: list[Change] = [
        ("DELETED", at_version(item, version)) for uid, item in known.items() if uid not in fresh
    ]
    for uid, item in fresh.items():
        old = known.get(uid)
        if old is None:
            changes.append(("ADDED", item))
        elif old["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            changes.append(("MODIFIED", item))
    known.clear()
    known.update(fresh)
    return changes, version


def at_version(item: dict[str, Any], version: str) -> dict[str, Any]:
    """An object that a list of this version does not hold any more."""
    return {**item, "metadata": {**item["metadata"], "resourceVersion": version}}


def _remember(known: dict[str, dict[str, Any]], kind: str, item: dict[str, Any]) -> None:
    uid = item["metadata"]["uid"]
    if kind == "DELETED":
        known.pop(uid, None)
    else:
        known[uid] = item


async def _stream(kube: Kube, selection: Selection, version: str) -> AsyncIterator[Change]:
    """One watch request until the server ends it."""
    query = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(int(WATCH_SECONDS)),
        "labelSelector": selection.label_selector,
        "fieldSelector": selection.field_selector,
    }
    path = selection.resource.path(selection.namespace)
    response = await kube.open_watch(path, query, WATCH_SECONDS + 30)
    async with response:
        async for line in _lines(response):
            try:
                change = json.loads(line)
            except ValueError as error:
                raise RetryableError(f"watch {path}: not JSON: {line[:80]!r}") from error
            item = change["object"]
            if change["type"] == "ERROR":
                raise failure(int(item.get("code", 500)), json.dumps(item), f"watch {path}")
            yield change["type"], {**selection.resource.header(), **item}


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    # Not readline(): it refuses lines longer than its buffer, and an object may have a megabyte.
    pending = bytearray()
    while True:
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                chunk = await response.content.readany()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise RetryableError(f"watch: {type(error).__name__} {error}") from error
        if not chunk:
            return
        pending += chunk
        *whole, rest = pending.split(b"\n")
        pending = rest
        for line in whole:
            if line.strip():
                yield bytes(line)
