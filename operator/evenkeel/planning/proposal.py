"""A plan of the planner in the form in which keeper and operator hand it on: what is shown of both is the same."""

from __future__ import annotations

import math

from evenkeel.domain.moves import ProposedPlan, VolumeFill
from evenkeel.planning.moves_plan import MovesPlan


def build_proposal(
    plan: MovesPlan, cluster_id: str | None = None, throttle_bytes_per_second: int | None = None
) -> ProposedPlan:
    """The plan with fills and deviations in thousandths."""
    return ProposedPlan(
        hash=plan.hash,
        reason=plan.reason,
        message=plan.message,
        batches=plan.batches,
        bytes=plan.bytes,
        lower_bound_bytes=plan.lower_bound_bytes,
        seconds=math.ceil(plan.seconds or 0),
        cluster_id=cluster_id,
        throttle_bytes_per_second=throttle_bytes_per_second,
        deviation_before_permille=_permille(plan.deviation_before),
        deviation_after_permille=_permille(plan.deviation_after),
        fills=build_fills(plan),
    )


def build_fills(plan: MovesPlan) -> tuple[VolumeFill, ...]:
    """Every volume before and after, and the highest that it rises to in any batch."""
    peaks: dict[str, float] = {}
    for batch in plan.batches:
        for peak in batch.peaks:
            peaks[peak.volume] = max(peak.fill, peaks.get(peak.volume, 0.0))
    fills = []
    for volume, before in plan.fills_before.items():
        after = plan.fills_after.get(volume, before)
        highest = max(before, after, peaks.get(volume, 0.0))
        fills.append(VolumeFill(volume, round(before * 1000), round(after * 1000), round(highest * 1000)))
    return tuple(fills)


def _permille(fraction: float | None) -> int | None:
    return None if fraction is None else round(fraction * 1000)
