"""The rejected topic: what was left out of a revision, for people to read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

from evenkeel.domain.connection import Connection
from evenkeel.ingest.packing import BadRecord
from evenkeel.kafka.clients.append import Appender


class Rejects(Protocol):
    """Where rejected records are told of."""

    def write(self, records: Sequence[BadRecord]) -> None:
        """Tell of records; telling twice is harmless, the key is the record's id."""


class KafkaRejects:
    """The rejected topic of a dataset; connects when the first record is rejected."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection = connection
        self._topic = topic

    def write(self, records: Sequence[BadRecord]) -> None:
        """As Rejects. Errors as `Appender.append`."""
        with Appender(self._connection) as appender:
            rows = [(_encode(record), record.record_id, ()) for record in records]
            appender.append_all(self._topic, rows, partition=0)


def _encode(record: BadRecord) -> bytes:
    facts = {
        "id": record.record_id,
        "reason": record.reason.value,
        "message": record.message,
        "digest": record.digest,
    }
    return json.dumps(facts, sort_keys=True, ensure_ascii=False).encode()
