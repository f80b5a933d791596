"""Leader election on one Lease. Clocks are monotonic; nothing is believed longer than the last renewal allows.

Validity counts from before the request was sent; others wait a whole duration from when they first saw
a version of the Lease; every write carries the resource version. So a leader that was paused, or that
cannot reach the API server, stops before anybody else may begin.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evenkeel.errors import EvenkeelError, RetryableError
from evenkeel.kube.client import Kube
from evenkeel.kube.events import micro_time
from evenkeel.kube.failures import ConflictError, NotFoundError
from evenkeel.kube.resources import LEASE

CALL_SECONDS = 5.0
"""Shorter than duration - deadline: a write that was sent while held ends before another leader begins."""
NEVER = float("-inf")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds. A dead leader is replaced after about `duration`."""

    duration: float = 15.0
    """How long others wait for a version that does not change."""
    deadline: float = 10.0
    """How long after a renewal its holder believes in it."""
    period: float = 2.0
    """Between renewals, and between attempts to acquire."""


class Lease:
    """One candidate. `identity` is unique per process, else a restarted process would inherit."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        name: str,
        identity: str,
        *,
        times: LeaseTimes = LeaseTimes(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self.identity = identity
        self._times = times
        self._clock = clock
        self._valid_until = NEVER
        self._seen: tuple[str | None, float] = (None, 0.0)
        self._lease: dict[str, Any] = {}
        self.epoch = 0
        """Number of changes of the holder: a fencing token that only grows."""

    def held(self) -> bool:
        """Ask before each write: after a pause it answers False before anything else runs."""
        return self._clock() < self._valid_until

    async def acquire(self) -> None:
        """Wait until this process leads.

        Raises:
            ConfigurationError: a right on the Lease is missing.
        """
        while not await self._guarded(self._try_acquire, CALL_SECONDS):  # noqa: ASYNC110 - another process decides
            await asyncio.sleep(self._times.period * random.uniform(0.8, 1.2))  # noqa: S311 - spreads candidates

    async def hold(self) -> None:
        """Renew until the Lease is lost. Returns at the latest when `held()` turns False."""
        while self.held():
            await asyncio.sleep(max(0.0, min(self._times.period, self._valid_until - self._clock())))
            await self._guarded(self._renew, self._valid_until - self._clock())
        self._valid_until = NEVER

    async def release(self) -> None:
        """Give the Lease back, so that the next leader need not wait; call only after the last write."""
        if not self._lease or not self.held():
            return
        self._valid_until = NEVER
        spec = {**self._lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            await self._replace({**self._lease, "spec": spec})
        except EvenkeelError as error:
            log.info("lease not released, the next leader waits for it to expire: %s", error)

    async def _guarded(self, step: Callable[[], Awaitable[bool]], limit: float) -> bool:
        try:
            # Not wait_for: in Python 3.11 it may lose a cancellation that comes with the answer (fixed in 3.12).
            async with asyncio.timeout(max(0.01, min(CALL_SECONDS, limit))):
                return await step()
        except (RetryableError, NotFoundError, TimeoutError) as error:
            log.debug("lease %s: %s", self._name, error)
            return False

    async def _try_acquire(self) -> bool:
        sent = self._clock()
        lease = await self._kube.get(LEASE, self._name, self._namespace)
        if lease is None:
            meta = {"name": self._name, "namespace": self._namespace}
            return self._won(await self._kube.create(LEASE, {"metadata": meta, "spec": self._spec({})}), sent)
        spec, version = lease.get("spec") or {}, lease["metadata"]["resourceVersion"]
        if version != self._seen[0]:
            self._seen = (version, sent)
        expired = sent - self._seen[1] >= spec.get("leaseDurationSeconds", self._times.duration)
        if spec.get("holderIdentity") and not expired:
            return False
        return self._won(await self._replace({**lease, "spec": self._spec(spec)}), sent)

    async def _renew(self) -> bool:
        sent = self._clock()
        spec = {**self._lease["spec"], "renewTime": micro_time(datetime.now(UTC))}
        try:
            lease = await self._replace({**self._lease, "spec": spec})
        except (ConflictError, NotFoundError):
            return await self._look_again()
        return self._won(lease, sent)

    async def _look_again(self) -> bool:
        # Somebody may only have annotated the Lease; then it is renewed with the new version next time.
        lease = await self._kube.get(LEASE, self._name, self._namespace)
        spec = (lease or {}).get("spec") or {}
        if lease is None or (spec.get("holderIdentity"), spec.get("leaseTransitions")) != (
            self.identity,
            self.epoch,
        ):
            self._valid_until = NEVER
            return False
        self._lease = lease
        return await self._renew()

    async def _replace(self, lease: dict[str, Any]) -> dict[str, Any]:
        return await self._kube.replace(LEASE, lease)

    def _won(self, lease: dict[str, Any], sent: float) -> bool:
        self._lease, self.epoch = lease, lease["spec"].get("leaseTransitions", 0)
        self._valid_until = sent + self._times.deadline
        return True

    def _spec(self, old: dict[str, Any]) -> dict[str, Any]:
        now = micro_time(datetime.now(UTC))
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(self._times.duration),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": old.get("leaseTransitions", 0) + 1,
        }
