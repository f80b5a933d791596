"""A simulated Kafka for moves: brokers, disks, reassignments that copy at the throttle, ISR, delayed deletion.

It behaves as a real one was measured to: reassignments outlive brokers, throttles stay until somebody removes
them, a cancelled move changes the order of replicas, deleted replicas keep their space for a minute, and a
single broker alone changes its own settings. It plays the executor's `Hand`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Self

from evenkeel.domain.waits import Waits
from evenkeel.errors import EvenkeelError, RetryableError
from evenkeel.kafka.answers import (
    BrokerRates,
    ReassignmentAnswer,
    TopicAnswer,
    TopicPartition,
)
from evenkeel.kafka.wire import DIRECTORY_RATE, FOLLOWER_RATE, LEADER_RATE
from evenkeel.keeper.moving.executor import Failures
from evenkeel.keeper.moving.guards import WITHOUT_STAYING
from evenkeel.keeper.moving.observation import Observation, Wanted
from evenkeel.keeper.moving.steps import AddEntries, DropEntries, DropRate, Place, Reassign, SetRate, Step
from evenkeel.reasons import Reason
from tests.support.moving_model import SimBroker, SimPartition, SimTopic, describe_topic, list_dirs

GB, MB = 1_000_000_000, 1_000_000
WIRE_SPEED = 200 * MB
CATCH_UP_SECONDS = 3.0
DELETE_SECONDS = 60.0


class MovingKafka:
    """The cluster. `tick` lets time pass; `now` is its clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.brokers: dict[int, SimBroker] = {}
        self.topics: dict[str, SimTopic] = {}
        self.cut = False
        """The executor reaches nobody."""
        self.isolated: set[int] = set()
        """Brokers that copy nothing, as when the network between them is cut."""
        self.harms: list[str] = []
        """What must never happen, as sentences."""
        self.unthrottled: dict[TopicPartition, float] = defaultdict(float)
        """Bytes that were copied without a throttle, by adding replicas and between directories as was asked for."""
        self.late: dict[str, TopicAnswer] | None = None
        """Metadata as a broker that is late tells them."""
        self.calls: list[Step] = []
        self.before_call: Callable[[Step], None] = lambda _: None
        self.after_call: Callable[[Step], None] = lambda _: None
        self.refuse: EvenkeelError | None = None
        """What it says to reassignments."""
        self.refuse_places: dict[TopicPartition, EvenkeelError] = {}
        self.delay: float | None = None
        """The next call is answered by nothing, and takes effect so many seconds later."""
        self._delayed: list[tuple[float, Step]] = []
        self._placed: set[tuple[int, TopicPartition]] = set()  # between directories, and asked for
        self.waits: Waits | None = None
        self.blind: set[int] = set()
        """Brokers that are alive and do not answer the executor."""
        self.metadata_version: int | None = WITHOUT_STAYING

    def add_topic(
        self, name: str, replicas: Sequence[Sequence[int]], sizes: Sequence[float], min_isr: int = 1
    ) -> None:
        topic = SimTopic(f"id-of-{name}-{len(self.topics)}-{self.now}", min_isr)
        for row, size in zip(replicas, sizes, strict=True):
            copies = {one: (next(iter(self.brokers[one].dirs)), size) for one in row}
            topic.partitions.append(SimPartition(list(row), size, copies, set(row), row[0]))
        self.topics[name] = topic

    def partition(self, key: TopicPartition) -> SimPartition:
        return self.topics[key[0]].partitions[key[1]]

    def find_keys(self) -> list[TopicPartition]:
        return [(name, i) for name, topic in self.topics.items() for i in range(len(topic.partitions))]

    def kill(self, broker: int) -> None:
        """As kill -9: replicas leave the ISR, but for the last one; leaders change where they can."""
        self.brokers[broker].online = False
        self.brokers[broker].wishes.clear()
        for key in self.find_keys():
            one = self.partition(key)
            if broker in one.isr and len(one.isr) > 1:
                one.isr.discard(broker)
            if one.leader == broker:
                self._elect(one)

    def revive(self, broker: int) -> None:
        self.brokers[broker].online = True
        self.brokers[broker].back_at = self.now
        for key in self.find_keys():
            if self.partition(key).leader is None:
                self._elect(self.partition(key))

    def delete_topic(self, name: str) -> None:
        for one in self.topics.pop(name).partitions:
            for broker, (path, size) in [*one.copies.items(), *one.futures.items()]:
                self.brokers[broker].deleted.append((self.now + DELETE_SECONDS, path, size))

    def used(self) -> dict[tuple[int, str], float]:
        """Bytes on each disk."""
        held: dict[tuple[int, str], float] = defaultdict(float)
        for broker, own in self.brokers.items():
            for path, size in own.foreign.items():
                held[broker, path] += size
            for _, path, size in own.deleted:
                held[broker, path] += size
        for topic in self.topics.values():
            for one in topic.partitions:
                for store in (one.copies, one.futures):
                    for broker, (path, size) in store.items():
                        held[broker, path] += size
        return held

    def begin(self, key: TopicPartition, target: Sequence[int]) -> None:
        """What AlterPartitionReassignments does."""
        one = self.partition(key)
        original = [broker for broker in one.replicas if broker not in one.adding]
        kept = [broker for broker in target if broker in original]
        one.adding = [broker for broker in target if broker not in original]
        one.removing = [broker for broker in original if broker not in target]
        for broker in set(one.copies) - set(target) - set(original):
            self._delete(one, broker)
        if not one.adding and not one.removing:
            one.replicas = list(target)
            return
        assert kept or one.adding
        one.replicas = [*target, *one.removing]
        for broker in one.adding:
            if broker not in one.copies:
                own = self.brokers[broker]
                path = own.wishes.pop(key, None) or min(
                    own.dirs, key=lambda path: (self._count(broker, path), path)
                )
                one.copies[broker] = (path, 0.0)
        self._complete(key)

    def cancel(self, key: TopicPartition) -> None:
        one = self.partition(key)
        if not one.adding and not one.removing:
            return
        for broker in one.adding:
            self._delete(one, broker)
        one.replicas = [broker for broker in one.replicas if broker not in one.adding]
        one.isr &= set(one.replicas)
        one.adding, one.removing = [], []
        if one.leader not in one.replicas:
            self._elect(one)

    def tick(self, seconds: float) -> None:
        """Let time pass, in steps of a second."""
        end = self.now + seconds
        while self.now < end - 1e-9:
            span = min(1.0, end - self.now)
            self.now += span
            self._pass(span)

    def __enter__(self) -> Self:
        self._reach()
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def look(self, wanted: Wanted) -> Observation:
        self._reach()
        online = frozenset(broker for broker, own in self.brokers.items() if own.online)
        asked = (wanted.brokers & online) - self.blind
        topics = wanted.topics & self.topics.keys()
        return Observation(
            at=self.now,
            cluster_id="sim",
            online=online,
            reassignments={
                key: ReassignmentAnswer(tuple(one.replicas), tuple(one.adding), tuple(one.removing))
                for key in self.find_keys()
                if (one := self.partition(key)).adding or one.removing
            },
            topics=self.late or self.describe(),
            min_isr={name: self.topics[name].min_isr for name in topics},
            lists={
                name: {role: ",".join(rows) for role, rows in self.topics[name].lists.items()}
                for name in topics
            },
            dirs={
                broker: list_dirs(broker, self.brokers[broker], self.topics, self.used()) for broker in asked
            },
            rates={broker: BrokerRates(dict(self.brokers[broker].rates)) for broker in asked},
            waits=self.waits,
            metadata_version=self.metadata_version,
        )

    def apply(self, steps: Sequence[Step]) -> Failures:
        failures: list[tuple[Step, EvenkeelError]] = []
        for step in steps:
            self.before_call(step)
            self._reach()
            error = self._put_off(step) or self._do(step)
            self.calls.append(step)
            self.after_call(step)
            failures += [] if error is None else [(step, error)]
        return failures

    def _put_off(self, step: Step) -> EvenkeelError | None:
        if self.delay is None:
            return None
        self._delayed.append((self.now + self.delay, step))
        self.delay = None
        return RetryableError("no answer in time", reason=Reason.BROKERS_UNREACHABLE)

    def _reach(self) -> None:
        if self.cut:
            raise RetryableError("no broker answers", reason=Reason.BROKERS_UNREACHABLE)

    def _do(self, step: Step) -> EvenkeelError | None:
        match step:
            case SetRate() | DropRate() | Place():
                if not self.brokers[step.broker].online or step.broker in self.blind:
                    return RetryableError("broker is away", reason=Reason.BROKERS_UNREACHABLE)
            case AddEntries() | DropEntries():
                if step.topic not in self.topics:
                    return RetryableError("no such topic", reason=Reason.TOPIC_MISSING)
            case Reassign():
                if step.key[0] not in self.topics:
                    return RetryableError("no such topic", reason=Reason.TOPIC_MISSING)
        return self._do_alive(step)

    def _do_alive(self, step: Step) -> EvenkeelError | None:
        match step:
            case SetRate():
                self.brokers[step.broker].rates[step.key] = step.value
            case DropRate():
                self.brokers[step.broker].rates.pop(step.key, None)
            case AddEntries():
                rows = self.topics[step.topic].lists.setdefault(step.role, [])
                rows += [entry for entry in step.entries if entry not in rows]
            case DropEntries():
                self._drop_entries(step)
            case Reassign():
                if step.replicas is None:
                    self._judge_cancel(step.key)
                    self.cancel(step.key)
                elif self.refuse is not None:
                    return self.refuse
                else:
                    self.begin(step.key, step.replicas)
            case Place() if step.key in self.refuse_places:
                return self.refuse_places[step.key]
            case Place():
                self._place(step)
        return None

    def _drop_entries(self, step: DropEntries) -> None:
        lists = self.topics[step.topic].lists
        if step.whole:
            lists.pop(step.role, None)
        elif step.role in lists:
            lists[step.role] = [row for row in lists[step.role] if row not in step.entries]

    def _place(self, step: Place) -> None:
        one = self.partition(step.key)
        if step.broker not in one.copies:
            self.brokers[step.broker].wishes[step.key] = step.path
        elif one.copies[step.broker][0] == step.path:
            if step.broker in one.futures:
                path, size = one.futures.pop(step.broker)
                self.brokers[step.broker].deleted.append((self.now + DELETE_SECONDS, path, size))
        elif one.futures.get(step.broker, ("",))[0] != step.path:
            one.futures[step.broker] = (step.path, 0.0)
            self._placed.add((step.broker, step.key))

    def describe(self) -> dict[str, TopicAnswer]:
        """Metadata of all topics."""
        return {name: describe_topic(name, topic) for name, topic in self.topics.items()}

    def _pass(self, span: float) -> None:
        due = [step for at, step in self._delayed if at <= self.now]
        self._delayed = [row for row in self._delayed if row[0] > self.now]
        for step in due:
            self._do(step)
        for own in self.brokers.values():
            own.deleted = [row for row in own.deleted if row[0] > self.now]
        for key in self.find_keys():
            one = self.partition(key)
            if one.leader is not None:
                one.size += one.written * span
                for broker in one.isr:
                    one.copies[broker] = (one.copies[broker][0], one.size)
        for key in self.find_keys():
            self._copy(key, span)
            self._catch_up(key)
            self._complete(key)
        self._fill_disks()

    def _copy(self, key: TopicPartition, span: float) -> None:
        one = self.partition(key)
        for broker in list(one.copies):
            path, size = one.copies[broker]
            leader = one.leader
            if broker in one.isr or leader is None or not self.brokers[broker].online or size >= one.size:
                continue
            if broker in self.isolated or leader in self.isolated:
                continue
            limit = self._limit(key, leader, broker)
            speed = min(WIRE_SPEED, limit or WIRE_SPEED)
            if limit is None and broker in one.adding:
                self.unthrottled[key] += speed * span
            one.copies[broker] = (path, min(one.size, size + speed * span))
        for broker, (path, size) in list(one.futures.items()):
            if not self.brokers[broker].online:
                continue
            limit = self.brokers[broker].rates.get(DIRECTORY_RATE)
            if limit is None and (broker, key) in self._placed:
                self.unthrottled[key] += WIRE_SPEED * span
            grown = min(one.size, size + (WIRE_SPEED if limit is None else limit) * span)
            one.futures[broker] = (path, grown)
            if grown >= one.size and one.copies[broker][1] >= one.size:
                arrived = one.futures.pop(broker)
                self._delete(one, broker)
                one.copies[broker] = arrived

    def _limit(self, key: TopicPartition, leader: int, broker: int) -> int | None:
        """The throttle that holds for a copy; None: none does."""
        lists, limits = self.topics[key[0]].lists, []
        for role, name, one in (("leader", LEADER_RATE, leader), ("follower", FOLLOWER_RATE, broker)):
            rows, rate = lists.get(role, []), self.brokers[one].rates.get(name)
            if rate is not None and (f"{key[1]}:{one}" in rows or "*" in rows):
                limits.append(rate)
        return min(limits, default=None)

    def _catch_up(self, key: TopicPartition) -> None:
        one = self.partition(key)
        if one.leader is None:
            return
        for broker in one.replicas:
            own = self.brokers[broker]
            late = self.now - own.back_at < CATCH_UP_SECONDS
            if own.online and not late and one.copies.get(broker, ("", 0.0))[1] >= one.size:
                one.isr.add(broker)

    def _complete(self, key: TopicPartition) -> None:
        """Every adding replica is in sync: the removed ones go."""
        one = self.partition(key)
        fresh = (self.metadata_version or 0) >= WITHOUT_STAYING and len(one.adding) >= len(one.removing)
        awaited = set(one.adding if fresh else one.replicas) - set(one.removing)
        if not (one.adding or one.removing) or one.leader is None or not awaited <= one.isr:
            return
        if not one.isr - set(one.removing):
            return
        before = self._alive(one)
        for broker in one.removing:
            self._delete(one, broker)
        one.replicas = [broker for broker in one.replicas if broker not in one.removing]
        one.isr -= set(one.removing)
        one.adding, one.removing = [], []
        if one.leader not in one.isr:
            self._elect(one)
        least, after = self.topics[key[0]].min_isr, self._alive(one)
        if before >= least > after:
            self.harms.append(f"the end of the move of {key} left {after} in sync")

    def _judge_cancel(self, key: TopicPartition) -> None:
        """Design section 6: min ISR of the original replicas are alive and in sync."""
        one = self.partition(key)
        originals = len(one.replicas) - len(one.adding)
        least = max(1, min(self.topics[key[0]].min_isr, originals))
        if all(not self.brokers[broker].online and broker not in one.isr for broker in one.adding):
            least = 1  # what is given up is no copy yet, and nobody makes it one
        if one.adding and self._alive(one) < least:
            self.harms.append(f"{key} was cancelled with {self._alive(one)} original replicas in sync")

    def _alive(self, one: SimPartition) -> int:
        """Replicas in sync without those that a move adds: what there would be without the move."""
        return sum(self.brokers[broker].online for broker in one.isr if broker not in one.adding)

    def _elect(self, one: SimPartition) -> None:
        alive = [broker for broker in one.replicas if broker in one.isr and self.brokers[broker].online]
        one.leader = alive[0] if alive else None

    def _delete(self, one: SimPartition, broker: int) -> None:
        if broker in one.copies:
            path, size = one.copies.pop(broker)
            self.brokers[broker].deleted.append((self.now + DELETE_SECONDS, path, size))
        one.futures.pop(broker, None)
        one.isr.discard(broker)

    def _count(self, broker: int, path: str) -> int:
        return sum(self.partition(key).copies.get(broker, ("",))[0] == path for key in self.find_keys())

    def _fill_disks(self) -> None:
        used = self.used()
        for broker, own in self.brokers.items():
            for path, total in own.dirs.items():
                if own.online and used[broker, path] >= total:
                    self.kill(broker)
