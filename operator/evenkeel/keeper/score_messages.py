"""What the keeper and the process of a score say to each other: one JSON object per line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.planning.scores.protocol import Costs
from evenkeel.reasons import Reason

MESSAGE_LIMIT = 300
"""Longest message of a score, in characters: it ends up in a status."""


@dataclass(frozen=True, slots=True)
class ScoreCall:
    """One topic to score. What a topic must not know of another is nothing: they share the snapshot."""

    topic: str
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """All topics of one cycle that use the score."""

    sequence: int
    calls: tuple[ScoreCall, ...]
    snapshot: ClusterSnapshot


@dataclass(frozen=True, slots=True)
class ScoreAnswer:
    """Costs of one topic, or why there are none."""

    topic: str
    costs: Costs | None = None
    reason: Reason = Reason.ROUTED
    message: str = ""


@dataclass(frozen=True, slots=True)
class ScoreReply:
    """The answer to a request. The first of a process has sequence 0 and no answers: it has loaded the score."""

    sequence: int
    answers: tuple[ScoreAnswer, ...] = ()
    failure: str = ""
    """Why the score could not be loaded; the process ends."""


def shorten(text: str) -> str:
    """The first line of a message, cut where it is too long for a status."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= MESSAGE_LIMIT else line[: MESSAGE_LIMIT - 1] + "…"
