"""`evenkeel execute`: run a plan of moves on any Kafka cluster, by the keeper's own executor.

Ctrl-C once finishes the batch, twice cancels what is under way where that is safe, a third time leaves at once: the
next run of the same plan finishes the cancelling and says so, and the one after that begins anew. A run that was
killed without Ctrl-C is gone on with by the same command; another plan has what is left of it cancelled first.
"""

from __future__ import annotations

import argparse
import logging
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

from evenkeel import names
from evenkeel.cli.plan_file import read_plan_file
from evenkeel.cli.snapshot import build_connection, read_properties
from evenkeel.cli.stop import Stop
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Owner
from evenkeel.errors import ConfigurationError, EvenkeelError, FencedError, InputError
from evenkeel.kafka.clients.probe import probe
from evenkeel.keeper.assembly import assemble
from evenkeel.keeper.claim import Claim
from evenkeel.keeper.collector import gather
from evenkeel.keeper.growth import Growth
from evenkeel.keeper.moving.leaders import elect_leaders
from evenkeel.keeper.moving.mover import Mover
from evenkeel.keeper.moving.plan import ApprovedPlan
from evenkeel.keeper.moving.progress import MoveProgress
from evenkeel.keeper.moving.run import AWAY_SECONDS, RunState
from evenkeel.keeper.moving.settings import Control, MoveSettings
from evenkeel.keeper.topic_actions import apply_actions
from evenkeel.keeper.topics import FoundTopics, plan_internal
from evenkeel.reasons import Reason

OK, FAILURE, REFUSED = 0, 1, 3
TURN_SECONDS = 1.0
INSTALLATION = "evenkeel-cli"


def main(arguments: list[str]) -> int:
    """Run a plan; returns the exit code: 0 all moved, 3 not all, 1 failure.

    Raises:
        InputError: the plan or the settings are wrong; names the field.
        EvenkeelError: the cluster cannot be reached, or belongs to another keeper.
    """
    options = _parse(arguments)
    logging.getLogger().addHandler(
        logging.NullHandler()
    )  # what is logged is also shown, or comes as an error
    file = read_plan_file(options.plan)
    plan = file.plan
    if not plan.moves:
        return _say(Reason.NOTHING_TO_DO, "the plan has no moves")
    properties = read_properties(options.config) if options.config else {}
    with tempfile.TemporaryDirectory(prefix="evenkeel-") as folder:  # 0700, gone afterwards
        connection = build_connection(options.bootstrap, properties, Path(folder))
        session = Session.open(connection, options.name)
        try:
            with Stop.listening() as stop:
                settings = MoveSettings(
                    bytes_per_second=options.throttle,
                    max_fill_percent=options.max_fill_percent,
                    volumes=file.volumes,
                )
                with Bar.open() as bar:
                    found = run_plan(session, plan, settings, stop, bar.show)
                _spread_leaders(connection, plan)
        finally:
            session.close()
    return _say(found.reason, _explain(found, stop))


class Turns(Protocol):
    """What runs a plan, turn by turn."""

    def turn(self, plan: ApprovedPlan, settings: MoveSettings) -> MoveProgress:
        """One turn; errors as `Executor.turn`."""


def run_plan(
    turns: Turns,
    plan: ApprovedPlan,
    settings: MoveSettings,
    stop: Stop,
    show: Callable[[MoveProgress | EvenkeelError, Control], None],
    monotonic: Callable[[], float] = time.monotonic,
) -> MoveProgress:
    """Turns until this plan's run is over; what Kafka does not answer is tried again.

    What an interrupted plan has left is cancelled and cleaned up before it. What this one leaves is waited for at
    its end for AWAY_SECONDS in which Kafka answers.

    Raises:
        ConfigurationError, InputError: a right is missing, or the plan is for another cluster.
        FencedError: another keeper has taken the cluster.
    """
    ended_at: float | None = None
    while True:
        try:
            found = turns.turn(plan, replace(settings, control=stop.control))
        except (ConfigurationError, InputError, FencedError):
            raise
        except EvenkeelError as error:
            if not error.retry:
                raise
            show(error, stop.control)
            ended_at = None  # what is left could not even be asked for
        else:
            mine = found.plan == plan.id
            show(found if mine else _attribute(found), stop.control)
            if not mine or found.state is RunState.RUNNING:
                ended_at = None
            else:
                ended_at = monotonic() if ended_at is None else ended_at
                if found.over or monotonic() - ended_at > AWAY_SECONDS:
                    return found
        stop.wait(TURN_SECONDS)


def _spread_leaders(connection: Connection, plan: ApprovedPlan) -> None:
    """The first replica of what was moved leads, as the plan spread leaders; without that only load is uneven."""
    try:
        elect_leaders(connection, plan.moves)
    except EvenkeelError as error:
        sys.stderr.write(f"{error.reason}: preferred leaders were not elected: {error.message}\n")


def _attribute(found: MoveProgress) -> MoveProgress:
    """As it is to be shown where it is of what another plan has left."""
    return replace(found, message=f"an earlier plan: {found.message}")


