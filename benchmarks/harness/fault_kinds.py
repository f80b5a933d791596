"""What befalls a cluster while replicas move: each fault begins, lasts as long as it says, and is healed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from benchmarks.harness.fault_scene import BROKERS, Hold, Scene
from evenkeel.domain.moves import Move
from evenkeel.kafka.wire import FOLLOWER_RATE, LEADER_RATE, LISTS
from evenkeel.keeper.moving.settings import MoveSettings
from evenkeel.reasons import Reason
from integration.kafka import network
from integration.kafka.clients import delete_topic
from integration.processes import wait_until

FROZEN_SECONDS = 30.0
FOREIGN_VALUE = "3333333"
RATES = (LEADER_RATE, FOLLOWER_RATE)


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind."""

    title: str
    act: Callable[[Scene], AbstractContextManager[Hold]]
    """Begins it; is healed at the end of the block."""
    reasons: tuple[Reason, ...] = ()
    """How a run may end beside Moved."""
    missing: Callable[[], str] = lambda: ""
    """Why it cannot be had here; empty: it can."""


def _receiver(scene: Scene) -> int:
    found = [move.copied_to for move in scene.flights() if move.copied_to is not None]
    return scene.rng.choice(sorted(found))


def _sender(scene: Scene) -> int:
    """The leader that copies come from."""
    places = scene.places()
    leaders = [places[move.topic, move.partition].leader for move in scene.flights()]
    return scene.rng.choice(sorted(leader for leader in leaders if leader in BROKERS))


@contextmanager
def kill_receiver(scene: Scene) -> Iterator[Hold]:
    """A receiver dies, and is back only when its moves have been given up."""
    broker = _receiver(scene)
    scene.note(f"broker {broker} killed until its moves are cancelled")
    scene.lose(broker)
    scene.cluster.kill(broker)
    limit = (MoveSettings().lost_seconds + 10) * scene.scale + 20

    def given_up() -> bool:
        return not any(broker in one["adding_replicas"] for one in scene.under_way().values())

    yield Hold(limit, given_up)
    if not given_up():
        scene.problems.append(f"moves to broker {broker} are not cancelled {limit:.0f} s after its death")
    scene.bring_back(broker)


@contextmanager
def restart_receiver(scene: Scene) -> Iterator[Hold]:
    """A receiver dies and is back soon."""
    with _killed(scene, _receiver(scene)) as hold:
        yield hold


@contextmanager
def restart_sender(scene: Scene) -> Iterator[Hold]:
    """The leader that is copied from dies and is back soon."""
    with _killed(scene, _sender(scene)) as hold:
        yield hold


@contextmanager
def _killed(scene: Scene, broker: int) -> Iterator[Hold]:
    seconds = scene.rng.uniform(2, 12)
    scene.note(f"broker {broker} killed for {seconds:.0f} s")
    scene.lose(broker)
    scene.cluster.kill(broker)
    yield Hold(seconds)
    scene.bring_back(broker)


@contextmanager
def cancel_without_source(scene: Scene) -> Iterator[Hold]:
    """The only source of a copy dies, then the user cancels: refused until it is back."""
    lone = [move for move in scene.flights() if len(move.source) == 1]
    move = scene.rng.choice(lone or scene.flights())
    broker = move.source[0]
    scene.note(f"broker {broker} killed, cancelled while {move.topic}-{move.partition} has no source")
    scene.lose(broker)
    scene.cluster.kill(broker)
    wait_until("a partition without leader", lambda: _is_dead(scene, broker), seconds=60, every=0.5)
    if scene.runner.process.running:
        scene.runner.cancel()
    yield Hold(scene.rng.uniform(8, 14))
    still = (move.topic, move.partition) in scene.under_way()
    held = any(one.reason == Reason.MOVE_HELD for one in scene.runner.told())
    if len(move.source) == 1 and still and not held:
        scene.problems.append(f"{move.topic}-{move.partition} is under way, and nobody says MoveHeld")
    if held:
        scene.note("held")
    scene.bring_back(broker)


def _is_dead(scene: Scene, broker: int) -> bool:
    """Whether Kafka knows."""
    return all(broker not in place.isr or place.leader < 0 for place in scene.places().values())


@contextmanager
def fill_disk(scene: Scene) -> Iterator[Hold]:
    """Somebody's file takes nearly all of the disk that copies go to."""
    broker = _receiver(scene)
    scene.note(f"disk of broker {broker} filled to 96 %")
    scene.cluster.fill(broker, fraction=0.96)
    yield Hold(scene.rng.uniform(8, 15))
    scene.cluster.fill(broker, 0)


