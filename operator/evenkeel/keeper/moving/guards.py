"""What must hold before anything is begun, by one look at Kafka."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from evenkeel.domain.moves import Move, MoveKind
from evenkeel.kafka.answers import DirAnswer, PartitionAnswer, TopicPartition
from evenkeel.keeper.moving.observation import Observation
from evenkeel.keeper.moving.run import Run
from evenkeel.keeper.moving.settings import MoveSettings
from evenkeel.keeper.moving.status import copied_bytes, expected_bytes, in_sync
from evenkeel.reasons import Reason


class Fitness(StrEnum):
    """Whether a move may begin."""

    READY = "Ready"
    WAIT = "Wait"
    """Not now."""
    DONE = "Done"
    """It is as wanted already."""
    VOID = "Void"
    """Not any more: what it was planned from has changed."""


@dataclass(frozen=True, slots=True)
class Check:
    """Answer of a guard."""

    fitness: Fitness
    reason: Reason = Reason.MOVING
    message: str = ""


@dataclass(frozen=True, slots=True)
class Room:
    """A volume that copies go to."""

    name: str
    total_bytes: int
    used_bytes: int
    coming_bytes: int

    @property
    def fill(self) -> float:
        """When all that comes is there."""
        return (self.used_bytes + self.coming_bytes) / self.total_bytes


BALANCER_TOPICS = ("__CruiseControlMetrics", "__KafkaCruiseControl", "strimzi.cruisecontrol.")
"""What the names of Cruise Control's topics begin with, as it and as Strimzi make them."""
WITHOUT_STAYING = 30
"""Metadata version of Kafka 4.3: from there on a reassignment ends though a replica that stays is out of sync
(KAFKA-19975). Before, it would stay under way until that replica is back."""
_READY = Check(Fitness.READY)


def find_foreign(run: Run | None, seen: Observation) -> TopicPartition | None:
    """A partition whose replicas somebody else moves, if there is one: to other brokers, or between directories.

    The latter is seen on the brokers that moves of ours need. It is ours only while the run names it.
    """
    ours = {flight.key: set(flight.move.target) for flight in run.flights} if run else {}
    for key in sorted(seen.reassignments):
        found = seen.reassignments[key]
        staying = {one for one in found.replicas if one not in found.removing}
        if ours.get(key) != staying:
            return key
    moves = [flight.move for flight in run.flights] if run else []
    local = {(move.copied_to, move.target_dir, (move.topic, move.partition)) for move in moves}
    return min(
        (key for broker, to, key in seen.futures() if (broker, to.path, key) not in local), default=None
    )


def name_balancer(seen: Observation) -> str | None:
    """Another balancer that lives in this cluster, by the topics that it keeps; it need not be at work."""
    return "Cruise Control" if any(name.startswith(BALANCER_TOPICS) for name in seen.topics) else None


def find_lagging(brokers: Iterable[int], seen: Observation) -> TopicPartition | None:
    """A partition with a replica that is alive on one of these brokers and not in sync, if there is one.

    Partitions under way are not looked at: their new replicas lag by nature.
    """
    involved = set(brokers)
    for name, topic in seen.topics.items():
        for one in topic.partitions:
            if (name, one.partition) in seen.reassignments or not involved.intersection(one.replicas):
                continue
            if any(broker in seen.online and broker not in one.isr for broker in one.replicas):
                return name, one.partition
    return None


def check_moves(
    moves: Sequence[Move], seen: Observation, settings: MoveSettings
) -> dict[TopicPartition, Check]:
    """Whether each may begin beside the others: the first thing that speaks against it, in a fixed order."""
    rooms = find_rooms(moves, seen, settings)
    return {
        (move.topic, move.partition): next(_find_objections(move, seen, rooms, settings), _READY)
        for move in moves
    }


