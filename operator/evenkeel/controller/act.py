"""Carries plans out: only while this process leads, at a steady pace, and only what changes something."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from evenkeel import names
from evenkeel.controller import conditions
from evenkeel.controller.health import Metrics
from evenkeel.controller.plan import Child, Moment, Patch, Plan, Removal, Saying
from evenkeel.controller.refusal import plan_refusal
from evenkeel.controller.store import Key, Object, Store, key_of
from evenkeel.errors import EvenkeelError, InputError, RetryableError
from evenkeel.kube.client import Kube
from evenkeel.kube.events import EventType, Note, emit
from evenkeel.kube.failures import ConflictError, NotFoundError
from evenkeel.kube.resources import OWN_KINDS, Resource
from evenkeel.reasons import ConditionType, Reason

ANNOTATION_APPLIED = "evenkeel.dev/applied"
"""On what we apply: digest of the applied body, so that a field that we no longer set is noticed."""
PROGRESS_SECONDS = 5.0
"""Least time between two writes of one status that only report progress."""
BURST = 20.0
REMEMBERED = 16_384
"""Objects that are remembered by what was said of them or applied to them last."""
_RESOURCES = {resource.kind: resource for resource in OWN_KINDS}
Call = Callable[[], Awaitable[Any]]
log = logging.getLogger(__name__)


class NotLeaderError(RetryableError):
    """Another process leads, or the API server has not confirmed for too long that we do."""


class ChangedError(RetryableError):
    """An object is not what the store knew; what comes through the watch says what to do next."""


class Pace:
    """Lets calls start at a steady rate, with a burst."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._gap = 1.0 / per_second
        self._clock = clock
        self._next = float("-inf")

    def reserve(self) -> float:
        """Seconds to wait before this call may start."""
        now = self._clock()
        self._next = max(self._next + self._gap, now - BURST * self._gap)
        return max(0.0, self._next - now)


class Writer:
    """The one place from which the operator writes."""

    def __init__(
        self, kube: Kube, store: Store, held: Callable[[], bool], identity: str, pace: Pace, metrics: Metrics
    ) -> None:
        self._kube = kube
        self._store = store
        self._held = held
        self._identity = identity
        self._pace = pace
        self._metrics = metrics
        self._written: dict[Key, float] = {}
        self._said: dict[str, Note] = {}
        self._settled: dict[str, tuple[str, str]] = {}

    async def carry_out(self, key: Key, plan: Plan) -> float | None:
        """Do what `plan` says -> seconds until the key should be looked at again, None: on change.

        A write that is refused does not stop the others: one pod or node must not hold up all.

        Raises:
            NotLeaderError: before the first write that may not be made.
            EvenkeelError: as `Kube`; of several the one that somebody has to mend.
        """
        steps = (
            *(partial(self._ensure, child) for child in plan.children),
            *(partial(self._remove, removal) for removal in plan.removals),
            *(partial(self._patch, patch) for patch in plan.patches),
        )
        refusals = [error for step in steps if (error := await _try(step)) is not None]
        if refusals:
            worst = min(refusals, key=lambda error: isinstance(error, ChangedError))
            await self._tell_refused(key, plan, worst)
            raise worst
        later = await self._write_status(key, plan.status) if plan.status is not None else None
        if later is None:
            for saying in plan.sayings:
                await self._say(saying)
        waits = [wait for wait in (later, plan.again_seconds) if wait is not None]
        return min(waits, default=None)

    async def _ensure(self, child: Child) -> None:
        meta = child.body["metadata"]
        present = self._store.get(child.resource.kind, meta.get("namespace", ""), meta["name"])
        body = _with_digest(child.body)
        if present is None:
            await self._expect_free(child)
        else:
            _expect_ours(present, body)
            if child.create_only or contains(present, body) or self._is_settled(present, body):
                return
        call = self._kube.create if child.create_only else self._kube.apply
        answer = await self._write("apply", child.resource, partial(call, child.resource, body))
        self._settled[answer["metadata"]["uid"]] = (_state(answer), _digest_of(body))
        _bound(self._settled)

    async def _expect_free(self, child: Child) -> None:
        """The store knows only what carries our labels: an apply would take over what somebody else made."""
        meta = child.body["metadata"]
        selector = f"metadata.name={meta['name']}"
        for found in await self._kube.list(
            child.resource, namespace=meta.get("namespace"), field_selector=selector
        ):
            _expect_ours(found, child.body)

    def _is_settled(self, present: Object, body: Mapping[str, Any]) -> bool:
        """Whether this very body was applied to this very state: the API server writes some values its own way."""
        known = self._settled.get(present["metadata"]["uid"])
        return known == (_state(present), _digest_of(body))

    async def _remove(self, removal: Removal) -> None:
        call = partial(self._kube.delete, removal.resource, removal.name, removal.namespace, removal.uid)
        await self._write("delete", removal.resource, call)

    async def _patch(self, patch: Patch) -> None:
        resource, name, body, namespace = patch.resource, patch.name, patch.body, patch.namespace
        if isinstance(body, Mapping):
            await self._write(
                "patch", resource, partial(self._kube.patch_merge, resource, name, body, namespace)
            )
            return
        try:
            await self._write(
                "patch", resource, partial(self._kube.patch_json, resource, name, body, namespace)
            )
        except InputError as error:
            # A failed test of a JSON patch is refused as invalid: the object is not what the store knew.
            raise ChangedError(f"patch {patch.resource.kind} {patch.name}: {error}") from error

    async def _write_status(self, key: Key, wanted: Mapping[str, Any]) -> float | None:
        """Write it if it differs; a mere progress that comes too early answers how long it has to wait."""
        item = self._store.get(key.kind, key.namespace, key.name)
        if item is None or not conditions.differs(item.get("status") or {}, wanted):
            return None
        waited = time.monotonic() - self._written.get(key, float("-inf"))
        if waited < PROGRESS_SECONDS and conditions.is_progress(item.get("status") or {}, wanted):
            return PROGRESS_SECONDS - waited
        meta = {
            name: item["metadata"][name] for name in ("name", "namespace", "uid") if name in item["metadata"]
        }
        resource = _RESOURCES[key.kind]
        body = {"metadata": meta, "status": conditions.prune(wanted)}
        await self._write("status", resource, partial(self._kube.apply, resource, body, subresource="status"))
        self._written[key] = time.monotonic()
        _bound(self._written)
        return None

    async def _say(self, saying: Saying) -> None:
        """Write an event; failing to is logged only, for an event is a courtesy: the condition says the same."""
        uid = saying.regarding["metadata"]["uid"]
        if saying.once and self._said.get(uid) == saying.note:
            return
        call = partial(emit, self._kube, saying.regarding, saying.note, self._identity)
        try:
            await self._paced("event", "Event", call)
        except NotLeaderError:
            raise
        except EvenkeelError as error:
            log.warning("event not written reason=%s why=%s", saying.note.reason, error)
        if saying.once:
            self._said[uid] = saying.note
            _bound(self._said)

    async def _tell_refused(self, key: Key, planned: Plan, error: EvenkeelError) -> None:
        """Tell the owner, by condition and event, that we may not, or cannot, write what belongs to it.

        What is ready all the same, as a sealed dataset that cannot be preloaded, stays so.
        """
        item = self._store.get(key.kind, key.namespace, key.name)
        if item is None or isinstance(error, ChangedError):
            return
        if planned.status is not None and conditions.is_true(planned.status, ConditionType.READY):
            note = Note(error.reason, error.message, "Reconcile", EventType.WARNING)
            plan = Plan(status=planned.status, sayings=(Saying(item, note, once=True),))
        else:
            plan = plan_refusal(item, error, Moment(datetime.now(UTC)))
        try:
            await self._write_status(key, plan.status or {})
        except NotLeaderError:
            raise
        except EvenkeelError as failed:
            log.warning("refusal not written reason=%s why=%s", error.reason, failed)
            return
        for saying in plan.sayings:
            await self._say(saying)

    async def _write(self, verb: str, resource: Resource, call: Call) -> Any:
        """Call, and put the answer into the store -> the answer."""
        try:
            answer = await self._paced(verb, resource.kind, call)
        except (ConflictError, NotFoundError) as error:
            raise ChangedError(f"{verb} {resource.kind}: the object changed meanwhile: {error}") from error
        if answer is not None:
            answer["metadata"].pop("managedFields", None)
            self._store.put("MODIFIED", {**resource.header(), **answer})
        return answer

    async def _paced(self, verb: str, kind: str, call: Call) -> Any:
        await asyncio.sleep(self._pace.reserve())
        if not self._held():
            raise NotLeaderError(f"{verb} {kind}: this process does not lead")
        self._metrics.writes.labels(verb=verb, kind=kind).inc()
        return await call()


