"""An executor on a simulated Kafka, with a journal that outlives it and crashes wherever a test wants."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from evenkeel.domain import codec
from evenkeel.domain.moves import Move, MoveKind
from evenkeel.errors import EvenkeelError, FencedError
from evenkeel.kafka.answers import TopicPartition
from evenkeel.keeper.moving.executor import Executor
from evenkeel.keeper.moving.plan import ApprovedPlan, approve_batches
from evenkeel.keeper.moving.progress import MoveProgress
from evenkeel.keeper.moving.run import Run
from evenkeel.keeper.moving.settings import MoveSettings
from evenkeel.keeper.moving.steps import Reassign, Step
from evenkeel.reasons import Reason
from tests.support.moving_kafka import GB, MB, MovingKafka
from tests.support.moving_model import SimBroker

T0, T1 = ("t", 0), ("t", 1)


class CrashError(BaseException):
    """The process dies here."""


class KeptJournal:
    """A journal in memory; `owner` counts up with every life, older ones are fenced."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.writes = 0
        self.owner = 0
        self.on_write: Callable[[], None] = lambda: None

    def read(self) -> Run | None:
        return None if self.text is None else codec.loads(Run, self.text)


class Life:
    """One owner's hold on the journal."""

    def __init__(self, journal: KeptJournal) -> None:
        journal.owner += 1
        self._journal, self._epoch = journal, journal.owner

    def read(self) -> Run | None:
        return self._journal.read()

    def write(self, run: Run) -> None:
        self.confirm()
        self._journal.on_write()
        self._journal.text = codec.dumps(run)
        self._journal.writes += 1

    def confirm(self) -> None:
        if self._journal.owner != self._epoch:
            raise FencedError("another keeper is the owner")


class World:
    """A cluster, a plan, and the executor of now."""

    def __init__(self, kafka: MovingKafka, plan: ApprovedPlan, settings: MoveSettings | None = None) -> None:
        self.kafka, self.plan = kafka, plan
        self.settings = settings or MoveSettings()
        self.journal = KeptJournal()
        self.errors: list[EvenkeelError] = []
        self.executor = self.restart()
        self.seen: list[MoveProgress] = []
        kafka.before_call = self._check_intent

    def restart(self) -> Executor:
        """A new process; an older one that still lives is fenced."""
        self.executor = Executor(lambda: self.kafka, Life(self.journal), monotonic=lambda: self.kafka.now)
        return self.executor

    def turn(self, seconds: float = 1.0) -> MoveProgress | None:
        """One turn, then time passes. A crash is followed by a new process."""
        found = None
        try:
            found = self.executor.turn(self.plan, self.settings)
            self.seen.append(found)
        except CrashError:
            self.restart()
        except FencedError:
            raise
        except EvenkeelError as error:
            self.errors.append(error)
        self.kafka.tick(seconds)
        return found

    def run(self, until: Callable[[MoveProgress], bool] | None = None, seconds: float = 3600) -> MoveProgress:
        """Turns until the run is over, or something holds."""
        end = self.kafka.now + seconds
        while self.kafka.now < end:
            found = self.turn()
            if found is not None and (found.over if until is None else until(found)):
                return found
        last = self.seen[-1] if self.seen else None
        raise AssertionError(f"not within {seconds} s: {last}\n{self.journal.text}\n{self.errors[-3:]}")

    def want(self, **changes: object) -> None:
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]

    @property
    def journaled(self) -> Run:
        found = self.journal.read()
        assert found is not None
        return found

    def _check_intent(self, step: Step) -> None:
        """Nothing is moved that the journal does not name."""
        if isinstance(step, Reassign) and step.replicas is not None:
            intents = {flight.key: flight.move for flight in self.journaled.flights}
            assert step.key in intents
            assert step.replicas in (intents[step.key].target, intents[step.key].source)


def build_kafka(brokers: int = 3, gigabytes: int = 10, dirs: int = 1) -> MovingKafka:
    kafka = MovingKafka()
    for broker in range(1, brokers + 1):
        kafka.brokers[broker] = SimBroker({f"/d{i}": gigabytes * GB for i in range(dirs)})
    return kafka


