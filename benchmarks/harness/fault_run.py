"""One run under one fault, from the begin to what is left, judged by clients that are none of Evenkeel's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from kafka.errors import KafkaError

from benchmarks.harness import progress
from benchmarks.harness.fault_kinds import FAULTS, Fault
from benchmarks.harness.fault_scene import BROKERS, FOREIGN_RATE, Hold, Scene, measure_deviation, open_scene
from benchmarks.harness.mover import FAILED, Told
from benchmarks.harness.trail import Tally
from evenkeel.domain.moves import Move
from evenkeel.reasons import Reason
from integration.kafka.clients import delete_topic
from integration.kafka.cluster import KafkaCluster
from integration.kafka.network import Network
from integration.moving import Admin, Key, Place, ask
from integration.processes import ServerError, wait_until

RESUME_SECONDS = 30.0
LEVEL = 0.03
NOISE = 0.02
"""Of the mean fill: what others of Kafka's logs and the quiet writer add while a plan runs."""
END_SECONDS = 180.0
ATTEMPTS = 3
LATEST, EARLIEST = 0.7, -0.15
"""Share of the plan's time in which the fault begins; below 0: before anything moves."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run to be made."""

    number: int
    fault: str
    seed: int


def plan_cases(faults: Sequence[str], runs: int, seed: int) -> list[Case]:
    """Each fault in turn, each run with a seed of its own."""
    return [Case(number, faults[number % len(faults)], seed + number) for number in range(runs)]


def play(
    case: Case, cluster: KafkaCluster, network: Network | None, folder: Path, scale: float
) -> dict[str, Any]:
    """Make a run; returns its row, with all that is wrong in `problems`."""
    fault, began = FAULTS[case.fault], time.monotonic()
    scene = open_scene(cluster, network, case.seed, folder, scale)
    try:
        before = measure_deviation(scene)
        ready = time.monotonic()
        begun, healed = _strike(scene, fault)
        end = _await_end(scene, healed)
        ended = time.monotonic()
        row = _judge(scene, fault, end, healed)
    finally:
        scene.watch.stop()
        scene.runner.close()
        scene.trail.halt()
    return {
        **asdict(case),
        "told": scene.told,
        "deviationBefore": round(before, 4),
        "readySeconds": round(ready - began, 1),
        "faultSeconds": round(healed - begun, 1),
        "endSeconds": round(ended - ready, 1),
        **row,
        "cleared": _clear(scene),
        "seconds": round(time.monotonic() - began, 1),
        "problems": scene.problems,
    }


def _strike(scene: Scene, fault: Fault) -> tuple[float, float]:
    """Start the executor, let the fault happen at its moment; returns when it began and when it was healed."""
    moment = scene.rng.uniform(EARLIEST, LATEST)
    process = scene.runner.start()
    if moment > 0:
        wait_until("a move", lambda: _moves(scene) or not process.running, seconds=120, every=0.1)
        _pause(moment * scene.plan_seconds, lambda: not process.running)
    else:
        wait_until(
            "the executor", lambda: bool(scene.runner.told()) or not process.running, seconds=60, every=0.1
        )
    share = find_share(scene.runner.told())
    scene.note(f"at {share:.0%} of the bytes")
    begun = time.monotonic()
    with fault.act(scene) as hold:
        _hold(hold)
    return begun, time.monotonic()


def find_share(told: Sequence[Told]) -> float:
    """How much of the plan has been copied."""
    newest = next((one for one in reversed(told) if one.bytes and one.what == "turn"), None)
    return newest.bytes_done / newest.bytes if newest is not None else 0.0


def _moves(scene: Scene) -> bool:
    return any(one.what == "turn" and one.reason == Reason.MOVING for one in scene.runner.told())


def _hold(hold: Hold) -> None:
    _pause(hold.seconds, hold.until, every=0.5)


