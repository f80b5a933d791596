"""Bring a cache to hold a revision: ask what it lacks, send that, until it says Warm."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from evenkeel.domain.nodes import HoldState
from evenkeel.domain.revision import Shard
from evenkeel.domain.upload import UploadState
from evenkeel.errors import EvenkeelError, RetryableError
from evenkeel.reasons import Reason

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 20.0
PATIENCE_SECONDS = 600.0
"""How long nothing may move before the job gives up; Kubernetes starts it again."""

VERIFY_SECONDS = 3600.0
"""How long a cache may hash what an earlier process received: a few terabytes in that time."""

log = logging.getLogger(__name__)


class Cache(Protocol):
    """What the loader needs of a cache; `CacheClient`."""

    def read_state(self) -> UploadState:
        """How far the revision is."""

    def put_manifest(self, manifest: bytes) -> UploadState:
        """Send the manifest."""

    def put_shard(self, index: int, length: int, pieces: Iterator[bytes]) -> UploadState:
        """Send a shard."""


class Source(Protocol):
    """What the loader needs of Kafka; `RevisionSource`."""

    @property
    def stored(self) -> bytes:
        """The content manifest as it is stored."""

    def order(self, missing: set[int]) -> list[Shard]:
        """The missing shards, in the order to send them."""

    def read_file(self, shard: Shard) -> Iterator[bytes]:
        """The pieces of a shard's file."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Time as the loader sees it, in seconds."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Patience:
    """Pauses between tries: longer each time, short again after progress, and an end."""

    def __init__(self, clock: Clock, limit: float = PATIENCE_SECONDS) -> None:
        self._clock = clock
        self._limit = limit
        self._pause = FIRST_PAUSE
        self._since = clock.monotonic()

    def progress(self) -> None:
        """Something moved."""
        self._pause, self._since = FIRST_PAUSE, self._clock.monotonic()

    @property
    def silence(self) -> float:
        """Seconds since something moved."""
        return self._clock.monotonic() - self._since

    @property
    def over(self) -> bool:
        """Whether nothing has moved for too long."""
        return self.silence > self._limit

    def wait(self) -> None:
        """Pause."""
        self._clock.sleep(self._pause)
        self._pause = min(LONGEST_PAUSE, self._pause * 2)


def load(source: Source, cache: Cache, clock: Clock, patience: Patience | None = None) -> None:
    """Return when the cache says that the revision is warm.

    Raises:
        DataError, InputError: trying again changes nothing.
        RetryableError, ConfigurationError: nothing moved for `PATIENCE_SECONDS`.
    """
    patience = patience or Patience(clock)
    while True:
        try:
            state = cache.read_state()
            if state.state is HoldState.WARM:
                log.info("warm shards=%d", state.total_shards)
                return
            if not _advance(source, cache, state, patience):
                _expect_end(state, patience)
                patience.wait()  # everything is sent: the cache checks what an earlier process received
        except EvenkeelError as error:
            if not error.retry or patience.over:
                raise
            log.warning("not yet, again soon reason=%s why=%s", error.reason.value, error)
            patience.wait()


def _expect_end(state: UploadState, patience: Patience) -> None:
    if patience.silence > VERIFY_SECONDS:
        message = f"the cache has everything for {VERIFY_SECONDS:.0f} s and is not warm: {state.message}"
        raise RetryableError(message, reason=Reason.NOT_WARM)


def _advance(source: Source, cache: Cache, state: UploadState, patience: Patience) -> bool:
    """Send what is missing -> whether anything was."""
    if state.total_shards == 0:
        state = cache.put_manifest(source.stored)
        log.info("manifest sent shards=%d present=%d", state.total_shards, len(state.present))
        patience.progress()
    missing = set(range(state.total_shards)) - set(state.present)
    for shard in source.order(missing):
        state = cache.put_shard(shard.index, shard.file_bytes, source.read_file(shard))
        patience.progress()
        percent = len(state.present) * 100 // max(1, state.total_shards)
        log.info("sent shard=%d bytes=%d percent=%d", shard.index, shard.file_bytes, percent)
    return bool(missing)
