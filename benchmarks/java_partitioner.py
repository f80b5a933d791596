"""What the Java partitioner costs: throughput at saturation against the client's built-in one.

One Java process with a producer of each kind, and two with the built-in one; they write in turns, in another order
each round, and a first round warms up. A kind's figure is the median over the rounds of its throughput divided by the
mean of both built-in ones in the same round; how far those two are from each other is what the figure is worth. RF 3,
acks=all, a level table. Other lengths of a run are shown beside.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka

from benchmarks.harness.results import FOLDER, bar, build_result, save_result
from benchmarks.harness.statistics import summarise
from evenkeel.domain import codec
from evenkeel.domain.table import WEIGHT_SCALE, RouteTable
from evenkeel.names import HEARTBEATS_TOPIC, ROUTES_TOPIC
from integration.java_client import CLASS, java_command, java_config, write_properties
from integration.kafka.clients import create_topic
from integration.kafka.cluster import KafkaCluster
from scripts.provision import jars, partitioner, steps

BAR = 0.97
TOPIC = "bench"
BUILT_IN, EVENKEEL, WITHOUT_TABLE = "built-in", "evenkeel", "evenkeel-without-table"
CONTROL = "built-in-again"
HEAP_MIB = 512


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; exit 1 where the bar does not hold."""
    options = _parse(arguments)
    with tempfile.TemporaryDirectory() as folder, KafkaCluster.start() as cluster:
        _make_topics(cluster, options.partitions)
        turns = _run(cluster, Path(folder), options)
    ratios = _ratios(turns)
    for kind, values in ratios.items():
        found = summarise(values)
        requests = summarise(
            [turn["requests"] / turn["records"] * 1000 for turn in turns if turn["kind"] == kind]
        )
        print(
            f"{kind:<24} throughput {found.median:.3f} of built-in ({found.lowest:.3f} to {found.highest:.3f}), "
            f"{requests.median:.1f} requests per 1,000 records"
        )
    bars = []
    for kind in (EVENKEEL, WITHOUT_TABLE):
        value = summarise(ratios[kind]).median
        bars.append(bar(f"throughput of {kind} against {BUILT_IN}", f">= {BAR}", value, holds=value >= BAR))
    parameters = {key: value for key, value in vars(options).items() if key != "output"}
    result = build_result("java_partitioner", parameters, turns, bars, ratios=ratios)
    print(save_result(result, options.output))
    return 0 if all(one["holds"] for one in bars) else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9, help="counted rounds, default 9")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a turn, default 5")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a record's value, default 1024")
    parser.add_argument("--partitions", type=int, default=12, help="of the topic, default 12")
    parser.add_argument(
        "--runs", type=int, nargs="*", default=[], help="lengths of a run to be tried besides, in bytes"
    )
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder of the result")
    return parser.parse_args(arguments)


def _make_topics(cluster: KafkaCluster, partitions: int) -> None:
    config = cluster.client_config()
    for name in (ROUTES_TOPIC, HEARTBEATS_TOPIC):
        create_topic(config, name, [[1, 2, 3]])
    order = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    # What is written is worth nothing after a moment: a disk must not fill while throughput is measured.
    short = {"retention.ms": "5000", "segment.bytes": "16777216", "file.delete.delay.ms": "1000"}
    create_topic(config, TOPIC, [order[p % 3] for p in range(partitions)], **short)
    weights = [WEIGHT_SCALE // partitions] * partitions
    table = RouteTable(
        topic=TOPIC, owner_epoch=1, epoch=1, taken_at_ms=int(time.time() * 1000), weights=tuple(weights),
        valid_ms=86_400_000,
    )  # fmt: skip
    writer = confluent_kafka.Producer(config)
    writer.produce(ROUTES_TOPIC, codec.dumps(table), TOPIC, 0)
    if writer.flush(20):
        raise steps.StepFailed(f"the table could not be written to {ROUTES_TOPIC}")


def _run(cluster: KafkaCluster, folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row per turn of the counted rounds."""
    kinds: dict[str, dict[str, str]] = {
        BUILT_IN: {},
        CONTROL: {},
        EVENKEEL: {"partitioner.class": CLASS},
        WITHOUT_TABLE: {"partitioner.class": CLASS, "evenkeel.topics": "another"},
    }
    for length in options.runs:
        kinds[f"{EVENKEEL}-{length}"] = {"partitioner.class": CLASS, "evenkeel.run.bytes": str(length)}
    words: list[str | Path] = [str(options.rounds), str(options.seconds), str(options.size), TOPIC]
    for kind, settings in kinds.items():
        config = java_config(cluster, client_id=kind) | settings
        words.append(f"{kind}={write_properties(folder / f'{kind}.properties', config)}")
    command = java_command(jars.ensure(), partitioner.ensure(), "Bench", *words, heap_mib=HEAP_MIB)
    limit = (options.rounds + 1) * len(kinds) * (options.seconds + 60)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    if done.returncode != 0:
        raise steps.StepFailed(f"the Java program ended with {done.returncode}\n{done.stderr[-2000:]}")
    turns = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    failed = sum(turn["failed"] for turn in turns)
    if failed:
        raise steps.StepFailed(f"{failed} records could not be written: the rates mean nothing")
    return [turn for turn in turns if turn["round"] > 0]


def _ratios(turns: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """By kind, a ratio per round to the mean of the built-in partitioner's two turns of the same round."""
    base: dict[int, float] = defaultdict(float)
    for turn in turns:
        if turn["kind"] in (BUILT_IN, CONTROL):
            base[turn["round"]] += turn["bytesPerSecond"] / 2
    ratios: dict[str, list[float]] = defaultdict(list)
    for turn in turns:
        ratios[turn["kind"]].append(turn["bytesPerSecond"] / base[turn["round"]])
    return dict(ratios)


if __name__ == "__main__":
    raise SystemExit(main())
