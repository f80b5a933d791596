"""Whether tables are past their time when they come.

A table's age is this host's clock less the keeper's. Where the clocks differ by more than the limit every table is
too old at once: the weights are mixed away, and nothing else shows it.
"""

from __future__ import annotations

from evenkeel.domain.table import RouteTable


class Arrivals:
    """Tables that came since the last look; not those that lay there when the router began to read."""

    def __init__(self) -> None:
        self.live_from = 0
        """Offset in the routes topic before which records are of the past."""
        self._came: dict[str, RouteTable] = {}
        self._late: set[str] = set()

    def add(self, table: RouteTable, offset: int) -> None:
        """A table came; of several of a topic the last one counts."""
        if offset >= self.live_from:
            self._came[table.topic] = table

    def forget(self, topic: str) -> None:
        """The topic has no table any more: whether its last one was late says nothing of the next."""
        self._came.pop(topic, None)
        self._late.discard(topic)

    def judge(self, now_ms: int) -> tuple[str, bool] | None:
        """A table that was past its time when it came, in words, and whether it is the first after all were in time.

        Args:
            now_ms: wall clock of this host.
        """
        problem, first = None, not self._late
        for topic, table in self._came.items():
            age = now_ms - table.taken_at_ms
            if age <= table.valid_ms:
                self._late.discard(topic)
                continue
            self._late.add(topic)
            problem = (
                f"the table of {topic} was {age // 1000} s old when it came, its limit is {table.valid_ms // 1000} s: "
                "the clocks of this host and of the keeper may differ"
            )
        self._came.clear()
        return None if problem is None else (problem, first)
