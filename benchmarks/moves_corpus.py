"""Plans of moves over a corpus of generated clusters, all in memory: `python -m benchmarks.moves_corpus`.

Each case is a cluster out of balance (tests/support/moves_corpus.py, seeds fixed). A plan is judged by plain
loops written apart from the planner (tests/support/moves_yardstick.py), small clusters by an exact program
(tests/support/moves_oracle.py). Beside it three published rules (benchmarks/harness/balancers.py).

*deviation* = max over directories of |fill / mean fill - 1|; *lower bound* = bytes that must leave directories
above the band of 3 %, or reach those below it, whichever is more. The bar on deviation is for cases in which no
replica is larger than 3 % of the mean fill of the smallest disk, and brokers and racks can hold an even share.
The bar on bytes allows one largest replica beside the ratio, and is for all cases of more than 8 partitions.
Where a broker is emptied each partition that it holds moves once, so a second plan levels the rest: both count.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # small matrices: threads would only wait for each other
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / part) for part in ("", "operator")]

import numpy as np  # noqa: E402

from benchmarks.harness.balancers import RULES, Outcome  # noqa: E402
from benchmarks.harness.results import FOLDER, bar, build_result, save_result  # noqa: E402
from evenkeel.domain.exchange import Policy  # noqa: E402
from evenkeel.domain.moves import Batch  # noqa: E402
from evenkeel.domain.snapshot import ClusterSnapshot  # noqa: E402
from evenkeel.planning.moves import plan_moves  # noqa: E402
from evenkeel.planning.moves_plan import MovesPlan, MovesRequest  # noqa: E402
from tests.support.moves_corpus import FIRST_SEED, MovesCase, build_moves_case, draw_shape, small_case  # noqa: E402
from tests.support.moves_noise import steady_snapshots  # noqa: E402
from tests.support.moves_oracle import Oracle, emptied_bound  # noqa: E402
from tests.support.moves_yardstick import (  # noqa: E402
    Disks,
    apply_moves,
    count_rack_losses,
    is_fine,
    lost_bytes,
    lower_bound,
    play_batches,
    snapshot_after,
)
from tests.support.snapshots import Shape, generate_snapshot  # noqa: E402

POLICY = Policy(enter_percent=10, leave_percent=3)
BAND, LIMIT, ROUNDING = 0.03, 0.85, 1e-6
ALLOWED = {1: 1.02, 2: 1.05, 3: 1.05}
EXACT, CONCEDED = 1.05, 0.1
SOLVED = 150
"""Partitions up to which the bound where a broker is emptied is a linear program."""
FEW = 8
"""Partitions up to which a cluster is judged by the exact optimum instead of the lower bound."""


@dataclass(frozen=True, slots=True)
class Row:
    """One case. Fills and deviations are fractions."""

    name: str
    features: tuple[str, ...]
    partitions: int
    replication: int
    fine: bool
    """No replica is larger than the band, and racks and brokers can hold an even share."""
    deviation_before: float
    deviation_after: float
    bytes: int
    lower_bound: float
    largest: int
    moves: int
    plans: int
    batches: int
    peak: float
    rack_losses: int
    twice: int
    stretch: float
    """Time of all batches over the busiest broker's bytes over the throttle."""
    plan_seconds: float
    others: Mapping[str, Outcome] = field(default_factory=dict)

    @property
    def judged(self) -> bool:
        """Whether the bar on deviation is for it."""
        return self.fine and self.deviation_before > POLICY.enter_percent / 100

    @property
    def ratio(self) -> float:
        """Bytes over the lower bound."""
        return self.bytes / self.lower_bound if self.lower_bound else 1.0

    @property
    def ratio_without_largest(self) -> float:
        """The same with one largest replica taken off."""
        return max(0, self.bytes - self.largest) / self.lower_bound if self.lower_bound else 0.0


