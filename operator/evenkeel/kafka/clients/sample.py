"""Looks at the newest records of a topic: how many have no key and could be steered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evenkeel.domain.connection import Connection
from evenkeel.errors import DataError, RetryableError
from evenkeel.kafka.clients.reader import PartitionReader

TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class KeySample:
    """Counts over the records that were looked at."""

    records: int = 0
    keyless: int = 0
    value_bytes: int = 0
    keyless_bytes: int = 0

    @property
    def keyless_percent(self) -> int | None:
        """Share of the bytes without a key, 0 to 100; None: no record was seen."""
        if self.value_bytes > 0:
            return round(100 * self.keyless_bytes / self.value_bytes)
        return round(100 * self.keyless / self.records) if self.records else None

    def __add__(self, other: KeySample) -> KeySample:
        return KeySample(
            self.records + other.records,
            self.keyless + other.keyless,
            self.value_bytes + other.value_bytes,
            self.keyless_bytes + other.keyless_bytes,
        )


def sample_keys(connection: Connection, topic: str, partitions: Iterable[int], most: int) -> KeySample:
    """The newest `most` records of each of `partitions`.

    Raises:
        ConfigurationError: Read on the topic is missing.
        RetryableError: no answer within some seconds.
    """
    found = KeySample()
    for partition in partitions:
        found += _sample_partition(connection, topic, partition, most)
    return found


def _sample_partition(connection: Connection, topic: str, partition: int, most: int) -> KeySample:
    found = KeySample()
    with PartitionReader(connection, topic, partition) as reader:
        start, end = reader.bounds(TIMEOUT_SECONDS)
        try:
            for record in reader.read(max(start, end - most), end, TIMEOUT_SECONDS):
                size, keyless = len(record.value), record.key is None
                found += KeySample(1, int(keyless), size, size if keyless else 0)
        except DataError:
            return found  # retention was faster than we
        except RetryableError:
            if not found.records:
                raise
    return found
