"""What is asked of the moves planner, and what it answers: frozen values that can be shown, stored and run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from evenkeel.domain.exchange import TopicRouting
from evenkeel.domain.moves import Batch, Move
from evenkeel.planning.routing import RoutesPlan
from evenkeel.reasons import Reason

MOST_MOVES = 512
"""A plan has at most so many moves; the next one goes on from there."""
DEADLINE_SECONDS = 86_400
"""Routing may take this long to level the disks before replicas are moved instead."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that was asked for and is not in the plan."""

    subject: str
    """`topic/NAME`, `partition/TOPIC-NUMBER`, `broker/ID` or `volume/NAME`."""
    reason: Reason
    message: str


class Cure(StrEnum):
    """What heals an imbalance."""

    NONE = "None"
    """There is none to heal."""
    ROUTE = "Route"
    MOVE = "Move"


@dataclass(frozen=True, slots=True)
class Choice:
    """Route or move, and the numbers that decided."""

    cure: Cure
    reason: Reason
    message: str
    routing_seconds: int | None
    """Time that routing needs until no volume deviates by more than `leave_percent`; None: it never does."""
    limit_seconds: int | None
    """Time until the first volume reaches `max_fill_percent`; None: not within a year, or inflow is unknown."""
    deadline_seconds: int = DEADLINE_SECONDS


@dataclass(frozen=True, slots=True)
class MovesRequest:
    """What is wanted beside level volumes. The defaults ask for nothing else."""

    routed: Mapping[str, TopicRouting] = field(default_factory=dict)
    """Topics that routing steers. Empty: their inflow is not looked at, and moves begin from what is there now."""
    routes: RoutesPlan | None = None
    """Weights in force; with `routed` the plan starts from where they lead."""
    deadline_seconds: int = DEADLINE_SECONDS
    drain: tuple[int, ...] = ()
    """Brokers to be emptied: those that leave, and lost ones whose replicas are to live elsewhere."""
    drain_only: bool = False
    """Only relieve what is too full (and the brokers of `drain`): what is too empty stays so."""
    replication: Mapping[str, int] = field(default_factory=dict)
    """Topic -> wanted replicas. One replica per partition and plan is added or taken away."""
    continuing: bool = False
    """An earlier plan of the same imbalance has run: go on until within `leave_percent`."""
    throttle_bytes_per_second: int = 10_000_000
    """Per broker and direction, for the time a batch takes (design section 6: `Auto` begins at 10 MB/s)."""
    most_moves: int = MOST_MOVES


@dataclass(frozen=True, slots=True)
class MovesPlan:
    """Fills and deviations are fractions; deviation = max over volumes of |fill / mean fill - 1|.

    Over the volumes that Kafka can level: what moves cannot change (foreign bytes above the mean, directories
    of brokers that are away or to be emptied, racks that are too small) is left out of maximum and mean.
    """

    reason: Reason
    message: str
    hash: str = ""
    """Over snapshot, policy, request and moves; empty where nothing was planned."""
    moves: tuple[Move, ...] = ()
    bytes: int = 0
    lower_bound_bytes: int = 0
    """Less than this no plan can move to the same end."""
    deviation_before: float | None = None
    deviation_after: float | None = None
    peak_fill: float | None = None
    """Highest fill of any volume at any moment, if nothing that is deleted were freed before the end."""
    batches: tuple[Batch, ...] = ()
    seconds: float | None = None
    """Expected time of all batches."""
    fills_before: Mapping[str, float] = field(default_factory=dict)
    """Volume -> fill: now, or at the end of the horizon where the plan starts from the routed end state."""
    fills_after: Mapping[str, float] = field(default_factory=dict)
    choice: Choice | None = None
    """Route or move; None where no routed topics were given."""
    refusals: tuple[Refusal, ...] = ()