def run_case(case: MovesCase) -> Row:
    """Plan, play and judge one case."""
    snapshot, request = case.snapshot, case.request
    disks = Disks(snapshot, request.drain)
    before = disks.deviation()
    plans: list[tuple[ClusterSnapshot, MovesPlan]] = []
    now, wanted, spent = snapshot, request, 0.0
    while len(plans) < (2 if request.drain else 1):
        began = time.process_time()
        plan = plan_moves(now, POLICY, wanted)
        spent = max(spent, time.process_time() - began)
        plans.append((now, plan))
        now = snapshot_after(now, plan.moves)
        wanted = replace(request, continuing=True)
    after = Disks(now, request.drain)
    return Row(
        name=case.name,
        features=case.features,
        partitions=len(snapshot.partitions),
        replication=case.replication,
        fine=is_fine(snapshot, BAND, request.drain),
        deviation_before=before,
        deviation_after=after.deviation(),
        bytes=sum(plan.bytes for _, plan in plans),
        lower_bound=_lower_bound(snapshot, request),
        largest=max(size for one in snapshot.partitions for size in one.replica_bytes.values()),
        moves=sum(len(plan.moves) for _, plan in plans),
        plans=sum(bool(plan.moves) for _, plan in plans),
        batches=sum(len(plan.batches) for _, plan in plans),
        peak=max(play_batches(there, plan.batches) for there, plan in plans),
        rack_losses=sum(count_rack_losses(there, plan.moves) for there, plan in plans),
        twice=sum(_count_twice(plan) for _, plan in plans),
        stretch=max(_stretch(plan) for _, plan in plans),
        plan_seconds=spent,
        others={} if request.drain else {name: rule(snapshot) for name, rule in RULES.items()},
    )


def _lower_bound(snapshot: ClusterSnapshot, request: MovesRequest) -> float:
    plain = lower_bound(snapshot, BAND, request.drain, lost_bytes(snapshot, request.drain))
    if not request.drain or len(snapshot.partitions) > SOLVED:
        return plain
    return max(plain, emptied_bound(snapshot, BAND, request.drain))


def _count_twice(plan: MovesPlan) -> int:
    return len(plan.moves) - len({(move.topic, move.partition) for move in plan.moves})


def _stretch(plan: MovesPlan) -> float:
    """How much longer the batches take than the busiest broker must."""
    lanes: dict[tuple[str, int | None], float] = {}
    throttle = MovesRequest().throttle_bytes_per_second
    for move in plan.moves:
        for lane in (("sends", move.copied_from), ("receives", move.copied_to)):
            lanes[lane] = lanes.get(lane, 0.0) + move.bytes / throttle
    least = max(lanes.values(), default=0.0)
    return _seconds(plan.batches) / least if least > 0 else 1.0


def _seconds(batches: Sequence[Batch]) -> float:
    return sum(batch.seconds for batch in batches)


def run_small(count: int) -> dict[str, float]:
    """Clusters of at most 8 partitions against the exact optimum: worst ratio of bytes and of what is won."""
    bytes_ratio, lag, judged = 0.0, 0.0, 0
    for number in range(count):
        case = small_case(number)
        oracle, disks = Oracle(case.snapshot, LIMIT), Disks(case.snapshot)
        before = disks.deviation()
        if before <= POLICY.enter_percent / 100:
            continue
        plan = plan_moves(case.snapshot, POLICY)
        apply_moves(case.snapshot, disks, plan.moves)
        best, after = max(BAND, oracle.least_deviation()), max(BAND, disks.deviation())
        least = oracle.least_bytes(after + 1e-9)
        bytes_ratio = max(bytes_ratio, plan.bytes / least if least else 1.0)
        lag = max(lag, (after - best) / (before - best) if before > best + ROUNDING else 0.0)
        judged += 1
    return {"cases": judged, "bytesRatio": bytes_ratio, "conceded": lag}


def run_large() -> dict[str, float]:
    """CPU seconds of one plan, all checks included."""
    times = {}
    for name, brokers, partitions in (("10000x3 on 50", 50, 10_000), ("50000x3 on 100", 100, 50_000)):
        shape = Shape(seed=1, brokers=brokers, partitions=partitions, replication=3, racks=5)
        snapshot = generate_snapshot(shape)
        times[name] = _time_plan(snapshot)
    return times


def _time_plan(snapshot: ClusterSnapshot) -> float:
    began = time.process_time()
    plan = plan_moves(snapshot, POLICY)
    spent = time.process_time() - began
    if not plan.moves:  # nothing to time
        raise RuntimeError(f"nothing was planned: {plan.message}")
    return spent


