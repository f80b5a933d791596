"""Which tables count: the newest valid one of each topic."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from evenkeel.domain import codec
from evenkeel.domain.table import RouteTable
from evenkeel.errors import InputError


@dataclass(frozen=True, slots=True)
class TableCounts:
    """What became of the records of the routes topic."""

    accepted: int = 0
    lower: int = 0
    """Of an epoch that is not above the one in force."""
    invalid: int = 0
    withdrawn: int = 0
    """Records without a value: the topic is not routed any more."""


class TableStore:
    """Tables in force by topic; safe for many threads."""

    def __init__(self) -> None:
        self.counts = TableCounts()
        self.last_problem = ""
        self.awaited: frozenset[str] = frozenset()
        """Topics that somebody waited for, whose first record is soon to come."""
        self._tables: dict[str, RouteTable] = {}
        self._followed: dict[str, int] = {}
        self._changed = threading.Condition()

    def tables(self) -> dict[str, RouteTable]:
        """A copy."""
        with self._changed:
            return dict(self._tables)

    def withdraw(self, topic: str) -> None:
        """Forget the table of a topic."""
        with self._changed:
            self._tables.pop(topic, None)
            self._count("withdrawn")

    def accept(self, topic: str, value: bytes, partitions: int | None) -> RouteTable | None:
        """Take a record of the routes topic if it holds a valid, newer table.

        Args:
            topic: the record's key.
            value: the record's value.
            partitions: how many the topic has; None: not known, the table is taken at its word.
        """
        try:
            table = _parse(topic, value, partitions)
        except InputError as error:
            self.last_problem = error.message
            self._count("invalid")
            return None
        with self._changed:
            current = self._tables.get(topic)
            if current and (table.owner_epoch, table.epoch) <= (current.owner_epoch, current.epoch):
                self._count("lower")
                return None
            self._tables[topic] = table
            self._count("accepted")
        return table

    def announce(self, topic: str, plan_offset: int | None) -> None:
        """Say that the table of this plan is followed from now on."""
        with self._changed:
            if plan_offset is not None:
                self._followed[topic] = plan_offset
            self._changed.notify_all()

    def wait_for(self, topic: str, plan_offset: int, timeout: float) -> bool:
        """Whether a table made for this plan (or a later one) is followed within `timeout` seconds."""
        with self._changed:
            self.awaited |= {topic}
            return self._changed.wait_for(lambda: self._followed.get(topic, -1) >= plan_offset, timeout)

    def _count(self, what: str) -> None:
        with self._changed:
            self.counts = replace(self.counts, **{what: getattr(self.counts, what) + 1})


def _parse(topic: str, value: bytes, partitions: int | None) -> RouteTable:
    table = codec.loads(RouteTable, value)
    if table.topic != topic:
        raise InputError(f"route table of {table.topic} under the key {topic}")
    if not table.weights:
        raise InputError(f"route table of {topic}: weights is empty")
    table.check(len(table.weights) if partitions is None else partitions)
    return table
