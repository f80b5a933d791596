from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import DataError
from evenkeel.format.manifest import manifest_digest
from evenkeel.kafka.clients.append import Appender
from evenkeel.kafka.clients.reader import LogRecord
from evenkeel.kafka.manifests import CHUNK_BYTES, ManifestWriter, gather_location, gather_manifest
from evenkeel.reasons import Reason

CONTENT = bytes(range(256)) * (CHUNK_BYTES // 200)
DIGEST = manifest_digest(CONTENT)


class MemoryAppender:
    """Keeps what would be in partition 0."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []

    def append_all(self, topic: str, records: Any, *, partition: int) -> list[int]:
        assert partition == 0
        for value, key, headers in records:
            self.records.append(LogRecord(len(self.records), key.encode(), value, dict(headers), 0))
        return list(range(len(self.records)))


def write(name: str, content: bytes = CONTENT, location: bytes = b"{}") -> list[LogRecord]:
    appender = MemoryAppender()
    assert ManifestWriter(cast("Appender", appender), "t", name).write(content, location) == manifest_digest(
        content
    )
    return appender.records


def test_a_large_manifest_comes_back_whole() -> None:
    records = write("w")
    assert len(records) > 2
    assert max(len(record.value) for record in records) == CHUNK_BYTES
    assert gather_manifest(records, DIGEST, "t") == (CONTENT, b"{}")


@given(st.permutations(range(3)))
def test_the_order_of_chunks_does_not_matter(order: list[int]) -> None:
    records = write("w")
    assert gather_manifest([records[place] for place in order], DIGEST, "t") == (CONTENT, b"{}")


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_half_a_writing_does_not_count(kept: int) -> None:
    half = write("crashed")[:kept]
    with pytest.raises(DataError, match="no complete manifest"):
        gather_manifest(half, DIGEST, "t")
    assert gather_manifest([*half, *write("w")], DIGEST, "t") == (CONTENT, b"{}")


def test_the_newest_location_wins_and_other_revisions_are_left_alone() -> None:
    records = [*write("1"), *write("2", location=b'{"new":1}'), *write("3", content=b"other")]
    assert gather_manifest(records, DIGEST, "t") == (CONTENT, b'{"new":1}')


def test_a_record_without_our_header_is_refused() -> None:
    alien = LogRecord(0, DIGEST.encode(), b"", {"evenkeel-chunk": json.dumps(["a"]).encode()}, 0)
    with pytest.raises(DataError, match="record 0 is no chunk"):
        gather_manifest([alien], DIGEST, "t")


def test_the_location_alone_comes_back_from_the_newest_writing() -> None:
    half = write("crashed", location=bytes(CHUNK_BYTES + 1))[:-1]
    records = [*write("old", location=b"old"), *write("new", location=b"new"), *half]
    assert gather_location(records, DIGEST, "t") == b"new"


def test_a_location_that_was_never_finished_is_lost() -> None:
    half = write("crashed", location=bytes(CHUNK_BYTES + 1))[:-1]
    with pytest.raises(DataError, match="no complete manifest") as lost:
        gather_location(half, DIGEST, "t")
    assert lost.value.reason is Reason.DATA_LOST