def run_noise(step_seconds: int) -> dict[str, float]:
    """A day at a deviation of 9.5 % with sawteeth: plans, and readings above the 10 % at which plans begin."""
    plans = above = readings = 0
    for snapshot in steady_snapshots(0.095, step_seconds):
        plan = plan_moves(snapshot, POLICY)
        plans += bool(plan.moves)
        above += (plan.deviation_before or 0) > POLICY.enter_percent / 100
        readings += 1
    return {"readings": readings, "above": above, "plans": plans}


def judge(
    rows: Sequence[Row], small: Mapping[str, float], large: Mapping[str, float], noise: Mapping[str, float]
) -> list[dict[str, Any]]:
    """The bars."""
    planned = sum(row.moves > 0 for row in rows)
    deviation = max(row.deviation_after for row in rows if row.judged)
    bars = [
        bar("cases that need a plan", ">= 300", planned, holds=planned >= 300),
        bar("deviation after", "<= 3 %", deviation, holds=deviation <= BAND + ROUNDING),
    ]
    for replication, allowed in ALLOWED.items():
        some = [r.ratio_without_largest for r in rows if r.replication == replication and r.partitions > FEW]
        if some:
            name = f"bytes over the lower bound, RF {replication}"
            limit = f"<= {allowed} (and a largest replica)"
            bars.append(bar(name, limit, max(some), holds=max(some) <= allowed))
    twice, losses = sum(row.twice for row in rows), sum(row.rack_losses for row in rows)
    peak = max(row.peak for row in rows)
    return [
        *bars,
        bar("partitions moved twice", "0", twice, holds=twice == 0),
        bar("racks lost", "0", losses, holds=losses == 0),
        bar("peak of a volume", "<= 85 %", peak, holds=peak <= LIMIT + ROUNDING),
        bar(
            "bytes over the exact optimum", "<= 1.05", small["bytesRatio"], holds=small["bytesRatio"] <= EXACT
        ),
        bar(
            "conceded of the exact optimum",
            "<= 10 %",
            small["conceded"],
            holds=small["conceded"] <= CONCEDED + ROUNDING,
        ),
        *(
            bar(f"plan of {name}, CPU s", f"<= {limit}", large[name], holds=large[name] <= limit)
            for name, limit in zip(large, (1, 10), strict=True)
        ),
        bar("plans in a day of noise", "0", noise["plans"], holds=noise["plans"] == 0),
    ]


