"""When replicas move between disks, and how fast: `spec.balance` of a BalancedCluster."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from evenkeel.api.fields import BrokerId, Quantity, TopicName, between, listing, quantity_bytes, rule, rules
from evenkeel.api.meta import Base
from evenkeel.domain.exchange import BalanceMode

THROTTLE_LEAST = "100k"
"""Slower copies would take longer than anybody waits."""
THROTTLE_MOST = "100G"


class ThrottleMode(StrEnum):
    """Who chooses how fast replicas are copied."""

    AUTO = "Auto"
    FIXED = "Fixed"


class Throttle(Base):
    """How fast replicas are copied, per broker and direction (KIP-73)."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "(self.mode == 'Fixed') == has(self.bytesPerSecond)",
                "bytesPerSecond must be set when mode is Fixed, and only then",
                fieldPath=".bytesPerSecond",
            )
        )
    )

    mode: ThrottleMode = ThrottleMode.AUTO
    """Auto: begins at 10 MB/s, doubles each minute while writes stay quick and replicas in sync, halves when not.
    Fixed: bytesPerSecond."""
    bytes_per_second: (
        Annotated[
            Quantity, Field(json_schema_extra=rules(between("bytesPerSecond", THROTTLE_LEAST, THROTTLE_MOST)))
        ]
        | None
    ) = None
    """Limit as a quantity such as `50M`, when mode is Fixed; between 100k and 100G."""

    def fixed(self) -> int | None:
        """Bytes per second; None: Auto."""
        return None if self.bytes_per_second is None else quantity_bytes(self.bytes_per_second)


class Balance(Base):
    """When replicas should move between disks."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.leavePercent < self.enterPercent",
                "leavePercent must be below enterPercent",
                fieldPath=".leavePercent",
            )
        )
    )

    mode: BalanceMode = BalanceMode.PROPOSE
    """Disabled: nothing is planned, and nothing moves. Propose: a plan becomes a RebalancePlan that waits for approval.
    Automatic: such a plan is approved at once."""
    enter_percent: Annotated[int, Field(ge=1, le=100)] = 10
    """Moves are planned once some volume's fill differs from the mean by more than this, in percent of the mean."""
    leave_percent: Annotated[int, Field(ge=0, le=99)] = 3
    """Moves are planned down to this difference, in percent of the mean."""
    max_fill_percent: Annotated[int, Field(ge=10, le=99)] = 85
    """Fill, in percent of a volume's capacity, above which routers stop writing to it and no move may bring it."""
    exclude_topics: Annotated[tuple[TopicName, ...], listing("set", most=256)] = ()
    """Topics, by their exact names, whose replicas never move; internal topics never do."""
    move_budget_bytes: Quantity | None = None
    """Most bytes that one plan may move, as a quantity such as `50Gi`; default: no limit."""
    throttle: Throttle = Throttle()
    """How fast replicas are copied; a plan keeps what was set when it was proposed."""
    drain_brokers: Annotated[tuple[BrokerId, ...], listing("set", most=128)] = ()
    """Ids of brokers to be emptied: brokers that leave, and lost ones whose replicas are to live elsewhere."""
