"""Where topics differ from what is declared, who made them differ, and when setting back becomes a fight.

Without this two writers that both keep a setting would change it for ever, and nobody would know why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evenkeel.domain.exchange import Desired
from evenkeel.keeper.topic_actions import Outcome
from evenkeel.keeper.topics import (
    Action,
    FoundTopics,
    GrowTopic,
    SetConfig,
    TopicsPlan,
    is_same,
)
from evenkeel.reasons import Reason

FIGHT_SECONDS = 600.0
FIGHT_CHANGES = 3
"""How often a setting is set back within FIGHT_SECONDS; the next change by somebody else is left as it is."""
STALE_READ_SECONDS = 5.0
"""For so long after a change of ours a broker may still answer what was before."""
SHOWN = 16
"""Sentences per topic."""
SENTENCE_LIMIT = 512
_SHAPE = frozenset({Reason.PARTITIONS_LOWERED, Reason.REPLICATION_DIFFERS, Reason.RETENTION_UNSAFE})
Key = tuple[str, str]
"""Topic and name of the setting."""


@dataclass(slots=True)
class _Setting:
    """What is known of one declared setting."""

    wanted: str
    agreed: bool = False
    """It was seen as declared since we last set it."""
    set_at: float | None = None
    replaced: str | None = None
    """The value that we last set back."""
    changes: list[float] = field(default_factory=list)
    """When somebody else changed it."""
    found: str | None = None
    """What somebody else last set."""
    fought: bool = False

    def is_foreign(self, value: str | None, now: float) -> bool:
        """Whether a value that differs was set by somebody else, and not merely never set by us."""
        if self.agreed:
            return True
        return self.set_at is not None and (value != self.replaced or now - self.set_at > STALE_READ_SECONDS)


class DriftBook:
    """Remembers settings over turns. Used by one thread.

    Args:
        monotonic: seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._settings: dict[Key, _Setting] = {}
        self._open: dict[str, tuple[str, ...]] = {}
        self._configs: Mapping[str, Mapping[str, str] | None] = {}

    def review(self, plan: TopicsPlan, desired: Desired, found: FoundTopics) -> TopicsPlan:
        """The plan without what would go on with a fight, and with faults that say so."""
        now = self._monotonic()
        self._configs = found.configs
        due = {action.name: action.config for action in _settings(plan.actions)}
        self._observe(desired, found, due, now)
        reviewed = TopicsPlan(faults=list(plan.faults))
        for action in plan.actions:
            if not isinstance(action, SetConfig) or not _is_declared(action):
                reviewed.actions.append(action)
            elif (kept := self._without_fights(action, reviewed)) is not None:
                reviewed.actions.append(kept)
        self._open = _by_topic(
            (fault.subject, fault.message)
            for fault in reviewed.faults
            if fault.reason in _SHAPE | {Reason.TOPIC_DRIFT}
        )
        return reviewed

    def refuse(self, actions: Iterable[Action], why: str) -> None:
        """Say of actions that are due that they are not done."""
        self._tell((action, why) for action in actions)

    def note(self, outcome: Outcome) -> None:
        """Take in what was done and what failed."""
        now = self._monotonic()
        for action in _settings(outcome.applied):
            for key, value in action.config.items():
                entry = self._settings.setdefault((action.name, key), _Setting(value))
                entry.set_at, entry.agreed = now, False
                entry.replaced = (self._configs.get(action.name) or {}).get(key)
        self._tell((action, fault.message) for action, fault in outcome.failed)

    def told(self) -> dict[str, tuple[str, ...]]:
        """Sentences by topic: what differs, then what was set back within FIGHT_SECONDS."""
        oldest = self._monotonic() - FIGHT_SECONDS
        mended = _by_topic(
            (f"topic/{topic}", _mended(name, entry))
            for (topic, name), entry in sorted(self._settings.items())
            if not entry.fought and _recent(entry, oldest) and (entry.agreed or entry.set_at is not None)
        )
        names = dict.fromkeys([*self._open, *mended])
        return {name: (*self._open.get(name, ()), *mended.get(name, ()))[:SHOWN] for name in names}

    def _observe(
        self, desired: Desired, found: FoundTopics, due: Mapping[str, Mapping[str, str]], now: float
    ) -> None:
        declared = {
            (topic.name, key): value for topic in desired.topics for key, value in topic.config.items()
        }
        self._settings = {key: entry for key, entry in self._settings.items() if key in declared}
        for key, wanted in declared.items():
            topic, name = key
            config = found.configs.get(topic)
            if config is None or topic not in found.topics:
                continue
            entry = self._settings.get(key)
            if entry is None or entry.wanted != wanted:
                # Declared anew: whoever set something else before did not fight against this.
                entry = self._settings[key] = _Setting(wanted)
            if is_same(config.get(name), wanted):
                entry.agreed, entry.fought, entry.set_at = True, False, None
            elif name in due.get(topic, {}) and entry.is_foreign(config.get(name), now):
                _count(entry, config.get(name), now)

    def _without_fights(self, action: SetConfig, reviewed: TopicsPlan) -> SetConfig | None:
        now = self._monotonic()
        kept = {}
        for name, value in sorted(action.config.items()):
            entry = self._settings[action.name, name]
            if entry.fought:
                text = _fought(action.name, name, entry)
                reviewed.say(Reason.TOPIC_DRIFT, text, action.subject)
            elif entry.set_at is None or now - entry.set_at > STALE_READ_SECONDS:
                kept[name] = value
        return replace(action, config=kept) if kept else None

    def _tell(self, undone: Iterable[tuple[Action, str]]) -> None:
        said = _by_topic(
            (action.subject, sentence)
            for action, why in undone
            for sentence in self._differences(action, why)
        )
        for topic, sentences in said.items():
            self._open[topic] = tuple(dict.fromkeys([*self._open.get(topic, ()), *sentences]))[:SHOWN]

    def _differences(self, action: Action, why: str) -> Iterable[str]:
        if isinstance(action, SetConfig):
            config = self._configs.get(action.name) or {}
            for name, value in sorted(action.config.items()):
                held = f"is {config[name]}" if name in config else "is not set"
                yield f"config: {name} {held}, {value} is declared: {why}"
        elif isinstance(action, GrowTopic):
            yield f"partitions: {action.count} are declared: {why}"


