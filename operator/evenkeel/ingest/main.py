"""Entry points of the producer and sealer jobs: settings in, exit code and termination message out."""

from __future__ import annotations

import base64
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

from evenkeel.domain.job import JobSpec, Role
from evenkeel.errors import InputError, RetryableError
from evenkeel.format.manifest import encode_location, encode_manifest, manifest_digest
from evenkeel.ingest.journal import Journal, KafkaLog
from evenkeel.ingest.outbox import KafkaOutbox
from evenkeel.ingest.recovery import KafkaDataLog
from evenkeel.ingest.rejects import KafkaRejects
from evenkeel.ingest.sealer import Sealed, build_seal, plan_reopen, verify
from evenkeel.ingest.worker import Ports, Step, Worker
from evenkeel.kafka.clients.append import Appender
from evenkeel.kafka.clients.identity import identify_topic, wait_for_topic
from evenkeel.kafka.clients.reader import LogRecord, PartitionReader
from evenkeel.kafka.manifests import ManifestWriter
from evenkeel.process.job import STOPPED, require, run_job
from evenkeel.reasons import Reason
from evenkeel.router import Producer

log = logging.getLogger(__name__)

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
PATIENCE_SECONDS = 300.0
"""Failures that may be tried again end the process after this long without progress."""
RETRY_SECONDS = 1.0
WAIT_SECONDS = 0.5
"""Pauses end when the journal brings something."""
PROGRESS_SECONDS = 5.0
TOPIC_SECONDS = 15.0
"""How long a missing topic or a silent cluster may take to appear before the job says so and ends."""


def producer_main(arguments: list[str]) -> int:
    """`evenkeel producer`: one worker of an ingest. Returns the exit code."""
    return run_job(arguments, Role.PRODUCER, lambda job: run_producer(job, os.environ))


def sealer_main(arguments: list[str]) -> int:
    """`evenkeel sealer`: verify and seal one revision. Returns the exit code."""
    return run_job(arguments, Role.SEALER, run_sealer)


def run_producer(spec: JobSpec, environment: Mapping[str, str]) -> int:
    """Work until no slice is left (0) or SIGTERM came (143).

    Raises:
        EvenkeelError: the ingest cannot go on.
    """
    settings = require(spec.producer, "producer")
    index = int(environment.get(INDEX_VARIABLE, "0"))
    stopped = _catch_sigterm()
    dataset, connection = spec.dataset, spec.connection
    wait_for_topic(connection, dataset.data_topic, TOPIC_SECONDS)
    wait_for_topic(connection, dataset.journal_topic, TOPIC_SECONDS)
    outbox = KafkaOutbox(connection, dataset, settings, index, Producer)
    journal = Journal(KafkaLog(connection, dataset.journal_topic))
    ports = Ports(
        journal=journal,
        outbox=outbox,
        data=KafkaDataLog(connection, dataset.data_topic),
        rejects=KafkaRejects(connection, dataset.rejected_topic),
    )
    worker = Worker(index, secrets.token_hex(8), dataset, settings, ports)
    try:
        if not drive(worker, journal, stopped):
            worker.release()
            log.info("stopped by SIGTERM")
            return STOPPED
    finally:
        outbox.drop()
        journal.close()
    log.info("nothing is left to write")
    return 0


def drive(
    worker: Worker,
    journal: Journal,
    stopped: Callable[[], bool],
    monotonic: Callable[[], float] = time.monotonic,
) -> bool:
    """Step until done (True) or stopped (False); failures that may pass are tried again for a while."""
    progress = _Progress(journal, monotonic)
    last_good, covered, pause = monotonic(), -1, 0.0
    while not stopped():
        try:
            if pause:
                journal.poll(pause)
            step, pause = worker.step(), 0.0
        except RetryableError as error:
            if monotonic() - last_good > PATIENCE_SECONDS:
                raise
            log.warning("reason=%s: %s; trying again", error.reason.value, error.message)
            worker.reset()
            pause = RETRY_SECONDS
            continue
        if journal.state.acknowledged_records > covered or step is Step.WAITING:
            last_good, covered = monotonic(), journal.state.acknowledged_records
        progress.tell()
        if step is Step.DONE:
            progress.tell(now=True)
            return True
        if step is Step.WAITING:
            pause = WAIT_SECONDS
    return False


