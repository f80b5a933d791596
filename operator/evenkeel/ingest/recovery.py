"""Finding messages that an earlier attempt wrote and nobody journaled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from evenkeel.domain.connection import Connection
from evenkeel.domain.journal import SliceState
from evenkeel.format import arrow
from evenkeel.format.shards import message_digest
from evenkeel.ingest.headers import parse_identity
from evenkeel.ingest.outbox import Acknowledged
from evenkeel.ingest.plan import MessageRange
from evenkeel.kafka.clients.identity import identify_topic
from evenkeel.kafka.clients.reader import LogRecord, PartitionReader


class DataLog(Protocol):
    """The data topic, for reading."""

    def scan(self, starts: Mapping[int, int]) -> Iterator[tuple[int, LogRecord]]:
        """Partition and record of all that is there now, from `starts` (or the partition's start) on."""


class KafkaDataLog:
    """The data topic of a dataset."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection = connection
        self._topic = topic

    def scan(self, starts: Mapping[int, int]) -> Iterator[tuple[int, LogRecord]]:
        """As DataLog."""
        partitions = identify_topic(self._connection, self._topic).partitions
        for partition in range(partitions):
            with PartitionReader(self._connection, self._topic, partition, committed=False) as reader:
                first, end = reader.bounds()
                for record in reader.read(max(first, starts.get(partition, 0)), end):
                    yield partition, record


def missing_ranges(messages: Sequence[MessageRange], state: SliceState) -> list[MessageRange]:
    """Messages of a slice that no counting entry covers, and that are not wholly rejected."""
    return [
        message
        for message in messages
        if message.first not in state.entries and _expected(message, state) > 0
    ]


def find_written(
    records: Iterator[tuple[int, LogRecord]],
    missing: Sequence[MessageRange],
    state: SliceState,
    dataset: str,
    schema: bytes,
    schema_digest: str,
) -> dict[int, Acknowledged]:
    """By first record: the first whole message in the log for each of `missing`.

    Its records must be those that would be written today: a message that holds a record which was
    rejected since, or lacks one which was not, is left where it is. Ids are compared, not only the numbers
    in the headers: those of a journal that is gone may have counted other records.
    """
    wanted = {message.first: message for message in missing}
    found: dict[int, Acknowledged] = {}
    for partition, record in records:
        identity = parse_identity(record.headers)
        if identity is None or identity.dataset != dataset or identity.schema != schema_digest:
            continue
        message = wanted.get(identity.first)
        if message is None or identity.slice != message.slice or identity.first in found:
            continue
        if identity.count != _expected(message, state) or identity.digest != message_digest(record.value):
            continue
        if _read_ids(schema, record.value) != _expected_ids(message, state):
            continue
        found[identity.first] = Acknowledged(
            identity, message.span, partition, record.offset, len(record.value)
        )
    return found


def _expected(message: MessageRange, state: SliceState) -> int:
    """Records that the message must hold: its span less what is rejected."""
    end = message.first + message.span
    return message.span - sum(message.first <= position < end for position in state.rejected)


def _expected_ids(message: MessageRange, state: SliceState) -> list[str]:
    numbered = enumerate(message.objects, message.first)
    return [arrow.record_id(index, 0) for position, index in numbered if position not in state.rejected]


def _read_ids(schema: bytes, value: bytes) -> list[str]:
    ids: list[str] = arrow.decode(schema, value).column(arrow.ID).to_pylist()
    return ids