def _count(entry: _Setting, value: str | None, now: float) -> None:
    entry.changes = [*_recent(entry, now - FIGHT_SECONDS), now]
    entry.found, entry.agreed, entry.set_at = value, False, None
    entry.fought = len(entry.changes) > FIGHT_CHANGES


def _recent(entry: _Setting, oldest: float) -> list[float]:
    return [at for at in entry.changes if at > oldest]


def _mended(name: str, entry: _Setting) -> str:
    """Counted back from the newest change, not from now: the words would change while nothing happens."""
    times = len(entry.changes)
    often = f" ({times} times within {FIGHT_SECONDS / 60:.0f} minutes)" if times > 1 else ""
    held = "taken away" if entry.found is None else f"changed to {entry.found}"
    return f"config: {name} was {held} by somebody else and set back to {entry.wanted}{often}"


def _fought(topic: str, name: str, entry: _Setting) -> str:
    return (
        f"config: {name} of topic {topic} is {entry.found}, {entry.wanted} is declared: somebody else changed it "
        f"{len(entry.changes)} times within {FIGHT_SECONDS / 60:.0f} minutes, so it is left as it is until it is "
        "as declared or declared otherwise"
    )


def _is_declared(action: SetConfig) -> bool:
    """Settings of datasets' topics are kept in any case: records would vanish."""
    return action.subject.startswith("topic/")


def _settings(actions: Sequence[Action]) -> list[SetConfig]:
    return [one for one in actions if isinstance(one, SetConfig) and _is_declared(one)]


def _by_topic(said: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """(subject, sentence) -> topic -> its sentences; other subjects are left out."""
    found: dict[str, list[str]] = {}
    for subject, sentence in said:
        if subject.startswith("topic/"):
            found.setdefault(subject.removeprefix("topic/"), []).append(sentence[:SENTENCE_LIMIT])
    return {topic: tuple(dict.fromkeys(sentences)) for topic, sentences in found.items()}
