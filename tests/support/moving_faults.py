"""What befalls a cluster while replicas move, chosen by a seed: every fault that the executor must survive."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from evenkeel.domain.moves import Move
from evenkeel.errors import FencedError
from evenkeel.keeper.moving.progress import MoveProgress
from evenkeel.keeper.moving.settings import Control, MoveSettings
from evenkeel.keeper.moving.steps import Place, Reassign, Step
from evenkeel.reasons import Reason
from tests.support.moving_kafka import GB, MB, MovingKafka
from tests.support.moving_world import CrashError, World, build_kafka, build_local, build_move, build_world

FOREIGN_RATE = 7_777_777
BROKERS = 5


@dataclass
class Story:
    """One run under faults: what was done to it, and what must be left afterwards."""

    seed: int
    world: World
    random: random.Random
    told: list[str] = field(default_factory=list)
    due: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    """What heals, and when."""
    foreign_rates: dict[tuple[int, str], int] = field(default_factory=dict)
    spoiled: bool = False
    """Others have changed throttles."""
    foreign_moves: set[tuple[str, int]] = field(default_factory=set)

    @property
    def kafka(self) -> MovingKafka:
        return self.world.kafka

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        self.due.append((self.kafka.now + seconds, act))

    def heal(self) -> None:
        ready = [row for row in self.due if row[0] <= self.kafka.now]
        self.due = [row for row in self.due if row[0] > self.kafka.now]
        for _, act in ready:
            act()


def build_story(seed: int) -> Story:
    """A cluster of five brokers with topics of RF 1 to 3 and up to twelve moves in up to four batches."""
    rng = random.Random(seed)
    kafka = build_kafka(BROKERS, gigabytes=40, dirs=rng.choice([1, 1, 2]))
    batches: list[list[Move]] = [[] for _ in range(rng.randint(1, 4))]
    for number in range(rng.randint(1, 3)):
        copies = rng.randint(1, 3)
        rows = [rng.sample(range(1, BROKERS + 1), copies) for _ in range(4)]
        sizes = [rng.randint(20, 600) * MB for _ in rows]
        kafka.add_topic(f"t{number}", rows, sizes, rng.randint(1, copies))
        for partition in range(4):
            kafka.partition((f"t{number}", partition)).written = rng.choice([0.0, 0.1, 1.0]) * MB
            rng.choice(batches).append(_random_move(kafka, (f"t{number}", partition), rng))
    return Story(seed, build_world(*batches, kafka=kafka, settings=MoveSettings(patience_seconds=120)), rng)


def _random_move(kafka: MovingKafka, key: tuple[str, int], rng: random.Random) -> Move:
    one = kafka.partition(key)
    others = [broker for broker in kafka.brokers if broker not in one.replicas]
    local = [broker for broker in one.replicas if len(kafka.brokers[broker].dirs) > 1]
    if local and rng.random() < 0.3:
        return build_local(kafka, key, rng.choice(local), "/d1")
    target = list(one.replicas)
    if rng.random() < 0.1 and len(target) > kafka.topics[key[0]].min_isr:
        target.remove(rng.choice(target))
        return build_move(kafka, key, target)
    chosen = rng.choice(others)
    if rng.random() < 0.15:
        target.append(chosen)
    else:
        target[rng.randrange(len(target))] = chosen
    path = rng.choice(sorted(kafka.brokers[chosen].dirs))
    return build_move(kafka, key, target, target_dir=path if len(kafka.brokers[chosen].dirs) > 1 else None)


def play(story: Story, faults: int = 1, seconds: float = 6000) -> MoveProgress:
    """Run to the end with faults at random moments.

    Raises:
        AssertionError: it does not end.
    """
    world, rng = story.world, story.random
    moments = sorted(rng.uniform(0, 90) for _ in range(faults))
    while world.kafka.now < seconds:
        while moments and world.kafka.now >= moments[0]:
            moments.pop(0)
            fault = rng.choice(FAULTS)
            story.spoiled = story.spoiled or fault in SPOIL_THROTTLES
            fault(story)
        story.heal()
        try:
            found = world.turn()
        except FencedError:
            story.told.append("fenced")
            world.restart()
            continue
        if found is not None and found.over and not moments and not story.due:
            return found
    raise AssertionError(f"seed {story.seed}, {story.told}: {world.journal.text}\n{world.errors[-2:]}")


def _some_broker(story: Story) -> int:
    """A broker of a move under way, if there is one."""
    run = story.world.journal.read()
    flights = run.flights if run is not None else ()
    moves = [flight.move for flight in flights] or list(story.world.plan.moves)
    move = story.random.choice(moves)
    return story.random.choice((*move.source, *move.target))


def lose_broker(story: Story) -> None:
    """A broker dies and comes back after 2 to 200 s."""
    broker = _some_broker(story)
    if story.kafka.brokers[broker].online:
        story.kafka.kill(broker)
        story.later(story.random.uniform(2, 200), lambda: story.kafka.revive(broker))
        story.told.append(f"broker {broker} lost")


def fill_disk(story: Story) -> None:
    """Foreign bytes fill a receiver's disk: it halts, or is nearly full; they go after a while."""
    broker = _some_broker(story)
    own = story.kafka.brokers[broker]
    path = story.random.choice(sorted(own.dirs))
    own.foreign[path] = story.random.choice([0.8, 0.94, 1.0]) * own.dirs[path]

    def free() -> None:
        own.foreign.pop(path, None)
        if not own.online:
            story.kafka.revive(broker)

    story.later(story.random.uniform(20, 150), free)
    story.told.append(f"disk {path} of broker {broker} filled")


