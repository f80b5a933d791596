"""Regret of routing over a corpus of generated clusters, all in memory: `python -m benchmarks.routing_corpus`.

Each case is a cluster with its inflow (tests/support/corpus.py, seeds fixed). Eight producers, which are the
router's own runs and schedules, write message by message; each 15 s a table comes that was planned from the
measurement 15 s before. The yardstick is a linear program written apart from the planner.

*regret* = fullest volume - capped optimum, in fills; *recovered* = (uniform - fullest) / (uniform - optimum).
`planned` judges the first plan by what it looks ahead to, `written` what lies on the disks at the end by the
best that anybody who knew all bytes beforehand could have done.

A ratio is judged where uniform - optimum is at least 40 messages on the smallest volume, five per producer: with
less, whole messages decide. Of topics known by their rate alone it must also be 0.2 % of capacity, the noise of
fills on a level cluster, which weights must not follow (planning/inflow.py, the floor). Cases below that are
counted and printed; the bars on regret hold for them as for all.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # small matrices: threads would only wait for each other
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / part) for part in ("", "operator")]

import numpy as np  # noqa: E402

from benchmarks.harness.results import FOLDER, bar, build_result, save_result  # noqa: E402
from evenkeel.planning.routing import TopicRoutes  # noqa: E402
from tests.support.corpus import FIRST_SEED, MESSAGE, TABLE_SECONDS, Case, build_case, recipes  # noqa: E402
from tests.support.simulation import Floats, SimulatedCluster, Steering, play  # noqa: E402
from tests.support.yardstick import Yardstick  # noqa: E402

JUDGED_MESSAGES, NOISE = 40, 0.002
PLANNED_REGRET, WRITTEN_REGRET, RECOVERED, CAPS = 0.01, 0.02, 0.90, 1.002


@dataclass(frozen=True, slots=True)
class Row:
    """One case. Fills are fractions."""

    name: str
    features: tuple[str, ...]
    partitions: int
    share: float
    """W / C."""
    planned_regret: float
    planned_gap: float
    """uniform - optimum, for the first plan."""
    written_regret: float
    written_gap: float
    gap_messages: float
    """The latter on the smallest volume."""
    most_free_regret: float
    """Of the published rule "most free bytes by leader"."""
    caps: float
    """Highest ratio of a leader, inbound or partition share to its cap, over all tables."""
    plan_seconds: float
    """CPU time of the slowest plan."""

    @property
    def planned_recovered(self) -> float:
        """Of the first plan."""
        return 1 - self.planned_regret / self.planned_gap if self.planned_gap > 0 else 1.0

    @property
    def written_recovered(self) -> float:
        """Of what was written."""
        return 1 - self.written_regret / self.written_gap if self.written_gap > 0 else 1.0

    @property
    def judged(self) -> bool:
        """Whether there is enough to win for a ratio to mean something."""
        return self.gap_messages >= JUDGED_MESSAGES and (
            "planned" in self.features or self.written_gap >= NOISE
        )


def run_case(case: Case) -> Row | str:
    """Play one case; a sentence where a topic cannot be routed at all."""
    steering = play(case)
    cluster, first = steering.cluster, steering.plans[0].topics
    refused = [f"{routes.reason}: {routes.message}" for routes in first.values() if not routes.active]
    if refused:
        return refused[0]
    ahead = {topic: cluster.look_ahead(topic) for topic in cluster.flows}
    meant = {topic: float(routes.steerable_bytes or 0) for topic, routes in first.items()}
    before = Yardstick(case.snapshot, meant, cluster.change(ahead))
    planned = before.fill({topic: routes.weights for topic, routes in first.items()})
    optimum = before.optimum()
    lies = {topic: float(size.sum()) * cluster.kept_part(topic) for topic, size in cluster.steered.items()}
    after = Yardstick(case.snapshot, lies, cluster.change(dict.fromkeys(cluster.flows, cluster.seconds)))
    best, uniform = after.optimum(), after.fill(after.uniform())
    return Row(
        name=case.name,
        features=case.features,
        partitions=sum(len(found) for found in cluster.partitions.values()),
        share=case.share,
        planned_regret=planned - optimum,
        planned_gap=before.fill(before.uniform()) - optimum,
        written_regret=cluster.fill() - best,
        written_gap=uniform - best,
        gap_messages=(uniform - best) * float(cluster.capacity.min()) / MESSAGE,
        most_free_regret=_play_most_free(case) - best,
        caps=_worst_caps(before, steering, case),
        plan_seconds=max(steering.plan_seconds),
    )


def _worst_caps(yardstick: Yardstick, steering: Steering, case: Case) -> float:
    return max(
        _without_stopped(case, yardstick, routes).worst_cap(topic, routes.weights)
        for plan in steering.plans
        for topic, routes in plan.topics.items()
    )


def _without_stopped(case: Case, yardstick: Yardstick, routes: TopicRoutes) -> Yardstick:
    """Stopped partitions are as those without a leader, as long as another has one."""
    stop = set(routes.stop)
    led = {one.partition for one in yardstick.partitions[routes.topic] if one.leader is not None}
    if not stop & led or led <= stop:
        return yardstick
    partitions = tuple(
        replace(one, leader=None) if one.topic == routes.topic and one.partition in stop else one
        for one in case.snapshot.partitions
    )
    return Yardstick(replace(case.snapshot, partitions=partitions), yardstick.steerable)


def _play_most_free(case: Case) -> float:
    """Fill of the fullest volume where each record goes to a leader with the most free bytes 15 s ago."""
    cluster = SimulatedCluster(case.snapshot, case.flows, case.seconds)
    seen = _free_by_broker(cluster)
    for _ in range(case.tables):
        now, part = _free_by_broker(cluster), TABLE_SECONDS / cluster.seconds
        for topic, flow in cluster.flows.items():
            cluster.write(topic, _to_most_free(cluster, topic, seen) * flow.steered * part, steered=True)
        cluster.advance(TABLE_SECONDS)
        seen = now
    return cluster.fill()


def _free_by_broker(cluster: SimulatedCluster) -> dict[int, float]:
    return {
        one.id: float(sum(entry.usable_bytes or 0 for entry in one.log_dirs))
        for one in cluster.measure().brokers
    }


def _to_most_free(cluster: SimulatedCluster, topic: str, free: Mapping[int, float]) -> Floats:
    led = [one.leader for one in cluster.partitions[topic]]
    best = max((one for one in led if one is not None), key=lambda one: free[one])
    chosen = np.array([float(one == best) for one in led])
    return np.asarray(chosen / chosen.sum())


def judge(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The bars."""
    judged = [row for row in rows if row.judged]
    planned = max(row.planned_regret for row in rows)
    written = max(row.written_regret for row in rows)
    least_planned = min(row.planned_recovered for row in judged)
    least = min(row.written_recovered for row in judged)
    caps, slow = max(row.caps for row in rows), max(row.plan_seconds for row in rows)
    return [
        bar("cases", ">= 200", len(rows), holds=len(rows) >= 200),
        bar("planned regret", "<= 1 % of capacity", planned, holds=planned <= PLANNED_REGRET),
        bar("planned recovered", ">= 90 %", least_planned, holds=least_planned >= RECOVERED),
        bar("written regret", "<= 2 % of capacity", written, holds=written <= WRITTEN_REGRET),
        bar("written recovered", ">= 90 %", least, holds=least >= RECOVERED),
        bar("share of a cap", "<= 1", caps, holds=caps <= CAPS),
        bar("slowest plan, CPU s", "<= 0.5", slow, holds=slow <= 0.5),
    ]


