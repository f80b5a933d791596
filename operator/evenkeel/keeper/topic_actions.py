"""Does what `keeper.topics` decided; one action that fails does not stop the others."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Fault
from evenkeel.errors import EvenkeelError, InputError
from evenkeel.kafka.admin import Admin
from evenkeel.kafka.clients.probe import TURN_SECONDS, probe
from evenkeel.keeper.topics import Action, CreateTopic, DeleteTopic, GrowTopic, SetConfig

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    """What became of a list of actions."""

    applied: list[Action] = field(default_factory=list)
    failed: list[tuple[Action, Fault]] = field(default_factory=list)
    """Of settings only those that Kafka refused."""

    @property
    def faults(self) -> list[Fault]:
        """What is to be said of the actions that failed."""
        return [fault for _, fault in self.failed]


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
        probe(connection, TURN_SECONDS, move=True)
    with Admin(connection, move=move, timeout=15.0) as admin:
        for action in todo:
            _try(admin, action, outcome)
    return outcome


def _try(admin: Admin, action: Action, outcome: Outcome) -> None:
    try:
        _apply(admin, action)
    except InputError as error:
        if isinstance(action, SetConfig) and len(action.config) > 1:
            # Kafka takes all settings of a request or none: one that is wrong must not hold up the others.
            for name, value in action.config.items():
                _try(admin, replace(action, config={name: value}), outcome)
            return
        _fail(action, error, outcome)
    except EvenkeelError as error:
        _fail(action, error, outcome)
    else:
        outcome.applied.append(action)
        log.info("topic action done what=%s topic=%s", type(action).__name__, action.name)


def _fail(action: Action, error: EvenkeelError, outcome: Outcome) -> None:
    outcome.failed.append((action, Fault(error.reason, error.message, action.subject)))
    log.warning("topic action failed topic=%s why=%s", action.name, error.message)


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