@contextmanager
def fill_disk_whole(scene: Scene) -> Iterator[Hold]:
    """The same to the last byte: the broker ends at its next write."""
    broker = _receiver(scene)
    scene.note(f"disk of broker {broker} filled")
    scene.lose(broker)
    scene.cluster.fill(broker, fraction=1.0)
    yield Hold(scene.rng.uniform(8, 15))
    scene.cluster.fill(broker, 0)
    scene.note("it died" if not scene.cluster.running(broker) else "it lived")
    scene.bring_back(broker)


@contextmanager
def delete_moved_topic(scene: Scene) -> Iterator[Hold]:
    """A topic of the plan is deleted."""
    topic = scene.rng.choice(sorted({move.topic for move in scene.flights()}))
    scene.note(f"{topic} deleted")
    scene.gone.add(topic)
    scene.trail.drop(topic)
    scene.watch.forget(topic)
    scene.foreign.pop(f"topic {topic} {LISTS['leader']}", None)
    delete_topic(scene.cluster.client_config(), topic)
    yield Hold(0)


@contextmanager
def kill_executor(scene: Scene) -> Iterator[Hold]:
    """SIGKILL, then a new one."""
    scene.note("executor killed")
    scene.runner.process.kill()
    yield Hold(scene.rng.uniform(0, 10))
    scene.runner.start()


@contextmanager
def freeze_executor(scene: Scene) -> Iterator[Hold]:
    """It stands still for half a minute, and does not know."""
    process = scene.runner.process
    scene.note(f"executor frozen for {FROZEN_SECONDS * scene.scale:.0f} s")
    process.freeze()
    yield Hold(FROZEN_SECONDS * scene.scale)
    process.thaw()


@contextmanager
def replace_executor(scene: Scene) -> Iterator[Hold]:
    """It stands still, another one takes over, and then it wakes up."""
    first = scene.runner.process
    scene.note("executor frozen and replaced")
    first.freeze()
    scene.runner.start()
    yield Hold(scene.rng.uniform(5, 12))
    first.thaw()


@contextmanager
def stop_leader(scene: Scene) -> Iterator[Hold]:
    """The leader that is copied from is shut down in good order: another leads from now on."""
    broker, seconds = _sender(scene), scene.rng.uniform(2, 8)
    scene.note(f"broker {broker} shut down for {seconds:.0f} s, its leaders moved")
    scene.lose(broker)
    scene.cluster.stop(broker)
    yield Hold(seconds)
    scene.bring_back(broker)


@contextmanager
def freeze_leader(scene: Scene) -> Iterator[Hold]:
    """The leader that is copied from answers nothing and loses its lead."""
    broker, seconds = _sender(scene), scene.rng.uniform(8, 16)
    scene.note(f"broker {broker} frozen for {seconds:.0f} s, its leaders lost")
    scene.lose(broker)
    scene.cluster.freeze(broker)
    yield Hold(seconds)
    scene.cluster.thaw(broker)
    scene.watch.expect_back(broker)


@contextmanager
def cut_network(scene: Scene) -> Iterator[Hold]:
    """A broker is cut off from everybody."""
    assert scene.network is not None
    broker = scene.rng.choice([_receiver(scene), _sender(scene)])
    seconds = scene.rng.uniform(6, 16)
    scene.note(f"broker {broker} cut off for {seconds:.0f} s")
    scene.lose(broker)
    scene.network.cut(broker)
    yield Hold(seconds)
    scene.network.mend(broker)
    scene.watch.expect_back(broker)


def _throttled(scene: Scene) -> list[tuple[int, str]]:
    """Brokers and settings with a throttle of ours; any of the plan's receivers where there is none."""
    ours = [
        key.split(" ") for key in scene.throttles() if key.startswith("broker ") and key not in scene.foreign
    ]
    found = sorted((int(broker), key) for _, broker, key in ours if key in RATES)
    return found or [(_receiver(scene), FOLLOWER_RATE)]


@contextmanager
def remove_throttle(scene: Scene) -> Iterator[Hold]:
    """Somebody takes our throttle away."""
    broker, key = scene.rng.choice(_throttled(scene))
    scene.note(f"{key} of broker {broker} removed")
    scene.ask(lambda admin: admin.set_broker(broker, key, None))
    yield Hold(0)


@contextmanager
def remove_list(scene: Scene) -> Iterator[Hold]:
    """Somebody takes the throttled replicas of a topic away, but for those of others."""
    key = scene.rng.choice(sorted(LISTS.values()))
    told = [name.split(" ") for name in scene.throttles() if name.startswith("topic ")]
    ours = [topic for _, topic, found in told if found == key]
    topic = scene.rng.choice(sorted(ours) or sorted({move.topic for move in scene.flights()}))
    scene.note(f"{key} of {topic} removed")
    scene.ask(lambda admin: admin.set_topic(topic, key, scene.foreign.get(f"topic {topic} {key}")))
    yield Hold(0)


