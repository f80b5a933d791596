"""How routing behaves over time, in memory: `python -m benchmarks.routing_dynamics`.

a. *level*: a level cluster whose fills jitter by 0.2 %; tables come as the keeper chooses them.
   *Effectively used* is the inverse Simpson index 1 / sum(w^2) over the number of partitions (the exponential of
   the entropy is always above it), the least of all tables. *Moved* is half the sum of |change of weight|.
b. *sawteeth*: logs that grow and lose whole segments, 24 simulated hours, a measurement and a plan each 15 s. A
   direction change is a published weight that goes up after it last went down, or the other way round.
c. *retention*: a topic that retention holds in its size; from when on its weights stay within 5 % of even.
d. *dead keeper*: producers go on for an hour by the last table and write 20 % of the free space.
e. *fleet*: fifty producers at 1 MB/s, 300 partitions, a new table each 15 s, 10 minutes.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # small matrices: threads would only wait for each other
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / part) for part in ("", "operator")]

import numpy as np  # noqa: E402

from benchmarks.harness.results import FOLDER, bar, build_result, save_result  # noqa: E402
from evenkeel.domain.exchange import Policy, TopicRouting  # noqa: E402
from evenkeel.domain.snapshot import ClusterSnapshot, Incoming, Topic  # noqa: E402
from evenkeel.keeper.noise import FillNoise  # noqa: E402
from evenkeel.keeper.routes import Published, choose_tables  # noqa: E402
from evenkeel.planning.retention import Horizons  # noqa: E402
from evenkeel.planning.routing import plan_routes  # noqa: E402
from tests.support.aging import AgingCluster  # noqa: E402
from tests.support.corpus import Case, build_case, recipes  # noqa: E402
from tests.support.fleet import draw_tables, simulate_fleet  # noqa: E402
from tests.support.simulation import SimulatedCluster, SimulatedProducers, Steering  # noqa: E402
from tests.support.snapshots import GIB, MIB, broker, cluster, partitions_of  # noqa: E402

Row = dict[str, Any]
INTERVAL = 15
WINDOW = 600
FULL = Policy().max_fill_percent / 100
ROUTING = {"t": TopicRouting()}


class Keeper:
    """What the keeper does with each measurement: noise, plan, tables that are news."""

    def __init__(self) -> None:
        self._noise = FillNoise()
        self._published = Published()
        self.history: list[np.ndarray[Any, np.dtype[np.float64]]] = []
        """Weights in force after each measurement."""
        self.tables = 0

    def step(self, snapshot: ClusterSnapshot, *, plan: bool = True) -> None:
        """One cycle."""
        self._noise.observe(snapshot)
        if not plan:
            return
        betas = self._noise.betas(snapshot, ROUTING)
        found = plan_routes(self._noise.steady(snapshot), ROUTING, Policy(), betas=betas)
        for table in choose_tables(found, self._published, 1, {}):
            self._published.note(table)
            self.tables += 1
        self.history.append(np.array(self._published.tables["t"].weights) / 1e6)


def run_level() -> list[Row]:
    """Replication 1 to 3 on six brokers; the first tables come before anything is known of the noise."""
    rows = []
    for replication in (1, 2, 3):
        random, keeper, count = np.random.default_rng(replication), Keeper(), 60
        places = [tuple((p + i * (1 + p // 6 % 2)) % 6 for i in range(replication)) for p in range(count)]
        for turn in range(160):
            fills = 0.5 + random.normal(0, 0.002, 6)
            disks = [broker(i, 500 * GIB, int(500 * GIB * fill)) for i, fill in enumerate(fills.tolist())]
            flow = Incoming("t", 1e6, observed_seconds=3600)
            now = cluster(disks, partitions_of("t", places, [GIB] * count), [flow], [Topic("t")])
            keeper.step(replace(now, taken_at_ms=turn * INTERVAL * 1000))
        used = [1 / float((w**2).sum()) / count for w in keeper.history]
        moved = [float(np.abs(b - a).sum() / 2) for a, b in itertools.pairwise(keeper.history)]
        rows.append(
            {
                "part": "level",
                "replication": replication,
                "used": min(used),
                "usedSettled": min(used[40:]),
                "moved": max(moved),
                "movedSettled": max(moved[40:]),
            }
        )
    return rows


def run_sawteeth(hours: float) -> list[Row]:
    """Four brokers, 12 partitions in segments of 1 GiB on disks of 500 GiB, a retention of six hours."""
    size, age = 500 * GIB, 6 * 3600
    topic = Topic("t", retention_ms=age * 1000, segment_bytes=GIB, file_delete_delay_ms=60_000)
    rate = 0.2 * 4 * size / age
    world = AgingCluster(
        topic, [size] * 4, [150 * GIB, 140 * GIB, 130 * GIB, 120 * GIB], [p % 4 for p in range(12)]
    )
    weights: Sequence[float] = [1 / 12] * 12
    for _ in range(age // 60):
        world.step(60, rate, weights)
    keeper = Keeper()
    horizons = Horizons(observed_seconds=float(age))
    for _ in range(round(hours * 3600 / INTERVAL)):
        world.step(INTERVAL, rate, weights)
        keeper.step(world.snapshot(rate, weights, horizons))
        weights = keeper.history[-1].tolist()
    changes = _direction_changes(np.array(keeper.history))
    fills = world.fills()
    return [
        {
            "part": "sawteeth",
            "hours": hours,
            "tables": keeper.tables,
            "directionChanges": changes,
            "spreadBefore": 0.06,
            "spreadAfter": max(fills) - min(fills),
        }
    ]


def _direction_changes(history: np.ndarray[Any, np.dtype[np.float64]]) -> int:
    """The most of any weight within any ten minutes."""
    most, window = 0, WINDOW // INTERVAL
    for series in history.T:
        steps = np.diff(series)
        moves = [(i, np.sign(step)) for i, step in enumerate(steps.tolist()) if step != 0]
        turns = [b[0] for a, b in itertools.pairwise(moves) if a[1] != b[1]]
        most = max([most, *(sum(at <= other < at + window for other in turns) for at in turns)])
    return most


def run_retention() -> list[Row]:
    """Retentions below, at and above the horizon of a day."""
    rows = []
    for hours in (1, 24, 168):
        age, steps, count = hours * 3600.0, 48, 8
        capacity, ballast = [100 * GIB] * 4, [45 * GIB, 30 * GIB, 20 * GIB, 20 * GIB]
        topic = Topic(
            "t", retention_ms=round(age * 1000), segment_bytes=256 * MIB, file_delete_delay_ms=60_000
        )
        world = AgingCluster(topic, capacity, ballast, [p % 4 for p in range(count)])
        rate, step = 0.2 * sum(capacity) / age, age / steps
        weights: Sequence[float] = (1 / count,) * count
        for _ in range(2 * steps):
            world.step(step, rate, weights)
        began, history = world.now_ms, []
        for _ in range(3 * steps):
            horizons = Horizons(observed_seconds=(world.now_ms - began) / 1000)
            found = plan_routes(world.snapshot(rate, weights, horizons), ROUTING, Policy())
            weights = found.topics["t"].weights
            world.step(step, rate, weights)
            history.append(weights)
        seen = np.array(history)
        off = np.flatnonzero(np.abs(seen - seen[-1]).max(axis=1) > 0.05 / count)
        rows.append({"part": "retention", "hours": hours, "periods": (int(off.max(initial=-1)) + 1) / steps})
    return rows


def run_dead_keeper(count: int) -> list[Row]:
    """Generated clusters whose fullest volume stands at 78 to 84 %; one table, then none for an hour."""
    rows = []
    for recipe in recipes(400, 0):
        if len(rows) == count:
            break
        if recipe.flow != "rate" or recipe.unsteered or recipe.joined or recipe.shape.partitions > 96:
            continue
        rows += _play_dead(_nearly_full(build_case(replace(recipe, share=0.02, messages=8000)), recipe.seed))
    return rows


def _nearly_full(case: Case, seed: int) -> Case:
    """Fuller disks, and 20 % of what is free as inflow of an hour."""
    wanted = 0.78 + 0.06 * float(np.random.default_rng(seed).random())
    one = SimulatedCluster(case.snapshot, case.flows, 1.0)
    factor = wanted / one.fill()
    brokers = tuple(
        replace(
            each,
            log_dirs=tuple(
                replace(
                    entry,
                    usable_bytes=(entry.total_bytes or 0)
                    - int(((entry.total_bytes or 0) - (entry.usable_bytes or 0)) * factor),
                )
                for entry in each.log_dirs
            ),
        )
        for each in case.snapshot.brokers
    )
    snapshot = replace(case.snapshot, brokers=brokers)
    again = SimulatedCluster(snapshot, case.flows, 1.0)
    replication = len(snapshot.partitions[0].replicas)
    coming = 0.2 * float((again.capacity - again.used).sum()) / replication
    scale = coming / sum(flow.steered for flow in case.flows)
    flows = tuple(replace(flow, steered=flow.steered * scale) for flow in case.flows)
    return replace(case, snapshot=snapshot, flows=flows, tables=3600 // INTERVAL)


def _play_dead(case: Case) -> list[Row]:
    topics = tuple(flow.topic for flow in case.flows)
    message = int(sum(flow.steered for flow in case.flows) / 20_000)
    ours = SimulatedCluster(case.snapshot, case.flows, 3600.0)
    producers = SimulatedProducers(topics, 8, case.seed, max(message, 300 * 1024))
    steering = Steering(ours, producers, Policy())
    plan = steering.plan()
    if not all(routes.active for routes in plan.topics.values()):
        return []
    steering.publish(plan)
    for _ in range(3600 // INTERVAL):
        steering.write(INTERVAL)
    even = SimulatedCluster(case.snapshot, case.flows, 3600.0)
    for flow in case.flows:
        led = np.array([one.leader is not None for one in even.partitions[flow.topic]], float)
        even.write(flow.topic, led / led.sum() * flow.steered, steered=True)
    mine, uniform = ours.used / ours.capacity, even.used / even.capacity
    return [
        {
            "part": "dead keeper",
            "name": case.name,
            "before": float((ours.first / ours.capacity).max()),
            "fullest": float(mine.max()),
            "uniformFullest": float(uniform.max()),
            "above": int((mine > FULL).sum()),
            "uniformAbove": int((uniform > FULL).sum()),
            "aboveByRouting": int(((mine > FULL) & (uniform <= FULL)).sum()),
        }
    ]


def run_fleet() -> list[Row]:
    """As the unit test of the router, which shares its code."""
    tables = draw_tables(300, spread=1.0, drift=0.1, seed=7)
    outcome = simulate_fleet(lambda: next(tables), routers=50, rate=1e6, seconds=600, seed=7)
    return [{"part": "fleet", "error": max(outcome.errors()), "runs": outcome.runs}]


def judge(rows: Sequence[Row]) -> list[Row]:
    """The bars of what was run."""

    def values(part: str, key: str) -> list[float]:
        return [row[key] for row in rows if row["part"] == part]

    wanted: list[tuple[str, str, str, str, Callable[[Sequence[float]], float], float, bool]] = [
        ("a. partitions effectively used, least", "level", "used", ">= 95 %", min, 0.95, True),
        ("a. traffic that moves between cycles, most", "level", "moved", "<= 5 %", max, 0.05, False),
        ("b. direction changes in 10 min, most", "sawteeth", "directionChanges", "<= 2", max, 2, False),
        ("c. retention periods until settled, most", "retention", "periods", "<= 2", max, 2, False),
        ("d. volumes above the limit by routing", "dead keeper", "aboveByRouting", "0", sum, 0, False),
        ("e. bytes off the weights, most", "fleet", "error", "<= 5 %", max, 0.05, False),
    ]
    found = []
    for name, part, key, limit, fold, edge, above in wanted:
        seen = values(part, key)
        if seen:
            value = float(fold(seen))
            found.append(bar(name, limit, value, holds=value >= edge if above else value <= edge))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, write; 1 where a bar does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=24.0, help="of sawteeth")
    parser.add_argument("--clusters", type=int, default=20, help="with a dead keeper")
    parser.add_argument("--only", choices="abcde", action="append", help="parts to run; all if none is named")
    parser.add_argument("--results", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    parts: dict[str, Callable[[], list[Row]]] = {
        "a": run_level,
        "c": run_retention,
        "d": lambda: run_dead_keeper(options.clusters),
        "e": run_fleet,
        "b": lambda: run_sawteeth(options.hours),
    }
    rows: list[Row] = []
    for name, run in parts.items():
        if options.only and name not in options.only:
            continue
        for row in run():
            rows.append(row)
            print(
                " ".join(
                    f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
                    for key, value in row.items()
                ),
                flush=True,
            )
    bars = judge(rows)
    for found in bars:
        print(
            f"{'ok  ' if found['holds'] else 'FAIL'} {found['name']}: {found['value']:.6g} ({found['limit']})"
        )
    parameters = {"intervalSeconds": INTERVAL, "hours": options.hours, "clusters": options.clusters}
    save_result(build_result("routing_dynamics", parameters, rows, bars), options.results)
    return 0 if all(found["holds"] for found in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