@dataclass(slots=True)
class Session:
    """The cluster, owned by this command for as long as it runs."""

    connection: Connection
    owner: Owner
    cluster_id: str
    claim: Claim
    mover: Mover
    fenced: bool = False
    """Somebody else is the owner by now, perhaps another run of this command under the same name."""

    @classmethod
    def open(cls, connection: Connection, name: str) -> Self:
        """Own the cluster.

        Raises:
            InputError: it belongs to another keeper, which would have to run the plan.
            EvenkeelError: it cannot be reached.
        """
        probe(connection)
        cluster_id = _prepare(connection)
        # A run of the same name in between may have cancelled this plan: to begin it anew would cancel theirs.
        claim = Claim(wall_ms=lambda: time.time_ns() // 1_000_000, once=True)
        owner = Owner(INSTALLATION, name, name)
        session = cls(connection, owner, cluster_id, claim, Mover(claim, again=True))
        session._keep()
        return session

    def turn(self, plan: ApprovedPlan, settings: MoveSettings) -> MoveProgress:
        """One turn as the owner.

        Raises:
            FencedError: another keeper has taken the cluster, even where it has given it back.
        """
        try:
            self._keep()
            found = self.mover.turn(self.connection, plan, settings)
        except FencedError:
            self.fenced = True
            raise
        if found is None:
            raise FencedError("the claim is not held")
        return found

    def close(self) -> None:
        """Give the cluster free; a run that is not over waits in its journal."""
        if self.fenced:  # to give back what a successor holds would take it from them
            self.claim.drop()
            return
        try:
            self.claim.release(self.connection, self.owner, self.cluster_id)
        except FencedError:  # found out only now; nothing of ours stays
            self.claim.drop()
        except EvenkeelError as error:
            sys.stderr.write(f"{error.reason}: the claim stays for 15 minutes: {error.message}\n")
            self.claim.drop()

    def _keep(self) -> None:
        for _ in range(2):  # a second look where somebody wrote in between
            if self.claim.keep(self.connection, self.owner, self.cluster_id):
                return
        owner = self.claim.report().owner or "another keeper"
        message = f"this Kafka cluster belongs to {owner}, which has to run the plan"
        raise InputError(message, reason=Reason.CLUSTER_OWNED_ELSEWHERE)


def _prepare(connection: Connection) -> str:
    """Make Evenkeel's own topics where there are none yet; returns the cluster's id."""
    measurement = gather(connection, now_ms=time.time_ns() // 1_000_000)
    if names.CONTROL_TOPIC not in measurement.topics:
        brokers = assemble(measurement, Growth()).brokers
        found = FoundTopics(measurement.topics, measurement.configs, brokers)
        for fault in apply_actions(connection, plan_internal(found)).faults:
            raise ConfigurationError(fault.message, reason=fault.reason)
    return measurement.cluster.cluster_id


class Bar:
    """Progress for people: a bar on a terminal, a line per change elsewhere."""

    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task
        self._told = ""

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[Self]:
        """Shown until the end of the block."""
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=Console(stderr=True)) as progress:
            yield cls(progress, progress.add_task("looking at the cluster", total=None))

    def show(self, found: MoveProgress | EvenkeelError, control: Control) -> None:
        """The newest."""
        text = describe(found, control)
        if isinstance(found, MoveProgress) and found.bytes:
            self._progress.update(self._task, total=found.bytes, completed=found.bytes_done)
        self._progress.update(self._task, description=text)
        if text != self._told and not self._progress.console.is_terminal:
            self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
        self._told = text


def describe(found: MoveProgress | EvenkeelError, control: Control) -> str:
    """One line."""
    wish = {Control.FINISH: "finishing the batch; ", Control.CANCEL: "cancelling; "}.get(control, "")
    if isinstance(found, EvenkeelError):
        return f"{wish}{found.reason}: {found.message}"
    done = f"batch {found.batch} of {found.batches}, {found.moves_done} of {found.moves} moves"
    failed = f" ({found.moves_failed} not moved)" if found.moves_failed else ""
    reason = "" if found.reason is Reason.MOVING else f"; {found.reason}: {found.message}"
    return f"{wish}{done}{failed}{reason}"


def _explain(found: MoveProgress, stop: Stop) -> str:
    """The end as a sentence, also for who did not press Ctrl-C and finds the plan stopped."""
    known = {
        Reason.MOVES_CANCELLED: "an earlier run was told to stop, and this one has finished that",
        Reason.PLAN_OUTDATED: "another plan was begun after an earlier run of this one, which has been stopped now",
    }
    told = known.get(found.reason)
    if told is None or found.state is not RunState.CANCELLED or stop.presses:
        return found.message
    return f"{found.message}; {told}: the same command begins anew"


def _say(reason: Reason, message: str) -> int:
    fine = reason in (Reason.MOVED, Reason.NOTHING_TO_DO)
    (sys.stdout if fine else sys.stderr).write(f"{reason}: {message}\n")
    return OK if fine else REFUSED


def _throttle(text: str) -> int | None:
    if text.lower() == "auto":
        return None
    if not text.isdecimal() or not 1_000_000 <= int(text) < 2**63:  # noqa: PLR2004 - bytes per second
        message = f"--throttle: must be auto or bytes per second from 1000000, not {text}"
        raise InputError(message, reason=Reason.INVALID_SPEC)
    return int(text)


def _percent(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 99:  # noqa: PLR2004 - percent
        message = f"--max-fill-percent: must be between 1 and 99, not {text}"
        raise InputError(message, reason=Reason.INVALID_SPEC)
    return int(text)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="evenkeel execute", description=__doc__)
    parser.add_argument(
        "--plan",
        required=True,
        metavar="FILE",
        help="JSON of `evenkeel plan moves -o json`; - is standard input",
    )
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="with commas for several")
    parser.add_argument("--config", metavar="FILE", help="security settings, key=value per line")
    parser.add_argument(
        "--throttle",
        type=_throttle,
        default=None,
        metavar="auto|N",
        help="bytes per second, per broker and direction (default auto: begins at 10 MB/s or twice what is written)",
    )
    parser.add_argument("--max-fill-percent", type=_percent, default=85, metavar="N", help="default 85")
    parser.add_argument(
        "--name",
        default=f"evenkeel execute on {socket.gethostname()}",
        help="name of the owner while it runs; the same name goes on with an interrupted run",
    )
    return parser.parse_args(arguments)
