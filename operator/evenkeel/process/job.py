"""What the processes of jobs have in common: JobSpec in, exit code and termination message out."""

from __future__ import annotations

import argparse
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from evenkeel.domain import codec
from evenkeel.domain.job import JobSpec, Role, Termination
from evenkeel.errors import EvenkeelError, InputError
from evenkeel.names import JOB_VARIABLE
from evenkeel.reasons import Reason

log = logging.getLogger(__name__)

Settings = TypeVar("Settings")
TERMINATION_LOG = "/dev/termination-log"
TERMINATION_BYTES = 4096
"""Kubernetes keeps no more of it."""
STOPPED = 128 + signal.SIGTERM
"""Exit code of a job that was told to stop."""


def run_job(arguments: list[str], role: Role, run: Callable[[JobSpec], int]) -> int:
    """Call `run` with the JobSpec of this process -> its exit code, or 1 with a termination message."""
    parser = argparse.ArgumentParser(description=f"A job of Evenkeel; its settings are in {JOB_VARIABLE}.")
    parser.add_argument("--termination-log", default=TERMINATION_LOG)
    target = Path(parser.parse_args(arguments).termination_log)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        return run(read_job(os.environ.get(JOB_VARIABLE, ""), role))
    except EvenkeelError as error:
        log.error("reason=%s: %s", error.reason.value, error.message)
        write_termination(target, Termination(error.reason.value, error.message))
    except Exception as error:
        log.exception("reason=%s", Reason.INTERNAL_ERROR.value)
        write_termination(target, Termination(Reason.INTERNAL_ERROR.value, type(error).__name__))
    return 1


def read_job(text: str, role: Role) -> JobSpec:
    """The JobSpec in `text`.

    Raises:
        InputError: INVALID_SPEC: it is none, or one for another role.
    """
    job = codec.loads(JobSpec, text)
    if job.role is not role:
        message = f"{JOB_VARIABLE}.role: {job.role.value}, must be {role.value}"
        raise InputError(message, reason=Reason.INVALID_SPEC)
    return job


def require(settings: Settings | None, name: str) -> Settings:
    """The settings of a role.

    Raises:
        InputError: INVALID_SPEC: they are missing.
    """
    if settings is None:
        raise InputError(f"{JOB_VARIABLE}.{name}: required", reason=Reason.INVALID_SPEC)
    return settings


def write_termination(target: Path, termination: Termination) -> None:
    """At most 4 KiB, valid JSON whatever the message's length; where there is no such file it is only logged."""
    message = termination.message
    while len(content := codec.dumps(Termination(termination.reason, message)).encode()) > TERMINATION_BYTES:
        message = message[: len(message) // 2]
    try:
        target.write_bytes(content)
    except OSError as error:
        log.warning("termination message not written to %s: %s", target, error.strerror)
