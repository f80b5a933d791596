"""The ways to choose a partition that are compared, and the processes that write by them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.harness.job import WriteJob, Written
from benchmarks.harness.options import PYTHON_PATH, choose
from benchmarks.harness.order import interleave
from benchmarks.harness.progress import check_stop
from integration.processes import Process, wait_until
from scripts.provision import cache, jars, partitioner, steps

WRITER = "benchmarks.harness.python_writer"
JAVA_WRITER = Path(__file__).with_name("java") / "BenchWriter.java"
PARTITIONER = "dev.evenkeel.partitioner.EvenkeelPartitioner"
JAVA_BATCH = str(128 * 1024)
"""Of both Java arms: the default holds one record of 16 KiB, and five requests in flight would bound what the
heavier partitions can take on a busy machine. librdkafka's default is 1 MB."""
TABLE_MS = 30_000
"""A Java writer waits as long for its partitioner's first table."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to choose a partition."""

    name: str
    title: str
    rule: str
    """Of the Python writer, or `java`."""
    routed: bool = False
    """Whether it reads the keeper's tables."""


EVENKEEL = Arm("evenkeel", "Evenkeel, Python router", "evenkeel", routed=True)
EVENKEEL_JAVA = Arm("evenkeel-java", "Evenkeel, Java partitioner", "java", routed=True)
LIBRDKAFKA = Arm("librdkafka", "librdkafka's default (sticky, random)", "librdkafka")
ROUND_ROBIN = Arm("round-robin", "round robin per record", "round-robin")
JAVA_BUILT_IN = Arm("java-built-in", "Java client's built-in (KIP-794)", "java")
MOST_FREE = Arm("most-free", "leader with most free bytes", "most-free")
ARMS = (EVENKEEL, EVENKEEL_JAVA, LIBRDKAFKA, ROUND_ROBIN, JAVA_BUILT_IN, MOST_FREE)


def choose_arms(names: Sequence[str]) -> tuple[Arm, ...]:
    """Those named, all where none is.

    Raises:
        SystemExit: an unknown name.
    """
    return choose("--arms", {arm.name: arm for arm in ARMS}, names)


def plan_runs(arms: Sequence[Arm], repeats: int, baseline_repeats: int, seed: int) -> list[tuple[int, Arm]]:
    """(repeat, arm) interleaved; arms without tables only in the first `baseline_repeats` rounds."""
    order = interleave(arms, repeats, seed)
    return [(repeat, arm) for repeat, arm in order if arm.routed or repeat < baseline_repeats]


def prepare_arms(arms: Sequence[Arm]) -> None:
    """Build what they need, before anything is timed.

    Raises:
        steps.StepFailed: as `java_class_path`.
    """
    if any(arm.rule == "java" for arm in arms):
        java_class_path()


def java_class_path() -> str:
    """Kafka's client, the Java writer and our partitioner, each built once per state of its source.

    Raises:
        steps.StepFailed: javac or Maven is missing, or refuses.
    """
    home, jar = jars.ensure(), partitioner.ensure().jar

    def build(work: Path) -> None:
        steps.run(["javac", "-nowarn", "-d", work, "-cp", home.class_path, JAVA_WRITER], timeout=120)

    classes = cache.entry("benchmark-classes", cache.digest([JAVA_WRITER, home.class_path]), build)
    return f"{home.class_path}:{jar}:{classes}"


def build_command(arm: Arm, job: WriteJob) -> list[str]:
    """The words that start one writer."""
    if arm.rule != "java":
        return [sys.executable, "-m", WRITER, replace(job, rule=arm.rule).to_json()]
    config: dict[str, str] = {
        "bootstrap.servers": job.bootstrap,
        "acks": job.acks,
        "client.id": f"bench-{arm.name}-{job.writer}",
        "delivery.timeout.ms": "60000",
        "batch.size": JAVA_BATCH,
        "enable.metrics.push": "false",
        **job.config,
    }
    if arm.routed:
        config |= {
            "partitioner.class": PARTITIONER,
            "evenkeel.topics": job.topic,
            "evenkeel.phase": str((job.writer + 0.5) / job.writers),
        }
    words = [job.topic, str(job.bytes_total), f"{job.seconds:g}", str(job.record_bytes)]
    words += [str(TABLE_MS if arm.routed else 0), *(f"{key}={value}" for key, value in config.items())]
    flags = ["-Xmx128m", *jars.JVM_FLAGS, f"-Dlog4j2.configurationFile={jars.LOGGING}"]
    return ["java", *flags, "-cp", java_class_path(), "BenchWriter", *words]


def split_job(job: WriteJob, writers: int) -> list[WriteJob]:
    """The same bytes by several processes."""
    return [
        replace(job, bytes_total=job.bytes_total // writers, writer=number, writers=writers)
        for number in range(writers)
    ]


@contextmanager
def writing(arm: Arm, jobs: Sequence[WriteJob], folder: Path) -> Iterator[list[Process]]:
    """The running writers; those still there at the end of the block are ended."""
    folder.mkdir(parents=True, exist_ok=True)
    processes: list[Process] = []
    try:
        for job in jobs:
            log = folder / f"{job.topic}-{job.writer}.log"
            processes.append(Process(build_command(arm, job), log, PYTHON_PATH))
        yield processes
    finally:
        for process in processes:
            process.stop(10)


def gather_written(processes: Sequence[Process], seconds: float) -> Written:
    """Wait for all writers -> their sums.

    Raises:
        ServerError: one still runs after `seconds`.
        ValueError: one told nothing.
        StoppedError: the benchmark is to end.
    """

    def ended() -> bool:
        check_stop()
        return not any(process.running for process in processes)

    wait_until("the writers", ended, seconds=seconds, every=0.1)
    found = [Written.from_output(process.output()) for process in processes]
    return Written(
        sum(one.bytes_acked for one in found),
        sum(one.bytes_failed for one in found),
        max(one.seconds for one in found),
        min(one.tables_seen for one in found),
        max(one.mix for one in found),
        _add_up([one.partition_bytes for one in found]),
    )


def _add_up(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = sorted({name for one in counts for name in one}, key=int)
    return {name: sum(one.get(name, 0) for one in counts) for name in names}


def stop_writers(processes: Sequence[Process]) -> Written:
    """End them early -> what those wrote that could still tell."""
    for process in processes:
        process.stop(30)
    acked = failed = 0
    longest = 0.0
    for process in processes:
        with suppress(ValueError):
            one = Written.from_output(process.output())
            acked, failed = acked + one.bytes_acked, failed + one.bytes_failed
            longest = max(longest, one.seconds)
    return Written(acked, failed, longest)
