"""Does what `keeper.topics` decided; one action that fails does not stop the others."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Fault
from evenkeel.errors import EvenkeelError
from evenkeel.kafka.admin import Admin
from evenkeel.kafka.clients.probe import probe
from evenkeel.keeper.topics import Action, CreateTopic, DeleteTopic, GrowTopic, SetConfig

log = logging.getLogger(__name__)
PROBE_SECONDS = 8.0


@dataclass(slots=True)
class Outcome:
    """What became of a list of actions."""

    done: int = 0
    faults: list[Fault] = field(default_factory=list)


def apply_actions(connection: Connection, actions: Iterable[Action], *, move: bool = True) -> Outcome:
    """Do the actions in order.

    Args:
        connection: where and how.
        actions: what to do; with none Kafka is not asked.
        move: with the credentials for topic changes.

    Raises:
        ConfigurationError, RetryableError: no connection at all.
    """
    outcome = Outcome()
    todo = list(actions)
    if not todo:
        return outcome
    if move and connection.move_credentials_path is not None:
        # The administration's client takes a wrong password for a dead address.
        probe(connection, PROBE_SECONDS, move=True)
    with Admin(connection, move=move, timeout=15.0) as admin:
        for action in todo:
            try:
                _apply(admin, action)
            except EvenkeelError as error:
                outcome.faults.append(Fault(error.reason, error.message, action.subject))
                log.warning("topic action failed topic=%s why=%s", action.name, error.message)
            else:
                outcome.done += 1
                log.info("topic action done what=%s topic=%s", type(action).__name__, action.name)
    return outcome


def _apply(admin: Admin, action: Action) -> None:
    match action:
        case CreateTopic():
            admin.create_topic(action.name, action.assignments, action.config)
        case GrowTopic():
            admin.create_partitions(action.name, action.count, action.assignments)
        case SetConfig():
            admin.alter_topic_config(action.name, action.config)
        case DeleteTopic():
            admin.delete_topic(action.name)
