"""A keeper's whole turn, with brokers of our own making, where a cluster is given back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest

from evenkeel import names
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import ClaimReport, Desired, Owner, Policy
from evenkeel.domain.table import RouteTable
from evenkeel.errors import RetryableError
from evenkeel.kafka.answers import PartitionAnswer, TopicAnswer
from evenkeel.kafka.clients.transaction import Record
from evenkeel.keeper import cycle as cycle_module
from evenkeel.keeper import measuring
from evenkeel.keeper.cycle import Cycle
from evenkeel.keeper.measurement import Measurement
from evenkeel.keeper.routes import Published, build_withdrawals
from tests.support.measurements import build_measurement

DESIRED = Desired(
    owner=Owner("i", "u", "ns/c"), connection=Connection(("k:1",)), policy=Policy(), release=True
)
NOW = 1_800_000_000_000
LEFT = (names.CONTROL_TOPIC, None, b"released")


@dataclass
class Kafka:
    """What the keeper asks of a cluster, and what it wrote there."""

    tables: tuple[str, ...] = ("a", "b")
    """Topics that have a table in the routes topic."""
    leader: int | None = 1
    """Of the routes topic."""
    recovered: int = 0
    problem: RetryableError | None = None
    held: bool = False
    epoch: int = 1
    written: list[Record] = field(default_factory=list)

    def measure(self, *_: object, **__: object) -> Measurement:
        return replace(
            build_measurement(taken_at_ms=NOW),
            topics={
                name: TopicAnswer(name, "id", internal=False, partitions=(self._describe(name),))
                for name in (names.CONTROL_TOPIC, names.ROUTES_TOPIC, names.HEARTBEATS_TOPIC)
            },
        )

    def _describe(self, name: str) -> PartitionAnswer:
        return PartitionAnswer(0, self.leader if name == names.ROUTES_TOPIC else 1, (1, 2), (1, 2))

    def recover(self, _: Connection) -> Published:
        self.recovered += 1
        if self.problem is not None:
            raise self.problem
        published = Published()
        for topic in self.tables:
            published.note(RouteTable(topic, 1, 1, 0, (500_000, 500_000), stop=(0,)))
        return published

    def keep(self, *_: object) -> bool:
        self.held = True
        return True

    def write(self, records: Iterable[Record]) -> None:
        self.written += records

    def release(self, *_: object) -> None:
        self.held = False
        self.written.append(LEFT)

    def report(self) -> ClaimReport:
        return ClaimReport(held=self.held)

    def confirm(self) -> None:
        """It is held."""


def build_cycle(monkeypatch: pytest.MonkeyPatch, kafka: Kafka) -> Cycle:
    cycle = Cycle(wall_ms=lambda: NOW, monotonic=lambda: 0.0)
    cycle.claim = kafka  # type: ignore[assignment]
    # Moves are not what this is about; looking for theirs takes the claim up again.
    monkeypatch.setattr(cycle._balancing.runner, "clean_up", kafka.keep)
    monkeypatch.setattr(measuring, "probe", lambda *_: None)
    monkeypatch.setattr(measuring, "gather", kafka.measure)
    monkeypatch.setattr(cycle_module, "recover", kafka.recover)
    return cycle


def test_a_release_withdraws_the_tables_that_this_keeper_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka()
    cycle = build_cycle(monkeypatch, kafka)
    cycle._measure(DESIRED)
    cycle._keep_claim(replace(DESIRED, release=False, paused=True))
    assert cycle.run(DESIRED).released
    assert kafka.written == [*build_withdrawals(["a", "b"]), LEFT]
    assert kafka.recovered == 1


def test_a_keeper_that_starts_while_its_cluster_is_released_withdraws_the_tables_of_its_predecessor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = Kafka()
    assert build_cycle(monkeypatch, kafka).run(DESIRED).released
    assert kafka.written == [*build_withdrawals(["a", "b"]), LEFT]


def test_routes_that_cannot_be_read_hold_no_release_up(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka(problem=RetryableError("no answer"))
    assert build_cycle(monkeypatch, kafka).run(DESIRED).released
    assert kafka.written == [LEFT]


def test_tables_in_a_topic_without_a_leader_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = Kafka(leader=None)
    assert build_cycle(monkeypatch, kafka).run(DESIRED).released
    assert (kafka.recovered, kafka.written) == (0, [LEFT])
    assert "routes not withdrawn why=__evenkeel_routes has no leader" in caplog.text
