"""Which partitions have a leader, asked for as seldom as will do.

A thousand producers in a cluster of a thousand tables: each writes to few topics, and asks for those only.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException

if TYPE_CHECKING:
    from confluent_kafka.admin import ClusterMetadata

LEADERS_SECONDS = 5.0
CALL_TIMEOUT = 5.0
NAMED_QUESTIONS = 10
"""How many topics are asked for by name within LEADERS_SECONDS; where it would be more, one question is for all."""
NONE_LED = (False,)
"""Of a topic that is not there, or not known yet: whether a partition exists would be a guess."""
_NEVER = float("-inf")
_GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001 - its public name


class Leaders:
    """What the brokers said last, by topic; belongs to the routing thread."""

    def __init__(
        self,
        wants: Callable[[str], bool],
        note: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wants`: whether a topic is of interest at all; `note` is told what failed; `clock` in seconds."""
        self.known: dict[str, tuple[bool, ...]] = {}
        """By partition, whether it has a leader."""
        self._wants, self._note, self._clock = wants, note, clock
        self._asked: dict[str, float] = {}
        self._compared: dict[str, float] = {}
        self._all_asked = _NEVER
        self._named: deque[float] = deque(maxlen=NAMED_QUESTIONS)
        self._silent_until = _NEVER

    def meet(self, consumer: Consumer, topic: str) -> None:
        """Ask once for a topic whose first table has come; after that only those that are written to matter."""
        if topic in self.known or topic in self._asked:
            return
        self.ask(consumer, (topic,))
        if self._clock() >= self._silent_until:
            self._asked.setdefault(topic, self._all_asked)

    def ask(self, consumer: Consumer, topics: Sequence[str]) -> bool:
        """Ask for those that were not asked for within LEADERS_SECONDS; whether there was an answer."""
        now = self._clock()
        due = [topic for topic in topics if now - self._last_asked(topic) >= LEADERS_SECONDS]
        if not due:
            return False
        recent = sum(now - asked < LEADERS_SECONDS for asked in self._named)
        if recent + len(due) > NAMED_QUESTIONS:
            return self._ask_all(consumer)
        return all(self._ask_for(consumer, topic) for topic in due)

    def grew(self, consumer: Consumer, topic: str) -> bool:
        """Whether the topic has other partitions than we knew; asks at most once within LEADERS_SECONDS."""
        known, now = self.known.get(topic), self._clock()
        if known is None or now - self._compared.get(topic, _NEVER) < LEADERS_SECONDS:
            return False
        self._compared[topic] = now
        self._ask_for(consumer, topic)
        found = self.known.get(topic)
        return found is not None and len(found) != len(known)

    def _last_asked(self, topic: str) -> float:
        return max(self._asked.get(topic, _NEVER), self._all_asked)

    def _ask_for(self, consumer: Consumer, topic: str) -> bool:
        answer = self._question(lambda: consumer.list_topics(topic, timeout=CALL_TIMEOUT))
        if answer is None:
            return False
        self._asked[topic] = self._clock()
        self._named.append(self._asked[topic])
        return True

    def _ask_all(self, consumer: Consumer) -> bool:
        answer = self._question(lambda: consumer.list_topics(timeout=CALL_TIMEOUT))
        if answer is None:
            return False
        self._all_asked = self._clock()
        for topic in self.known.keys() - answer.topics.keys():
            del self.known[topic]
        return True

    def _question(self, ask: Callable[[], ClusterMetadata]) -> ClusterMetadata | None:
        """The answer; after one that did not come nothing is asked for a while, since each would wait anew."""
        if self._clock() < self._silent_until:
            return None
        try:
            answer = ask()
        except KafkaException as error:
            self._note(f"asking for leaders: {error}")
            self._silent_until = self._clock() + LEADERS_SECONDS
            return None
        for name, topic in answer.topics.items():
            if topic.error is not None and topic.error.code() in _GONE:
                # A record for a partition that a topic made anew lacks would fail in its delivery report.
                self.known.pop(name, None)
            if topic.error is None and topic.partitions and self._wants(name):
                self.known[name] = tuple(topic.partitions[p].leader >= 0 for p in sorted(topic.partitions))
        return answer