def compare(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One line per rule and kind of cluster: deviation and bytes."""
    found = []
    for kind, some in (
        ("one disk per broker, equal", [r for r in rows if not {"JBOD", "unequal disks"} & set(r.features)]),
        (
            "one disk per broker, unequal",
            [r for r in rows if "JBOD" not in r.features and "unequal disks" in r.features],
        ),
        ("several disks per broker", [r for r in rows if "JBOD" in r.features]),
        ("all", list(rows)),
    ):
        both = [row for row in some if row.others and row.lower_bound > 0 and row.partitions > FEW]
        for name in ("evenkeel", *RULES):
            ends = [(r.deviation_after, r.ratio) if name == "evenkeel" else _end(r, name) for r in both]
            deviations, ratios = [one for one, _ in ends], [one for _, one in ends]
            found.append(
                {
                    "rule": name,
                    "clusters": kind,
                    "cases": len(both),
                    "deviationMedian": float(np.median(deviations)),
                    "deviationP90": float(np.quantile(deviations, 0.9)),
                    "withinBand": float(np.mean([one <= BAND + ROUNDING for one in deviations])),
                    "bytesMedian": float(np.median(ratios)),
                    "bytesP90": float(np.quantile(ratios, 0.9)),
                }
            )
    return found


def _end(row: Row, name: str) -> tuple[float, float]:
    return row.others[name].deviation, row.others[name].bytes / row.lower_bound


def print_result(
    rows: Sequence[Row], table: Sequence[Mapping[str, Any]], bars: Sequence[Mapping[str, Any]]
) -> None:
    """What was found, for people."""
    print(f"\n{len(rows)} cases, of which {sum(row.judged for row in rows)} judged by deviation")
    for name in sorted({name for row in rows for name in row.features}):
        some = [row for row in rows if name in row.features]
        ratio = float(np.median([row.ratio for row in some]))
        within = sum(row.deviation_after <= BAND + ROUNDING for row in some)
        print(
            f"  {name:18} {len(some):4} cases, {within:4} end within 3 %, bytes / lower bound {ratio:.3f} (median)"
        )
    print(
        f"batches take {np.median([r.stretch for r in rows]):.2f} (median), {max(r.stretch for r in rows):.2f} (worst) of the busiest broker's time"
    )
    print(
        f"\n{'clusters':30} {'rule':15} {'cases':>5} {'deviation: median':>18} {'p90':>7} {'<= 3 %':>7} {'bytes: median':>14} {'p90':>6}"
    )
    for line in table:
        print(
            f"{line['clusters']:30} {line['rule']:15} {line['cases']:5} {line['deviationMedian']:18.1%} "
            f"{line['deviationP90']:7.1%} {line['withinBand']:7.0%} {line['bytesMedian']:14.2f} {line['bytesP90']:6.2f}"
        )
    print()
    for found in bars:
        print(
            f"{'holds' if found['holds'] else 'FAILS'} {found['name']}: {found['value']:.6g} ({found['limit']})"
        )


def plot(rows: Sequence[Row], folder: Path) -> None:
    """Deviation after over bytes moved, one point per case and rule."""
    from matplotlib.figure import Figure

    from benchmarks.harness.plots import OTHERS, save_plot

    both = [row for row in rows if row.others and row.lower_bound > 0 and row.partitions > FEW]
    figure = Figure(figsize=(8, 5))
    axes = figure.add_subplot()
    colours = {
        "astraea": OTHERS[5],
        "kafka-kit": OTHERS[3],
        "cruise-control": OTHERS[2],
        "evenkeel": OTHERS[1],
    }
    for name, colour in colours.items():
        ends = [(r.deviation_after, r.ratio) if name == "evenkeel" else _end(r, name) for r in both]
        bytes_, deviations = [max(one, 0.05) for _, one in ends], [max(one, 1e-3) * 100 for one, _ in ends]
        axes.plot(bytes_, deviations, ".", markersize=5, alpha=0.7, color=colour, label=name)
    axes.axhline(BAND * 100, color="#999999", linewidth=0.8)
    axes.axvline(1.0, color="#999999", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("bytes moved / lower bound for a band of 3 %")
    axes.set_ylabel("deviation of the worst disk afterwards (percent)")
    axes.legend(loc="upper right", frameon=False, title=f"{len(both)} generated clusters")
    save_plot(figure, folder, "moves_corpus")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, write; 1 where a bar does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=330)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, help="another one: other clusters")
    parser.add_argument(
        "--small", type=int, default=60, help="clusters of at most 8 partitions, solved exactly"
    )
    parser.add_argument(
        "--noise-seconds", type=int, default=60, help="between measurements of the day of noise"
    )
    parser.add_argument("--results", type=Path, default=FOLDER)
    parser.add_argument("--quiet", action="store_true", help="no line per case")
    options = parser.parse_args(arguments)
    began, rows = time.process_time(), []
    for number in range(options.cases):
        row = run_case(build_moves_case(draw_shape(number, options.first_seed)))
        rows.append(row)
        if not options.quiet:
            print(
                f"{row.name:19} deviation {row.deviation_before:.3f} -> {row.deviation_after:.4f}"
                f"{'' if row.judged else ' (not judged)'} bytes {row.ratio:.4f} peak {row.peak:.3f} "
                f"{row.moves} moves {row.batches} batches {row.plan_seconds:.3f} s",
                flush=True,
            )
    small, large, noise = run_small(options.small), run_large(), run_noise(options.noise_seconds)
    bars, table = judge(rows, small, large, noise), compare(rows)
    print_result(rows, table, bars)
    spent = time.process_time() - began
    print(f"{spent:.0f} s CPU")
    parameters = {
        "cases": options.cases,
        "firstSeed": options.first_seed,
        "small": options.small,
        "noiseSeconds": options.noise_seconds,
    }
    more = {"comparison": table, "small": small, "large": large, "noise": noise, "cpuSeconds": round(spent)}
    save_result(
        build_result("moves_corpus", parameters, [asdict(row) for row in rows], bars, **more), options.results
    )
    plot(rows, options.results)
    return 0 if all(found["holds"] for found in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
