"""`evenkeel doctor`: what a Kafka cluster allows, what routing could do there, and what to do next.

Changes nothing. Exit codes: 0 Evenkeel can work here, 3 something must be mended first.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from evenkeel.cli.snapshot import build_connection, measure, read_properties
from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.snapshot import ClusterSnapshot, Partition
from evenkeel.errors import EvenkeelError
from evenkeel.kafka.admin import Admin
from evenkeel.kafka.clients.privileges import Privileges, gather_privileges
from evenkeel.kafka.clients.sample import KeySample, sample_keys
from evenkeel.kafka.rights import Principal, ResourceKind, list_rights
from evenkeel.planning.diagnosis import Diagnosis, Facts, Grade, Rights, diagnose, users_topics

log = logging.getLogger(__name__)
OK, REFUSED = 0, 3
MOST_TOPICS = 20
SAMPLED_PARTITIONS = 4
"""Of each of the MOST_TOPICS largest topics, the fullest; of the others one."""
SAMPLE_SECONDS = 60.0
"""After so long no further topic is looked at, beyond the MOST_TOPICS largest."""
_COLOURS = {Grade.OK: "green", Grade.HINT: "yellow", Grade.UNKNOWN: "magenta", Grade.BLOCKED: "red"}


def main(arguments: list[str]) -> int:
    """Look, judge and print; returns the exit code.

    Raises:
        InputError: an argument or a file of settings is wrong.
        EvenkeelError: the cluster cannot be reached at all.
    """
    options = _parse(arguments)
    properties = read_properties(options.config) if options.config else {}
    with tempfile.TemporaryDirectory(prefix="evenkeel-") as folder:  # 0700, gone afterwards
        connection = build_connection(options.bootstrap, properties, Path(folder))
        facts = gather_facts(connection, options.seconds, options.sample)
    diagnosis = diagnose(facts)
    if options.output == "json":
        sys.stdout.write(json.dumps(codec.to_json(diagnosis), indent=2) + "\n")
    else:
        print_diagnosis(diagnosis, Console())
    return REFUSED if diagnosis.blocked else OK


def gather_facts(connection: Connection, seconds: float, sample: int) -> Facts:
    """Measure, ask for rights and versions, and look at the newest records' keys.

    Args:
        connection: where and how.
        seconds: for how long growth is observed; 0: not at all.
        sample: records per partition to look at; 0: none.

    Raises:
        EvenkeelError: not even brokers and topics could be learned.
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=None)
        snapshot = measure(connection, seconds)
        progress.update(task, description="asking for versions and rights")
        with Admin(connection) as admin:
            version = admin.describe_metadata_version()
        topics = users_topics(snapshot)
        privileges = _ask_rights(connection, topics)
        progress.update(task, description="looking at the newest records")
        steerable = dict(_sample_topics(connection, snapshot, sample)) if sample else {}
    return Facts(
        snapshot=snapshot,
        metadata_version=version,
        observe=_build_rights(Principal.OBSERVE, privileges),
        move=_build_rights(Principal.MOVE, privileges),
        steerable=steerable,
    )


def _ask_rights(connection: Connection, topics: Iterable[str]) -> Privileges | None:
    try:
        return gather_privileges(connection, topics)
    except EvenkeelError as error:
        log.warning("rights not told why=%s", error.message)
        return None


def _build_rights(principal: Principal, found: Privileges | None) -> Rights:
    needed = list_rights(principal)
    cluster = frozenset(right.operation for right in needed if right.kind is ResourceKind.CLUSTER)
    topic = frozenset(
        right.operation
        for right in needed
        # Create is a right on a topic that is not there yet: nobody is told of it beforehand.
        if right.kind is ResourceKind.TOPIC and right.name == "*" and right.operation != "Create"
    )
    if found is None:
        return Rights(cluster, topic)
    return Rights(cluster, topic, found.cluster, found.topics)


def _sample_topics(connection: Connection, snapshot: ClusterSnapshot, most: int) -> Iterable[tuple[str, int]]:
    """Topic -> keyless share, the largest first; a topic that may not be read is left out."""
    until = time.monotonic() + SAMPLE_SECONDS
    topics = users_topics(snapshot)
    grouped = snapshot.group_partitions(topics)
    for number, topic in enumerate(topics):
        large = number < MOST_TOPICS
        if not large and time.monotonic() > until:
            log.warning("not all topics sampled after_seconds=%g first=%s", SAMPLE_SECONDS, topic)
            return
        fullest = _fullest_led(grouped[topic], SAMPLED_PARTITIONS if large else 1)
        try:
            sample = sample_keys(connection, topic, fullest, most)
        except EvenkeelError as error:
            log.info("not sampled topic=%s why=%s", topic, error.message)
            sample = KeySample()
        if (percent := sample.keyless_percent) is not None:
            yield topic, percent


def _fullest_led(partitions: Iterable[Partition], most: int) -> list[int]:
    """The `most` partitions with the most records, of those that have a leader: the first ones may be empty."""
    led = sorted((one for one in partitions if one.leader is not None), key=_fullness, reverse=True)
    # A leader that told no offsets may not let its records be read either, and that would cost the topic's whole sample.
    told = [one for one in led if _fullness(one)[0] > 0]
    return [one.partition for one in (told or led)[:most]]


def _fullness(partition: Partition) -> tuple[int, int]:
    """Records, 0 where they are not known; then bytes."""
    size = max(partition.replica_bytes.values(), default=0)
    if partition.log_start is None or partition.end is None:
        return 0, size
    return partition.end - partition.log_start, size


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Findings and topics as tables."""
    findings = Table("", "found", "what to do", title="This cluster", title_justify="left")
    for finding in diagnosis.findings:
        colour = _COLOURS[finding.grade]
        findings.add_row(
            f"[{colour}]{finding.subject}[/]", f"{finding.grade}: {finding.message}", finding.next_step
        )
    console.print(findings)
    topics = Table(
        "topic", "partitions", "RF", "size", "without key", "routing", "what to do",
        title="Topics, largest first", title_justify="left",
    )  # fmt: skip
    for one in diagnosis.topics[:MOST_TOPICS]:
        topics.add_row(
            one.topic,
            str(one.partitions),
            str(one.replication_factor),
            "?" if one.bytes is None else decimal(one.bytes),
            "?" if one.steerable_percent is None else f"{one.steerable_percent} %",
            "yes" if one.routable else f"no: {one.reason}",
            one.next_step,
        )
    console.print(topics)
    if len(diagnosis.topics) > MOST_TOPICS:
        console.print(f"... and {len(diagnosis.topics) - MOST_TOPICS} more; -o json has them all")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="evenkeel doctor", description=__doc__)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="with commas for several")
    parser.add_argument("--config", metavar="FILE", help="security settings, key=value per line")
    parser.add_argument(
        "--seconds",
        type=float,
        default=10,
        metavar="N",
        help="observe growth for so long (default 10; 0: not)",
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=100,
        metavar="N",
        help="newest records per partition to look at for keys (default 100; 0: none)",
    )
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args(arguments)
    if not 0 <= options.sample <= 10_000:  # noqa: PLR2004 - more is no sample
        parser.error(f"--sample: must be from 0 to 10000, not {options.sample}")
    return options
