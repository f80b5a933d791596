"""The keeper as a process on two files, for tests."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from evenkeel import names
from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Desired, Fault, Owner, Policy, Report
from evenkeel.domain.table import RouteTable
from evenkeel.reasons import Reason
from integration.kafka.clients import read_all
from integration.kafka.cluster import KafkaCluster
from integration.processes import Process, wait_until
from scripts.provision import cache


def plain(cluster: KafkaCluster) -> Connection:
    """How to reach a cluster without security."""
    return Connection(tuple(cluster.bootstrap.split(",")))


class Keeper:
    """A keeper process with its two files; `want` changes what it should do.

    `paths` are folders of packages that are installed beside it.
    """

    def __init__(self, folder: Path, desired: Desired, paths: Sequence[Path] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.desired = desired
        self._paths = os.pathsep.join(map(str, (cache.REPOSITORY / "operator", *paths)))
        self._process: Process | None = None
        self.want()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def want(self, **changes: Any) -> None:
        """Change fields of Desired and write it."""
        self.desired = dataclasses.replace(self.desired, **changes).sealed()
        temporary = self.folder / "desired.tmp"
        temporary.write_text(codec.dumps(self.desired))
        temporary.replace(self.folder / "desired.json")

    def start(self) -> None:
        arguments = [
            "keeper",
            f"--desired={self.folder / 'desired.json'}",
            f"--report={self.folder / 'report.json'}",
            "--metrics-port=0",
        ]
        self._process = Process(
            [sys.executable, "-m", "evenkeel", *arguments],
            self.folder / "keeper.log",
            {"PYTHONPATH": self._paths},
        )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def stop(self) -> None:
        assert self._process is not None
        self._process.stop(30)
        self._process = None

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    @property
    def port(self) -> int:
        """Port of its health and metrics."""
        found = re.search(r"keeper runs port=(\d+)", self.process.output())
        assert found is not None
        return int(found.group(1))

    def report(self) -> Report | None:
        try:
            return codec.loads(Report, (self.folder / "report.json").read_bytes())
        except FileNotFoundError:
            return None

    def wait(self, what: str, condition: Callable[[Report], bool], seconds: float = 120) -> Report:
        """Wait for a report on the Desired of now that fulfils a condition."""

        def fulfilled() -> Report | None:
            report = self.report()
            if report is None or report.desired_version != self.desired.version:
                return None
            return report if condition(report) else None

        try:
            found = wait_until(what, fulfilled, seconds=seconds, processes=[self.process])
        except Exception as error:
            raise AssertionError(f"no {what}: {self.report()}\n{self.process.output()[-4000:]}") from error
        assert found is not None
        return found

    def wait_fault(self, reason: Reason, seconds: float = 60, *, told: str = "") -> Fault:
        report = self.wait(f"fault {reason}", lambda found: bool(faults(found, reason, told)), seconds)
        return faults(report, reason, told)[0]

    def wait_claim(self, seconds: float = 120) -> Report:
        return self.wait("claim", lambda found: found.claim is not None and found.claim.held, seconds)


def faults(report: Report, reason: Reason, told: str = "") -> list[Fault]:
    return [fault for fault in report.faults if fault.reason is reason and told in fault.message]


def build_desired(connection: Connection, name: str = "ns/one", **more: Any) -> Desired:
    """Desired with a short interval."""
    owner = Owner(f"installation-of-{name}", f"uid-of-{name}", name)
    return Desired(owner=owner, connection=connection, policy=Policy(interval_seconds=5), **more)


def read_tables(config: Mapping[str, Any]) -> list[tuple[RouteTable, float]]:
    """Every table in the routes topic with its time, seconds since the epoch; withdrawals are left out."""
    return [
        (codec.loads(RouteTable, value), _seconds(message))
        for message in read_all(config, names.ROUTES_TOPIC)
        if (value := message.value()) is not None
    ]


def read_routed(config: Mapping[str, Any]) -> set[str]:
    """Topics whose newest record in the routes topic is a table."""
    newest = {message.key(): message.value() for message in read_all(config, names.ROUTES_TOPIC)}
    return {(key or b"").decode() for key, value in newest.items() if value is not None}


def read_claims(config: Mapping[str, Any]) -> list[Any]:
    """Every claim in the control topic as JSON."""
    return [json.loads(message.value() or b"") for message in read_all(config, names.CONTROL_TOPIC)]


def _seconds(message: Message) -> float:
    kind, milliseconds = message.timestamp()
    assert kind != TIMESTAMP_NOT_AVAILABLE
    return milliseconds / 1000
