"""Calls that a decision asks for. All of them may be done twice without harm."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.kafka.answers import TopicPartition


@dataclass(frozen=True, slots=True)
class SetRate:
    """Set a throttle of a broker."""

    broker: int
    key: str
    value: int


@dataclass(frozen=True, slots=True)
class DropRate:
    """Remove a throttle of a broker."""

    broker: int
    key: str


@dataclass(frozen=True, slots=True)
class AddEntries:
    """Add throttled replicas to a topic's list."""

    topic: str
    role: str
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropEntries:
    """Take throttled replicas out of a topic's list."""

    topic: str
    role: str
    entries: tuple[str, ...]
    whole: bool
    """Nothing else is in the list: remove the setting itself."""


@dataclass(frozen=True, slots=True)
class Reassign:
    """Give a partition these replicas; None takes back what is under way."""

    key: TopicPartition
    replicas: tuple[int, ...] | None
    resize: bool = False
    """Their number changes."""


@dataclass(frozen=True, slots=True)
class Place:
    """Put a replica into a log directory of its broker, or say where it is to be made."""

    broker: int
    key: TopicPartition
    path: str


Step = SetRate | DropRate | AddEntries | DropEntries | Reassign | Place