@contextmanager
def change_throttle(scene: Scene) -> Iterator[Hold]:
    """Somebody puts a value of their own in the place of ours, and takes it back later."""
    broker, key = scene.rng.choice(_throttled(scene))
    seconds, name = scene.rng.uniform(4, 10), f"broker {broker} {key}"
    scene.note(f"{key} of broker {broker} changed for {seconds:.0f} s")
    scene.ask(lambda admin: admin.set_broker(broker, key, FOREIGN_VALUE))
    yield Hold(seconds)
    found = scene.throttles().get(name)
    if found != FOREIGN_VALUE:
        scene.problems.append(f"{name} of somebody else was changed to {found}")
    scene.ask(lambda admin: admin.set_broker(broker, key, None))


@contextmanager
def edit_conflicting(scene: Scene) -> Iterator[Hold]:
    """Somebody moves a partition of the plan to where they want it."""
    move = scene.rng.choice([*scene.flights(), scene.rng.choice(scene.plan.moves)])
    key, wanted = (move.topic, move.partition), draw_other(scene, move)
    scene.note(f"{key[0]}-{key[1]} moved to {list(wanted)} by others")
    scene.edited[key] = wanted
    scene.ask(lambda admin: admin.reassign(key, wanted))
    yield Hold(30, lambda: key not in scene.under_way())


def draw_other(scene: Scene, move: Move) -> tuple[int, ...]:
    """Replicas that are neither those of before nor those of after."""
    while True:
        drawn = tuple(scene.rng.sample(BROKERS, len(move.source)))
        if set(drawn) not in (set(move.source), set(move.target)):
            return drawn


@contextmanager
def reassign_foreign(scene: Scene) -> Iterator[Hold]:
    """Somebody moves a partition that the plan knows nothing of."""
    key = (scene.bystander, 0)
    (place,) = [place for found, place in scene.places().items() if found == key]
    wanted = (scene.rng.choice([broker for broker in BROKERS if broker not in place.replicas]),)
    scene.note(f"{key[0]}-0 moved from {list(place.replicas)} to {list(wanted)} by others")
    scene.edited[key] = wanted
    scene.ask(lambda admin: admin.reassign(key, wanted))
    yield Hold(30, lambda: key not in scene.under_way())


@contextmanager
def kill_controller(scene: Scene) -> Iterator[Hold]:
    """Nothing can be changed for some seconds; what is copied is copied on."""
    seconds = scene.rng.uniform(3, 9)
    scene.note(f"controller killed for {seconds:.0f} s")
    scene.cluster.stop_controller()
    yield Hold(seconds)
    scene.cluster.start_controller()


FAULTS: Mapping[str, Fault] = {
    "receiver-killed": Fault(
        "receiver killed until its moves are given up", kill_receiver, (Reason.PLAN_OUTDATED,)
    ),
    "receiver-restarted": Fault("receiver killed and restarted", restart_receiver),
    "source-restarted": Fault("source killed and restarted", restart_sender),
    "source-cancelled": Fault(
        "source killed, then cancelled: refused until it is back",
        cancel_without_source,
        (Reason.MOVES_CANCELLED,),
    ),
    "disk-filled": Fault("target disk filled to 96 %", fill_disk, (Reason.PLAN_OUTDATED,)),
    "disk-full": Fault("target disk filled: its broker ends", fill_disk_whole, (Reason.PLAN_OUTDATED,)),
    "topic-deleted": Fault("topic deleted", delete_moved_topic, (Reason.PLAN_OUTDATED,)),
    "executor-killed": Fault("executor killed and started again", kill_executor),
    "executor-frozen": Fault("executor frozen", freeze_executor),
    "executor-replaced": Fault("executor frozen and replaced", replace_executor),
    "leader-moved": Fault("leader shut down, restarted", stop_leader),
    "leader-lost": Fault("leader frozen until it is none", freeze_leader),
    "network-cut": Fault("broker cut off", cut_network, missing=network.explain_missing),
    "controller-killed": Fault("controller killed and restarted", kill_controller),
    "throttle-removed": Fault("throttle removed by others", remove_throttle),
    "list-removed": Fault("throttled replicas removed by others", remove_list),
    "throttle-changed": Fault("throttle changed by others", change_throttle),
    "conflicting-edit": Fault("partition moved by others", edit_conflicting, (Reason.PLAN_OUTDATED,)),
    "foreign-reassignment": Fault("another partition moved by others", reassign_foreign),
}
"""All kinds by name."""
