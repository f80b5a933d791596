"""What becomes of the moves under way: which have ended, which have to be cancelled, which are held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evenkeel.domain.moves import Move, MoveKind
from evenkeel.kafka.answers import TopicPartition
from evenkeel.keeper.moving.explaining import explain_end
from evenkeel.keeper.moving.guards import Check, Fitness, check_moves, find_places, find_rooms
from evenkeel.keeper.moving.observation import Observation
from evenkeel.keeper.moving.run import Ended, Flight, Run, end_move
from evenkeel.keeper.moving.settings import MoveSettings
from evenkeel.keeper.moving.status import (
    Status,
    copied_bytes,
    correction_bytes,
    expected_bytes,
    find_status,
    may_cancel,
    measure_growth,
)
from evenkeel.keeper.moving.steps import Place, Reassign, Step
from evenkeel.keeper.moving.throttling import find_wanted
from evenkeel.keeper.moving.watch import Timers, Watch
from evenkeel.reasons import Reason

UNSEEN = (0, 0)
"""Growth of a copy that no look has measured."""
REORDER_SECONDS = 30.0
"""The order of replicas that a cancellation left is mended for so long."""


@dataclass(frozen=True, slots=True)
class Advance:
    """Moves under way after one look."""

    flights: tuple[Flight, ...]
    """Those that go on."""
    ended: tuple[Ended, ...]
    """Those that have ended just now."""
    waiting: tuple[Flight, ...]
    """Of `flights`, those that have not begun and may."""
    steps: tuple[Step, ...]
    """Cancellations, and replicas to be put into their directory."""
    held: tuple[str, ...]
    """Moves that should be cancelled and cannot be without harm, as sentences."""


def advance(run: Run, watch: Watch, timers: Timers, seen: Observation, settings: MoveSettings) -> Advance:
    """Look at each move of the batch."""
    turn = _Turn(run, watch, timers, seen, settings)
    for flight in run.flights:
        turn.take(flight)
    return Advance(
        tuple(turn.flights), tuple(turn.ended), tuple(turn.waiting), tuple(turn.steps), tuple(turn.held)
    )


class _Turn:
    """One look at all moves of a batch."""

    def __init__(
        self, run: Run, watch: Watch, timers: Timers, seen: Observation, settings: MoveSettings
    ) -> None:
        self._run, self._watch, self._timers = run, watch, timers
        self._seen, self._settings = seen, settings
        self._rooms = find_rooms([flight.move for flight in run.flights], seen, settings)
        self.flights: list[Flight] = []
        self.ended: list[Ended] = []
        self.waiting: list[Flight] = []
        self.steps: list[Step] = []
        self.held: list[str] = []

    def take(self, flight: Flight) -> None:
        status = find_status(flight, self._seen)
        match status:
            case Status.DONE:
                self._finish(flight)
            case Status.GONE | Status.ODD:
                self._settle(flight, status)
            case Status.IDLE | Status.REVERTED:
                self._rest(flight, status)
            case Status.LANDED:
                self._await_directory(flight)
            case Status.MISPLACED:
                self._correct(flight)
            case Status.RUNNING | Status.UNKNOWN:
                self._go_on(flight, status)

    def _finish(self, flight: Flight) -> None:
        """Of one that was cancelled late metadata may show the replicas of while it was under way."""
        if flight.cancelled is None or self._lasts(
            f"done {_name(flight.key)}", self._settings.settle_seconds
        ):
            self._end(flight, Reason.MOVED)
        else:
            self.flights.append(flight)

    def _end(self, flight: Flight, reason: Reason) -> None:
        move = flight.move
        moved = reason is Reason.MOVED
        size = expected_bytes(move, self._seen) if moved else copied_bytes(move, self._seen) or 0
        error = self._watch.refused.get(flight.key)
        asked = reason is self._run.cancelling  # said of the whole run
        why = "" if asked else explain_end(move, reason, self._seen, self._settings, error)
        self.ended.append(end_move(move, reason, why, size))

    def _settle(self, flight: Flight, status: Status) -> None:
        """Believe what looks odd only when it stays so."""
        if self._lasts(f"{status} {_name(flight.key)}", self._settings.settle_seconds):
            self._end(flight, Reason.TOPIC_MISSING if status is Status.GONE else Reason.CONFLICT)
        else:
            self.flights.append(flight)

    def _rest(self, flight: Flight, status: Status) -> None:
        """The replicas are those of before: not begun yet, cancelled by us, or cancelled by somebody else."""
        reason = flight.cancelled or self._find_wish(flight, Status.IDLE)
        if flight.cancelled is None and flight.seen:
            self._settle(flight, Status.ODD)
        elif reason is None:
            self.flights.append(flight)
            self.waiting.append(flight)
        elif (
            status is Status.REVERTED
            and flight.seen
            and not self._lasts(f"order {_name(flight.key)}", REORDER_SECONDS)
        ):
            self.flights.append(flight)
            self.steps.append(Reassign(flight.key, flight.move.source))
        elif self._in_doubt(flight.key):
            self.flights.append(replace(flight, cancelled=reason))
        else:
            self._end(flight, reason)

    def _in_doubt(self, key: TopicPartition) -> bool:
        """Kafka was asked to move it a moment ago, and may do so yet."""
        tried = self._watch.tried.get(key)
        return tried is not None and self._seen.at - tried < self._settings.settle_seconds

    def _go_on(self, flight: Flight, status: Status) -> None:
        kept = replace(flight, seen=flight.seen or status is Status.RUNNING)
        reason = flight.cancelled or self._find_wish(flight, status)
        if reason is None:
            self.flights.append(kept)
        elif may_cancel(flight.move, self._seen) and status is Status.RUNNING:
            self.flights.append(replace(kept, cancelled=reason))
            self.steps += self._cancel(flight.move)
        elif status is Status.UNKNOWN and self._lasts(
            f"unknown {_name(flight.key)}", self._settings.patience_seconds
        ):
            self._end(flight, reason)
        else:
            self.flights.append(kept)
            self.held.append(self._explain_held(flight.move, reason, status))

    def _correct(self, flight: Flight) -> None:
        """On the right broker, which is what the plan is for: to its directory, or left where it is.

        A copy to the planned one would go on without us, and unthrottled: it is ours until it is seen to have ended.
        """
        move, copied = flight.move, correction_bytes(flight.move, self._seen)
        reason = flight.cancelled or self._find_wish(flight, Status.MISPLACED)
        if reason is None:
            self.flights.append(flight)
            self.steps += _place(move) if copied is None else []
            return
        given_up = self._lasts(f"left {_name(flight.key)}", self._settings.patience_seconds)
        if given_up or (copied is None and not self._in_doubt(flight.key)):
            self._end(flight, Reason.MOVED)
            return
        self.flights.append(replace(flight, cancelled=reason))
        self.steps += [] if copied is None else self._cancel(move)

    def _await_directory(self, flight: Flight) -> None:
        """A broker that is back tells its directories, and goes on with a copy between them: throttled, and ours."""
        if self._lasts(f"landed {_name(flight.key)}", self._settings.patience_seconds):
            self._end(flight, Reason.MOVED)
        else:
            self.flights.append(replace(flight, seen=True))

    def _cancel(self, move: Move) -> list[Step]:
        key = (move.topic, move.partition)
        if key in self._seen.reassignments:
            return [Reassign(key, None)]
        place = self._seen.replica_dir(move.copied_to, key) if move.copied_to is not None else None
        # Asking for the directory where it lies ends the copy to another one.
        return [] if place is None or move.copied_to is None else [Place(move.copied_to, key, place.path)]

    def _explain_held(self, move: Move, reason: Reason, status: Status) -> str:
        where = f"{move.topic}-{move.partition}"
        if status is Status.UNKNOWN:
            return f"{where} ({reason}): broker {move.copied_to} does not tell where it lies"
        least = self._seen.min_isr.get(move.topic)
        return f"{where} ({reason}): fewer than {least} of its original replicas are alive and in sync"

    def _find_wish(self, flight: Flight, status: Status) -> Reason | None:
        """Why the move should not go on, if it should not."""
        move = flight.move
        if self._run.cancelling is not None:
            return self._run.cancelling
        refused = self._watch.refused.get(flight.key)
        asked = status in {Status.IDLE, Status.MISPLACED}
        if asked and refused is not None and not refused.retry:
            return refused.reason
        broker = move.copied_to
        if broker is None or status is Status.IDLE:
            return None  # the guards look at it before it begins
        if broker not in self._seen.online:
            lost = self._lasts(f"lost {broker}", self._settings.lost_seconds)
            return Reason.BROKERS_UNREACHABLE if lost else None
        if self._is_overfull(move, broker):
            return Reason.STORAGE_LOW
        return Reason.MOVE_STALLED if self._is_stalled(flight, status) else None

    def _is_overfull(self, move: Move, broker: int) -> bool:
        places = find_places(move, self._seen)
        if places and not any(place.online for place in places):
            return True  # what a full directory becomes
        if move.target_dir is None and len(places) > 1:
            landed = self._seen.replica_dir(broker, (move.topic, move.partition))
            places = () if landed is None else (landed,)
        rooms = (self._rooms.get((broker, place.path)) for place in places)
        return any(room is not None and room.fill * 100 > self._settings.overfull_percent for room in rooms)

    def _is_stalled(self, flight: Flight, status: Status) -> bool:
        size, at = self._watch.grown.get(flight.key, (UNSEEN, self._seen.at))
        growth = measure_growth(flight.move, status, self._seen)
        if growth is None or growth > size:
            return False
        return self._seen.at - at >= self._settings.stall_seconds

    def _lasts(self, what: str, seconds: float) -> bool:
        return self._timers.mark(what) >= seconds


def check_starts(
    moves: Sequence[Move], seen: Observation, settings: MoveSettings
) -> dict[TopicPartition, Check]:
    """What the guards say, and whether the senders tell their throttles: nothing is copied without those."""
    checks = check_moves(moves, seen, settings)
    for move in moves:
        key = (move.topic, move.partition)
        silent = {broker for broker, _ in find_wanted([move], seen, 0).rates}.difference(seen.rates)
        if silent and checks[key].fitness is Fitness.READY:
            message = f"broker {min(silent)} does not tell its throttles"
            checks[key] = Check(Fitness.WAIT, Reason.MEASUREMENT_INCOMPLETE, message)
    return checks


def begin(flights: Sequence[Flight]) -> list[Step]:
    """Directories first: the broker has to know where to make the replica when it comes."""
    placed = [step for flight in flights for step in _place(flight.move)]
    return placed + [
        Reassign(flight.key, flight.move.target, resize=len(flight.move.source) != len(flight.move.target))
        for flight in flights
        if flight.move.kind is not MoveKind.DIRECTORY
    ]


def note_growth(
    watch: Watch, flights: Sequence[Flight], seen: Observation
) -> dict[TopicPartition, tuple[tuple[int, int], float]]:
    """Copy -> its stage and size, and when it was last larger than a look before: retention makes it smaller, too."""
    grown: dict[TopicPartition, tuple[tuple[int, int], float]] = {}
    for flight in flights:
        size, at = watch.grown.get(flight.key, (UNSEEN, seen.at))
        status = find_status(flight, seen)
        growth = measure_growth(flight.move, status, seen)
        if status is Status.IDLE or (growth is not None and growth > size):
            at = seen.at  # what waits to begin does not stall
        grown[flight.key] = (size if growth is None else growth, at)
    return grown


def _place(move: Move) -> list[Step]:
    if move.copied_to is None or move.target_dir is None:
        return []
    return [Place(move.copied_to, (move.topic, move.partition), move.target_dir)]


def _name(key: TopicPartition) -> str:
    return f"{key[0]}-{key[1]}"