def _find_objections(
    move: Move, seen: Observation, rooms: dict[tuple[int, str], Room], settings: MoveSettings
) -> Iterator[Check]:
    found = seen.partition((move.topic, move.partition))
    if found is None:
        message = f"{move.topic}-{move.partition} is not there"
        yield Check(Fitness.VOID, Reason.TOPIC_MISSING, message)
        return
    now = seen.topics[move.topic].topic_id
    if move.topic_id not in (None, now):
        message = f"topic {move.topic} was made again: it has id {now}, planned for {move.topic_id}"
        yield Check(Fitness.VOID, Reason.TOPIC_MISSING, message)
    yield from _check_partition(move, found, seen)
    yield from _check_sync(move, found, seen)
    if move.copied_to is not None:
        yield from _check_broker(move.copied_to, seen)
        yield from _check_places(move, move.copied_to, seen)
        yield from _check_room(move, rooms, settings)


def _check_partition(move: Move, found: PartitionAnswer, seen: Observation) -> Iterator[Check]:
    where = f"{move.topic}-{move.partition}"
    if (move.topic, move.partition) in seen.reassignments:
        yield Check(Fitness.WAIT, Reason.FOREIGN_REASSIGNMENT, f"{where} is being moved by somebody else")
    if move.kind is not MoveKind.DIRECTORY and found.replicas == move.target:
        yield Check(Fitness.DONE)
    if found.replicas != move.source:
        message = f"{where} lies on {_list(found.replicas)}, planned from {_list(move.source)}"
        yield Check(Fitness.VOID, Reason.PLAN_OUTDATED, message)
    if found.leader is None:
        yield Check(Fitness.WAIT, Reason.NO_LEADERS, f"{where} has no leader")


def _check_sync(move: Move, found: PartitionAnswer, seen: Observation) -> Iterator[Check]:
    """Every replica that stays is in sync; enough are, before and after.

    Where nothing is given up the leader is enough, and of the replicas that stay those on brokers that are there.
    """
    where, least = f"{move.topic}-{move.partition}", seen.min_isr.get(move.topic)
    if least is None:
        message = f"min.insync.replicas of {move.topic} is unknown"
        yield Check(Fitness.WAIT, Reason.MEASUREMENT_INCOMPLETE, message)
        return
    needed = min(least, len(move.source))
    if len(move.target) < needed:
        message = f"{where} would keep {len(move.target)} replicas, min.insync.replicas is {least}"
        yield Check(Fitness.VOID, Reason.REPLICATION_BELOW_MIN_ISR, message)
    staying = {one for one in move.source if one in move.target}
    alive = in_sync(move.source, move, seen)
    enough = len(alive) >= needed
    if _gives_nothing_up(move, seen):
        enough = found.leader in alive
        if (seen.metadata_version or 0) >= WITHOUT_STAYING:
            staying &= seen.online
    if not enough or not staying <= set(alive):
        message = f"{where}: of the replicas {_list(move.source)} only {_list(alive)} are in sync"
        yield Check(Fitness.WAIT, Reason.REPLICAS_OUT_OF_SYNC, message)


def _gives_nothing_up(move: Move, seen: Observation) -> bool:
    """Whether a replica comes, and none that is alive or in sync goes: the more are missing, the more it is needed."""
    going = [one for one in move.source if one not in move.target]
    return move.kind in {MoveKind.BROKER, MoveKind.ADD} and not (
        seen.online.intersection(going) or in_sync(tuple(going), move, seen)
    )


def _check_broker(broker: int, seen: Observation) -> Iterator[Check]:
    if broker not in seen.online:
        yield Check(Fitness.WAIT, Reason.BROKERS_UNREACHABLE, f"broker {broker} is away")
    if broker not in seen.dirs or broker not in seen.rates:
        message = f"broker {broker} does not tell its log directories or throttles"
        yield Check(Fitness.WAIT, Reason.MEASUREMENT_INCOMPLETE, message)


