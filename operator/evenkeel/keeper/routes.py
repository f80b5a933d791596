"""Which route tables to publish, and what is known of those in force."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from evenkeel import names
from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Desired, TopicRouting
from evenkeel.domain.table import RouteTable
from evenkeel.errors import InputError
from evenkeel.kafka.clients.reader import LogRecord, PartitionReader
from evenkeel.kafka.clients.transaction import Record
from evenkeel.kafka.topics import data_topic
from evenkeel.planning.routing import RoutesPlan
from evenkeel.planning.tables import FREEZE_SHARE, TableRate, build_table, hold_weights, should_publish

UNDECLARED_SECONDS = 60.0
"""An operator that has just begun may not have told all topics yet."""


@dataclass(frozen=True, slots=True)
class Ingest:
    """A running or finished ingest, as far as routing needs it."""

    plan_offset: int | None = None
    planned_bytes: int | None = None
    remaining_bytes: int | None = None
    """On disk, one replica; 0 once sealed, None before the plan."""

    @property
    def remaining_share(self) -> float | None:
        """Part of the plan that is still to be written; None where nothing is planned."""
        if self.remaining_bytes is None or not self.planned_bytes:
            return None
        return self.remaining_bytes / self.planned_bytes


@dataclass(slots=True)
class Published:
    """The newest table of each topic that is in the routes topic."""

    tables: dict[str, RouteTable] = field(default_factory=dict)
    changed_epochs: dict[str, int] = field(default_factory=dict)
    """Epoch with which the weights last changed: a heartbeat is no news."""
    _last_epoch: int = 0
    """The largest ever seen, those of tables that were withdrawn since included."""

    @property
    def next_epoch(self) -> int:
        """One more than any epoch ever published, so that it goes on after a restart."""
        return 1 + self._last_epoch

    def note(self, table: RouteTable) -> None:
        """A table was published."""
        before = self.tables.get(table.topic)
        if before is None or before.weights != table.weights or before.stop != table.stop:
            self.changed_epochs[table.topic] = table.epoch
        self.changed_epochs.setdefault(table.topic, table.epoch)
        self.tables[table.topic] = table
        self._last_epoch = max(self._last_epoch, table.epoch)

    def forget(self, topic: str) -> None:
        """Its table was withdrawn."""
        self.tables.pop(topic, None)
        self.changed_epochs.pop(topic, None)


class Undeclared:
    """Since when topics that have a table are not declared any more. Used by one thread."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def note(self, tables: Collection[str], declared: Collection[str], now: float) -> tuple[str, ...]:
        """Topics whose tables are to be withdrawn.

        Producers would follow the last table for long, and keep away from a partition that was stopped for
        ever; a topic that is made again under the name would inherit both.

        Args:
            tables: topics that have one.
            declared: topics that are to be routed, whether they exist or not.
            now: monotonic clock, seconds.
        """
        absent = set(tables) - set(declared)
        self._since = {topic: self._since.get(topic, now) for topic in sorted(absent)}
        return tuple(topic for topic, since in self._since.items() if now - since >= UNDECLARED_SECONDS)


def routed_topics(desired: Desired, existing: Iterable[str]) -> dict[str, TopicRouting]:
    """Topics to route with their settings: those declared and the data topics of datasets."""
    there = set(existing)
    return {name: routing for name, routing in declared_topics(desired).items() if name in there}


def declared_topics(desired: Desired) -> dict[str, TopicRouting]:
    """Topics that are to be routed, whether they exist or not, by name."""
    routings = {topic.name: topic.routing for topic in desired.topics}
    for dataset in desired.datasets:
        routings.setdefault(data_topic(dataset), TopicRouting())
    return dict(sorted(routings.items()))


def choose_tables(
    plan: RoutesPlan,
    published: Published,
    owner_epoch: int,
    ingests: Mapping[str, Ingest],
    rates: Mapping[str, TableRate] | None = None,
) -> tuple[RouteTable, ...]:
    """Tables that say something new, or whose heartbeat is due.

    Args:
        plan: the newest plan; topics that it does not route keep the table they have.
        published: what routers know.
        owner_epoch: epoch of the claim.
        ingests: by data topic.
        rates: what the routers of a topic do together.
    """
    epoch = published.next_epoch
    chosen: list[RouteTable] = []
    for topic, routes in plan.topics.items():
        if not routes.active:
            continue
        before, ingest = published.tables.get(topic), ingests.get(topic, Ingest())
        offset = ingest.plan_offset
        if offset is None and before is not None:
            offset = before.plan_offset
        rate = rates.get(topic) if rates else None
        table = build_table(plan, topic, owner_epoch, epoch, plan.taken_at_ms, offset, rate)
        table = hold_weights(before, _keep_frozen(table, before, ingest))
        if should_publish(before, table, remaining_share=ingest.remaining_share):
            chosen.append(table)
            epoch += 1
    return tuple(chosen)


def _keep_frozen(table: RouteTable, before: RouteTable | None, ingest: Ingest) -> RouteTable:
    """The weights in force, where too little of an ingest is left to judge new ones by."""
    share = ingest.remaining_share
    if share is None or share >= FREEZE_SHARE or before is None or len(before.weights) != len(table.weights):
        return table
    return replace(table, weights=before.weights)


def build_records(tables: Iterable[RouteTable]) -> list[Record]:
    """Records of the routes topic: key topic, value canonical JSON."""
    return [(names.ROUTES_TOPIC, codec.dumps(table).encode(), table.topic.encode()) for table in tables]


def build_withdrawals(topics: Iterable[str]) -> list[Record]:
    """Records that have routers leave these topics to the client's own partitioner."""
    return [(names.ROUTES_TOPIC, None, topic.encode()) for topic in topics]


def fold_tables(records: Iterable[LogRecord]) -> Published:
    """What the routes topic says; records that cannot be read are passed over."""
    published = Published()
    for record in records:
        if not record.value:
            published.forget((record.key or b"").decode("utf-8", errors="replace"))
            continue
        try:
            table = codec.loads(RouteTable, record.value)
        except InputError:
            continue
        before = published.tables.get(table.topic)
        if before is None or (before.owner_epoch, before.epoch) <= (table.owner_epoch, table.epoch):
            published.note(table)
    return published


def recover(connection: Connection) -> Published:
    """Read the routes topic, so that epochs go on where a predecessor stopped.

    Raises:
        RetryableError, ConfigurationError: it cannot be read.
    """
    with PartitionReader(connection, names.ROUTES_TOPIC) as reader:
        start, _ = reader.bounds()
        return fold_tables(reader.read(start))
