"""From objects to one message: read, check, pack."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

from evenkeel.domain.job import BadRecordPolicy, ProducerSettings, SourceFormat
from evenkeel.errors import InputError
from evenkeel.format import arrow
from evenkeel.ingest.plan import MessageRange
from evenkeel.ingest.sources import BadRecordError, Listing, read_object
from evenkeel.reasons import Reason


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that is left out."""

    position: int
    """Number within the slice."""
    record_id: str
    reason: Reason
    message: str
    digest: str
    """SHA-256 hex of the object's bytes; empty where they were not read."""


@dataclass(frozen=True, slots=True)
class PackedMessage:
    """The value of one message, and what had to stay out of it."""

    range: MessageRange
    records: int
    value: bytes
    """Empty where every record was rejected."""
    digest: str
    rejected: tuple[BadRecord, ...]


class Packer:
    """Packs messages of one listing.

    Args:
        listing: the source.
        schema: its Arrow schema.
        settings: of the ingest.
    """

    def __init__(self, listing: Listing, schema: pa.Schema, settings: ProducerSettings) -> None:
        self._listing = listing
        self._schema = schema
        self._settings = settings

    def pack(self, message: MessageRange, left_out: Collection[int] = ()) -> PackedMessage:
        """Read and pack the records of a message, without the positions in `left_out`.

        Raises:
            InputError: BAD_RECORD or RECORD_TOO_LARGE under the policy Fail; SOURCE_CHANGED.
            RetryableError: the source's file system failed.
        """
        records: list[arrow.PackedRecord] = []
        rejected: list[BadRecord] = []
        for position, index in enumerate(message.objects, message.first):
            if position in left_out:
                continue
            try:
                records.append(self._read(index))
            except BadRecordError as error:
                if self._settings.on_bad_record is BadRecordPolicy.FAIL:
                    raise
                name = arrow.record_id(index, 0)
                rejected.append(BadRecord(position, name, error.reason, error.message, error.digest))
        value = self._encode(records) if records else b""
        digest = hashlib.sha256(value).hexdigest()
        return PackedMessage(message, len(records), value, digest, tuple(rejected))

    def _read(self, index: int) -> arrow.PackedRecord:
        item = self._listing.objects[index]
        content = read_object(self._listing, index, self._settings)
        return arrow.PackedRecord(arrow.record_id(index, 0), item.name, content, item.label)

    def _encode(self, records: list[arrow.PackedRecord]) -> bytes:
        images = self._settings.format is SourceFormat.IMAGE_FOLDER
        build = arrow.build_image_batch if images else arrow.build_file_batch
        return arrow.encode_batch(build(self._schema, records))


def refuse_bad_sizes(listing: Listing, settings: ProducerSettings) -> None:
    """Under the policy Fail, refuse before the first write what the listing alone shows.

    Raises:
        InputError: names the first record that is too large, or an image of zero bytes.
    """
    if settings.on_bad_record is not BadRecordPolicy.FAIL:
        return
    images = settings.format is SourceFormat.IMAGE_FOLDER
    for index, item in enumerate(listing.objects):
        place = f"record {index}.0 ({item.name})"
        if item.size > settings.max_record_bytes:
            message = f"{place}: {item.size} bytes, maxRecordBytes is {settings.max_record_bytes}"
            raise InputError(message, reason=Reason.RECORD_TOO_LARGE)
        if images and item.size == 0:
            raise InputError(f"{place}: zero bytes", reason=Reason.BAD_RECORD)