def build_move(
    kafka: MovingKafka,
    key: TopicPartition,
    target: Sequence[int],
    *,
    target_dir: str | None = None,
) -> Move:
    """A move from where the partition is now."""
    one = kafka.partition(key)
    source, wanted = tuple(one.replicas), tuple(target)
    added = [broker for broker in wanted if broker not in source]
    gone = [broker for broker in source if broker not in wanted]
    kind = MoveKind.BROKER
    if len(wanted) != len(source):
        kind = MoveKind.ADD if len(wanted) > len(source) else MoveKind.REMOVE
    return Move(
        topic=key[0],
        partition=key[1],
        source=source,
        target=wanted,
        bytes=int(one.size) if added else 0,
        target_dir=target_dir,
        kind=kind,
        copied_to=added[0] if added else None,
        copied_from=one.leader if added else None,
        freed_on=gone[0] if gone else None,
        freed_bytes=int(one.size) if gone else 0,
    )


def build_local(kafka: MovingKafka, key: TopicPartition, broker: int, path: str) -> Move:
    """A move between directories of one broker."""
    one = kafka.partition(key)
    replicas = tuple(one.replicas)
    return Move(
        topic=key[0], partition=key[1], source=replicas, target=replicas, bytes=int(one.size),
        target_dir=path, kind=MoveKind.DIRECTORY, copied_to=broker, copied_from=broker, freed_on=broker,
        freed_dir=one.copies[broker][0], freed_bytes=int(one.size),
    )  # fmt: skip


def build_world(*batches: Sequence[Move], kafka: MovingKafka, settings: MoveSettings | None = None) -> World:
    return World(kafka, approve_batches("plan", batches), settings)


def one_move(min_isr: int = 1) -> tuple[MovingKafka, Move]:
    """Three brokers, `t-0` of 300 MB on 1 (and 2 where `min_isr` is 2); it moves from 1 to 3."""
    kafka = build_kafka()
    replicas = [1] if min_isr == 1 else [1, 2]
    kafka.add_topic("t", [replicas], [300 * MB], min_isr)
    return kafka, build_move(kafka, T0, [3, *replicas[1:]])


def two_batches(*, with_ids: bool = False) -> World:
    """`t-0` and then `t-1` from broker 1 to broker 3, 300 MB each; planned for the topic's id or for any."""
    kafka = build_kafka()
    kafka.add_topic("t", [[1], [1]], [300 * MB, 300 * MB])
    topic_id = kafka.topics["t"].id if with_ids else None
    moves = [replace(build_move(kafka, key, [3]), topic_id=topic_id) for key in (T0, T1)]
    return build_world(moves[:1], moves[1:], kafka=kafka)


def misplace() -> World:
    """`t-0` has landed in /d0 of broker 3, not in /d1 as planned, and is on its way there."""
    kafka = build_kafka(dirs=2)
    kafka.add_topic("t", [[1, 2]], [900 * MB])
    world = build_world([build_move(kafka, T0, [3, 2], target_dir="/d1")], kafka=kafka)
    until_copying(world)
    size = kafka.partition(T0).copies[3][1]
    kafka.partition(T0).copies[3] = ("/d0", size)
    world.run(lambda _: bool(kafka.partition(T0).futures))
    return world


def crash_at(world: World, number: int) -> Callable[[], bool]:
    """Die at the n-th point: each commit and each call has one before and one after it."""
    left = number

    def pass_point(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise CrashError

    check = world.kafka.before_call

    def before(step: Step) -> None:
        check(step)
        pass_point()

    world.kafka.before_call, world.kafka.after_call = before, pass_point
    world.journal.on_write = pass_point
    return lambda: left <= 0


def each_crash(build: Callable[[], World]) -> Iterator[tuple[int, World]]:
    """Number and world, one for each point where the process may die; the last one has run to its end."""
    for number in itertools.count(1):
        world = build()
        dead = crash_at(world, number)
        yield number, world
        if not dead():
            return


def assert_clean(kafka: MovingKafka) -> None:
    assert not any(own.rates for own in kafka.brokers.values())
    assert not any(topic.lists for topic in kafka.topics.values())
    assert not any(kafka.partition(key).adding for key in kafka.find_keys())
    assert not kafka.harms


def until_copying(world: World) -> None:
    world.run(lambda found: found.bytes_done > 0)


def reasons(world: World) -> dict[tuple[str, int], Reason]:
    return {(one.topic, one.partition): one.reason for one in world.journaled.ended}
