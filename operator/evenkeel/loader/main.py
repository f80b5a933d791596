"""`evenkeel loader`: the job that reads a revision from Kafka once and hands it to a node's cache."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

from evenkeel import names
from evenkeel.domain import codec
from evenkeel.domain.job import JobSpec, LoaderSettings, Role, Termination
from evenkeel.errors import EvenkeelError, InputError
from evenkeel.loader.client import CacheClient
from evenkeel.loader.load import Clock, Patience, load
from evenkeel.loader.source import RevisionSource
from evenkeel.reasons import Reason

TERMINATION_LOG = Path("/dev/termination-log")
MESSAGE_LIMIT = 3500
"""Bytes of a termination message's sentence; Kubernetes keeps 4,096 bytes of the whole."""

log = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Load what `EVENKEEL_JOB` says -> 0, or 1 with a termination message."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if arguments:
        log.error("evenkeel loader takes no arguments, its JobSpec is in %s", names.JOB_VARIABLE)
        return 2
    # As the first process of a container Python would ignore it, and every deletion take 30 s.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        job, settings = read_job(os.environ.get(names.JOB_VARIABLE, ""))
        run(job, settings, Clock())
    except EvenkeelError as error:
        log.error("failed reason=%s why=%s", error.reason.value, error)
        write_termination(error)
        return 1
    return 0


def read_job(text: str) -> tuple[JobSpec, LoaderSettings]:
    """The job in the variable's text; InputError names what is wrong with it."""
    job = codec.loads(JobSpec, text)
    if job.role is not Role.LOADER or job.loader is None:
        message = f"{names.JOB_VARIABLE}: role must be Loader with `loader` set, not {job.role.value}"
        raise InputError(message, reason=Reason.INVALID_SPEC)
    return job, job.loader


def run(job: JobSpec, settings: LoaderSettings, clock: Clock) -> None:
    """Load one revision to one cache; errors as `load`."""
    cache = CacheClient(settings.endpoint, job.dataset.uid, settings.digest, Path(settings.token_path))
    patience = Patience(clock)
    with _open(job, settings.digest, patience) as source:
        load(source, cache, clock, patience)


def _open(job: JobSpec, digest: str, patience: Patience) -> RevisionSource:
    while True:
        try:
            return RevisionSource.open(job, digest)
        except EvenkeelError as error:
            if not error.retry or patience.over:
                raise
            log.warning("Kafka not ready, again soon reason=%s why=%s", error.reason.value, error)
            patience.wait()


def write_termination(error: EvenkeelError) -> None:
    """Leave reason and sentence where the operator reads them; outside Kubernetes there is no such file."""
    if TERMINATION_LOG.exists():
        message = error.message.encode()[:MESSAGE_LIMIT].decode(errors="ignore")
        TERMINATION_LOG.write_text(codec.dumps(Termination(error.reason.value, message)))