def delete_topic(story: Story) -> None:
    """A topic is deleted, perhaps made again under its name at once."""
    if not story.kafka.topics:
        return
    name = story.random.choice(sorted(story.kafka.topics))
    story.kafka.delete_topic(name)
    if story.random.random() < 0.5:
        online = [broker for broker, own in story.kafka.brokers.items() if own.online]
        story.kafka.add_topic(name, [[online[0]]] * 4, [MB] * 4)
    story.told.append(f"{name} deleted")


def crash(story: Story) -> None:
    """The keeper dies before or after one of its next calls or commits."""
    left = story.random.randint(0, 5)

    def die(_: Step | None = None) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            story.kafka.after_call = lambda _: None
            story.world.journal.on_write = lambda: None
            raise CrashError

    if story.random.random() < 0.7:
        story.kafka.after_call = die
    else:
        story.world.journal.on_write = die
    story.told.append(f"keeper dies after {left} more")


def freeze(story: Story) -> None:
    """The keeper stands still for 30 s in the middle of its calls, and a successor takes over meanwhile."""

    def stand(_: Step) -> None:
        story.kafka.after_call = lambda _: None
        story.kafka.tick(30)
        if story.random.random() < 0.5:
            story.world.journal.owner += 1

    story.kafka.after_call = stand
    story.told.append("keeper stands still")


def cut_network(story: Story) -> None:
    """The keeper reaches nobody for 5 to 100 s."""
    story.kafka.cut = True
    story.later(story.random.uniform(5, 100), lambda: setattr(story.kafka, "cut", False))
    story.told.append("network cut")


def isolate(story: Story) -> None:
    """A broker copies nothing for 10 to 900 s."""
    broker = _some_broker(story)
    story.kafka.isolated.add(broker)
    story.later(story.random.uniform(10, 900), lambda: story.kafka.isolated.discard(broker))
    story.told.append(f"broker {broker} copies nothing")


def remove_throttles(story: Story) -> None:
    """Somebody removes every throttle, as `kafka-reassign-partitions --verify` does, or half of each."""
    what = story.random.choice(["rates", "lists", "rates and lists"])
    for own in story.kafka.brokers.values() if "rates" in what else ():
        own.rates.clear()
    for topic in story.kafka.topics.values() if "lists" in what else ():
        topic.lists.clear()
    story.told.append(f"{what} removed")


def override_throttle(story: Story) -> None:
    """Somebody sets a rate of a broker, for good or for a while."""
    broker = _some_broker(story)
    own = story.kafka.brokers[broker]
    key = story.random.choice(["leader.replication.throttled.rate", "follower.replication.throttled.rate"])
    own.rates[key] = FOREIGN_RATE
    story.foreign_rates[broker, key] = FOREIGN_RATE

    def take_back() -> None:
        own.rates.pop(key, None)
        story.foreign_rates.pop((broker, key), None)

    story.later(story.random.uniform(20, 200), take_back)
    story.told.append(f"{key} of {broker} overridden")


def move_elsewhere(story: Story) -> None:
    """Somebody moves a partition: perhaps one of ours, perhaps while we do."""
    keys = [key for key in story.kafka.find_keys() if story.kafka.partition(key).leader is not None]
    if not keys:
        return
    key = story.random.choice(keys)
    one = story.kafka.partition(key)
    online = [broker for broker, own in story.kafka.brokers.items() if own.online]
    if len(online) < len(one.replicas) - len(one.adding):
        return
    target = story.random.sample(online, max(1, len(one.replicas) - len(one.adding)))
    if set(target) & {broker for broker in one.isr if story.kafka.brokers[broker].online}:
        story.kafka.begin(key, target)
        story.foreign_moves.add(key)
        story.told.append(f"{key} moved to {target} by somebody else")


def cancel_ours(story: Story) -> None:
    """Somebody cancels a reassignment of ours."""
    for key in story.kafka.find_keys():
        one = story.kafka.partition(key)
        alive = [b for b in one.isr if b not in one.adding and story.kafka.brokers[b].online]
        if one.adding and alive:
            story.kafka.cancel(key)
            story.told.append(f"{key} cancelled by somebody else")
            return


