"""`evenkeel loader`: the job that reads a revision from Kafka once and hands it to a node's cache."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path

from evenkeel.domain.job import JobSpec, LoaderSettings, Role
from evenkeel.errors import EvenkeelError
from evenkeel.loader.client import CacheClient
from evenkeel.loader.load import Clock, Patience, load
from evenkeel.loader.source import RevisionSource
from evenkeel.process.job import STOPPED, require, run_job

log = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Load what `EVENKEEL_JOB` says -> 0, or 1 with a termination message."""
    # As the first process of a container Python would ignore it, and every deletion take 30 s.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))
    return run_job(arguments, Role.LOADER, lambda job: run(job, require(job.loader, "loader"), Clock()))


def run(job: JobSpec, settings: LoaderSettings, clock: Clock) -> int:
    """Load one revision to one cache -> 0; errors as `load`."""
    cache = CacheClient(settings.endpoint, job.dataset.uid, settings.digest, Path(settings.token_path))
    patience = Patience(clock)
    with _open(job, settings.digest, patience) as source:
        load(source, cache, clock, patience)
    return 0


def _open(job: JobSpec, digest: str, patience: Patience) -> RevisionSource:
    while True:
        try:
            return RevisionSource.open(job, digest)
        except EvenkeelError as error:
            if not error.retry or patience.over:
                raise
            log.warning("Kafka not ready, again soon reason=%s why=%s", error.reason.value, error)
            patience.wait()
