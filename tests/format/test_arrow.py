from __future__ import annotations

import json

import pyarrow as pa
import pytest

from evenkeel.errors import DataError, InputError
from evenkeel.format import arrow

RECORDS = [
    arrow.PackedRecord("4.0", "cats/ä.png", b"\x00\x01", 1),
    arrow.PackedRecord("2.0", "ants/b.png", b"", 0),
]


def test_images_keep_bytes_paths_and_labels() -> None:
    schema = arrow.image_folder_schema(["ants", "cats"])
    message = arrow.encode_batch(arrow.build_image_batch(schema, RECORDS))
    assert arrow.decode(arrow.encode_schema(schema), message).to_pylist() == [
        {"_id": "4.0", "image": {"bytes": b"\x00\x01", "path": "cats/ä.png"}, "label": 1},
        {"_id": "2.0", "image": {"bytes": b"", "path": "ants/b.png"}, "label": 0},
    ]


def test_files_keep_bytes_and_paths() -> None:
    schema = arrow.files_schema()
    message = arrow.encode_batch(arrow.build_file_batch(schema, RECORDS))
    assert arrow.decode(arrow.encode_schema(schema), message).to_pylist() == [
        {"_id": "4.0", "path": "cats/ä.png", "content": b"\x00\x01"},
        {"_id": "2.0", "path": "ants/b.png", "content": b""},
    ]


def test_the_schema_names_classes_and_features_as_hugging_face_reads_them() -> None:
    schema = pa.ipc.read_schema(
        pa.py_buffer(arrow.encode_schema(arrow.image_folder_schema(["ants", "cats"])))
    )
    features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert features["label"] == {"names": ["ants", "cats"], "_type": "ClassLabel"}
    assert features["image"] == {"_type": "Image"}


def test_equal_input_gives_equal_bytes() -> None:
    schema = arrow.image_folder_schema(["a"])
    again = arrow.image_folder_schema(["a"])
    assert arrow.encode_schema(schema) == arrow.encode_schema(again)
    one, two = (arrow.encode_batch(arrow.build_image_batch(item, RECORDS)) for item in (schema, again))
    assert one == two
    other = arrow.encode_schema(arrow.image_folder_schema(["b"]))
    assert arrow.schema_digest(other) != arrow.schema_digest(arrow.encode_schema(schema))


@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int32(), pa.string()),
        pa.string_view(),
        pa.list_(pa.binary_view()),
        pa.run_end_encoded(pa.int32(), pa.int64()),
    ],
)
def test_types_that_need_more_than_one_message_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(InputError, match="column c"):
        arrow.encode_schema(pa.schema([pa.field("c", kind)]))


@pytest.mark.parametrize("cut", [0, 4, 40])
def test_what_is_no_batch_is_refused(cut: int) -> None:
    schema = arrow.files_schema()
    message = arrow.encode_batch(arrow.build_file_batch(schema, RECORDS))
    with pytest.raises(DataError, match="Arrow"):
        arrow.decode(arrow.encode_schema(schema), message[:cut])
