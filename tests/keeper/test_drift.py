from __future__ import annotations

from collections.abc import Mapping

import pytest

from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Desired, DesiredTopic, Fault, Owner
from evenkeel.domain.snapshot import Broker
from evenkeel.kafka.answers import PartitionAnswer, TopicAnswer
from evenkeel.keeper.drift import FIGHT_SECONDS, STALE_READ_SECONDS, DriftBook
from evenkeel.keeper.topic_actions import Outcome
from evenkeel.keeper.topics import Action, FoundTopics, SetConfig, TopicsPlan, plan_topics
from evenkeel.reasons import Reason

BROKERS = tuple(Broker(number) for number in (1, 2, 3))
HOUR = {"retention.ms": "3600000"}


class Kafka:
    """A topic `t` with settings, the clock, and a keeper's turns on it."""

    def __init__(self, **declared: object) -> None:
        self.now = 1000.0
        self.config: dict[str, str] = {"retention.ms": "3600000"}
        self.topic = DesiredTopic("owner", "t", **{"config": HOUR, **declared})  # type: ignore[arg-type]
        self.book = DriftBook(lambda: self.now)
        self.refused: Mapping[str, str] = {}
        self.lagging = False

    def turn(self, seconds: float = 15.0) -> TopicsPlan:
        """Measure, plan, act."""
        self.now += seconds
        before = dict(self.config)
        desired = Desired(Owner("i", "u", "ns/c"), Connection(("kafka:9092",)), topics=(self.topic,))
        rows = tuple(PartitionAnswer(number, 1, (1, 2), (1, 2)) for number in range(4))
        found = FoundTopics({"t": TopicAnswer("t", "id", False, rows)}, {"t": before}, BROKERS)
        plan = self.book.review(plan_topics(desired, found), desired, found)
        self.book.note(self.act(plan.actions))
        return plan

    def act(self, actions: list[Action]) -> Outcome:
        outcome = Outcome()
        for action in actions:
            assert isinstance(action, SetConfig)
            wrong = {key: self.refused[key] for key in action.config if key in self.refused}
            if wrong:
                why = next(iter(wrong.values()))
                outcome.failed.append((action, Fault(Reason.INVALID_SPEC, why, action.subject)))
                continue
            outcome.applied.append(action)
            if not self.lagging:
                self.config.update(action.config)
        return outcome

    def told(self) -> tuple[str, ...]:
        return self.book.told().get("t", ())


def test_the_words_stay_until_the_newest_change_is_old() -> None:
    kafka = Kafka()
    kafka.turn()
    for number in range(3):
        kafka.config = {"retention.ms": str(number)}
        kafka.turn(100)
        kafka.turn()
    (sentence,) = kafka.told()
    assert "3 times within 10 minutes" in sentence
    said = set()
    while kafka.told():
        said.update(kafka.told())
        kafka.turn(60)
    assert said == {sentence}


def test_a_setting_that_was_never_as_declared_is_set_without_a_word() -> None:
    kafka = Kafka()
    kafka.config = {"retention.ms": "5"}
    assert kafka.turn().actions == [SetConfig("t", HOUR, "topic/t")]
    assert kafka.told() == ()
    assert kafka.turn().actions == []


def test_a_change_by_somebody_else_is_set_back_and_said_for_a_while() -> None:
    kafka = Kafka()
    kafka.turn()
    kafka.config = {"retention.ms": "5"}
    plan = kafka.turn()
    assert plan.actions
    assert not plan.faults
    assert kafka.told() == ("config: retention.ms was changed to 5 by somebody else and set back to 3600000",)
    kafka.turn(FIGHT_SECONDS - 1)
    assert kafka.told()
    kafka.turn(2)
    assert kafka.told() == ()


def test_the_fourth_change_within_ten_minutes_is_left_alone() -> None:
    kafka = Kafka()
    kafka.turn()
    for number in range(3):
        kafka.config = {"retention.ms": str(number)}
        assert kafka.turn().actions
        kafka.turn()
    assert "3 times within 10 minutes" in kafka.told()[0]
    kafka.config = {"retention.ms": "9"}
    for _ in range(3):
        plan = kafka.turn()
        assert plan.actions == []
        (fault,) = plan.faults
        assert (fault.reason, fault.subject) == (Reason.TOPIC_DRIFT, "topic/t")
        assert "retention.ms of topic t is 9, 3600000 is declared" in fault.message
        assert kafka.told() == (fault.message,)


@pytest.mark.parametrize("way", ["yields", "declares"])
def test_a_fight_ends_when_both_agree_or_it_is_declared_anew(way: str) -> None:
    kafka = Kafka()
    kafka.turn()
    for number in range(4):
        kafka.config = {"retention.ms": str(number)}
        kafka.turn()
        kafka.turn()
    assert kafka.turn().faults
    if way == "yields":
        kafka.config = dict(HOUR)
    else:
        kafka.topic = DesiredTopic("owner", "t", config={"retention.ms": "7"})
    plan = kafka.turn()
    assert not plan.faults
    assert bool(plan.actions) == (way == "declares")


def test_slow_changes_are_no_fight() -> None:
    kafka = Kafka()
    kafka.turn()
    for number in range(6):
        kafka.config = {"retention.ms": str(number)}
        assert kafka.turn(FIGHT_SECONDS / 3).actions
        kafka.turn(FIGHT_SECONDS / 3)


def test_an_old_answer_right_after_a_change_is_nobody_elses_doing() -> None:
    kafka = Kafka()
    kafka.config = {"retention.ms": "5"}
    kafka.lagging = True
    assert kafka.turn().actions
    assert kafka.turn(STALE_READ_SECONDS - 1).actions == []
    assert kafka.told() == ()
    assert kafka.turn(2).actions
    assert "changed to 5 by somebody else" in kafka.told()[0]


def test_what_kafka_refuses_is_said_in_its_own_words() -> None:
    kafka = Kafka(config={"retention.ms": "soon"})
    kafka.refused = {"retention.ms": "Kafka refuses: Not a number of type LONG"}
    kafka.turn()
    assert kafka.told() == (
        "config: retention.ms is 3600000, soon is declared: Kafka refuses: Not a number of type LONG",
    )


def test_what_is_due_and_may_not_be_done_is_said() -> None:
    kafka = Kafka()
    kafka.book.review(
        TopicsPlan(), Desired(Owner("i", "u", "n"), Connection(("k:1",))), FoundTopics({}, {}, ())
    )
    kafka.book.refuse([SetConfig("t", HOUR, "topic/t")], "the cluster's spec.state is Paused")
    assert kafka.told() == (
        "config: retention.ms is not set, 3600000 is declared: the cluster's spec.state is Paused",
    )


def test_another_number_of_copies_is_drift_and_says_what_would_help() -> None:
    kafka = Kafka(replication_factor=3)
    kafka.turn()
    (said,) = kafka.told()
    assert "has 2, 3 is asked for; a plan of moves is proposed" in said


def test_guards_of_datasets_are_not_given_up() -> None:
    kafka = Kafka()
    guard = SetConfig("t", {"retention.ms": "-1"}, "dataset/u")
    desired = Desired(Owner("i", "u", "n"), Connection(("k:1",)))
    found = FoundTopics({}, {}, ())
    for _ in range(9):
        assert kafka.book.review(TopicsPlan([guard]), desired, found).actions == [guard]
