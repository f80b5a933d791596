"""The executor of a keeper: one per connection and claim, so that nothing is done on what another life knew."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from evenkeel.domain.connection import Connection
from evenkeel.errors import FencedError
from evenkeel.keeper.claim import Claim
from evenkeel.keeper.moving.executor import Executor, Hand
from evenkeel.keeper.moving.hand import open_kafka
from evenkeel.keeper.moving.journal import ClaimJournal, Journal
from evenkeel.keeper.moving.plan import ApprovedPlan
from evenkeel.keeper.moving.progress import MoveEvent, MoveProgress
from evenkeel.keeper.moving.run import Run
from evenkeel.keeper.moving.settings import MoveSettings


class Mover:
    """Runs what is approved while the claim is held. Used by one thread.

    Args:
        claim: this keeper's hold on the cluster.
        monotonic: the clock, seconds.
        open_hand: Kafka for one turn.
        open_journal: where runs are kept.
        again: as Executor, for its first life.
    """

    def __init__(
        self,
        claim: Claim,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        open_hand: Callable[[Connection], AbstractContextManager[Hand]] = open_kafka,
        open_journal: Callable[[Claim, Connection], Journal] = ClaimJournal,
        again: bool = False,
    ) -> None:
        self._claim, self._monotonic, self._again = claim, monotonic, again
        self._open_hand, self._open_journal = open_hand, open_journal
        self._executor: Executor | None = None
        self._life: tuple[Connection, int] | None = None

    @property
    def events(self) -> tuple[MoveEvent, ...]:
        """Of the newest turn."""
        return self._executor.events if self._executor is not None else ()

    def turn(
        self, connection: Connection, plan: ApprovedPlan | None, settings: MoveSettings
    ) -> MoveProgress | None:
        """One turn; None while the claim is not held, and then nothing was asked or done.

        Raises:
            FencedError: the claim was lost just now.
            EvenkeelError: as `Executor.turn`.
        """
        if not self._claim.held:
            self.forget()
            return None
        try:
            found = self._live(connection).turn(plan, settings)
        except FencedError:
            self.forget()
            raise
        self._again = False  # a later life goes on, it does not begin anew
        return found

    def recall(self, connection: Connection) -> Run | None:
        """The newest run by the journal, whoever began it; None too while the claim is not held.

        Raises:
            EvenkeelError: as `Journal.read`.
        """
        return self._live(connection).recall() if self._claim.held else None

    def _live(self, connection: Connection) -> Executor:
        life = (connection, self._claim.epoch)
        if self._executor is None or life != self._life:
            self._life = life
            self._executor = Executor(
                lambda: self._open_hand(connection),
                self._open_journal(self._claim, connection),
                monotonic=self._monotonic,
                again=self._again,
            )
        return self._executor

    def forget(self) -> None:
        """Another life begins by reading the journal."""
        self._executor = self._life = None
