"""Records as Arrow IPC messages: one message of Kafka is one record batch without its schema.

A message decoded with the wrong schema gives silent garbage, therefore the schema's digest travels with
every message and is compared before anything is decoded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from evenkeel.errors import DataError, InputError
from evenkeel.reasons import Reason

ID = "_id"
IMAGE = "image"
LABEL = "label"
PATH = "path"
CONTENT = "content"
_HUGGING_FACE = b"huggingface"


@dataclass(frozen=True, slots=True)
class PackedRecord:
    """One record before packing."""

    record_id: str
    path: str
    content: bytes
    label: int = 0
    """Of ImageFolder only."""


def record_id(object_index: int, record_index: int) -> str:
    """Identity of a record: place of its object in the sorted listing, place in the object."""
    return f"{object_index}.{record_index}"


def image_folder_schema(classes: Sequence[str]) -> pa.Schema:
    """`_id`, `image` (bytes and path), `label`; class names and feature types as Hugging Face reads them.

    https://huggingface.co/docs/datasets/about_dataset_features: the key `huggingface` of the schema.
    """
    image = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
    features = {
        ID: {"dtype": "string", "_type": "Value"},
        IMAGE: {"_type": "Image"},
        LABEL: {"names": list(classes), "_type": "ClassLabel"},
    }
    fields = [pa.field(ID, pa.string()), pa.field(IMAGE, image), pa.field(LABEL, pa.int64())]
    return pa.schema(fields, metadata=_build_metadata(features))


def files_schema() -> pa.Schema:
    """`_id`, `path`, `content`."""
    fields = [pa.field(ID, pa.string()), pa.field(PATH, pa.string()), pa.field(CONTENT, pa.binary())]
    features = {
        ID: {"dtype": "string", "_type": "Value"},
        PATH: {"dtype": "string", "_type": "Value"},
        CONTENT: {"dtype": "binary", "_type": "Value"},
    }
    return pa.schema(fields, metadata=_build_metadata(features))


def encode_schema(schema: pa.Schema) -> bytes:
    """The schema as an IPC message: the bytes with which every shard file begins.

    Raises:
        InputError: a type that needs more than one message per batch, or a newer reader.
    """
    for field in schema:
        for kind in _flatten(field.type):
            if _is_refused(kind):
                message = f"column {field.name}: type {kind} is not supported"
                raise InputError(message, reason=Reason.INVALID_SPEC)
    encoded: bytes = schema.serialize().to_pybytes()
    return encoded


def schema_digest(schema_message: bytes) -> str:
    """SHA-256 hex of an encoded schema."""
    return hashlib.sha256(schema_message).hexdigest()


def encode_batch(batch: pa.RecordBatch) -> bytes:
    """A record batch as one IPC message, uncompressed: caches map its bytes as they are."""
    encoded: bytes = batch.serialize().to_pybytes()
    return encoded


def decode(schema_message: bytes, message: bytes) -> pa.RecordBatch:
    """The record batch in a message; the caller has compared the schema's digest.

    Raises:
        DataError: not a record batch message.
    """
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(schema_message))
        return pa.ipc.read_record_batch(pa.py_buffer(message), schema)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise DataError(f"not an Arrow record batch: {error}", reason=Reason.SHARD_CORRUPT) from error


def build_image_batch(schema: pa.Schema, records: Sequence[PackedRecord]) -> pa.RecordBatch:
    """Records of an ImageFolder."""
    images = pa.StructArray.from_arrays(
        [
            pa.array([record.content for record in records], pa.binary()),
            pa.array([record.path for record in records], pa.string()),
        ],
        fields=list(schema.field(IMAGE).type),
    )
    labels = pa.array([record.label for record in records], pa.int64())
    return pa.RecordBatch.from_arrays([_build_ids(records), images, labels], schema=schema)


def build_file_batch(schema: pa.Schema, records: Sequence[PackedRecord]) -> pa.RecordBatch:
    """Records of Files."""
    paths = pa.array([record.path for record in records], pa.string())
    contents = pa.array([record.content for record in records], pa.binary())
    return pa.RecordBatch.from_arrays([_build_ids(records), paths, contents], schema=schema)


def _build_ids(records: Sequence[PackedRecord]) -> pa.Array:
    return pa.array([record.record_id for record in records], pa.string())


def _build_metadata(features: dict[str, Any]) -> dict[bytes, bytes]:
    return {_HUGGING_FACE: json.dumps({"info": {"features": features}}, separators=(",", ":")).encode()}


def _flatten(kind: pa.DataType) -> Iterator[pa.DataType]:
    yield kind
    for index in range(kind.num_fields):
        yield from _flatten(kind.field(index).type)


def _is_refused(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_dictionary(kind)
        or types.is_run_end_encoded(kind)
        or types.is_string_view(kind)
        or types.is_binary_view(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )
