"""The JSON of `evenkeel plan moves -o json` as a plan that can be executed: which move is in which batch."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenkeel.api.plan_content import check_move
from evenkeel.domain import codec
from evenkeel.domain.moves import Move
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.errors import InputError
from evenkeel.keeper.moving.plan import ApprovedPlan, approve_batches
from evenkeel.planning.moves_plan import MovesPlan
from evenkeel.reasons import Reason

EXECUTED = ("copied_to", "copied_from", "freed_on", "freed_dir", "freed_bytes", "freed_after_ms", "topic_id")
"""Fields of a move that only its execution needs."""
MOST = 2**31 - 1
"""Ids of brokers and numbers of partitions are of 32 bits in Kafka."""


def moves_list(plan: MovesPlan) -> list[dict[str, Any]]:
    """The moves of a plan in the order of design section 4, each with its batch, from 0."""
    batches = {(move.topic, move.partition): batch.number for batch in plan.batches for move in batch.moves}
    return [
        {
            "topic": move.topic,
            "partition": move.partition,
            "from": list(move.source),
            "to": list(move.target),
            "bytes": move.bytes,
            "kind": move.kind.value,
            "targetDir": move.target_dir,
            "batch": batches.get((move.topic, move.partition)),
            **{codec.camel(name): getattr(move, name) for name in EXECUTED},
        }
        for move in plan.moves
    ]


@dataclass(frozen=True, slots=True)
class SharedDir:
    """A log directory of which the volume is known by name; those of one name share their space."""

    broker: int
    path: str
    volume: str


@dataclass(frozen=True, slots=True)
class PlanFile:
    """What a file holds."""

    plan: ApprovedPlan
    volumes: Mapping[tuple[int, str], str]
    """(broker, log dir path) -> volume, where the planner knew it by name; empty too in files of earlier versions."""


def list_shared_dirs(snapshot: ClusterSnapshot) -> tuple[SharedDir, ...]:
    """Directories of named volumes, by broker and path."""
    found = [
        SharedDir(broker.id, entry.path, entry.volume)
        for broker in snapshot.brokers
        for entry in broker.log_dirs
        if entry.volume is not None
    ]
    return tuple(sorted(found, key=lambda one: (one.broker, one.path)))


def read_plan(path: str) -> ApprovedPlan:
    """The plan of a file; as `read_plan_file`."""
    return read_plan_file(path).plan


def read_plan_file(path: str) -> PlanFile:
    """A plan from a file; `-` is standard input.

    Raises:
        InputError: not readable, not a plan, or one without batches; names the field.
    """
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        raw = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"--plan {path}: cannot be read: {error}", reason=Reason.INVALID_SPEC) from error
    if not isinstance(raw, dict) or not isinstance(raw.get("moves"), list):
        raise InputError(f"--plan {path}: moves: must be a list", reason=Reason.INVALID_SPEC)
    batches: dict[int, list[Move]] = {}
    for number, entry in enumerate(raw["moves"]):
        where = f"--plan {path}: moves[{number}]"
        move, batch = _read_move(entry, where)
        batches.setdefault(batch, []).append(move)
    ordered = [batches[number] for number in sorted(batches)]
    cluster_id = raw.get("clusterId")
    name = str(raw.get("hash", ""))
    plan = approve_batches(name, ordered, cluster_id if isinstance(cluster_id, str) else None)
    return PlanFile(plan, _read_volumes(raw.get("volumes", []), f"--plan {path}: volumes"))


def _read_volumes(raw: Any, where: str) -> dict[tuple[int, str], str]:
    if not isinstance(raw, list):
        raise InputError(f"{where}: must be a list, not {raw!r:.80}", reason=Reason.INVALID_SPEC)
    found: dict[tuple[int, str], str] = {}
    for number, entry in enumerate(raw):
        try:
            one = codec.from_json(SharedDir, entry)
        except InputError as error:
            raise InputError(f"{where}[{number}]: {error.message}", reason=Reason.INVALID_SPEC) from error
        for field in ("path", "volume"):
            if not getattr(one, field):
                message = f"{where}[{number}].{field}: must not be empty"
                raise InputError(message, reason=Reason.INVALID_SPEC)
        known = found.setdefault((one.broker, one.path), one.volume)
        if known != one.volume:
            what = f"{one.path} of broker {one.broker} is there already, on volume {known}"
            raise InputError(f"{where}[{number}].path: {what}, not {one.volume}", reason=Reason.INVALID_SPEC)
    return found


def _read_move(entry: Any, where: str) -> tuple[Move, int]:
    if not isinstance(entry, dict):
        raise InputError(f"{where}: must be an object", reason=Reason.INVALID_SPEC)
    for key in ("from", "to", "batch", "copiedTo"):
        if key not in entry:
            hint = "plan again with `evenkeel plan moves -o json` of this version"
            raise InputError(f"{where}.{key}: required; {hint}", reason=Reason.INVALID_SPEC)
    batch = entry["batch"]
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 0:
        raise InputError(f"{where}.batch: must be a number from 0, not {batch!r}", reason=Reason.INVALID_SPEC)
    try:
        move = codec.from_json(Move, {**entry, "source": entry["from"], "target": entry["to"]})
    except InputError as error:
        raise InputError(f"{where}: {error.message}", reason=Reason.INVALID_SPEC) from error
    _check_numbers(move, where)
    return check_move(where, move, source="from", target="to"), batch


def _check_numbers(move: Move, where: str) -> None:
    """What the schema of a RebalancePlan refuses by itself."""
    for name, ids in (("from", move.source), ("to", move.target)):
        if not all(0 <= one <= MOST for one in ids):
            message = f"{where}.{name}: must be broker ids between 0 and {MOST}, not {list(ids)}"
            raise InputError(message, reason=Reason.INVALID_SPEC)
    if not 0 <= move.partition <= MOST:
        message = f"{where}.partition: must be between 0 and {MOST}, not {move.partition}"
        raise InputError(message, reason=Reason.INVALID_SPEC)
    for name in ("bytes", "freed_bytes", "freed_after_ms"):
        value = getattr(move, name)
        if value < 0:
            message = f"{where}.{codec.camel(name)}: must be at least 0, not {value}"
            raise InputError(message, reason=Reason.INVALID_SPEC)
