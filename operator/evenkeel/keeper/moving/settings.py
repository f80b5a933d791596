"""What steers a run of moves from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from evenkeel.kafka.answers import TopicPartition

LEAST_BYTES_PER_SECOND = 1_000_000
"""Slower than this a throttle is not halved."""
START_BYTES_PER_SECOND = 10_000_000
"""What `Auto` begins with at least (design section 6)."""
MOST_BYTES_PER_SECOND = 1_000_000_000


class Control(StrEnum):
    """What the user wants of a run."""

    RUN = "Run"
    PAUSE = "Pause"
    """Finish the batch, begin no other until it is Run again."""
    FINISH = "Finish"
    """Finish the batch, then end."""
    CANCEL = "Cancel"
    """Cancel what is under way where that is safe, then end."""


@dataclass(frozen=True, slots=True)
class MoveSettings:
    """Wishes and limits; times are seconds."""

    control: Control = Control.RUN
    bytes_per_second: int | None = None
    """Fixed throttle per broker and direction; None: Auto."""
    max_fill_percent: int = 85
    write_rates: Mapping[TopicPartition, float] = field(default_factory=dict)
    """Bytes per second that producers write to a partition, where known."""
    volumes: Mapping[tuple[int, str], str] = field(default_factory=dict)
    """(broker, log dir path) -> volume, where several directories share one."""
    lost_seconds: float = 30.0
    """A receiving broker may be away so long before its moves are cancelled."""
    settle_seconds: float = 10.0
    """Brokers learn of a change one after the other: what looks odd is believed after so long."""
    stall_seconds: float = 300.0
    """A copy that does not grow for so long is cancelled."""
    patience_seconds: float = 600.0
    """A move that may not begin for so long is given up."""
    quiet_seconds: float = 25.0
    """No new batch for so long after somebody else moved replicas or changed our throttle: with a look and a turn
    more the run goes on within 30 s."""
    pace_seconds: float = 60.0
    """`Auto` doubles after so long without harm."""

    @property
    def overfull_percent(self) -> float:
        """Where a copy under way would fill a volume above this, it is cancelled: halfway from limit to full."""
        return (self.max_fill_percent + 100) / 2
