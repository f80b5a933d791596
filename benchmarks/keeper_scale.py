"""What one measuring cycle of the keeper costs on a large cluster: CPU seconds and memory.

50 brokers in a process of their own answer over real sockets, with the protocol's own codec: 10,000 partitions
with three copies each, two log directories a broker, all growing. The keeper's own cycle asks them. A cycle is
what the keeper does each interval: gather, growth, snapshot, faults, report, metrics, routes of some topics, and a
plan of moves with a band so narrow that there is always much to plan. CPU is that of the keeper's process, all
threads; the fake brokers' is not in it.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import IO, Any

from benchmarks.harness.results import FOLDER, bar, build_result, save_result
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Desired, DesiredTopic, Owner, Policy
from evenkeel.keeper.cycle import Cycle
from evenkeel.keeper.health import Metrics

INTERVAL_MS = 15_000
ENTER_PERCENT, LEAVE_PERCENT = 1, 0
CPU_BAR, MEMORY_BAR = 2.0, 250 * 1024**2
REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Turn:
    """One cycle."""

    measure_cpu_seconds: float
    measure_wall_seconds: float
    routes_cpu_seconds: float
    """Plan of the routed topics and the report with it, on top of the measuring."""
    moves_cpu_seconds: float
    """Plan of moves, and whether to propose it."""
    moves: int
    resident_bytes: int
    series: int
    """Metric series."""
    missing: int
    """Faults of the measurement: answers that did not come in time, as on a machine that is busy otherwise."""
    active: int
    """Topics with routes."""

    @property
    def cpu_seconds(self) -> float:
        """All of it."""
        return self.measure_cpu_seconds + self.routes_cpu_seconds + self.moves_cpu_seconds


class Clock:
    """Time that goes by an interval a cycle."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def wall_ms(self) -> int:
        """As the keeper's wall clock."""
        return self.now_ms

    def monotonic(self) -> float:
        """As the keeper's clock of intervals."""
        return self.now_ms / 1000


@contextmanager
def play_cluster(brokers: int, topics: int, partitions: int) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The fake brokers: address and process."""
    shape = [f"--brokers={brokers}", f"--topics={topics}", f"--partitions={partitions}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.large_cluster", *shape],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    try:
        yield _pipe(process.stdout).readline().strip(), process
    finally:
        _pipe(process.stdin).close()
        process.wait(30)
        _pipe(process.stdout).close()


def run_cycles(address: str, process: subprocess.Popen[str], count: int, routed: int) -> Iterator[Turn]:
    """Cycles of one keeper; between two of them every partition grows.

    Args:
        address: of a broker.
        process: which plays them.
        count: cycles.
        routed: topics whose routes are planned.
    """
    clock, metrics = Clock(), Metrics()
    cycle = Cycle(wall_ms=clock.wall_ms, monotonic=clock.monotonic)
    names = [f"events-{number:04d}" for number in range(routed)]
    desired = Desired(
        owner=Owner("benchmark", "benchmark", "benchmark/large"),
        connection=Connection((address,)),
        topics=tuple(DesiredTopic(owner_uid="benchmark", name=name) for name in names),
        policy=Policy(enter_percent=ENTER_PERCENT, leave_percent=LEAVE_PERCENT),
    )
    cycle._healthy = True  # noqa: SLF001 - no probe by librdkafka, which the fake brokers do not speak with
    try:
        for _ in range(count):
            before, began = time.process_time(), time.monotonic()
            faults = cycle._measure(desired)  # noqa: SLF001 - without claim and topics, which write to Kafka
            metrics.show(cycle._tell(desired))  # noqa: SLF001 - as above
            measured, ended = time.process_time(), time.monotonic()
            cycle._route(desired)  # noqa: SLF001 - as above
            report = cycle._tell(desired)  # noqa: SLF001 - as above
            plan = cycle._plan  # noqa: SLF001 - as above
            assert plan is not None
            planned = time.process_time()
            cycle._plan_moves(desired)  # noqa: SLF001 - as above
            moved, found = time.process_time(), cycle._balancing.moves  # noqa: SLF001 - as above
            assert found is not None
            metrics.show(report)
            series = sum(len(family.samples) for family in metrics.registry.collect())
            yield Turn(
                measure_cpu_seconds=measured - before,
                measure_wall_seconds=ended - began,
                routes_cpu_seconds=planned - measured,
                moves_cpu_seconds=moved - planned,
                moves=found.moves,
                resident_bytes=resident_bytes(),
                series=series,
                missing=len(faults),
                active=sum(table.active for table in plan.topics.values()),
            )
            clock.now_ms += INTERVAL_MS
            _tick(process)
    finally:
        cycle.close()


def resident_bytes() -> int:
    """Resident memory of this process now."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmRSS")


