"""A plan of moves as the keeper thinks of it <-> as the spec of a RebalancePlan. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import ValidationError

from evenkeel.api.meta import LocalRef, camel, clip
from evenkeel.api.rebalance_plan import (
    FILLS_LIMIT,
    PEAKS_LIMIT,
    PlannedBatch,
    PlannedFill,
    PlannedMove,
    PlannedPeak,
    RebalancePlanSpec,
)
from evenkeel.domain.moves import Approval, Batch, Move, MoveKind, ProposedPlan, VolumeFill, VolumePeak
from evenkeel.errors import InputError
from evenkeel.names import INTERNAL_PREFIX, is_dataset_topic
from evenkeel.reasons import Reason

PEAKS_IN_ALL = 512
"""Peaks that a plan keeps: with all volumes of all batches it would not fit into etcd."""


def build_spec(
    proposal: ProposedPlan, cluster: str, expires: datetime, approval: Approval = Approval.PENDING
) -> RebalancePlanSpec:
    """The spec of a proposed plan.

    Args:
        proposal: what the keeper proposes.
        cluster: name of the BalancedCluster.
        expires: when it is too late to decide.
        approval: Approved where the operator decides.

    Raises:
        InputError: a value does not fit into a RebalancePlan; names the field.
    """
    each = min(PEAKS_LIMIT, max(1, PEAKS_IN_ALL // max(1, len(proposal.batches))))
    try:
        return RebalancePlanSpec(
            cluster_ref=LocalRef(name=cluster),
            approval=approval,
            plan_hash=proposal.hash,
            kafka_cluster_id=proposal.cluster_id,
            expiration_time=expires,
            reason=proposal.reason.value,
            message=clip(proposal.message),
            bytes=proposal.bytes,
            lower_bound_bytes=proposal.lower_bound_bytes,
            seconds=proposal.seconds,
            throttle_bytes_per_second=proposal.throttle_bytes_per_second,
            deviation_before_permille=proposal.deviation_before_permille,
            deviation_after_permille=proposal.deviation_after_permille,
            moves=tuple(
                _show_move(number, move)
                for number, batch in enumerate(proposal.batches)
                for move in batch.moves
            ),
            batches=tuple(_show_batch(number, batch, each) for number, batch in enumerate(proposal.batches)),
            fills=tuple(_show_fill(fill) for fill in _choose_fills(proposal.fills)),
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(camel(str(part)) for part in first["loc"])
        raise InputError(f"proposed plan: {where}: {first['msg']}", reason=Reason.INVALID_SPEC) from error


def _show_move(batch: int, move: Move) -> PlannedMove:
    return PlannedMove(
        batch=batch,
        topic=move.topic,
        partition=move.partition,
        kind=move.kind,
        source=move.source,
        target=move.target,
        bytes=move.bytes,
        target_dir=move.target_dir,
        copied_to=move.copied_to,
        copied_from=move.copied_from,
        freed_on=move.freed_on,
        freed_dir=move.freed_dir,
        freed_bytes=move.freed_bytes,
        freed_after_seconds=math.ceil(move.freed_after_ms / 1000),
        topic_id=move.topic_id,
    )


def _show_batch(number: int, batch: Batch, most: int) -> PlannedBatch:
    fullest = sorted(batch.peaks, key=lambda peak: (-peak.fill, peak.volume))[:most]
    return PlannedBatch(
        number=number,
        seconds=math.ceil(batch.seconds),
        bytes=batch.bytes,
        peaks=tuple(
            PlannedPeak(volume=peak.volume, bytes=peak.bytes, permille=round(peak.fill * 1000))
            for peak in fullest
        ),
    )


def _choose_fills(fills: Sequence[VolumeFill]) -> Sequence[VolumeFill]:
    """Those that become fullest, where there are too many."""
    if len(fills) <= FILLS_LIMIT:
        return fills
    kept = sorted(fills, key=lambda fill: -max(fill.peak_permille, fill.before_permille))[:FILLS_LIMIT]
    return sorted(kept, key=lambda fill: fill.volume)


def _show_fill(fill: VolumeFill) -> PlannedFill:
    return PlannedFill(
        volume=fill.volume,
        before_permille=fill.before_permille,
        after_permille=fill.after_permille,
        peak_permille=fill.peak_permille,
    )


def read_batches(spec: RebalancePlanSpec) -> tuple[Batch, ...]:
    """Batches in their order, whoever wrote the plan.

    Raises:
        InputError: a move is none; names the field and the value.
    """
    _refuse_twice(spec.moves)
    by_batch: dict[int, list[Move]] = defaultdict(list)
    for number, move in enumerate(spec.moves):
        by_batch[move.batch].append(_read_move(f"spec.moves[{number}]", move))
    known = {batch.number: batch for batch in spec.batches}
    return tuple(
        _read_batch(number, tuple(by_batch[place]), known.get(place))
        for number, place in enumerate(sorted(by_batch))
    )


def _read_batch(number: int, moves: tuple[Move, ...], told: PlannedBatch | None) -> Batch:
    copied = sum(move.bytes for move in moves)
    if told is None:
        return Batch(number, moves, seconds=0.0, bytes=copied)
    peaks = tuple(VolumePeak(peak.volume, peak.bytes, peak.permille / 1000) for peak in told.peaks)
    return Batch(number, moves, float(told.seconds), copied, peaks)


def _read_move(where: str, move: PlannedMove) -> Move:
    plain = Move(
        topic=move.topic,
        partition=move.partition,
        source=move.source,
        target=move.target,
        bytes=move.bytes,
        target_dir=move.target_dir,
        kind=move.kind,
        copied_to=move.copied_to,
        copied_from=move.copied_from,
        freed_on=move.freed_on,
        freed_dir=move.freed_dir,
        freed_bytes=move.freed_bytes,
        freed_after_ms=move.freed_after_seconds * 1000,
        topic_id=move.topic_id,
    )
    return check_move(where, plain)


def check_move(where: str, move: Move, source: str = "source", target: str = "target") -> Move:
    """A move as somebody wrote it, with what follows from its replicas where that is absent.

    Args:
        where: path of the move, for messages.
        move: as it was written.
        source: what the field of the replicas before is called there.
        target: the same of those after.

    Raises:
        InputError: it is none, or of a topic that never moves; names the field and the value.
    """
    return _Check(where, move, source, target).complete()


@dataclass(frozen=True, slots=True)
class _Check:
    """One move, and how its writer calls things."""

    where: str
    move: Move
    source: str
    target: str

    def complete(self) -> Move:
        """The whole move."""
        move = self.move
        for field, replicas in ((self.source, move.source), (self.target, move.target)):
            if not replicas:
                raise self._wrong(field, "must name at least one broker")
            if len(set(replicas)) != len(replicas):
                raise self._wrong(field, f"names a broker twice: {list(replicas)}")
        if move.topic.startswith(INTERNAL_PREFIX):
            raise self._wrong("topic", f"{move.topic} is internal to Kafka or Evenkeel: its replicas stay")
        if is_dataset_topic(move.topic):
            raise self._wrong("topic", f"{move.topic} belongs to a TrainingDataset: its replicas stay")
        added, removed = self._find_change()
        match move.kind:
            case MoveKind.REMOVE:
                return self._complete_removal(removed)
            case MoveKind.DIRECTORY:
                self._check_local()
                return move
            case MoveKind.ADD:
                return replace(move, copied_to=self._agree("copiedTo", move.copied_to, added))
            case MoveKind.BROKER:
                copied_to = self._agree("copiedTo", move.copied_to, added)
                return replace(
                    move, copied_to=copied_to, freed_on=self._agree("freedOn", move.freed_on, removed)
                )

    def _find_change(self) -> tuple[int | None, int | None]:
        """The broker that the partition comes to, and the one that it leaves."""
        move = self.move
        added = sorted(set(move.target) - set(move.source))
        removed = sorted(set(move.source) - set(move.target))
        most, least = {
            MoveKind.BROKER: (1, 1),
            MoveKind.DIRECTORY: (0, 0),
            MoveKind.ADD: (1, 0),
            MoveKind.REMOVE: (0, 1),
        }[move.kind]
        if (len(added), len(removed)) != (most, least):
            raise self._wrong(
                self.target,
                f"a move of kind {move.kind} adds {most} and takes away {least} replicas,"
                f" not {len(added)} and {len(removed)}: {list(move.source)} -> {list(move.target)}",
            )
        return next(iter(added), None), next(iter(removed), None)

    def _complete_removal(self, removed: int | None) -> Move:
        move = self.move
        for field, value in (("copiedTo", move.copied_to), ("targetDir", move.target_dir)):
            if value is not None:
                raise self._wrong(field, f"must be absent where nothing is copied, not {value}")
        return replace(move, freed_on=self._agree("freedOn", move.freed_on, removed), bytes=0)

    def _check_local(self) -> None:
        move, before = self.move, list(self.move.source)
        if move.target != move.source:
            what = f"must equal {self.source}, {before}, where only a directory changes"
            raise self._wrong(self.target, what)
        if move.target_dir is None:
            raise self._wrong("targetDir", "must be set where only a directory changes")
        if move.copied_to not in move.source:
            what = f"must be one of {before}, whose directory changes, not {move.copied_to}"
            raise self._wrong("copiedTo", what)

    def _agree(self, field: str, told: int | None, found: int | None) -> int | None:
        if told is not None and told != found:
            what = f"must be broker {found} by {self.source} and {self.target}, not {told}"
            raise self._wrong(field, what)
        return found

    def _wrong(self, field: str, what: str) -> InputError:
        return _wrong(f"{self.where}.{field}", what)


def _refuse_twice(moves: Iterable[PlannedMove]) -> None:
    seen: dict[tuple[str, int], int] = {}
    for number, move in enumerate(moves):
        first = seen.setdefault((move.topic, move.partition), number)
        if first != number:
            what = f"{move.topic}-{move.partition} is in spec.moves[{first}] already; one move per partition"
            raise _wrong(f"spec.moves[{number}].partition", what)


def _wrong(field: str, what: str) -> InputError:
    return InputError(f"{field}: {what}", reason=Reason.INVALID_SPEC)
