"""How far a move is, from one look at Kafka and nothing else."""

from __future__ import annotations

from enum import StrEnum

from evenkeel.domain.moves import Move, MoveKind
from evenkeel.keeper.moving.observation import Observation
from evenkeel.keeper.moving.run import Flight


class Status(StrEnum):
    """What Kafka shows of a move."""

    UNKNOWN = "Unknown"
    """Its broker does not tell."""
    IDLE = "Idle"
    """As before the move."""
    REVERTED = "Reverted"
    """The replicas of before in another order, as after a cancellation."""
    RUNNING = "Running"
    LANDED = "Landed"
    """On the right broker, which is away or does not tell in which log directory."""
    MISPLACED = "Misplaced"
    """On the right broker, in another log directory than planned, or on its way from there."""
    DONE = "Done"
    GONE = "Gone"
    """The topic or the partition is not there any more."""
    ODD = "Odd"
    """Neither before nor after, nor on the way from one to the other: somebody else changed it."""


def find_status(flight: Flight, seen: Observation) -> Status:
    """What Kafka shows; a single odd look may only be a broker that is late, see MoveSettings.settle_seconds."""
    move, found = flight.move, seen.partition(flight.key)
    if found is None or seen.topics[move.topic].topic_id != flight.topic_id:
        return Status.GONE
    under_way = seen.reassignments.get(flight.key)
    if under_way is not None:
        staying = tuple(one for one in under_way.replicas if one not in under_way.removing)
        return Status.RUNNING if set(staying) == set(move.target) and not _is_local(move) else Status.ODD
    if _is_local(move):
        return _find_local(move, seen)
    if found.replicas == move.target:
        return _find_landed(move, seen)
    if set(found.replicas) == set(move.source):
        return Status.IDLE if found.replicas == move.source else Status.REVERTED
    return Status.ODD


def _is_local(move: Move) -> bool:
    return move.kind is MoveKind.DIRECTORY


def _find_local(move: Move, seen: Observation) -> Status:
    """A move between directories: the reassignment list does not show it, the broker's directories do."""
    broker, key = move.copied_to, (move.topic, move.partition)
    found = seen.partition(key)
    if broker is None or found is None or broker not in found.replicas:
        return Status.ODD
    place = seen.replica_dir(broker, key)
    if place is None or move.target_dir is None:
        return Status.UNKNOWN
    if place.path == move.target_dir:
        return Status.DONE
    future = seen.future_dir(broker, key)
    if future is None:
        return Status.IDLE
    return Status.RUNNING if future.path == move.target_dir else Status.ODD


def _find_landed(move: Move, seen: Observation) -> Status:
    """On its broker: a directory that was asked for before the replica was there is forgotten by a restart."""
    if move.copied_to is None or move.target_dir is None or lacks_target(move, seen):
        return Status.DONE  # on the right broker, which is what the plan is for
    place = seen.replica_dir(move.copied_to, (move.topic, move.partition))
    if place is None:
        return Status.LANDED
    return Status.DONE if place.path == move.target_dir else Status.MISPLACED


def lacks_target(move: Move, seen: Observation) -> bool:
    """Its broker tells its directories, and the one that was planned is not among them."""
    if move.copied_to is None or move.target_dir is None or not seen.dirs.get(move.copied_to):
        return False
    return seen.find_dir(move.copied_to, move.target_dir) is None


def may_cancel(move: Move, seen: Observation) -> bool:
    """Whether cancelling leaves enough replicas: min ISR of the original ones are alive and in sync.

    A cancelled move takes its new replica away again, though it may be the only one that is alive. Where its broker
    is not there and it is not in sync nothing is taken away: the leader that is left is enough.
    """
    if _is_local(move):
        return move.copied_to in seen.online
    found, least = seen.partition((move.topic, move.partition)), seen.min_isr.get(move.topic)
    if found is None or least is None:
        return False
    alive = in_sync(move.source, move, seen)
    if move.copied_to is not None and move.copied_to not in seen.online and move.copied_to not in found.isr:
        return found.leader in alive
    return len(alive) >= max(1, min(least, len(move.source)))


def in_sync(replicas: tuple[int, ...], move: Move, seen: Observation) -> tuple[int, ...]:
    """Those of `replicas` that are alive and in sync."""
    found = seen.partition((move.topic, move.partition))
    isr = found.isr if found is not None else ()
    return tuple(one for one in replicas if one in isr and one in seen.online)


def expected_bytes(move: Move, seen: Observation) -> int:
    """What has to be copied in all, by the leader's size of now where it is told."""
    if move.copied_to is None:
        return 0
    found = seen.partition((move.topic, move.partition))
    sender = move.copied_to if _is_local(move) else (found.leader if found else None)
    size = None if sender is None else seen.replica_bytes(sender, (move.topic, move.partition))
    return move.bytes if size is None else size


def copied_bytes(move: Move, seen: Observation) -> int | None:
    """What has been copied so far, by the size of the copy; None: not told.

    From log directories alone: Kafka's offset lag of a replica that is being added reads 0.
    """
    key, broker = (move.topic, move.partition), move.copied_to
    if broker is None:
        return 0
    if broker not in seen.dirs:
        return None
    if _is_local(move):
        future = seen.future_dir(broker, key)
        return 0 if future is None else future.future_bytes[key]  # None: not begun, or gone with a disk
    return seen.replica_bytes(broker, key) or 0


def correction_bytes(move: Move, seen: Observation) -> int | None:
    """Of a replica that has come to the wrong directory: what has been copied to the planned one; None: no copy."""
    key = move.topic, move.partition
    future = None if move.copied_to is None else seen.future_dir(move.copied_to, key)
    return None if future is None or future.path != move.target_dir else future.future_bytes[key]


def measure_growth(move: Move, status: Status, seen: Observation) -> tuple[int, int] | None:
    """What a copy that goes on makes larger: its stage and the bytes of that; None: not told.

    A replica that lies in the wrong directory grows with what is written: only the copy to the planned one counts.
    """
    if status is Status.MISPLACED:
        return 1, correction_bytes(move, seen) or 0
    copied = copied_bytes(move, seen)
    return None if copied is None else (0, copied)