def print_result(rows: Sequence[Row], refused: Mapping[str, str], bars: Sequence[Mapping[str, Any]]) -> None:
    """What was found, for people."""
    small = [row for row in rows if not row.judged]
    coarse = [row for row in small if row.gap_messages < JUDGED_MESSAGES]
    print(f"\n{len(rows)} cases, {min(r.share for r in rows):.0e} <= W/C <= {max(r.share for r in rows):.2f}")
    for name in sorted({name for row in rows for name in row.features}):
        some = [row for row in rows if name in row.features]
        least = min((row.written_recovered for row in some if row.judged), default=float("nan"))
        regret = max(row.written_regret for row in some)
        print(f"  {name:28} {len(some):4} cases  regret <= {regret:8.3%}  recovered >= {least:7.1%}")
    print(
        f"not judged by ratio: {len(small)} cases, of which {len(coarse)} below {JUDGED_MESSAGES} messages and "
        f"{len(small) - len(coarse)} known by rate with less than {NOISE:.1%} to win; regret at most "
        f"{max((row.written_regret for row in small), default=0.0):.3%} of capacity, recovered "
        f"{', '.join(f'{value:.0%}' for value in sorted(row.written_recovered for row in small))}"
    )
    print(f"not routable: {len(refused)} {dict(refused) or ''}")
    mean = float(np.mean([row.written_recovered for row in rows if row.judged]))
    free = [1 - row.most_free_regret / row.written_gap for row in rows if row.judged]
    print(
        f"recovered, mean: Evenkeel {mean:.1%}, most free bytes by leader {np.mean(free):.1%}, uniform 0.0%; "
        f"worse than uniform: {sum(value < 0 for value in free)} of {len(free)} by most free bytes"
    )
    for found in bars:
        print(
            f"{'ok  ' if found['holds'] else 'FAIL'} {found['name']}: {found['value']:.6g} ({found['limit']})"
        )