def _check_places(move: Move, broker: int, seen: Observation) -> Iterator[Check]:
    """The directory that receives: cordoned ones are refused by us, Kafka would take them."""
    places = find_places(move, seen)
    if not places:
        message = f"broker {broker} has no log directory {move.target_dir or 'at all'}"
        yield Check(Fitness.VOID, Reason.PLAN_OUTDATED, message)
    for place in places:
        if place.cordoned:
            yield Check(Fitness.VOID, Reason.PLAN_OUTDATED, f"{place.path} of broker {broker} is cordoned")
        if not place.online:
            message = f"{place.path} of broker {broker} is offline"
            yield Check(Fitness.WAIT, Reason.BROKERS_UNREACHABLE, message)
    if move.kind is MoveKind.DIRECTORY:
        yield from _check_local(move, broker, seen)


def _check_local(move: Move, broker: int, seen: Observation) -> Iterator[Check]:
    place = seen.replica_dir(broker, (move.topic, move.partition))
    if place is not None and place.path == move.target_dir:
        yield Check(Fitness.DONE)
    if place is None or (move.freed_dir is not None and place.path != move.freed_dir):
        where = "nowhere" if place is None else place.path
        what = f"{move.topic}-{move.partition} on broker {broker}"
        message = f"{what} lies in {where}, planned from {move.freed_dir}"
        yield Check(Fitness.VOID, Reason.PLAN_OUTDATED, message)


def _check_room(move: Move, rooms: dict[tuple[int, str], Room], settings: MoveSettings) -> Iterator[Check]:
    for (broker, path), room in rooms.items():
        if broker != move.copied_to or (move.target_dir is not None and path != move.target_dir):
            continue
        if room.fill * 100 > settings.max_fill_percent:
            what = f"{room.name} would fill to {room.fill:.1%}, limit {settings.max_fill_percent} %"
            yield Check(Fitness.WAIT, Reason.STORAGE_LOW, f"{what}: deleted bytes may have to go first")


def find_rooms(
    moves: Sequence[Move], seen: Observation, settings: MoveSettings
) -> dict[tuple[int, str], Room]:
    """Volumes that these moves write to, by broker and directory, with what is still to come.

    Where the directory is left to Kafka every one of the broker counts as if all came there. Copies between
    directories that are under way are still to come too, whosever they are.
    """
    coming: dict[str, int] = defaultdict(int)
    places: dict[tuple[int, str], DirAnswer] = {}
    counted = {
        (move.copied_to, (move.topic, move.partition)) for move in moves if move.kind is MoveKind.DIRECTORY
    }
    for move in moves:
        if move.copied_to is None:
            continue
        left = max(0, expected_bytes(move, seen) - (copied_bytes(move, seen) or 0))
        targets = find_places(move, seen)
        places |= {(move.copied_to, place.path): place for place in targets}
        for volume in {_volume(move.copied_to, place.path, settings) for place in targets}:
            coming[volume] += left
    for broker, place, key in seen.futures():
        if (broker, key) not in counted:
            left = (seen.replica_bytes(broker, key) or 0) - place.future_bytes[key]
            coming[_volume(broker, place.path, settings)] += max(0, left)
    return {
        (broker, path): Room(name, place.total_bytes, place.total_bytes - place.usable_bytes, coming[name])
        for (broker, path), place in places.items()
        if (name := _volume(broker, path, settings)) and place.total_bytes and place.usable_bytes is not None
    }


def find_places(move: Move, seen: Observation) -> tuple[DirAnswer, ...]:
    """Directories that the copy may come to lie in."""
    found = seen.dirs.get(move.copied_to, ()) if move.copied_to is not None else ()
    return tuple(place for place in found if move.target_dir in (None, place.path))


def _volume(broker: int, path: str, settings: MoveSettings) -> str:
    return settings.volumes.get((broker, path), f"{broker}:{path}")


def _list(brokers: Sequence[int]) -> str:
    return f"[{', '.join(map(str, brokers))}]"
