"""From a listing to a plan: order, slices and message boundaries, fixed before the first write. Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from evenkeel.domain.job import Order, ProducerSettings, SourceFormat
from evenkeel.domain.journal import Plan
from evenkeel.format import arrow
from evenkeel.ingest.sources import Listing
from evenkeel.reader.permutation import Permutation

RECORD_OVERHEAD = 48
"""Bytes of a record beside path and content: id, label and Arrow's offsets."""
MESSAGE_OVERHEAD = 1000
"""Bytes of a message beside its records: Arrow's header and padding, Kafka's batch header, our headers."""


@dataclass(frozen=True, slots=True)
class MessageRange:
    """The records that one message covers."""

    slice: int
    first: int
    """Number of its first record within the slice."""
    objects: tuple[int, ...]
    """Indexes into the listing, in order."""

    @property
    def span(self) -> int:
        """How many records it covers."""
        return len(self.objects)


@dataclass(frozen=True, slots=True)
class Layout:
    """Slices and messages of a listing; every worker computes the same."""

    slices: tuple[tuple[MessageRange, ...], ...]
    schema: bytes
    """Arrow schema message."""
    planned_bytes: int


def build_layout(listing: Listing, settings: ProducerSettings) -> Layout:
    """Cut the (permuted) listing into messages and runs of messages into slices.

    A message ends before the record that would make it larger than `message_bytes`, or after
    `message_records` records; a larger record is a message of its own. A slice ends with the message
    that reaches `slice_bytes`. Sizes are those of the listing, so nobody has to read a file to agree.
    """
    order = visit_order(len(listing.objects), settings)
    weights = [_weigh(listing, index, settings) for index in order]
    slices: list[tuple[MessageRange, ...]] = []
    current: list[MessageRange] = []
    first = size = 0
    for start, stop in _cut_messages(weights, settings):
        objects = tuple(order[start:stop])
        current.append(MessageRange(len(slices), first, objects))
        first += len(objects)
        size += sum(weights[start:stop])
        if size >= settings.slice_bytes:
            slices.append(tuple(current))
            current, first, size = [], 0, 0
    if current:
        slices.append(tuple(current))
    messages = sum(len(messages) for messages in slices)
    schema = arrow.encode_schema(build_schema(listing, settings.format))
    return Layout(tuple(slices), schema, sum(weights) + messages * MESSAGE_OVERHEAD)


def build_plan(listing: Listing, layout: Layout, settings: ProducerSettings, attempt: int) -> Plan:
    """The journal's record of a layout."""
    return Plan(
        attempt=attempt,
        format=settings.format,
        order=settings.order,
        seed=settings.seed,
        listing_digest=listing.digest,
        objects=len(listing.objects),
        records=tuple(sum(message.span for message in messages) for messages in layout.slices),
        message_bytes=settings.message_bytes,
        message_records=settings.message_records,
        max_record_bytes=settings.max_record_bytes,
        slice_bytes=settings.slice_bytes,
        planned_bytes=layout.planned_bytes,
        schema=base64.b64encode(layout.schema).decode(),
        schema_digest=arrow.schema_digest(layout.schema),
    )


def visit_order(objects: int, settings: ProducerSettings) -> list[int]:
    """Indexes into the listing in the order of the revision: a keyed permutation, or as they are.

    Folders sorted by class would otherwise give batches of a few classes.
    """
    positions = np.arange(objects, dtype=np.int64)
    if settings.order is Order.SHUFFLED:
        positions = Permutation(objects, f"ingest/{settings.seed}")(positions)
    return [int(position) for position in positions]


def build_schema(listing: Listing, kind: SourceFormat) -> pa.Schema:
    """Arrow schema of the records of a listing."""
    if kind is SourceFormat.IMAGE_FOLDER:
        return arrow.image_folder_schema(listing.classes)
    return arrow.files_schema()


def _weigh(listing: Listing, index: int, settings: ProducerSettings) -> int:
    """Bytes of a record within a message; one that is too large never gets into one."""
    item = listing.objects[index]
    content = item.size if item.size <= settings.max_record_bytes else 0
    return content + len(item.name.encode()) + RECORD_OVERHEAD


def _cut_messages(weights: Sequence[int], settings: ProducerSettings) -> Iterator[tuple[int, int]]:
    start = size = 0
    for position, weight in enumerate(weights):
        full = size + weight > settings.message_bytes or position - start >= settings.message_records
        if position > start and full:
            yield start, position
            start, size = position, 0
        size += weight
    if len(weights) > start:
        yield start, len(weights)