def run_sealer(spec: JobSpec) -> int:
    """Seal the revision, or reopen what is not whole; both are success.

    Raises:
        EvenkeelError: neither is possible.
    """
    # The first process of a container ignores it otherwise, and is killed half a minute later.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))
    settings = require(spec.sealer, "sealer")
    dataset, connection = spec.dataset, spec.connection
    identity = wait_for_topic(connection, dataset.data_topic, TOPIC_SECONDS)
    journal = Journal(KafkaLog(connection, dataset.journal_topic))
    try:
        journal.catch_up()
        state, plan = journal.state, journal.state.plan
        if state.seal is not None:
            log.info("sealed already digest=%s", state.seal.digest)
            return 0
        if plan is None:
            raise InputError("the journal holds no plan: nothing was ingested", reason=Reason.SEAL_FAILED)
        if state.open_slices():
            return _reopen(journal, spec)

        def read(partition: int, first: int, end: int) -> Iterator[LogRecord]:
            with PartitionReader(connection, dataset.data_topic, partition, committed=False) as reader:
                start, stop = reader.bounds()
                yield from reader.read(max(first, start), min(end, stop))

        schema = base64.b64decode(plan.schema)
        result = verify(state, plan, dataset.uid, schema, settings.shard_bytes, read)
        if not isinstance(result, Sealed):
            journal.append(plan_reopen(state, settings, result))
            log.warning("reopened: %d messages are not in the log as journaled", len(result))
            return 0
        if identify_topic(connection, dataset.data_topic).topic_id != identity.topic_id:
            message = f"topic {dataset.data_topic} was made anew while it was verified"
            raise RetryableError(message, reason=Reason.DATA_LOST)
        content = encode_manifest(result.manifest)
        location = encode_location(result.locate(manifest_digest(content), dataset.data_topic, identity))
        with Appender(connection) as appender:
            writer = ManifestWriter(appender, dataset.manifest_topic, secrets.token_hex(8))
            digest = writer.write(content, location)
        journal.append(build_seal(result.manifest, digest, state.round))
        if journal.state.seal is None:
            log.warning("a round was asked for while this one was verified: the seal does not count")
            return 0
        log.info(
            "sealed digest=%s records=%d shards=%d",
            digest,
            result.manifest.records,
            len(result.manifest.shards),
        )
        return 0
    finally:
        journal.close()


def _reopen(journal: Journal, spec: JobSpec) -> int:
    reopen = plan_reopen(journal.state, require(spec.sealer, "sealer"))
    journal.append(reopen)
    log.warning("reopened round=%d slices=%d", reopen.round, len(reopen.slices))
    return 0


class _Progress:
    """A log line every few seconds."""

    def __init__(self, journal: Journal, monotonic: Callable[[], float]) -> None:
        self._journal = journal
        self._monotonic = monotonic
        self._next = 0.0

    def tell(self, *, now: bool = False) -> None:
        planned = self._journal.state.planned_records
        if not planned or (self._monotonic() < self._next and not now):
            return
        self._next = self._monotonic() + PROGRESS_SECONDS
        state = self._journal.state
        done = state.acknowledged_records + state.rejected_records
        log.info(
            "progress percent=%d records=%d of %d slices=%d of %d bytes=%d rejected=%d",
            100 * done // planned,
            state.acknowledged_records,
            planned,
            state.finished_slices,
            state.planned_slices,
            state.acknowledged_bytes,
            state.rejected_records,
        )


def _catch_sigterm() -> Callable[[], bool]:
    seen: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        seen.append(number)

    signal.signal(signal.SIGTERM, note)
    return lambda: bool(seen)


__all__ = ["drive", "producer_main", "run_producer", "run_sealer", "sealer_main"]