def _pause(seconds: float, until: Callable[[], bool] | None = None, every: float = 0.1) -> None:
    """Wait for the time or the condition, whichever comes first."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not (until is not None and until()):
        progress.check_stop()
        time.sleep(min(every, max(0.0, deadline - time.monotonic())))


def _await_end(scene: Scene, healed: float) -> Told | None:
    """The last word of who went on; one that could not even begin is started again, as a user would.

    Of two executors either may be the owner in the end: the other has to notice, and to end.
    """
    deadline = healed + END_SECONDS
    for attempt in range(ATTEMPTS):
        while scene.runner.running and time.monotonic() < deadline:
            progress.check_stop()
            time.sleep(0.1)
        if scene.runner.running:
            scene.problems.append(f"still runs {END_SECONDS:g} s after the fault's end")
            return None
        end = choose_end(scene.runner.told())
        opened = any(one.what == "open" for one in scene.runner.newest())
        if end is not None and (opened or end.state != FAILED):
            return end
        why = end.message if end is not None else _last_line(scene.runner.process.output())
        if opened or attempt == ATTEMPTS - 1:
            scene.problems.append(f"the executor ended: {why}")
            return end
        scene.note(f"started again: {why}")
        scene.runner.start()
    return None


def _last_line(output: str) -> str:
    """Of what a process said; the rest names files of this machine."""
    return next(reversed(output.strip().splitlines()), "")


def choose_end(told: Sequence[Told]) -> Told | None:
    """The last end that is none of an error; the last one of an error where there is no other."""
    ends = [one for one in told if one.what == "end"]
    fine = [one for one in ends if one.state != FAILED]
    return next(reversed(fine or ends), None)


def _judge(scene: Scene, fault: Fault, end: Told | None, healed: float) -> dict[str, Any]:
    """What is left, asked for by kafka-python; all that is wrong is added to the scene's problems."""
    _await_whole(scene)
    wrong = scene.problems
    if end is not None and end.reason not in {Reason.MOVED, *fault.reasons}:
        wrong.append(f"ended as {end.reason}: {end.message}")
    left = {key: found for key, found in scene.under_way().items() if key not in scene.edited}
    if left:
        wrong.append(f"reassignments left: {left}")
    wrong += compare_throttles(scene.throttles(), scene.foreign)
    places, deviation = scene.places(), _await_level(scene, end)
    moved = end is not None and end.reason == Reason.MOVED
    done, odd = compare_places(scene.plan.moves, places, scene.edited, scene.gone, moved=moved)
    wrong += odd
    wrong += [
        f"{one.key[0]}-{one.key[1]} at {one.second} s: ISR {one.isr} of {one.replicas}, min {one.least}"
        for one in scene.watch.shortages[:3]
    ]
    scene.watch.stop()
    resumed = find_resumed(scene.runner.told(), healed)
    if resumed is None or resumed > RESUME_SECONDS:
        wrong.append(f"resumed {resumed} s after the fault's end")
    tally = _check_records(scene)
    return {
        "reason": end.reason if end is not None else "",
        "message": end.message if end is not None else "",
        "moves": len(scene.plan.moves),
        "movesDone": done,
        "planBytes": scene.plan.bytes,
        "planDeviation": scene.plan.deviation_after,
        "deviationAfter": round(deviation, 4),
        "resumedSeconds": None if resumed is None else round(resumed, 1),
        "isrSamples": scene.watch.samples,
        "isrLargestGapSeconds": round(scene.watch.largest_gap, 2),
        "isrShortages": len(scene.watch.shortages),
        "records": asdict(tally),
    }


def _check_records(scene: Scene) -> Tally:
    try:
        scene.trail.stop()
    except TimeoutError as error:
        scene.problems.append(str(error))
    tally = scene.trail.check()
    if not tally.intact:
        scene.problems.append(f"records: {tally}")
    return tally


def _await_whole(scene: Scene) -> None:
    """All replicas in sync again, those of the bystander too."""

    def whole() -> bool:
        return all(set(one.isr) == set(one.replicas) for one in scene.places().values())

    try:
        wait_until("replicas in sync", whole, seconds=120, every=0.3)
    except ServerError as error:
        bad = {key: place for key, place in scene.places().items() if set(place.isr) != set(place.replicas)}
        scene.problems.append(f"{error}: {bad}")


