"""The routes table of one topic: what the keeper publishes and every router reads from Kafka itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenkeel.errors import InputError
from evenkeel.reasons import Reason

LARGEST = 1 << 62
"""Of times, bytes and epochs in a table: what is above is no measurement, and would break a router's arithmetic."""
WEIGHT_SCALE = 1_000_000
"""Weights travel as integers of a millionth, so that all readers in all languages agree to the digit."""
CAP_SLACK = 1.01
"""Rounding to integers may exceed a bound by this factor, not more."""


@dataclass(frozen=True, slots=True)
class RouteTable:
    """Where new bytes of a topic should go, for a while.

    A table outlives its limits: past them routers mix towards uniform (design section 3).
    """

    topic: str
    owner_epoch: int
    """Epoch of the claim of the keeper that wrote it; a lower one is ignored."""
    epoch: int
    """Counts up with each table of an owner epoch."""
    taken_at_ms: int
    """When the measurement behind it was taken."""
    weights: tuple[int, ...]
    """One per partition 0..P-1, in millionths; sum is WEIGHT_SCALE up to rounding."""
    stop: tuple[int, ...] = ()
    """Partitions of which a replica's volume is above maxFillPercent."""
    budget_bytes: int | None = None
    """What all routers together may write, in bytes as routers count them (values, before compression and
    replication), before some volume passes its predicted level by 1 % of capacity."""
    bytes_per_second: int | None = None
    """What all routers together wrote when the table was made, counted as `budget_bytes`. A router that writes
    a share of it has that share of the budget. None: not known, every router has the whole budget."""
    valid_ms: int = 600_000
    """Time after `taken_at_ms` until which the weights hold as they are."""
    plan_offset: int | None = None
    """Journal offset of the plan of the ingest for which this table was made; producers of it wait for this."""
    schema_version: int = 1

    def check(self, partitions: int) -> None:
        """Refuse a table that cannot be right for a topic with `partitions` partitions.

        Raises:
            InputError: wrong partition set, a weight out of bounds, or a sum that is not one.
        """
        for name in ("owner_epoch", "epoch", "taken_at_ms", "valid_ms", "budget_bytes", "bytes_per_second"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= LARGEST:
                self._refuse(f"{name} = {value!r:.40}, limits 0 and {LARGEST}")
        if len(self.weights) != partitions:
            self._refuse(f"weights has {len(self.weights)} entries, the topic {partitions} partitions")
        used = sum(weight > 0 for weight in self.weights)  # the others are stopped or have no leader
        highest = max(WEIGHT_SCALE * 8 / partitions, WEIGHT_SCALE / max(1, used))
        for partition, weight in enumerate(self.weights):
            if weight < 0 or weight > min(WEIGHT_SCALE, highest) * CAP_SLACK + 1:
                self._refuse(f"weights[{partition}] = {weight}, limits 0 and {math.floor(highest)}")
        if abs(sum(self.weights) - WEIGHT_SCALE) > partitions:
            self._refuse(f"weights sum to {sum(self.weights)}, not {WEIGHT_SCALE}")
        if any(not 0 <= partition < partitions for partition in self.stop):
            self._refuse(f"stop names a partition outside 0..{partitions - 1}")

    def _refuse(self, why: str) -> None:
        raise InputError(f"route table of {self.topic}: {why}", reason=Reason.INVALID_SPEC)
