"""Where runs are kept: the record `moves` of `__evenkeel_control`, written by the owner of the cluster alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from evenkeel import names
from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.errors import DataError, InputError
from evenkeel.kafka.clients.reader import LogRecord, PartitionReader
from evenkeel.keeper.claim import Claim
from evenkeel.keeper.moving.run import MOVES_KEY, Run
from evenkeel.reasons import Reason


class Journal(Protocol):
    """Keeps the newest run."""

    def read(self) -> Run | None:
        """The newest; None: there never was one."""

    def write(self, run: Run) -> None:
        """Commit; returns when no crash can lose it.

        Raises:
            FencedError: another keeper is the owner by now: not one call more.
        """

    def confirm(self) -> None:
        """Find out that we are the owner at this moment; errors as `write`."""


class ClaimJournal:
    """The journal in Kafka.

    Args:
        claim: this keeper's hold on the cluster; fences a predecessor that still lives.
        connection: how to reach it.
    """

    def __init__(self, claim: Claim, connection: Connection) -> None:
        self._claim, self._connection = claim, connection

    def read(self) -> Run | None:
        """The newest run.

        Raises:
            RetryableError, ConfigurationError: Kafka does not let us read.
            DataError: the newest record cannot be understood; nothing may be begun before somebody has looked.
        """
        with PartitionReader(self._connection, names.CONTROL_TOPIC) as reader:
            start, _ = reader.bounds()
            return find_run(reader.read(start))

    def write(self, run: Run) -> None:
        """Commit; errors as `Claim.write`."""
        self._claim.write([(names.CONTROL_TOPIC, codec.dumps(run).encode(), MOVES_KEY)])

    def confirm(self) -> None:
        """Renew the claim; errors as `Claim.write`."""
        self._claim.confirm()


def find_run(records: Iterable[LogRecord]) -> Run | None:
    """The newest run among the records of the control topic.

    Raises:
        DataError: it cannot be understood.
    """
    newest = None
    for record in records:
        if record.key == MOVES_KEY:
            newest = record
    if newest is None or not newest.value:
        return None
    try:
        return codec.loads(Run, newest.value)
    except InputError as error:
        message = f"{names.CONTROL_TOPIC}, offset {newest.offset}: {error.message}"
        raise DataError(message, reason=Reason.INTERNAL_ERROR) from error
