"""A RebalancePlan's spec as the value that tables and pictures are made of."""

from __future__ import annotations

from evenkeel.api.rebalance_plan import PlannedMove, RebalancePlan
from evenkeel.domain.moves import Batch, Move, ProposedPlan, VolumeFill, VolumePeak
from evenkeel.reasons import Reason


def build_proposal(plan: RebalancePlan) -> ProposedPlan:
    """The plan as it was proposed; what a hand-made one does not say is added up."""
    spec = plan.spec
    batches = _build_batches(plan)
    return ProposedPlan(
        hash=spec.plan_hash or plan.metadata.name,
        reason=find_reason(spec.reason),
        message=spec.message,
        batches=batches,
        bytes=sum(batch.bytes for batch in batches) if spec.bytes is None else spec.bytes,
        lower_bound_bytes=spec.lower_bound_bytes or 0,
        seconds=round(sum(batch.seconds for batch in batches)) if spec.seconds is None else spec.seconds,
        cluster_id=spec.kafka_cluster_id,
        throttle_bytes_per_second=spec.throttle_bytes_per_second,
        deviation_before_permille=spec.deviation_before_permille,
        deviation_after_permille=spec.deviation_after_permille,
        fills=tuple(
            VolumeFill(one.volume, one.before_permille, one.after_permille, one.peak_permille)
            for one in spec.fills
        ),
    )


def find_reason(text: str) -> Reason:
    """A reason by its word; one that this program does not know yet counts as a plan of moves."""
    return Reason(text) if text in set(Reason) else Reason.MOVES_PLANNED


def _build_batches(plan: RebalancePlan) -> tuple[Batch, ...]:
    told = {one.number: one for one in plan.spec.batches}
    moves: dict[int, list[Move]] = {}
    for one in plan.spec.moves:
        moves.setdefault(one.batch, []).append(_build_move(one))
    batches = []
    for number in sorted(moves):
        some, expected = tuple(moves[number]), told.get(number)
        copied = sum(move.bytes for move in some)
        peaks = () if expected is None else expected.peaks
        batches.append(
            Batch(
                number=number,
                moves=some,
                seconds=0.0 if expected is None else float(expected.seconds),
                bytes=copied if expected is None else expected.bytes,
                peaks=tuple(VolumePeak(peak.volume, peak.bytes, peak.permille / 1000) for peak in peaks),
            )
        )
    return tuple(batches)


def _build_move(one: PlannedMove) -> Move:
    return Move(
        one.topic, one.partition, one.source, one.target, one.bytes, target_dir=one.target_dir, kind=one.kind
    )
