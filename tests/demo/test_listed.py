from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from e2e.kafka import deploy
from scripts.provision.steps import StepFailed

ABSENT = KafkaException(KafkaError(KafkaError._TRANSPORT))
Answers = dict[str, list[set[int] | KafkaException]]


def wait(answers: Answers) -> float:
    """Seconds until each address has said all; the last answer of each stands for ever."""
    clock = [0.0]

    def ask(address: str) -> set[int]:
        left = answers[address]
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, KafkaException):
            raise found
        return found

    def pause(seconds: float) -> None:
        clock[0] += seconds

    deploy.wait_listed(list(answers), {1, 2}, ask, lambda: clock[0], pause)
    return clock[0]


def test_brokers_that_know_each_other_are_not_waited_for() -> None:
    assert wait({"a": [{1, 2}], "b": [{1, 2}]}) == 0


def test_each_broker_is_waited_for_and_not_the_first_alone() -> None:
    pauses = wait({"a": [{1, 2}], "b": [ABSENT, {2}, {1, 2}]})
    assert pauses == pytest.approx(2 * deploy.POLL_SECONDS)


@pytest.mark.parametrize(("answer", "words"), [(ABSENT, "b does not answer"), ({2}, r"b lists \[2\]")])
def test_a_broker_that_stays_away_is_named(answer: set[int] | KafkaException, words: str) -> None:
    with pytest.raises(StepFailed, match=words):
        wait({"a": [{1, 2}], "b": [answer]})
