"""What a score is: a pure function from a snapshot to costs.

A cost has no unit of its own: k = 5 weighs as much as 1 % of fill at the usual sharpness (beta 500), and
costs that are equal everywhere change nothing. Several scores of a topic add up by their weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from evenkeel.domain.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Costs:
    """What one score says of one topic. A mapping that is empty says nothing; one that is not must be complete."""

    leader: Mapping[int, float] = field(default_factory=dict)
    """broker -> cost of a partition that it leads."""
    follower: Mapping[int, float] = field(default_factory=dict)
    """broker -> cost of a partition of which it holds a replica that does not lead."""
    partition: Mapping[int, float] = field(default_factory=dict)
    """partition -> its own cost."""


class ScoreFunction(Protocol):
    """A score. Must be pure: equal arguments give equal costs; no clock, no randomness, no input or output."""

    def __call__(self, snapshot: ClusterSnapshot, topic: str, parameters: Mapping[str, str], /) -> Costs:
        """Costs of the topic's partitions.

        Raises:
            InputError: a parameter is unknown or out of bounds (names parameter, value and limit).
        """
        ...