def _tick(process: subprocess.Popen[str]) -> None:
    stdin = _pipe(process.stdin)
    stdin.write("\n")
    stdin.flush()
    _pipe(process.stdout).readline()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def summarise(turns: Sequence[Turn]) -> dict[str, Any]:
    """Medians, and the worst of each figure; the first cycle, which compiles, apart.

    Cycles in which an answer was missing do less and do not count.
    """
    whole = [turn for turn in turns[1:] if not turn.missing]
    later = whole or turns
    return {
        "wholeCycles": len(whole),
        "firstMeasureCpuSeconds": round(turns[0].measure_cpu_seconds, 3),
        "measureCpuSeconds": round(median(turn.measure_cpu_seconds for turn in later), 3),
        "worstMeasureCpuSeconds": round(max(turn.measure_cpu_seconds for turn in later), 3),
        "measureWallSeconds": round(median(turn.measure_wall_seconds for turn in later), 3),
        "routesCpuSeconds": round(median(turn.routes_cpu_seconds for turn in later), 3),
        "movesCpuSeconds": round(median(turn.moves_cpu_seconds for turn in later), 3),
        "cycleCpuSeconds": round(median(turn.cpu_seconds for turn in later), 3),
        "worstCycleCpuSeconds": round(max(turn.cpu_seconds for turn in later), 3),
        "moves": median(turn.moves for turn in later),
        "residentBytes": max(turn.resident_bytes for turn in turns),
        "metricSeries": turns[-1].series,
        "routedTopics": later[-1].active,
    }


def build_bars(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the issue demands of a cycle."""
    cpu, memory = summary["worstMeasureCpuSeconds"], summary["residentBytes"]
    whole, cycle = summary["wholeCycles"], summary["cycleCpuSeconds"]
    return [
        bar("cycles with all answers", ">= 1", whole, holds=whole >= 1),
        bar("CPU of the worst measuring", f"<= {CPU_BAR:g} s", cpu, holds=cpu <= CPU_BAR),
        bar("CPU of a whole cycle", f"<= {CPU_BAR:g} s", cycle, holds=cycle <= CPU_BAR),
        bar("resident memory", f"<= {MEMORY_BAR // 1024**2} MiB", memory, holds=memory <= MEMORY_BAR),
    ]


def main(arguments: list[str]) -> int:
    """Measure, print, save. Exit 1 where a bar does not hold."""
    # The keeper's whole process, its Kubernetes side too: it is in the memory that is measured.
    importlib.import_module("evenkeel.keeper.main")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=50)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=100, help="of each topic")
    parser.add_argument("--routed", type=int, default=5, help="topics whose routes are planned")
    parser.add_argument("--cycles", type=int, default=45, help="a history of rates is full after 40")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    with play_cluster(options.brokers, options.topics, options.partitions) as (address, process):
        turns = list(run_cycles(address, process, options.cycles, options.routed))
    summary = summarise(turns)
    bars = build_bars(summary)
    parameters = {key: value for key, value in vars(options).items() if key != "out"}
    rows = [asdict(turn) for turn in turns]
    save_result(build_result("keeper-scale", parameters, rows, bars, summary=summary), options.out)
    for name, value in summary.items():
        print(f"{name:26} {value}")
    for one in bars:
        print(
            f"{one['name']:26} {one['value']} {one['limit']}: {'holds' if one['holds'] else 'DOES NOT HOLD'}"
        )
    return 0 if all(one["holds"] for one in bars) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