def _await_level(scene: Scene, end: Told | None) -> float:
    """Deviation; where all has moved it must become as small as the plan said, once deleted files are gone."""
    strays = _empty_strays(scene)
    if strays:
        scene.note(f"{strays} stray directories of Kafka emptied")
    limit = max(LEVEL, scene.plan.deviation_after or 0.0) + NOISE
    if end is None or end.reason != Reason.MOVED or scene.edited.keys() - {(scene.bystander, 0)}:
        return measure_deviation(scene)
    if scene.edited:
        return measure_deviation(scene)  # others have moved bytes of their own
    try:
        wait_until("level disks", lambda: measure_deviation(scene) <= limit, seconds=60, every=0.5)
    except ServerError:
        scene.problems.append(f"deviation {measure_deviation(scene):.3f}, limit {limit:.3f}")
    return measure_deviation(scene)


def _empty_strays(scene: Scene) -> int:
    """Free what Kafka keeps of replicas that went while their broker was away; how many directories it were.

    It renames them at the start and never deletes them. Their files are open: only cutting them frees the disk.
    """
    found = 0
    for broker in BROKERS:
        for stray in scene.cluster.log_dir(broker).glob("*-stray"):
            segments = [path for path in stray.glob("*.log") if path.stat().st_size]
            for path in segments:
                os.truncate(path, 0)
            found += bool(segments)
    return found


def compare_throttles(found: Mapping[str, str], foreign: Mapping[str, str]) -> list[str]:
    """What is wrong with throttles: others' that are not as they were, and any that are left beside them."""
    wrong = [
        f"{name} of somebody else is {found.get(name)}, was {value}"
        for name, value in sorted(foreign.items())
        if found.get(name) != value
    ]
    return wrong + [
        f"throttle left: {name} = {value}" for name, value in sorted(found.items()) if name not in foreign
    ]


def compare_places(
    moves: Iterable[Move],
    places: Mapping[Key, Place],
    edited: Mapping[Key, tuple[int, ...]],
    gone: set[str],
    *,
    moved: bool,
) -> tuple[int, list[str]]:
    """Moves that are done, and partitions that are neither as before nor as planned nor as others wanted.

    Args:
        moves: of the plan.
        places: where partitions are now.
        edited: where others have put some.
        gone: topics that were deleted.
        moved: the executor says that all is done.
    """
    done, wrong = 0, []
    for move in moves:
        key = (move.topic, move.partition)
        if move.topic in gone:
            continue
        found = places[key].replicas
        done += found == move.target
        wanted = {edited[key]} if key in edited else {move.target} if moved else {move.source, move.target}
        if found not in wanted:
            wrong.append(f"{key[0]}-{key[1]} lies on {found}, planned from {move.source} to {move.target}")
    return done, wrong


def find_resumed(told: Sequence[Told], healed: float) -> float | None:
    """Seconds from the fault's end until the run goes on: bytes, moves or batches grow, or it ends.

    None: it never did. A run that had ended before the fault's end was not held up.
    """
    last = (-1, -1, -1)
    for one in told:
        now = (one.batch, one.moves_done, one.bytes_done)
        ended = one.what == "end" and one.state != FAILED
        grown = ended or (one.what == "turn" and (now > last or one.state != "Running"))
        if grown and one.at >= healed:
            return one.at - healed
        last = now if one.what == "turn" else last
    over = any(one.what == "end" and one.state != FAILED and one.at < healed for one in told)
    return 0.0 if over else None


def _clear(scene: Scene) -> bool:
    """Leave the cluster as the next run wants it; False: it is not fit for another one."""
    for broker in BROKERS:
        scene.cluster.fill(broker, 0)
    _empty_strays(scene)

    def clear(admin: Admin) -> None:
        for name, value in scene.foreign.items():
            kind, subject, key = name.split(" ")
            if kind == "broker" and value == FOREIGN_RATE:
                admin.set_broker(int(subject), key, None)

    try:
        ask(scene.cluster, clear, seconds=60)
        for topic in (*scene.topics, scene.bystander):
            if topic not in scene.gone:
                delete_topic(scene.cluster.client_config(), topic)
    except (KafkaError, KafkaException) as error:
        scene.note(f"not cleared: {error}")
        return False
    return True
