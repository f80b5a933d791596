from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from evenkeel.errors import EvenkeelError, InputError, RetryableError
from evenkeel.kafka.answers import BrokerAnswer, ClusterAnswer
from evenkeel.kafka.asking import Asked
from evenkeel.kafka.moves import ConfigChange, ConfigOperation
from evenkeel.kafka.wire import FOLLOWER_RATE, LEADER_RATE, LISTS
from evenkeel.keeper.moving.hand import KafkaHand
from evenkeel.keeper.moving.observation import Wanted
from evenkeel.keeper.moving.steps import AddEntries, DropEntries, DropRate, Place, Reassign, SetRate

REFUSED = InputError("no")


class Admin:
    """Notes what it is asked; refuses what `refused` names."""

    def __init__(self, *refused: object, error: EvenkeelError | None = None) -> None:
        self.asked: list[Any] = []
        self._refused, self._error = refused, error

    def _note(self, asked: object, keys: Sequence[object]) -> dict[Any, EvenkeelError]:
        if self._error is not None:
            raise self._error
        self.asked.append(asked)
        return {key: REFUSED for key in keys if key in self._refused}

    def reassign(self, wanted: Mapping[Any, Any], *, resize: bool) -> dict[Any, EvenkeelError]:
        return self._note((resize, dict(wanted)), list(wanted))

    def place(self, wanted: Mapping[int, Mapping[Any, str]]) -> dict[Any, EvenkeelError]:
        return self._note(dict(wanted), [(broker, key) for broker, paths in wanted.items() for key in paths])

    def change_brokers(self, changes: Sequence[ConfigChange]) -> dict[str, EvenkeelError]:
        return self._note(list(changes), [change.name for change in changes])

    change_topics = change_brokers


def hand(admin: Admin) -> KafkaHand:
    return KafkaHand(admin, lambda: 0.0, lambda: None)  # type: ignore[arg-type]


def test_moves_go_in_one_call_and_changes_of_size_in_another() -> None:
    steps = [Reassign(("t", 0), (3,)), Reassign(("t", 1), None), Reassign(("t", 2), (1, 2), resize=True)]
    admin = Admin(("t", 2))
    assert hand(admin).apply(steps) == [(steps[2], REFUSED)]
    assert admin.asked == [(False, {("t", 0): (3,), ("t", 1): None}), (True, {("t", 2): (1, 2)})]


def test_directories_are_asked_of_all_brokers_at_once() -> None:
    steps = [Place(1, ("t", 0), "/a"), Place(2, ("t", 0), "/b")]
    admin = Admin((2, ("t", 0)))
    assert hand(admin).apply(steps) == [(steps[1], REFUSED)]
    assert admin.asked == [{1: {("t", 0): "/a"}, 2: {("t", 0): "/b"}}]


def test_throttles_become_settings() -> None:
    admin = Admin()
    one = hand(admin)
    one.apply([SetRate(1, LEADER_RATE, 5), SetRate(2, LEADER_RATE, 5)])
    one.apply([DropRate(1, FOLLOWER_RATE)])
    one.apply([AddEntries("t", "leader", ("0:1", "1:2"))])
    one.apply(
        [DropEntries("t", "follower", ("0:3",), whole=False), DropEntries("t", "leader", (), whole=True)]
    )
    assert admin.asked == [
        [ConfigChange(name, LEADER_RATE, ConfigOperation.SET, "5") for name in ("1", "2")],
        [ConfigChange("1", FOLLOWER_RATE, ConfigOperation.DELETE)],
        [ConfigChange("t", LISTS["leader"], ConfigOperation.APPEND, "0:1,1:2")],
        [
            ConfigChange("t", LISTS["follower"], ConfigOperation.SUBTRACT, "0:3"),
            ConfigChange("t", LISTS["leader"], ConfigOperation.DELETE),
        ],
    ]


def test_a_call_without_an_answer_fails_all_its_steps() -> None:
    silent = RetryableError("no answer")
    steps = [SetRate(1, LEADER_RATE, 5), SetRate(2, LEADER_RATE, 5)]
    assert hand(Admin(error=silent)).apply(steps) == [(step, silent) for step in steps]


class Cluster(Admin):
    """Brokers 1 and 2, the latter fenced; without topics."""

    def describe_cluster(self) -> ClusterAnswer:
        rows = [BrokerAnswer(id=one, host="h", port=9092, rack=None, fenced=one == 2) for one in (1, 2)]
        return ClusterAnswer("c", tuple(rows))

    def describe_metadata_version(self) -> int:
        self._note("version", [])
        return 30

    def nothing(self, *_: object) -> dict[Any, Any]:
        return {}

    list_reassignments = describe_topics = describe_topic_configs = describe_lists = nothing

    def ask_log_dirs(self, _: object) -> Asked[Any]:
        return Asked({})

    ask_throttles = ask_log_dirs


@pytest.mark.parametrize(("brokers", "version"), [({1}, None), ({1, 2}, 30)])
def test_the_metadata_version_is_asked_for_where_a_broker_is_away(
    brokers: set[int], version: int | None
) -> None:
    seen = hand(Cluster()).look(Wanted(brokers=frozenset(brokers)))
    assert seen.metadata_version == version


def test_a_look_does_without_a_metadata_version_that_is_not_told() -> None:
    silent = Cluster(error=RetryableError("no answer"))
    assert hand(silent).look(Wanted(brokers=frozenset({2}))).metadata_version is None