def plot(rows: Sequence[Row], folder: Path) -> None:
    """Regret of each case under three rules, sorted by what there was to win."""
    from matplotlib.figure import Figure

    from benchmarks.harness.plots import COLOURS, save_plot

    ordered = sorted(rows, key=lambda row: row.written_gap)
    figure = Figure(figsize=(8, 4.5))
    axes = figure.add_subplot()
    for label, colour, values in (
        ("uniform (default partitioners)", COLOURS["librdkafka"], [row.written_gap for row in ordered]),
        ("most free bytes by leader", COLOURS["most-free"], [row.most_free_regret for row in ordered]),
        ("Evenkeel", COLOURS["evenkeel"], [row.written_regret for row in ordered]),
    ):
        points = np.maximum(np.array(values) * 100, 1e-4)
        axes.plot(points, ".", markersize=4, color=colour, label=label)
    axes.axhline(WRITTEN_REGRET * 100, color="#999999", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_xlabel(f"{len(ordered)} generated clusters, by what routing can win")
    axes.set_ylabel("fullest volume above the optimum\n(percent of capacity; 0.0001 and less at the bottom)")
    axes.legend(loc="upper left", frameon=False)
    save_plot(figure, folder, "routing_corpus")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, write; 1 where a bar does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=215)
    parser.add_argument("--large", type=int, default=10, help="of them with 1,000 to 10,000 partitions")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, help="another one: other clusters")
    parser.add_argument("--results", type=Path, default=FOLDER)
    parser.add_argument("--quiet", action="store_true", help="no line per case")
    options = parser.parse_args(arguments)
    rows, refused, began = [], {}, time.process_time()
    for recipe in recipes(options.cases, options.large, options.first_seed):
        case = build_case(recipe)
        found = run_case(case)
        if isinstance(found, str):
            refused[case.name] = found
            continue
        rows.append(found)
        if not options.quiet:
            print(
                f"{found.name:17} W/C {found.share:.1e} planned {found.planned_regret:+.5f} "
                f"written {found.written_regret:+.5f} of {found.written_gap:.5f} "
                f"({found.written_recovered:.1%}{'' if found.judged else ', not judged'}) "
                f"caps {found.caps:.4f} plan {found.plan_seconds:.3f} s",
                flush=True,
            )
    bars = judge(rows)
    print_result(rows, refused, bars)
    spent = time.process_time() - began
    print(f"{spent:.0f} s CPU")
    parameters = {
        "cases": options.cases,
        "large": options.large,
        "firstSeed": options.first_seed,
        "producers": 8,
        "tableSeconds": TABLE_SECONDS,
    }
    table = [asdict(row) for row in rows]
    save_result(
        build_result("routing_corpus", parameters, table, bars, refused=refused, cpuSeconds=round(spent)),
        options.results,
    )
    plot(rows, options.results)
    return 0 if all(found["holds"] for found in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
