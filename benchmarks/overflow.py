"""The run of experiment 1 that ends a broker: the same bytes by the default partitioner and by ours."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.harness import progress
from benchmarks.harness.arms import Arm, split_job, stop_writers, writing
from benchmarks.harness.job import WriteJob
from benchmarks.harness.layouts import OVERFLOW
from benchmarks.harness.stage import Stage, sampled
from benchmarks.harness.steering import steering
from integration.processes import wait_until

SECONDS = 40.0
NAMES = ("librdkafka", "evenkeel")
_DEATH = re.compile(r"^.*(?:all log dirs .*have failed|No space left on device).*$", re.MULTILINE)

_PATH = re.compile(r"/\S*/(disk-\d+-\d+)\S*")
"""Of a log directory: what names the machine is left out of results."""


def run_overflow(
    arms: Sequence[Arm], writers: int, record_bytes: int, console: Console
) -> list[dict[str, Any]]:
    """A fresh cluster for each of the two -> a row each."""
    rows = []
    for arm in arms:
        if arm.name in NAMES:
            row = _run(arm, writers, record_bytes)
            rows.append(row)
            end = (
                f"brokers {row['brokersDead']} dead after {row['deathSeconds']} s"
                if row["brokersDead"]
                else "all alive"
            )
            console.print(
                f"{OVERFLOW.name} {arm.name}: {end}, {row['bytesAcked']} of {row['bytesWanted']} bytes"
            )
    return rows


def _run(arm: Arm, writers: int, record_bytes: int) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evenkeel-bench-")))
        stage = stack.enter_context(Stage.open(OVERFLOW))
        stage.create_topic("data")
        offset = -1
        if arm.routed:
            steer = stack.enter_context(steering(stage, folder / "keeper"))
            offset = steer.announce_plan("data", OVERFLOW.write_bytes)
        job = WriteJob(
            stage.cluster.bootstrap,
            "data",
            arm.rule,
            OVERFLOW.write_bytes,
            SECONDS,
            record_bytes,
            plan_offset=offset,
            config={"message.timeout.ms": "10000"},
        )
        samples = stack.enter_context(sampled(stage))
        processes = stack.enter_context(writing(arm, split_job(job, writers), folder))
        began = time.monotonic()

        def over() -> bool:
            progress.check_stop()
            return bool(_dead(stage)) or not any(process.running for process in processes)

        wait_until("the end of writing", over, seconds=4 * SECONDS + 120, every=0.05)
        death = round(time.monotonic() - began, 1) if _dead(stage) else None
        written = stop_writers(processes)
        return {
            "arm": arm.name,
            "bytesWanted": OVERFLOW.write_bytes,
            "bytesAcked": written.bytes_acked,
            "bytesFailed": written.bytes_failed,
            "brokersDead": _dead(stage),
            "deathSeconds": death,
            "deathLog": [
                _PATH.sub(r"\1", line)
                for broker in _dead(stage)
                for line in _DEATH.findall(stage.cluster.logs(broker))[-1:]
            ],
            "samples": [
                {
                    "second": round(sample.second, 1),
                    "fills": {str(disk.broker): round(disk.fill, 4) for disk in sample.disks},
                }
                for sample in samples
            ],
        }


def _dead(stage: Stage) -> list[int]:
    return [spec.id for spec in stage.layout.broker_specs() if not stage.cluster.running(spec.id)]
