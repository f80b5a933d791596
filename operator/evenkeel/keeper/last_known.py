"""What brokers said last, for as long as that is better than nothing.

A broker that hangs for a moment must neither stop all planning nor count as empty. Its last answer stands in
for KEPT_INTERVALS intervals; from then on what it would say is unknown. The snapshot names the age of what it
holds, and the faults name the broker from the first missing answer on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from evenkeel.errors import EvenkeelError
from evenkeel.kafka.answers import DirAnswer, OffsetSpan, ReassignmentAnswer, TopicPartition
from evenkeel.keeper.measurement import Measurement

T = TypeVar("T")
KEPT_INTERVALS = 3
"""As long as a whole measurement counts as young (design section 2, BalancedCluster)."""
Dirs = tuple[DirAnswer, ...]
Spans = Mapping[TopicPartition, OffsetSpan]
Configs = Mapping[str, Mapping[str, str] | None]
Moving = Mapping[TopicPartition, ReassignmentAnswer]


@dataclass(slots=True)
class _Memory(Generic[T]):
    """Answers and when they came (ms), by whom was asked."""

    said: dict[int, tuple[int, T]] = field(default_factory=dict)

    def note(self, answers: Mapping[int, T | EvenkeelError], now: int) -> None:
        for broker, answer in answers.items():
            if not isinstance(answer, EvenkeelError):
                self.said[broker] = now, answer

    def recall(self, missing: set[int], now: int, longest: float) -> dict[int, tuple[int, T]]:
        """Of those whose answer is missing: what they said within `longest` ms.

        A clock that was set back makes answers of the future, whose age nobody knows: they do not count.
        """
        known = missing & self.said.keys()
        return {broker: self.said[broker] for broker in known if 0 <= now - self.said[broker][0] <= longest}


@dataclass(slots=True)
class LastKnown:
    """Last answers of each broker of one cluster."""

    _dirs: _Memory[Dirs] = field(default_factory=_Memory)
    _offsets: _Memory[Spans] = field(default_factory=_Memory)
    _configs: _Memory[Configs] = field(default_factory=_Memory)
    _moving: _Memory[Moving] = field(default_factory=_Memory)
    _kept_from: Mapping[TopicPartition, int | None] = field(default_factory=dict)

    def complete(self, measurement: Measurement, interval_seconds: float) -> Measurement:
        """Remember a measurement's answers, and put the last ones where some are missing.

        Args:
            measurement: as gathered; `kept_dirs` and `kept_offsets` of the result name what was put in.
            interval_seconds: between measurements.
        """
        now, longest = measurement.taken_at_ms, KEPT_INTERVALS * interval_seconds * 1000
        brokers = {broker.id for broker in measurement.cluster.brokers}
        self._note(measurement, brokers)
        answered = {broker for broker, found in measurement.dirs.items() if isinstance(found, tuple)}
        dirs = self._dirs.recall(brokers - answered, now, longest)
        silent = {key for key, found in measurement.offsets.items() if isinstance(found, EvenkeelError)}
        spans = _still_led(self._offsets.recall(silent, now, longest), measurement)
        found = replace(
            measurement,
            dirs={**measurement.dirs, **{broker: answer for broker, (_, answer) in dirs.items()}},
            offsets={**measurement.offsets, **{leader: answer for leader, (_, answer) in spans.items()}},
            configs=self._complete_configs(measurement.configs, now, longest),
            reassignments=self._complete_moving(measurement.reassignments, now, longest),
            kept_from=self._complete_expiry(measurement.kept_from, [answer for _, answer in spans.values()]),
            kept_dirs={broker: at for broker, (at, _) in dirs.items()},
            kept_offsets={leader: at for leader, (at, _) in spans.items()},
        )
        self._kept_from = found.kept_from
        return found

    def _note(self, measurement: Measurement, brokers: set[int]) -> None:
        now = measurement.taken_at_ms
        self._dirs.note(measurement.dirs, now)
        self._offsets.note(measurement.offsets, now)
        self._moving.note({0: measurement.reassignments}, now)
        if not _is_hidden(measurement.configs):
            self._configs.note({0: measurement.configs}, now)
        for memory in (self._dirs.said, self._offsets.said):
            for broker in memory.keys() - brokers:
                del memory[broker]

    def _complete_configs(self, configs: Configs, now: int, longest: float) -> Configs:
        if not _is_hidden(configs):
            return configs
        recalled = self._configs.recall({0}, now, longest)
        return {name: recalled[0][1].get(name) for name in configs} if recalled else configs

    def _complete_moving(
        self, moving: Moving | EvenkeelError, now: int, longest: float
    ) -> Moving | EvenkeelError:
        if not isinstance(moving, EvenkeelError):
            return moving
        recalled = self._moving.recall({0}, now, longest)
        return recalled[0][1] if recalled else moving

    def _complete_expiry(
        self, kept_from: Mapping[TopicPartition, int | None], spans: list[Spans]
    ) -> Mapping[TopicPartition, int | None]:
        if not spans:
            return kept_from
        recalled = {key: self._kept_from[key] for answer in spans for key in answer if key in self._kept_from}
        return {**recalled, **kept_from}


def _still_led(
    recalled: Mapping[int, tuple[int, Spans]], measurement: Measurement
) -> dict[int, tuple[int, Spans]]:
    """Without partitions that another broker leads by now: that one has told newer offsets."""
    if not recalled:
        return {}
    leaders = {
        (name, entry.partition): entry.leader
        for name, topic in measurement.topics.items()
        for entry in topic.partitions
    }
    return {
        leader: (at, {key: span for key, span in answer.items() if leaders.get(key) == leader})
        for leader, (at, answer) in recalled.items()
    }


def _is_hidden(configs: Configs) -> bool:
    """Whether no topic's settings were told: the one request that asks for all of them failed."""
    return bool(configs) and all(config is None for config in configs.values())
