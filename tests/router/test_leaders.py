"""Which partitions have a leader: who is asked for, and how often."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from evenkeel.router.leaders import LEADERS_SECONDS, NAMED_QUESTIONS, Leaders

ALL = "all of them"


class Brokers:
    """A consumer that knows topics of some partitions, and a clock."""

    def __init__(self, *topics: str, partitions: int = 2) -> None:
        self.topics = dict.fromkeys(topics, partitions)
        self.leader = 1
        self.questions: list[str] = []
        self.silent = False
        self.now = 1000.0
        self.problems: list[str] = []
        self.leaders = Leaders(lambda _: True, self.problems.append, lambda: self.now)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        del timeout
        self.questions.append(topic or ALL)
        if self.silent:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        names = list(self.topics) if topic is None else [topic]
        return SimpleNamespace(topics={name: self._describe(name) for name in names})

    def _describe(self, name: str) -> SimpleNamespace:
        if name not in self.topics:
            return SimpleNamespace(error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), partitions={})
        found = {number: SimpleNamespace(leader=self.leader) for number in range(self.topics[name])}
        return SimpleNamespace(error=None, partitions=found)

    def asked(self) -> list[str]:
        """Since the last call."""
        found, self.questions = self.questions, []
        return found

    def meet(self, *topics: str) -> None:
        for topic in topics:
            self.leaders.meet(self, topic)  # type: ignore[arg-type]

    def ask(self, *topics: str) -> bool:
        return self.leaders.ask(self, topics)  # type: ignore[arg-type]


def names(count: int) -> list[str]:
    return [f"t{number}" for number in range(count)]


def test_few_topics_are_asked_for_by_name_now_and_then() -> None:
    brokers = Brokers("a", "b")
    assert brokers.ask("a", "b")
    assert brokers.leaders.known == {"a": (True, True), "b": (True, True)}
    assert not brokers.ask("a", "b")
    assert brokers.asked() == ["a", "b"]
    brokers.now += LEADERS_SECONDS
    brokers.leader = -1
    assert brokers.ask("a", "b")
    assert brokers.leaders.known["a"] == (False, False)


def test_many_topics_are_one_question() -> None:
    brokers = Brokers(*names(500))
    assert brokers.ask(*names(500))
    assert brokers.asked() == [ALL]
    assert len(brokers.leaders.known) == 500
    assert not brokers.ask(*names(500))


def test_many_topics_at_many_times_are_one_question_too() -> None:
    brokers = Brokers(*names(100))
    for count in range(1, 101):
        brokers.now += LEADERS_SECONDS / 100
        brokers.ask(*names(count))
    assert len(brokers.asked()) == NAMED_QUESTIONS + 1


def test_many_new_tables_do_not_cost_a_question_each() -> None:
    brokers = Brokers(*names(500))
    brokers.meet(*names(500))
    assert brokers.asked() == [*names(NAMED_QUESTIONS), ALL]
    assert len(brokers.leaders.known) == 500


def test_a_topic_that_nobody_may_see_is_asked_for_once() -> None:
    brokers = Brokers()
    for _ in range(3):
        brokers.meet(*names(100))
        brokers.now += 10 * LEADERS_SECONDS
    assert len(brokers.asked()) == NAMED_QUESTIONS + 1


def test_a_topic_that_is_written_to_after_a_while_is_asked_for_at_once() -> None:
    brokers = Brokers("a")
    brokers.meet("a")
    brokers.now += 1000
    brokers.asked()
    assert brokers.ask("a")
    assert brokers.asked() == ["a"]


def test_a_round_ends_with_the_first_question_without_an_answer() -> None:
    brokers = Brokers("a", "b", "c")
    brokers.silent = True
    assert not brokers.ask("a", "b", "c")
    brokers.meet("a", "b", "c")
    assert brokers.asked() == ["a"]
    assert len(brokers.problems) == 1
    brokers.now += LEADERS_SECONDS
    brokers.silent = False
    brokers.meet("a")
    assert brokers.ask("a", "b", "c")
    assert brokers.asked() == ["a", "b", "c"]


@pytest.mark.parametrize("others", [0, 100])
def test_a_topic_that_is_gone_is_forgotten(others: int) -> None:
    brokers = Brokers("gone", *names(others))
    brokers.ask("gone", *names(others))
    del brokers.topics["gone"]
    brokers.now += LEADERS_SECONDS
    brokers.ask("gone", *names(others))
    assert set(brokers.leaders.known) == set(names(others))


def test_whether_a_topic_grew_is_asked_now_and_then() -> None:
    brokers = Brokers("a")
    assert not brokers.leaders.grew(brokers, "a")  # type: ignore[arg-type]
    brokers.ask("a")
    assert not brokers.leaders.grew(brokers, "a")  # type: ignore[arg-type]
    brokers.topics["a"] = 4
    assert not brokers.leaders.grew(brokers, "a")  # type: ignore[arg-type]
    brokers.now += LEADERS_SECONDS
    assert brokers.leaders.grew(brokers, "a")  # type: ignore[arg-type]
    assert brokers.asked() == ["a"] * 3
