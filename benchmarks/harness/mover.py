"""A process that runs a plan by the code of `evenkeel execute` and tells each turn as a line of JSON.

The command itself shows progress to people and has no option for the executor's times, which runs under faults
shorten. `python -m ... JOB`; Ctrl-C as the command takes it.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from evenkeel.cli.execute import Session, run_plan
from evenkeel.cli.plan import moves_json
from evenkeel.cli.plan_file import read_plan
from evenkeel.cli.snapshot import build_connection, measure
from evenkeel.cli.stop import Stop
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Policy
from evenkeel.errors import EvenkeelError
from evenkeel.keeper.moving.progress import MoveProgress
from evenkeel.keeper.moving.settings import Control, MoveSettings
from evenkeel.planning.moves import MovesRequest, plan_moves
from integration.processes import Process

FAILED = "Failed"
"""State of an end that was an error."""


@dataclass(frozen=True, slots=True)
class MoverJob:
    """What the process is told."""

    bootstrap: str
    plan: str
    """Path of the plan, as `evenkeel plan moves -o json` prints it."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of MoveSettings that differ from its defaults."""
    policy: Mapping[str, Any] | None = None
    """Fields of Policy: the process measures and plans first, and writes `plan`. None: the file is there."""
    name: str = "bench"

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Told:
    """One line of the process."""

    at: float
    """Monotonic clock of the machine, seconds: the same in all processes."""
    what: str
    """`begin`, `planned`, `open`, `turn`, `trouble`, `end`."""
    reason: str = ""
    message: str = ""
    state: str = ""
    batch: int = 0
    batches: int = 0
    moves: int = 0
    moves_done: int = 0
    moves_failed: int = 0
    bytes: int = 0
    bytes_done: int = 0
    bytes_per_second: int = 0


def tell(what: str, **facts: Any) -> None:
    """Write a line."""
    sys.stdout.write(json.dumps(asdict(Told(time.monotonic(), what, **facts))) + "\n")
    sys.stdout.flush()


def read_told(output: str) -> list[Told]:
    """The lines of a process, oldest first; what is none of them is passed over (a killed process ends anywhere)."""
    lines = output.splitlines()
    return [Told(**json.loads(line)) for line in lines if line.startswith('{"at":') and line.endswith("}")]


def start_mover(job: MoverJob, log: Path, environment: Mapping[str, str]) -> Process:
    """The process of a job."""
    words = [sys.executable, "-m", "benchmarks.harness.mover", job.to_json()]
    return Process(words, log, environment)


def run(job: MoverJob) -> int:
    """Do the job; exit code as `evenkeel execute`: 0 all moved, 3 not all.

    Raises:
        EvenkeelError: as `evenkeel execute`.
    """
    tell("begin")
    with tempfile.TemporaryDirectory(prefix="evenkeel-") as folder:
        connection = build_connection(job.bootstrap, {}, Path(folder))
        settings = MoveSettings(**job.settings)
        if job.policy is not None:
            _plan(connection, Policy(**job.policy), settings, Path(job.plan))
        plan = read_plan(job.plan)
        tell("planned", moves=len(plan.moves), bytes=sum(move.bytes for move in plan.moves))
        session = Session.open(connection, job.name)
        tell("open")
        try:
            with Stop.listening() as stop:
                found = run_plan(session, plan, settings, stop, _show)
        finally:
            session.close()
    tell("end", **_facts(found))
    return 3 if found.moves_failed or found.moves_done < found.moves else 0


def _plan(connection: Connection, policy: Policy, settings: MoveSettings, path: Path) -> None:
    """Measure and plan as `evenkeel snapshot` and `evenkeel plan moves` do."""
    snapshot = measure(connection, 0)
    request = MovesRequest()
    if settings.bytes_per_second is not None:
        request = replace(request, throttle_bytes_per_second=settings.bytes_per_second)
    plan = plan_moves(snapshot, policy, request)
    path.write_text(json.dumps(moves_json(plan, snapshot.cluster_id)), encoding="utf-8")


def _show(found: MoveProgress | EvenkeelError, control: Control) -> None:
    if isinstance(found, EvenkeelError):
        tell("trouble", reason=str(found.reason), message=found.message, state=str(control))
    else:
        tell("turn", **_facts(found))


def _facts(found: MoveProgress) -> dict[str, Any]:
    names = ("batch", "batches", "moves", "moves_done", "moves_failed")
    sizes = ("bytes", "bytes_done", "bytes_per_second")
    numbers = {name: getattr(found, name) for name in (*names, *sizes)}
    return {"reason": str(found.reason), "message": found.message, "state": str(found.state), **numbers}


def main(arguments: Sequence[str]) -> int:
    """Run one job; an error is the last line and exit code 1."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    try:
        return run(MoverJob(**json.loads(arguments[0])))
    except EvenkeelError as error:
        tell("end", reason=str(error.reason), message=error.message, state=FAILED)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
