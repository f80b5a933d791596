"""What the Python router costs: the call, requests, throughput, latency, and how even a fleet of them writes.

call: nanoseconds of `produce` (CPU time of the calling thread, batching delay a minute, nothing sent) against a
bare positional call of the client. pace: both at once, record by record, 1 KiB, RF 3, acks=all, a level table.
saturation: as fast as one process can, in turns. fleet: fifty routers on a simulated clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka

from benchmarks.harness.options import PYTHON_PATH
from benchmarks.harness.order import interleave
from benchmarks.harness.results import FOLDER, bar, build_result, read_other_rows, save_result
from benchmarks.router_calls import BARE, CALLS, ROUTER
from benchmarks.router_load import ARMS, DEFAULT, EVENKEEL, LoadJob
from evenkeel.domain import codec
from evenkeel.domain.table import WEIGHT_SCALE, RouteTable
from evenkeel.names import HEARTBEATS_TOPIC, ROUTES_TOPIC
from integration.kafka.clients import create_topic
from integration.kafka.cluster import KafkaCluster
from scripts.provision import cache, steps
from tests.support.fleet import draw_tables, simulate_fleet

NAME = "router_cost"
PARTS = ("call", "pace", "saturation", "fleet")
CALL_LIMITS = {1024: 1.25, 64 * 1024: 1.02}
"""Bytes of a record -> the bar."""
CALL_ROUNDS = 20
"""Of calls, per round of all else: each is a process of a second, and at 64 KiB they differ by 1 % from each other."""
PARTITIONS = 12
Row = dict[str, Any]


def measure_calls(rounds: int) -> list[Row]:
    """A row per size, round and way to call, in CPU nanoseconds of one call."""
    return [
        {"part": "call", "round": number, **found}
        for number in range(CALL_ROUNDS * rounds)
        for found in _run_module("benchmarks.router_calls", str(number), 120)
    ]


def judge_calls(rows: Sequence[Row]) -> list[Row]:
    """Median over the rounds of the ratio to the bare call of the same round."""
    bars = []
    for size, limit in CALL_LIMITS.items():
        for name in CALLS:
            cost = {
                call: [row["nanoseconds"] for row in rows if row["size"] == size and row["call"] == call]
                for call in (name, BARE)
            }
            value = statistics.median(one / base for one, base in zip(cost[name], cost[BARE], strict=True))
            middle = statistics.median(cost[name])
            print(f"call {size:>6} B  {name:<22} {middle:8.0f} ns  {value:.3f} of a bare positional call")
            if name == ROUTER:
                bars.append(bar(f"produce at {size} B", f"<= {limit}", value, holds=value <= limit))
    return bars


def measure_brokers(parts: Sequence[str], rounds: int, seconds: float, rate: int) -> list[Row]:
    """Rows of the parts that need brokers."""
    rows: list[Row] = []
    with KafkaCluster.start() as cluster:
        topics = _make_topics(cluster)
        for number in range(rounds if "pace" in parts else 0):
            found = _run(cluster, LoadJob(cluster.bootstrap, topics, seconds, rate=rate))
            rows.append({"part": "pace", "round": number, **found})
        if "saturation" in parts:
            warm_up = LoadJob(cluster.bootstrap, {DEFAULT: topics[DEFAULT]}, seconds)
            _run(cluster, warm_up)
            for number, arm in interleave(ARMS, rounds, 1):
                found = _run(cluster, LoadJob(cluster.bootstrap, {arm: topics[arm]}, seconds))
                rows.append({"part": "saturation", "round": number, "arm": arm, **found})
    return rows


def _make_topics(cluster: KafkaCluster) -> dict[str, str]:
    config = cluster.client_config()
    for name in (ROUTES_TOPIC, HEARTBEATS_TOPIC):
        create_topic(config, name, [[1, 2, 3]])
    order = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    # What is written is worth nothing after a moment: a disk must not fill while throughput is measured.
    short = {"retention.ms": "5000", "segment.bytes": "16777216", "file.delete.delay.ms": "1000"}
    return {
        arm: create_topic(config, f"bench-{arm}", [order[p % 3] for p in range(PARTITIONS)], **short)
        for arm in ARMS
    }


def _publish_table(cluster: KafkaCluster, topic: str) -> None:
    weights = (WEIGHT_SCALE // PARTITIONS,) * PARTITIONS
    now = int(time.time() * 1000)
    table = RouteTable(topic, 1, now, now, weights, valid_ms=86_400_000)
    writer = confluent_kafka.Producer(cluster.client_config())
    writer.produce(ROUTES_TOPIC, codec.dumps(table), table.topic, 0)
    if writer.flush(20):
        raise steps.StepFailed(f"the table could not be written to {ROUTES_TOPIC}")


def _run(cluster: KafkaCluster, job: LoadJob) -> Row:
    """Both arms, or one, in a process; a router that starts reads the tables of the last 10 minutes."""
    if EVENKEEL in job.topics:
        _publish_table(cluster, job.topics[EVENKEEL])
    limit = 3 * (job.seconds + job.warm_seconds) + 180
    found: Row = _run_module("benchmarks.router_load", job.to_json(), limit)
    return found


def _run_module(module: str, argument: str, limit: float) -> Any:
    """What a process says in its last line."""
    words = [sys.executable, "-m", module, argument]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        timeout=limit,
        env=dict(PYTHON_PATH),
        cwd=cache.REPOSITORY,
    )
    if done.returncode != 0:
        raise steps.StepFailed(f"{module} ended with {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def judge_pace(rows: Sequence[Row]) -> list[Row]:
    """Requests, and the medians over seconds of the ratios of latencies."""
    requests, halves, tails = [], [], []
    for row in rows:
        ours, theirs = row[EVENKEEL], row[DEFAULT]
        requests.append((ours["requests"] / ours["records"]) / (theirs["requests"] / theirs["records"]))
        pairs = list(zip(ours["seconds"], theirs["seconds"], strict=True))
        halves.append(statistics.median(one["p50Ms"] / other["p50Ms"] for one, other in pairs))
        tails.append(statistics.median(one["p99Ms"] / other["p99Ms"] for one, other in pairs))
    found = [("requests", requests), ("p50", halves), ("per-second p99", tails)]
    return [_judge(f"{name} at a paced rate", values, "<=", 1.05) for name, values in found]


def judge_saturation(rows: Sequence[Row]) -> list[Row]:
    """Throughput by round."""
    rates = {(row["round"], row["arm"]): row["bytesPerSecond"] for row in rows}
    rounds = sorted({row["round"] for row in rows})
    ratios = [rates[number, EVENKEEL] / rates[number, DEFAULT] for number in rounds]
    return [_judge("throughput at saturation", ratios, ">=", 0.97)]


def judge_fleet(rows: Sequence[Row]) -> list[Row]:
    """Largest error of any partition of any run."""
    return [_judge("bytes against weights after 10 min", [row["largestError"] for row in rows], "<=", 0.05)]


def _judge(name: str, values: Sequence[float], sign: str, limit: float) -> Row:
    value = statistics.median(values)
    print(f"{name:<36} {value:.3f} ({min(values):.3f} to {max(values):.3f})")
    return bar(
        name,
        f"{sign} {limit}",
        value,
        holds=bool(values) and (value <= limit if sign == "<=" else value >= limit),
    )


def measure_fleet(rounds: int) -> list[Row]:
    """Fifty producers at 1 MB/s, a new table each 15 s, 300 partitions, 10 minutes."""
    rows = []
    for number in range(rounds):
        tables = draw_tables(300, spread=1.0, drift=0.1, seed=number)
        outcome = simulate_fleet(
            lambda found=tables: next(found), routers=50, rate=1e6, seconds=600, seed=number
        )
        errors = sorted(outcome.errors())
        rows.append(
            {
                "part": "fleet",
                "round": number,
                "largestError": errors[-1],
                "meanError": sum(errors) / len(errors),
                "runBytes": sum(outcome.volume) // outcome.runs,
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; exit 1 where a bar does not hold."""
    options = _parse(arguments)
    rows = read_other_rows(options.output / f"{NAME}.json", "part", options.parts)
    if "call" in options.parts:
        rows += measure_calls(options.rounds)
    if {"pace", "saturation"} & set(options.parts):
        rows += measure_brokers(options.parts, options.rounds, options.seconds, options.rate)
    if "fleet" in options.parts:
        rows += measure_fleet(min(3, options.rounds))
    judges: Mapping[str, Callable[[Sequence[Row]], list[Row]]] = {
        "call": judge_calls,
        "pace": judge_pace,
        "saturation": judge_saturation,
        "fleet": judge_fleet,
    }
    bars = [
        one
        for part, judge in judges.items()
        if (found := [row for row in rows if row["part"] == part])
        for one in judge(found)
    ]
    for one in bars:
        print(f"{'holds' if one['holds'] else 'FAILS':<6} {one['name']} {one['limit']}: {one['value']:.3f}")
    parameters = {key: value for key, value in vars(options).items() if key not in ("output", "parts")}
    print(save_result(build_result(NAME, parameters, rows, bars), options.output))
    return 0 if all(one["holds"] for one in bars) else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS), help="others stay as they are"
    )
    parser.add_argument("--rounds", type=int, default=9, help="default 9, 5 at least count")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="length of a turn with brokers, default 20"
    )
    parser.add_argument("--rate", type=int, default=2000, help="records per second and arm, default 2000")
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder of the result")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