def ask_to_stop(story: Story) -> None:
    """The user cancels, or lets the batch finish."""
    control = story.random.choice([Control.CANCEL, Control.FINISH, Control.PAUSE])
    story.world.want(control=control)
    if control is Control.PAUSE:
        story.later(story.random.uniform(5, 100), lambda: story.world.want(control=Control.RUN))
    story.told.append(f"{control}")


def lose_answer(story: Story) -> None:
    """A call takes effect and its answer gets lost."""

    def lose(step: Step) -> None:
        if isinstance(step, Reassign | Place):
            story.kafka.after_call = lambda _: None
            story.kafka.cut = True
            story.later(3, lambda: setattr(story.kafka, "cut", False))

    story.kafka.after_call = lose
    story.told.append("answer lost")


def delay_call(story: Story) -> None:
    """A call takes effect only after its answer was given up; perhaps the keeper dies or is stopped meanwhile."""
    story.kafka.delay = story.random.uniform(1, 5)

    def die(_: Step) -> None:
        story.kafka.after_call = lambda _: None
        story.world.want(control=Control.CANCEL)
        raise CrashError

    if story.random.random() < 0.5:
        story.kafka.after_call = die
    story.told.append("call delayed")


def lose_source_and_cancel(story: Story) -> None:
    """The sender of a copy dies, and the user cancels in the same second."""
    copying = [one for key in story.kafka.find_keys() if (one := story.kafka.partition(key)).adding]
    if copying:
        leader = story.random.choice(copying).leader
        if leader is not None:
            story.kafka.kill(leader)
            story.later(story.random.uniform(20, 100), lambda: story.kafka.revive(leader))
            story.told.append(f"source {leader} lost")
    story.world.want(control=Control.CANCEL)
    story.told.append("cancelled")


def be_late(story: Story) -> None:
    """The broker that tells metadata is late by 8 s."""
    story.kafka.late = story.kafka.describe()
    story.later(8, lambda: setattr(story.kafka, "late", None))
    story.told.append("metadata late")


FAULTS: list[Callable[[Story], None]] = [
    lose_broker,
    lose_broker,
    fill_disk,
    delete_topic,
    crash,
    crash,
    freeze,
    cut_network,
    isolate,
    remove_throttles,
    override_throttle,
    move_elsewhere,
    cancel_ours,
    ask_to_stop,
    lose_answer,
    delay_call,
    be_late,
    be_late,
    lose_source_and_cancel,
]
SPOIL_THROTTLES = (remove_throttles, override_throttle)
"""After these a copy may run unthrottled for a moment."""


def find_faults_left(story: Story) -> list[str]:
    """What must not be so after the end, as sentences."""
    kafka, left = story.kafka, list(story.kafka.harms)
    for broker, own in kafka.brokers.items():
        for name, value in own.rates.items():
            if story.foreign_rates.get((broker, name)) != value:
                left.append(f"{name} of broker {broker} is still {value}")
    left += [
        f"foreign {name} of broker {broker} is gone"
        for (broker, name), value in story.foreign_rates.items()
        if kafka.brokers[broker].rates.get(name) != value
    ]
    if not story.spoiled:
        left += [
            f"{size:.0f} bytes of {key} were copied without a throttle"
            for key, size in kafka.unthrottled.items()
            if key not in story.foreign_moves
        ]
    for name, topic in kafka.topics.items():
        left += [f"{role} list of {name} is {rows}" for role, rows in topic.lists.items()]
    for key in kafka.find_keys():
        one = kafka.partition(key)
        if (one.adding or one.removing) and key not in story.foreign_moves:
            left.append(f"{key} is still under way: {one}")
        left += [f"a copy of {key} goes on on broker {broker}" for broker in one.futures]
    return left


def find_places_wrong(story: Story) -> list[str]:
    """Partitions that are neither where they were nor where they should be, though nobody else touched them."""
    wrong: list[str] = []
    if story.world.journal.text is None:
        return wrong
    for move in story.world.plan.moves:
        key = (move.topic, move.partition)
        if key in story.foreign_moves or move.topic not in story.kafka.topics:
            continue
        topic = story.kafka.topics[move.topic]
        if not topic.id.endswith("-0.0"):
            continue  # made again
        found = tuple(topic.partitions[move.partition].replicas)
        ended = {(one.topic, one.partition): one.reason for one in story.world.journaled.ended}
        moved = ended.get(key) is Reason.MOVED
        if found != move.target and (moved or set(found) != set(move.source)):
            wrong.append(f"{key} lies on {found}, from {move.source} to {move.target}: {ended.get(key)}")
        if found == move.target != move.source and key in ended and not moved:
            wrong.append(f"{key} has moved, told as {ended[key]}")
    return wrong


__all__ = ["BROKERS", "FAULTS", "GB", "Story", "build_story", "find_faults_left", "find_places_wrong", "play"]