async def _try(step: Call) -> EvenkeelError | None:
    """The error of a write that another one may still follow; a server that does not answer ends all."""
    try:
        await step()
    except EvenkeelError as error:
        if isinstance(error, RetryableError) and not isinstance(error, ChangedError):
            raise
        return error
    return None


def _expect_ours(present: Object, wanted: Mapping[str, Any]) -> None:
    """Refuse an object of another owner.

    Raises:
        ChangedError: it was made for an object of the same name that was just deleted: it will go.
        InputError: Evenkeel did not make it.
    """
    meta = present["metadata"]
    owners = meta.get("ownerReferences") or ()
    known = {owner["uid"] for owner in owners}
    missing = [one for one in wanted["metadata"].get("ownerReferences") or () if one["uid"] not in known]
    ours = (meta.get("labels") or {}).get(names.LABEL_MANAGED_BY) == names.MANAGED_BY
    if not missing or (ours and not owners):
        return
    if ours or any(owner.get("apiVersion") == names.GROUP_VERSION for owner in owners):
        raise ChangedError(f"{key_of(present)} belongs to another owner; waiting until it is gone")
    message = f"{key_of(present)} exists and was not made by Evenkeel: delete or rename it"
    raise InputError(message, reason=Reason.CONFLICT)


def _bound(remembered: dict[Any, Any]) -> None:
    while len(remembered) > REMEMBERED:
        del remembered[next(iter(remembered))]


def _state(item: Object) -> str:
    """What changes whenever somebody changes what we apply: the generation, where a kind has one."""
    meta = item["metadata"]
    return str(meta.get("generation") or meta.get("resourceVersion"))


def _digest_of(body: Mapping[str, Any]) -> str:
    return str(body["metadata"]["annotations"][ANNOTATION_APPLIED])


def _with_digest(body: Mapping[str, Any]) -> dict[str, Any]:
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]
    meta = body["metadata"]
    annotations = {**(meta.get("annotations") or {}), ANNOTATION_APPLIED: digest}
    return {**body, "metadata": {**meta, "annotations": annotations}}


def contains(present: Any, wanted: Any) -> bool:
    """Whether `wanted` is part of `present`: mappings by their keys, lists by position and length."""
    if isinstance(wanted, Mapping):
        if not isinstance(present, Mapping):
            return not wanted
        return all(contains(present.get(key), item) for key, item in wanted.items())
    if isinstance(wanted, list | tuple):
        if not wanted:
            return not present
        if not isinstance(present, list | tuple) or len(present) != len(wanted):
            return False
        return all(contains(one, other) for one, other in zip(present, wanted, strict=True))
    return bool(present == wanted)
