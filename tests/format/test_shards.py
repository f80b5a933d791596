from __future__ import annotations

import hashlib

import pyarrow as pa
import pytest

from evenkeel.format import arrow
from evenkeel.format.shards import (
    END_MARKER,
    file_bytes,
    message_digest,
    shard_digest,
    shard_file,
    shard_name,
)


def test_a_shard_file_is_an_arrow_stream() -> None:
    schema = arrow.files_schema()
    records = [arrow.PackedRecord(f"{i}.0", f"p{i}", bytes([i]) * i) for i in range(5)]
    messages = [
        arrow.encode_batch(arrow.build_file_batch(schema, part)) for part in (records[:3], records[3:])
    ]
    data = b"".join(shard_file(arrow.encode_schema(schema), messages))
    assert len(data) == file_bytes(len(arrow.encode_schema(schema)), map(len, messages))
    assert data.endswith(END_MARKER)
    table = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
    assert table.column("content").to_pylist() == [record.content for record in records]
    assert table.schema == schema


def test_a_shards_digest_depends_on_schema_messages_and_their_order() -> None:
    one, two = message_digest(b"one"), message_digest(b"two")
    schema = message_digest(b"schema")
    expected = hashlib.sha256(bytes.fromhex(schema + one + two)).hexdigest()
    assert shard_digest(schema, [one, two]) == expected
    assert len({expected, shard_digest(schema, [two, one]), shard_digest(one, [one, two])}) == 3


@pytest.mark.parametrize(("index", "name"), [(0, "shard-00000.arrow"), (123456, "shard-123456.arrow")])
def test_shard_names_sort(index: int, name: str) -> None:
    assert shard_name(index) == name
