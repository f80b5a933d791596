"""What a writing process is told, as JSON in its first argument, and what it answers on its last line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One of `writers` processes that together write `bytes_total`."""

    bootstrap: str
    topic: str
    rule: str
    """Of `python_writer.RULES`; of the Java writer, a name for people."""
    bytes_total: int
    """What this process writes, values only."""
    seconds: float
    """How long it takes about it."""
    record_bytes: int = 16_384
    writer: int = 0
    writers: int = 1
    plan_offset: int = -1
    """Of the table to wait for; -1: any table."""
    interval_seconds: float = 5.0
    """How often the rule "most free" asks for free bytes: as often as the keeper measures."""
    acks: str = "all"
    config: Mapping[str, str] = field(default_factory=dict)
    """More configuration of the client."""

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WriteJob:
        """The inverse."""
        found: dict[str, Any] = json.loads(text)
        return cls(**found)


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a job."""

    bytes_acked: int
    bytes_failed: int
    seconds: float
    tables_seen: int = 0
    """Of a router: how many tables it accepted."""
    mix: float = 0.0
    """Of a router: how far its tables were mixed towards uniform at worst, 0 to 1."""
    partition_bytes: Mapping[str, int] = field(default_factory=dict)
    """Acknowledged bytes by partition number."""

    @classmethod
    def from_output(cls, output: str) -> Written:
        """Of the last line that is JSON.

        Raises:
            ValueError: there is none.
        """
        for line in reversed(output.splitlines()):
            if line.startswith("{"):
                return cls(**json.loads(line))
        raise ValueError(f"the writer told nothing:\n{output[-2000:]}")
