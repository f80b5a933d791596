from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.domain.job import Order, ProducerSettings
from evenkeel.ingest.plan import RECORD_OVERHEAD, Layout, build_layout, build_plan, visit_order
from evenkeel.ingest.sources import Listing, SourceObject
from tests.support.ingest import build_settings

ANY = build_settings(Path("/source"))


def listing_of(sizes: list[int], classes: int = 1) -> Listing:
    per_class = -(-len(sizes) // classes)
    objects = tuple(
        SourceObject(b"class-%03d/%05d.png" % (place // per_class, place), size, place // per_class)
        for place, size in enumerate(sizes)
    )
    return Listing(Path("/source"), objects, tuple(f"class-{i:03d}" for i in range(classes)), "00" * 32)


def visited(layout: Layout) -> list[int]:
    return [index for messages in layout.slices for message in messages for index in message.objects]


@given(
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=200),
    message_bytes=st.integers(1, 5000),
    message_records=st.integers(1, 20),
    slice_bytes=st.integers(1, 20_000),
    order=st.sampled_from(Order),
    seed=st.integers(0, 2**64 - 1),
)
def test_every_object_is_planned_once_within_the_limits(
    sizes: list[int], message_bytes: int, message_records: int, slice_bytes: int, order: Order, seed: int
) -> None:
    settings = dataclasses.replace(
        ANY,
        message_bytes=message_bytes,
        message_records=message_records,
        slice_bytes=slice_bytes,
        order=order,
        seed=seed,
        max_record_bytes=2500,
    )
    listing = listing_of(sizes)
    layout = build_layout(listing, settings)
    assert sorted(visited(layout)) == list(range(len(sizes)))
    for number, messages in enumerate(layout.slices):
        first = 0
        for message in messages:
            assert (message.slice, message.first) == (number, first)
            first += message.span
            weight = sum(weigh(listing, index, settings) for index in message.objects)
            assert message.span == 1 or (message.span <= message_records and weight <= message_bytes)
    plan = build_plan(listing, layout, settings, attempt=3)
    assert sum(plan.records) == plan.objects == len(sizes)
    assert build_layout(listing, settings) == layout


def weigh(listing: Listing, index: int, settings: ProducerSettings) -> int:
    size = listing.objects[index].size
    content = size if size <= settings.max_record_bytes else 0
    return content + len(listing.objects[index].path) + RECORD_OVERHEAD


@given(st.integers(1, 5000), st.integers(0, 2**64 - 1))
def test_the_visiting_order_is_a_bijection(objects: int, seed: int) -> None:
    order = visit_order(objects, dataclasses.replace(ANY, seed=seed))
    assert sorted(order) == list(range(objects))


def test_the_seed_decides_the_order() -> None:
    one, again, other = (visit_order(100, dataclasses.replace(ANY, seed=seed)) for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert visit_order(100, dataclasses.replace(ANY, order=Order.SOURCE)) == list(range(100))


def test_a_class_sorted_folder_becomes_mixed() -> None:
    """1,000 classes of 50: a message of 250 records in source order has 5 or 6, drawn evenly it has 221."""
    listing = listing_of([1000] * 50_000, classes=1000)
    settings = dataclasses.replace(ANY, message_records=250, message_bytes=10**9, slice_bytes=10**7)
    layout = build_layout(listing, settings)
    counts = [
        len({listing.objects[index].label for index in message.objects})
        for messages in layout.slices
        for message in messages
    ]
    assert min(counts) > 195
    assert sum(counts) / len(counts) == pytest.approx(221.4, abs=2)


def test_the_planned_bytes_are_close_to_content() -> None:
    settings = dataclasses.replace(ANY, message_bytes=900 * 1024, message_records=4096)
    layout = build_layout(listing_of([20_000] * 500), settings)
    assert layout.planned_bytes == pytest.approx(500 * 20_000, rel=0.01)
